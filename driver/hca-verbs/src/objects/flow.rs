//! Rules for received frames: which raw QP gets them.

use std::sync::Arc;

use hca_driver::DevicePtr;

use crate::objects::pd::PdShared;
use crate::values::error::{Error, Result};
use crate::values::flow::FlowAttr;

/// A rule: ibv_flow. Its QP cannot be destroyed while it lives.
pub struct Flow<P: DevicePtr> {
    pd: Arc<PdShared<P>>,
    handle: u32,
    is_alive: bool,
}

debug_as!(Flow, handle);

impl<P: DevicePtr> Flow<P> {
    pub(crate) fn new(pd: Arc<PdShared<P>>, qpn: u32, attr: &FlowAttr<'_>) -> Result<Self> {
        let cmd = attr.command(qpn)?;
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

    /// ibv_destroy_flow now: frames that have been looked at may still come.
    pub fn destroy(&mut self) -> Result<()> {
        if !self.is_alive {
            return Err(Error::Destroyed {
                what: "flow",
                id: self.handle,
            });
        }
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
