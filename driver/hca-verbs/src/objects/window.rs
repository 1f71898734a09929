//! Memory windows: cheap rights of peers to a piece of a region.

use std::sync::Arc;

use hca_driver::{DevicePtr, MwBind, SendOp};

use crate::objects::memory::Mr;
use crate::objects::pd::{Pd, PdShared};
use crate::values::attr::Access;
use crate::values::error::{Error, Result};

/// Kind of a window (V-135).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MwType {
    /// Any QP of its protection domain binds it, and rebinds it; each binding has a new key, chosen here.
    One,
    /// Type 2B: the program chooses the low byte of the key, only the QP that has bound it can be used with it, and it
    /// is invalidated before it is bound again.
    Two,
}

/// Memory window: ibv_mw.
pub struct Mw<P: DevicePtr> {
    pd: Arc<PdShared<P>>,
    kind: MwType,
    rkey: u32,
    is_alive: bool,
}

debug_as!(Mw, kind, rkey);

impl<P: DevicePtr> Pd<P> {
    /// ibv_alloc_mw. It is not bound.
    pub fn alloc_mw(&self, kind: MwType) -> Result<Mw<P>> {
        let rkey = (self.inner().shared.function()).alloc_mw(self.handle(), kind == MwType::Two)?;
        Ok(Mw {
            pd: self.inner().clone(),
            kind,
            rkey,
            is_alive: true,
        })
    }
}

/// The R_Key behind another one of the same window.
pub fn next_rkey(rkey: u32) -> u32 {
    rkey & !0xff | u32::from((rkey as u8).wrapping_add(1))
}

impl<P: DevicePtr> Mw<P> {
    /// Its newest R_Key. Type 2: the upper 24 bits of all of them.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Its kind.
    pub fn kind(&self) -> MwType {
        self.kind
    }

    /// A work request binds it to that: from then on this is its key, and it has it when the request has completed.
    pub fn set_rkey(&mut self, rkey: u32) {
        self.rkey = rkey;
    }

    /// Operation that binds it to `length` bytes at `addr` of a region: type 1 with its next key, type 2 with `rkey`.
    pub fn bind_op(&self, rkey: u32, mr: &Mr<P>, addr: u64, length: u64, access: Access) -> SendOp {
        self.bind_to(rkey, mr.lkey(), addr, length, access)
    }

    /// The same by the region's L_Key.
    pub fn bind_to(&self, rkey: u32, lkey: u32, addr: u64, length: u64, access: Access) -> SendOp {
        SendOp::BindMw(MwBind {
            rkey: match self.kind {
                MwType::One => next_rkey(self.rkey),
                MwType::Two => rkey,
            },
            is_type_2: self.kind == MwType::Two,
            lkey,
            addr,
            length,
            access: access.bits(),
        })
    }

    /// ibv_dealloc_mw now, bound or not. When it returns, nobody uses memory through it.
    pub fn destroy(&mut self) -> Result<()> {
        if !self.is_alive {
            return Err(Error::Destroyed {
                what: "MW",
                id: self.rkey,
            });
        }
        self.pd.shared.function().dealloc_mw(self.rkey)?;
        self.is_alive = false;
        Ok(())
    }
}

impl<P: DevicePtr> Drop for Mw<P> {
    fn drop(&mut self) {
        if self.is_alive {
            // A card that does not answer uses nothing.
            let _ = self.destroy();
        }
    }
}
