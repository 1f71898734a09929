//! Receive side scaling: QPs that spread frames over receive work queues by a hash.

use std::sync::Arc;

use hca_abi::{CreateRssCmd, RSS_ENTRIES};
use hca_driver::DevicePtr;

use crate::objects::flow::{Flow, FlowTarget};
use crate::objects::pd::{Pd, PdShared};
use crate::values::error::{Error, Result};
use crate::values::flow::FlowAttr;

/// Bytes of a QPN in CREATE_RSS.
const QPN_BYTES: usize = 3;

/// What is hashed, how, and where it leads: ibv_rx_hash_conf and an indirection table.
#[derive(Clone, Copy, Debug)]
pub struct RssOptions<'a> {
    /// Bits of `hca_abi::rx_hash`, or ibv_rx_hash_fields. A field without its bit counts as zeros, in its place.
    pub fields: u8,
    /// Toeplitz key.
    pub key: [u8; 40],
    /// Numbers of the receive work queues of the same PD, a power of two of them: the lower bits of the hash name one.
    pub wq_nums: &'a [u32],
}

/// A QP that spreads: it receives through its work queues alone, by rules that lead to it.
pub struct RssQp<P: DevicePtr> {
    pd: Arc<PdShared<P>>,
    handle: u32,
    is_alive: bool,
}

debug_as!(RssQp, handle);

impl<P: DevicePtr> Pd<P> {
    /// ibv_create_qp_ex with an indirection table.
    pub fn create_rss_qp(&self, options: &RssOptions<'_>) -> Result<RssQp<P>> {
        let entries = options.wq_nums.len();
        if !entries.is_power_of_two() || entries > RSS_ENTRIES as usize {
            return Err(Error::Invalid(format!(
                "an indirection table of {entries} entries: a power of two up to {RSS_ENTRIES} is there"
            )));
        }
        let mut cmd = CreateRssCmd::new();
        cmd.set_fields(options.fields);
        cmd.set_key(options.key);
        cmd.set_log_size(entries.ilog2() as u8);
        let pd = self.inner().clone();
        cmd.set_pd(pd.pd);
        let mut qpns = cmd.qpns();
        for (bytes, wq_num) in qpns.chunks_exact_mut(QPN_BYTES).zip(options.wq_nums) {
            bytes.copy_from_slice(&wq_num.to_le_bytes()[..QPN_BYTES]);
        }
        cmd.set_qpns(qpns);
        let handle = pd.shared.function().create_rss(&cmd)?;
        Ok(RssQp {
            pd,
            handle,
            is_alive: true,
        })
    }
}

impl<P: DevicePtr> RssQp<P> {
    /// Its number among those of the card that spread.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    fn check_alive(&self) -> Result<()> {
        if self.is_alive {
            return Ok(());
        }
        Err(Error::Destroyed {
            what: "RSS QP",
            id: self.handle,
        })
    }

    /// ibv_create_flow: frames that the rule describes are spread.
    pub fn create_flow(&self, attr: &FlowAttr<'_>) -> Result<Flow<P>> {
        self.check_alive()?;
        Flow::new(self.pd.clone(), FlowTarget::Spread(self.handle), attr)
    }

    /// ibv_destroy_qp now: EBUSY while it has rules.
    pub fn destroy(&mut self) -> Result<()> {
        self.check_alive()?;
        self.pd.shared.function().destroy_rss(self.handle)?;
        self.is_alive = false;
        Ok(())
    }
}

impl<P: DevicePtr> Drop for RssQp<P> {
    fn drop(&mut self) {
        if self.is_alive {
            // A card that does not answer receives nothing.
            let _ = self.destroy();
        }
    }
}
