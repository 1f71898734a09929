//! Events of ids go to their channels.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::*;
use crate::channel::EventObject;
use crate::state::Cm;

/// What an event says beside its kind.
pub enum Param {
    None,
    Conn(rdma_conn_param),
    Ud(rdma_ud_param),
}

impl Cm {
    /// An event of an id goes to its channel.
    pub fn tell(
        &mut self,
        id: usize,
        kind: rdma_cm_event_type,
        status: c_int,
        param: Param,
        private_data: Vec<u8>,
    ) {
        let Some(entry) = self.ids.get(&id) else { return };
        let listener = self
            .ids
            .get(&entry.listener)
            .filter(|_| kind == RDMA_CM_EVENT_CONNECT_REQUEST);
        let whose = listener.unwrap_or(entry);
        let mut event = Box::new(EventObject {
            raw: rdma_cm_event {
                id: entry.raw,
                listen_id: listener.map_or(std::ptr::null_mut(), |listener| listener.raw),
                event: kind,
                status,
                ..Default::default()
            },
            private_data,
            waits: vec![Arc::clone(&whose.unacked)],
        });
        let (data, len) = (
            event.private_data.as_ptr().cast(),
            event.private_data.len().min(255) as u8,
        );
        match param {
            Param::None => {}
            Param::Conn(mut conn) => {
                (conn.private_data, conn.private_data_len) = (data, len);
                event.raw.param.conn = conn;
            }
            Param::Ud(mut ud) => {
                if ud.private_data.is_null() {
                    (ud.private_data, ud.private_data_len) = (data, len);
                }
                event.raw.param.ud = ud;
            }
        }
        whose.channel.push(event);
    }
}
