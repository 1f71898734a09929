//! QPN to shadow: two array look-ups, no hashing.

use crate::shadow::QpShadow;

const LEAF_LOG: u32 = 8;
type Leaf = Box<[Option<QpShadow>]>;

/// Map with the 24-bit QPN as key.
#[derive(Debug, Default)]
pub(crate) struct QpnTable {
    leaves: Vec<Option<Leaf>>,
}

impl QpnTable {
    #[inline]
    pub fn get(&self, qpn: u32) -> Option<&QpShadow> {
        let leaf = self.leaves.get((qpn >> LEAF_LOG) as usize)?.as_ref()?;
        leaf[(qpn & ((1 << LEAF_LOG) - 1)) as usize].as_ref()
    }

    pub fn insert(&mut self, qpn: u32, shadow: QpShadow) {
        let top = (qpn >> LEAF_LOG) as usize;
        if self.leaves.len() <= top {
            self.leaves.resize_with(top + 1, || None);
        }
        let leaf = self.leaves[top].get_or_insert_with(|| (0..1 << LEAF_LOG).map(|_| None).collect());
        leaf[(qpn & ((1 << LEAF_LOG) - 1)) as usize] = Some(shadow);
    }

    pub fn remove(&mut self, qpn: u32) {
        if let Some(Some(leaf)) = self.leaves.get_mut((qpn >> LEAF_LOG) as usize) {
            leaf[(qpn & ((1 << LEAF_LOG) - 1)) as usize] = None;
        }
    }
}
