//! Cycles that an isolated message spends inside the cards, from the stamps at their ports.

use hca_cosim::{Stamp, StampKind};

const DOORBELL_PAGE: u16 = 0x1000;

/// Of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cycles {
    /// From the doorbell to the first beat on the wire.
    pub to_wire: u64,
    /// All.
    pub total: u64,
}

/// `requester`, `responder`: stamps of one message, recorded from before its post on.
pub fn cycles(requester: &[Stamp], responder: &[Stamp], is_read: bool) -> Cycles {
    let doorbell = first(
        requester,
        0,
        |kind| matches!(kind, StampKind::MmioWrite { addr, .. } if *addr >= DOORBELL_PAGE),
    );
    let Some(doorbell) = doorbell else {
        return Cycles::default();
    };
    let sent = first(requester, doorbell, |kind| *kind == StampKind::TxFirst);
    let arrived = first(responder, doorbell, |kind| *kind == StampKind::RxLast);
    let to_wire = thinking(requester, Some(doorbell), sent);
    let behind = if is_read {
        let answered = arrived.and_then(|at| first(responder, at, |kind| *kind == StampKind::TxFirst));
        let answer = thinking(responder, arrived, answered);
        let back = sent.and_then(|at| first(requester, at, |kind| *kind == StampKind::RxLast));
        answer
            + thinking(
                requester,
                back,
                back.and_then(|at| first(requester, at, is_write)),
            )
    } else {
        thinking(
            responder,
            arrived,
            arrived.and_then(|at| first(responder, at, is_write)),
        )
    };
    Cycles {
        to_wire,
        total: to_wire + behind,
    }
}

fn is_write(kind: &StampKind) -> bool {
    matches!(kind, StampKind::WriteLast { .. })
}

/// The first event of a kind from a cycle on.
fn first(stamps: &[Stamp], from: u64, is: impl Fn(&StampKind) -> bool) -> Option<u64> {
    stamps
        .iter()
        .find(|stamp| stamp.cycle >= from && is(&stamp.kind))
        .map(|stamp| stamp.cycle)
}

/// Cycles between two events in which no read is in flight. 0 when one of them did not happen.
fn thinking(stamps: &[Stamp], from: Option<u64>, to: Option<u64>) -> u64 {
    let (Some(from), Some(to)) = (from, to) else {
        return 0;
    };
    let (mut total, mut in_flight, mut at) = (0, 0u32, from);
    for stamp in stamps.iter().filter(|stamp| (from..=to).contains(&stamp.cycle)) {
        match stamp.kind {
            StampKind::ReadRequest { .. } => {
                if in_flight == 0 {
                    total += stamp.cycle - at;
                }
                in_flight += 1;
            }
            StampKind::ReadLast { .. } => {
                in_flight = in_flight.saturating_sub(1);
                at = stamp.cycle;
            }
            _ => {}
        }
    }
    if in_flight == 0 { total + (to - at) } else { total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcie_and_wire_do_not_count() {
        let stamp = |cycle, kind| Stamp { cycle, kind };
        let read = |tag| StampKind::ReadRequest {
            tag,
            addr: 0,
            len_bytes: 64,
        };
        let requester = [
            stamp(
                100,
                StampKind::MmioWrite {
                    func: 0,
                    addr: 0x1000,
                },
            ),
            stamp(110, read(1)),
            stamp(240, StampKind::ReadLast { tag: 1, err: false }),
            stamp(255, read(2)),
            stamp(258, read(3)),
            stamp(380, StampKind::ReadLast { tag: 2, err: false }),
            stamp(390, StampKind::ReadLast { tag: 3, err: false }),
            stamp(410, StampKind::TxFirst),
        ];
        let responder = [
            stamp(450, StampKind::RxLast),
            stamp(480, StampKind::WriteLast { addr: 0 }),
        ];
        let expected = Cycles {
            to_wire: 10 + 15 + 20,
            total: 10 + 15 + 20 + 30,
        };
        assert_eq!(cycles(&requester, &responder, false), expected);
        assert_eq!(cycles(&[], &[], false), Cycles::default());
    }

    #[test]
    fn a_read_comes_back() {
        let stamp = |cycle, kind| Stamp { cycle, kind };
        let requester = [
            stamp(
                0,
                StampKind::MmioWrite {
                    func: 0,
                    addr: 0x1000,
                },
            ),
            stamp(5, StampKind::TxFirst),
            stamp(90, StampKind::RxLast),
            stamp(97, StampKind::WriteLast { addr: 0 }),
        ];
        let responder = [stamp(30, StampKind::RxLast), stamp(50, StampKind::TxFirst)];
        assert_eq!(cycles(&requester, &responder, true).total, 5 + 20 + 7);
    }
}
