//! QPN to shadow: two array look-ups, no hashing.

use crate::rings::shadow::QpShadow;

const LEAF_LOG: u32 = 8;
const LEAF_ENTRIES: usize = 1 << LEAF_LOG;
/// Of a length that the compiler knows: a place in it need not be checked.
type Leaf = Box<[Option<(u32, QpShadow)>; LEAF_ENTRIES]>;

/// Map with the QPN as key, of which at one time no two have the same low bits (`qpn_line_bits` of QUERY_DEVICE). So it
/// stays small and dense however often QPs come and go.
#[derive(Debug)]
pub(crate) struct QpnTable {
    line_mask: u32,
    leaves: Vec<Option<Leaf>>,
}

impl QpnTable {
    pub fn new(line_bits: u8) -> Self {
        Self {
            line_mask: (1 << line_bits.min(24)) - 1,
            leaves: Vec::new(),
        }
    }

    /// Leaf, and place in it.
    #[inline]
    fn place(&self, qpn: u32) -> (usize, usize) {
        let line = qpn & self.line_mask;
        ((line >> LEAF_LOG) as usize, line as usize % LEAF_ENTRIES)
    }

    #[inline]
    pub fn get(&self, qpn: u32) -> Option<&QpShadow> {
        let (top, place) = self.place(qpn);
        let (owner, shadow) = self.leaves.get(top)?.as_ref()?[place].as_ref()?;
        (*owner == qpn).then_some(shadow)
    }

    pub fn insert(&mut self, qpn: u32, shadow: QpShadow) {
        let (top, place) = self.place(qpn);
        if self.leaves.len() <= top {
            self.leaves.resize_with(top + 1, || None);
        }
        let leaf = self.leaves[top].get_or_insert_with(|| Box::new([const { None }; LEAF_ENTRIES]));
        leaf[place] = Some((qpn, shadow));
    }

    /// Leaves another one alone that has the low bits now.
    pub fn remove(&mut self, qpn: u32) {
        let (top, place) = self.place(qpn);
        if let Some(Some(leaf)) = self.leaves.get_mut(top)
            && leaf[place].as_ref().is_some_and(|(owner, _)| *owner == qpn)
        {
            leaf[place] = None;
        }
    }
}
