//! XRC domains.

use std::sync::Arc;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object, lock};
use crate::boundary::{Verb, invalid};
use crate::objects::card::Card;
use crate::objects::context::ContextObject;
use crate::objects::names::{Domain, SharedTarget};

/// An open XRC domain.
#[repr(C)]
pub struct XrcdObject {
    pub raw: CStruct<ibv_xrcd>,
    pub domain: Arc<Domain>,
    pub card: Arc<Card>,
}

impl Object for XrcdObject {
    const KIND: Kind = Kind::Xrcd;
}

impl XrcdObject {
    /// The first handle of a new target.
    pub fn create_target(&self, owner: &ContextObject) -> Verb<Arc<SharedTarget>> {
        if !Arc::ptr_eq(&self.card, &owner.card) {
            return Err(invalid("the XRC domain of a QP must be of its device"));
        }
        let qp = self.domain.xrcd.create_target()?;
        Ok(lock(&self.card.shared.names).add_target(qp))
    }
}
