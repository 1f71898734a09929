//! The QP state machine for every mask, against the tables of the requirements (8.2), typed here a second time.

use hca_abi::{QpState, Service};
use hca_fw_core::{Attr, check};

const BITS: u32 = 22;

/// Bit numbers of requirements 8.1.
const STATE: u32 = 1;
const CUR: u32 = 1 << 1;
const SQD_NOTIFY: u32 = 1 << 2;
const ACCESS: u32 = 1 << 3;
const PKEY: u32 = 1 << 4;
const PORT: u32 = 1 << 5;
const QKEY: u32 = 1 << 6;
const AV: u32 = 1 << 7;
const MTU: u32 = 1 << 8;
const TIMEOUT: u32 = 1 << 9;
const RETRY: u32 = 1 << 10;
const RNR_RETRY: u32 = 1 << 11;
const RQ_PSN: u32 = 1 << 12;
const RD: u32 = 1 << 13;
const ALT: u32 = 1 << 14;
const RNR_TIMER: u32 = 1 << 15;
const SQ_PSN: u32 = 1 << 16;
const DEST_RD: u32 = 1 << 17;
const MIG: u32 = 1 << 18;
const DEST_QPN: u32 = 1 << 20;
/// Here with RC, which can be paced (RATE-6).
const RATE: u32 = 1 << 25;

/// Required and optional attributes; `None`: no such transition.
fn row(service: Service, from: QpState, to: QpState) -> Option<(u32, u32)> {
    use QpState::*;
    use Service::*;
    let path = ACCESS | ALT | MIG;
    Some(match (service, from, to) {
        (_, _, Reset | Err) => (STATE, 0),
        (Ud, Reset, Init) => (STATE | PKEY | PORT | QKEY, 0),
        (Ud, Init, Init) => (0, STATE | PKEY | PORT | QKEY),
        (Ud, Init, Rtr) => (STATE, PKEY | QKEY),
        (Ud, Rtr, Rts) => (STATE | SQ_PSN, CUR | QKEY),
        (Ud, Rts, Rts) => (0, STATE | CUR | QKEY),
        (Ud, Sqd | Sqe, Rts) => (STATE, CUR | QKEY),
        (Ud, Sqd, Sqd) => (0, STATE | PKEY | QKEY),
        (Uc | Rc, Reset, Init) => (STATE | PKEY | PORT | ACCESS, 0),
        (Uc | Rc, Init, Init) => (0, STATE | PKEY | PORT | ACCESS),
        (Uc, Init, Rtr) => (STATE | MTU | AV | DEST_QPN | RQ_PSN, PKEY | ALT | ACCESS),
        (Uc, Rtr, Rts) => (STATE | SQ_PSN, CUR | path),
        (Uc, Rts, Rts) => (0, STATE | CUR | path),
        (Uc, Sqd, Rts) => (STATE, CUR | path),
        (Uc, Sqd, Sqd) => (0, STATE | PKEY | AV | path),
        (Uc, Sqe, Rts) => (STATE, CUR | ACCESS),
        (Rc, Init, Rtr) => (
            STATE | AV | MTU | DEST_QPN | RQ_PSN | DEST_RD | RNR_TIMER,
            PKEY | ACCESS | ALT,
        ),
        (Rc, Rtr, Rts) => (
            STATE | SQ_PSN | TIMEOUT | RETRY | RNR_RETRY | RD,
            CUR | RNR_TIMER | RATE | path,
        ),
        (Rc, Rts, Rts) => (0, STATE | CUR | RNR_TIMER | RATE | path),
        (Rc, Sqd, Rts) => (STATE, CUR | RNR_TIMER | path),
        (Rc, Sqd, Sqd) => (
            0,
            // QPS-19: PORT only with CHANGE_PHY_PORT, which the card does not claim.
            STATE | PKEY | AV | RD | RNR_TIMER | TIMEOUT | RETRY | RNR_RETRY | DEST_RD | path,
        ),
        (Ud | Uc | Rc, Rts, Sqd) => (STATE, SQD_NOTIFY),
        _ => return None,
    })
}

/// QPS-2, QPS-3, QPS-18: a modify is legal exactly if the mask has all of R and nothing outside R and O.
#[test]
fn every_mask_of_every_transition() {
    use QpState::*;
    let states = [Reset, Init, Rtr, Rts, Sqd, Sqe, Err];
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        for (from, to) in states
            .iter()
            .flat_map(|from| states.iter().map(move |to| (*from, *to)))
        {
            let want = row(service, from, to);
            for bits in 0..1u32 << BITS {
                // Bit 21 stands for RATE_LIMIT; no other bit above 20 has a name.
                let bits = if bits >> 21 == 0 {
                    bits
                } else {
                    bits & 0x1f_ffff | Attr::RATE_LIMIT.bits()
                };
                let mask = Attr::from_bits(bits).expect("every bit has a name");
                let legal = want.is_some_and(|(r, o)| bits & r == r && bits & !(r | o) == 0);
                assert_eq!(
                    check(service, from, to, mask).is_ok(),
                    legal,
                    "{service:?} {from:?} -> {to:?} with {mask:?}"
                );
            }
        }
    }
}
