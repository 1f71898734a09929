//! What a test may see of a card and do to it, besides what host, firmware and cable can.

use hca_abi::{Cqe, CtxTable, HwEventKind, PortState, Qpc};
use hca_fw_core::line_of;

use crate::HostPort;
use crate::body::{Body, ROW_BYTES};
use crate::card::Card;

/// Free-running indices of the queues of a QP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpIndices {
    /// Send doorbell.
    pub sq_producer: u32,
    /// The oldest send WQE that has not completed.
    pub sq_consumer: u32,
    /// Receive doorbell.
    pub rq_producer: u32,
    /// Next receive WQE.
    pub rq_consumer: u32,
}

/// Free-running indices of another queue, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueIndices {
    /// Where the next entry goes.
    pub producer: u32,
    /// The oldest entry that has not been taken.
    pub consumer: u32,
    /// Entries.
    pub size: u32,
}

fn row_of(bytes: &[u8]) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    row[..bytes.len()].copy_from_slice(bytes);
    row
}

impl Card {
    /// A row of a context table, zero if it was never written.
    pub fn row(&self, table: CtxTable, index: u32) -> [u8; ROW_BYTES] {
        let (body, at) = (&self.body, index as usize);
        let bytes = match table {
            CtxTable::Qpc => body.qpcs.get(at).map(|qpc| row_of(qpc.as_bytes())),
            CtxTable::Cqc => body.cqs.get(at).map(|cq| row_of(cq.context().as_bytes())),
            CtxTable::Eqc => body.eqs.get(at).map(|eq| row_of(eq.context().as_bytes())),
            CtxTable::Srqc => body.srqs.get(at).map(|srq| row_of(srq.context.as_bytes())),
            CtxTable::KeyTable => body.keys.get(at).map(|keys| row_of(keys.as_bytes())),
            _ => Some(*body.row(table, index)),
        };
        bytes.unwrap_or([0; ROW_BYTES])
    }

    /// Rows of a table.
    pub fn rows_of(table: CtxTable) -> u32 {
        Body::rows_of(table)
    }

    /// Context of the QP that has a QPN's line.
    pub fn qpc(&self, qpn: u32) -> Qpc {
        let qpc = self.body.qpcs.get(line_of(qpn) as usize);
        qpc.copied().unwrap_or_default()
    }

    /// Queues of the QP that has a QPN's line.
    pub fn qp_indices(&self, qpn: u32) -> QpIndices {
        let line = line_of(qpn);
        let rings = self.body.rings.get(line as usize).copied().unwrap_or_default();
        let under_way = self.lines.sends_under_way(line);
        QpIndices {
            sq_producer: rings.sq_producer,
            sq_consumer: hca_abi::wqe_distance(under_way, rings.sq_fetched),
            rq_producer: rings.rq_producer,
            rq_consumer: rings.rq_consumer,
        }
    }

    /// A CQ, if it is valid.
    pub fn cq_indices(&self, cqn: u32) -> Option<QueueIndices> {
        self.body.cqs.get(cqn as usize)?.indices()
    }

    /// An EQ, if it is valid.
    pub fn eq_indices(&self, eqn: u32) -> Option<QueueIndices> {
        self.body.eqs.get(eqn as usize)?.indices()
    }

    /// An SRQ's list, if it is valid.
    pub fn srq_indices(&self, srqn: u32) -> Option<QueueIndices> {
        self.body.srqs.get(srqn as usize)?.indices()
    }

    /// Index behind the last admin command of a function.
    pub fn admin_producer(&self, func: u8) -> u16 {
        self.admin_producer.get(usize::from(func)).copied().unwrap_or(0)
    }

    /// Sends one packet of a port, whose way ends here if it is not this card's own. False: there is none.
    pub fn send_one(&mut self, host: &mut dyn HostPort, port: usize) -> bool {
        self.send_next(host, port).is_some()
    }

    /// State of a port's link. Ports count from 0 here.
    pub fn link_state(&self, port: usize) -> PortState {
        self.body.ports[port].state()
    }

    /// From now on a status word of a link says this. That of its state stays as it is.
    pub fn set_link_word(&mut self, port: usize, word: u32, value: u32) {
        self.body.ports[port].set_word(word, value);
    }

    /// From now on the card says that it was built with so many data VLs.
    pub fn set_data_vls(&mut self, vls: u32) {
        self.body.data_vls = vls;
    }

    /// Tells firmware of something that has not happened.
    pub fn raise(&mut self, kind: HwEventKind, id: u32, cause: u32) {
        self.body.raise(kind, 0, id, cause);
    }

    /// A completion of nothing.
    pub fn write_cqe(&mut self, host: &mut dyn HostPort, cqn: u32, cqe: Cqe) {
        self.body.write_cqe(host, cqn, cqe, false);
    }

    /// A packet of a management datagram comes to firmware, whatever is in it: LRH to payload.
    pub fn datagram_for_firmware(&mut self, port: u8, packet: &[u8]) {
        self.mad_arrives(port, packet.to_vec());
    }

    /// Takes the packets that firmware sends, before they leave.
    pub fn take_datagrams_of_firmware(&mut self) -> Vec<Vec<u8>> {
        self.mads_to_send.drain(..).map(|(_, packet)| packet).collect()
    }
}
