//! WIRE-13: messages are whole, and their packets full.

use hca_wire::Operation;

use crate::packet::Packet;

/// What has begun and not ended.
struct Open {
    is_send: bool,
    /// WRITE: bytes to come.
    left: Option<u32>,
}

/// The message of which not all packets have been sent, if there is one.
#[derive(Default)]
pub(super) struct Message(Option<Open>);

impl Message {
    /// A packet that has never been sent: it must be what the message asks for.
    pub fn packet(&mut self, packet: &Packet, operation: Operation, mtu: u32) -> Result<(), String> {
        let (len, goes_on) = (
            packet.payload.len() as u32,
            operation.is_middle() || operation.is_last(),
        );
        let begins = operation.is_first() || operation.is_middle();
        let right = if begins {
            len == mtu
        } else {
            len <= mtu && (len > 0 || !operation.is_last())
        };
        if !right {
            return Err(format!("{} with {len} bytes", packet.opcode));
        }
        let open = self.0.take();
        let left = match (&open, goes_on) {
            (None, false) => packet
                .ext
                .reth
                .filter(|_| operation.is_write())
                .map(|reth| reth.dma_len),
            (Some(open), true) if open.is_send == operation.is_send() => open.left,
            (None, true) => return Err(format!("{} of no message", packet.opcode)),
            (Some(_), _) => return Err(format!("{} inside another message: torn", packet.opcode)),
        };
        let ends = operation.is_last() || operation.is_only();
        if left.is_some_and(|left| if ends { len != left } else { len >= left }) {
            return Err(format!(
                "{} with {len} bytes where {left:?} are left of its RETH",
                packet.opcode
            ));
        }
        self.0 = (!ends).then(|| Open {
            is_send: operation.is_send(),
            left: left.map(|left| left - len),
        });
        Ok(())
    }
}
