//! Work requests: a slice from doorbell to completion, cut into the stages that it has reached.

use std::collections::HashMap;
use std::sync::Arc;

use hca_abi::{WcStatus, WrOpcode};
use hca_stages::{Stage, WorkRecord};

use crate::sink::Sink;
use crate::track::{self, Track, WORK};

/// Distance of the track numbers of two queue pairs: more than a send queue holds.
const QP_TRACKS: u64 = 1 << 16;

/// A queue pair has several work requests at a time: each goes to the first track that is free when it begins.
pub(crate) struct WorkTracks {
    sink: Arc<Sink>,
    qps: HashMap<(usize, u32), Qp>,
}

#[derive(Default)]
struct Qp {
    /// Cycle from which on each track is free.
    free: Vec<u64>,
}

impl WorkTracks {
    pub fn new(sink: Arc<Sink>) -> Self {
        Self {
            sink,
            qps: HashMap::new(),
        }
    }

    /// A work request is over.
    pub fn add(&mut self, record: &WorkRecord) {
        let Some(first) = record.at(Stage::Doorbell) else {
            return;
        };
        let reached = record.chain().filter_map(|stage| record.at(stage));
        let end = reached.max().unwrap_or(first).max(first + 1);
        let track = self.track(record, first, end);
        self.sink.count_work_request();
        let again = record.retransmitted;
        let status = match record.status.map(WcStatus::try_from) {
            Some(Ok(status)) => format!("{status:?}"),
            Some(Err(_)) => "unknown".to_owned(),
            None => "no completion".to_owned(),
        };
        self.sink.slice(
            track,
            &format_args!("{} {} B", name(record), record.bytes),
            first,
            end,
            format_args!(
                r#""qp":"{:#x}","wqe_index":{},"status":"{status}","packets":{},"sent_again":{again}"#,
                record.qpn, record.wqe_index, record.packets
            ),
        );
        let mut at = first;
        for (span, cycles) in record.spans() {
            if cycles > 0 && at + cycles <= end {
                let piece = format_args!("{} .. {}", span.from.name(), span.to.name());
                self.sink.slice(
                    track,
                    &piece,
                    at,
                    at + cycles,
                    format_args!(r#""cycles":{cycles}"#),
                );
            }
            at += cycles;
        }
    }

    fn track(&mut self, record: &WorkRecord, first: u64, end: u64) -> Track {
        let qp = self.qps.entry((record.card, record.qpn)).or_default();
        let lane = qp.free.iter().position(|free| *free <= first);
        let (lane, is_new) = match lane {
            Some(lane) => (lane, false),
            None => {
                qp.free.push(0);
                (qp.free.len() - 1, true)
            }
        };
        qp.free[lane] = end;
        let track = Track {
            pid: record.card as u64 + 1,
            tid: WORK + u64::from(record.qpn) * QP_TRACKS + lane as u64,
        };
        if is_new {
            let name = match lane {
                0 => format!("QP {:#x}", record.qpn),
                _ => format!("QP {:#x} ({})", record.qpn, lane + 1),
            };
            track::name(&self.sink, track, &name);
        }
        track
    }
}

/// Name of the operation.
fn name(record: &WorkRecord) -> &'static str {
    use WrOpcode as Op;
    let Some(opcode) = record.opcode else {
        return "never begun";
    };
    match Op::try_from(opcode) {
        Ok(Op::RdmaWrite) => "WRITE",
        Ok(Op::RdmaWriteWithImm) => "WRITE with immediate",
        Ok(Op::RdmaRead) => "READ",
        Ok(Op::Send) => "SEND",
        Ok(Op::SendWithImm) => "SEND with immediate",
        Ok(Op::SendWithInv) => "SEND with invalidate",
        Ok(Op::BindMw) => "bind",
        Ok(Op::RegMr) => "register",
        Ok(Op::LocalInv) => "invalidate",
        _ => "other",
    }
}
