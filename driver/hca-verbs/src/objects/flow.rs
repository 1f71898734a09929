//! Rules for received frames: which raw QP gets them.

use std::sync::Arc;

use hca_driver::DevicePtr;

use crate::objects::pd::PdShared;
use crate::values::error::{Error, Result};
use crate::values::flow::FlowAttr;

/// Where its frames go.
#[derive(Clone, Copy)]
pub(crate) enum FlowTarget {
    /// QPN.
    Qp(u32),
    /// What CREATE_RSS has made.
    Spread(u32),
}

/// Frames that a rule has had since it was made, whatever became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Frames.
    pub packets: u64,
    /// Their bytes, without the FCS.
    pub bytes: u64,
}

/// A rule: ibv_flow. Its QP cannot be destroyed while it lives.
pub struct Flow<P: DevicePtr> {
    pd: Arc<PdShared<P>>,
    handle: u32,
    is_alive: bool,
}

debug_as!(Flow, handle);

impl<P: DevicePtr> Flow<P> {
    pub(crate) fn new(pd: Arc<PdShared<P>>, target: FlowTarget, attr: &FlowAttr<'_>) -> Result<Self> {
        let mut cmd = attr.command()?;
        match target {
            FlowTarget::Qp(qpn) => cmd.set_qpn(qpn),
            FlowTarget::Spread(handle) => {
                cmd.set_spreads(true);
                cmd.set_qpn(handle);
            }
        }
        let handle = pd.shared.function().create_rule(&cmd)?;
        Ok(Self {
            pd,
            handle,
            is_alive: true,
        })
    }

    /// Its number.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// What it has had so far.
    pub fn counts(&self) -> Result<FlowCounts> {
        self.check_alive()?;
        let told = self.pd.shared.function().query_rule(self.handle)?;
        Ok(FlowCounts {
            packets: told.packets(),
            bytes: told.bytes(),
        })
    }

    fn check_alive(&self) -> Result<()> {
        if self.is_alive {
            return Ok(());
        }
        Err(Error::Destroyed {
            what: "flow",
            id: self.handle,
        })
    }

    /// ibv_destroy_flow now: frames that have been looked at may still come.
    pub fn destroy(&mut self) -> Result<()> {
        self.check_alive()?;
        self.pd.shared.function().destroy_rule(self.handle)?;
        self.is_alive = false;
        Ok(())
    }
}

impl<P: DevicePtr> Drop for Flow<P> {
    fn drop(&mut self) {
        if self.is_alive {
            // A card that does not answer receives nothing.
            let _ = self.destroy();
        }
    }
}
