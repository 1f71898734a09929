//! What stands around a management datagram on an InfiniBand link: LRH, perhaps a GRH, BTH, DETH. CRCs are the
//! hardware's.

use crate::mad::{MAD_BYTES, Mad, put_u16, put_u32, u16_at, u32_at};
use crate::sma::Kept;
use hca_wire::{LNH_IBA_GLOBAL, LNH_IBA_LOCAL, QKEY_GSI, QPN_GSI, QPN_SMI};

const LRH_BYTES: usize = 8;
const GRH_BYTES: usize = 40;
const BTH_BYTES: usize = 12;
const DETH_BYTES: usize = 8;
/// UD SEND ONLY.
const OPCODE: u8 = 0x64;
/// What packets of QP 0 name, which nobody looks at.
const DEFAULT_PKEY: u16 = 0xffff;
/// VL of subnet management.
const VL15: u8 = 15;
/// Bytes of the longest packet, without CRCs.
pub const MAX_PACKET: usize = LRH_BYTES + GRH_BYTES + BTH_BYTES + DETH_BYTES + MAD_BYTES;

/// Where a datagram has come from; what its answer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct From {
    /// LID that it is from.
    pub slid: u16,
    /// LID that it is for, ours or permissive.
    pub dlid: u16,
    /// Its service level.
    pub sl: u8,
    /// QP that it is for: 0 or 1.
    pub qpn: u32,
    /// QP that it is from.
    pub src_qpn: u32,
    /// Its partition.
    pub pkey: u16,
    /// The GIDs of its GRH, source and destination, if it has one.
    pub gids: Option<([u8; 16], [u8; 16])>,
}

/// Headers and datagram of a packet that begins with its LRH; `None`: it is not a datagram for QP 0 or 1, or for QP 1
/// without its Q_Key (KEY-23).
pub fn read(packet: &[u8]) -> Option<(From, Mad)> {
    let head = packet.get(..LRH_BYTES)?;
    let lnh = head[1] & 3;
    let bth_at = match lnh {
        LNH_IBA_LOCAL => LRH_BYTES,
        LNH_IBA_GLOBAL => LRH_BYTES + GRH_BYTES,
        _ => return None,
    };
    let bth = packet.get(bth_at..bth_at + BTH_BYTES + DETH_BYTES)?;
    let data = packet.get(bth_at + BTH_BYTES + DETH_BYTES..)?;
    let mad: Mad = data.get(..MAD_BYTES)?.try_into().ok()?;
    let gid = |at: usize| packet.get(at..at + 16)?.try_into().ok();
    let from = From {
        slid: u16_at(head, 6),
        dlid: u16_at(head, 2),
        sl: head[1] >> 4,
        qpn: u32_at(bth, 4) & 0xff_ffff,
        src_qpn: u32_at(bth, 16) & 0xff_ffff,
        pkey: u16_at(bth, 2),
        gids: match lnh {
            LNH_IBA_GLOBAL => Some((gid(16)?, gid(32)?)),
            _ => None,
        },
    };
    let has_key = from.qpn == QPN_SMI || u32_at(bth, 12) == QKEY_GSI;
    (bth[0] == OPCODE && from.qpn <= QPN_GSI && has_key).then_some((from, mad))
}

/// KEY-14, KEY-9: does a table of P_Keys have one that this goes with?
pub fn is_member(table: &[u16], pkey: u16) -> bool {
    const PARTITION: u16 = 0x7fff;
    let matches = |own: &u16| {
        let is_same = (own ^ pkey) & PARTITION == 0 && pkey & PARTITION != 0;
        is_same && (own | pkey) & !PARTITION != 0
    };
    table.iter().any(matches)
}

/// Whether a port with this table may send with this P_Key: one of its own, or, of a full member's, the limited form.
/// That is what a switch asks of packets at the port where they come in (KEY-19); whether two limited members meet is
/// found where they leave.
pub fn is_own(table: &[u16], pkey: u16) -> bool {
    const FULL: u16 = 0x8000;
    pkey & !FULL != 0 && table.iter().any(|&own| own == pkey || own == pkey | FULL)
}

/// Writes the packet that takes an answer back, and says how long it is. `vl_of`: the VL of each SL.
pub fn write_answer(
    to: &From,
    slid: u16,
    vl_of: impl Fn(u8) -> u8,
    mad: &Mad,
    out: &mut [u8; MAX_PACKET],
) -> usize {
    let is_smi = to.qpn == QPN_SMI;
    let gids = to.gids.filter(|_| !is_smi);
    let bth_at = LRH_BYTES + if gids.is_some() { GRH_BYTES } else { 0 };
    let len = bth_at + BTH_BYTES + DETH_BYTES + MAD_BYTES;
    let vl = if is_smi { VL15 } else { vl_of(to.sl) };
    out.fill(0);
    out[0] = vl << 4;
    out[1] = to.sl << 4
        | if gids.is_some() {
            LNH_IBA_GLOBAL
        } else {
            LNH_IBA_LOCAL
        };
    put_u16(out, 2, to.slid);
    // The length counts the ICRC.
    put_u16(out, 4, (len / 4 + 1) as u16);
    put_u16(out, 6, slid);
    if let Some((sgid, dgid)) = gids {
        put_u32(out, 8, 6 << 28);
        put_u16(out, 12, (len - bth_at + 4) as u16);
        out[14] = hca_wire::GRH_NEXT_HEADER_IBA;
        out[15] = 64;
        out[16..32].copy_from_slice(&dgid);
        out[32..48].copy_from_slice(&sgid);
    }
    let bth = &mut out[bth_at..];
    // The bit of migration stands, as in any packet of ours.
    (bth[0], bth[1]) = (OPCODE, 1 << 6);
    put_u16(bth, 2, to.pkey);
    put_u32(bth, 4, if is_smi { QPN_SMI } else { to.src_qpn });
    put_u32(bth, 12, if is_smi { 0 } else { QKEY_GSI });
    put_u32(bth, 16, to.qpn);
    bth[BTH_BYTES + DETH_BYTES..][..MAD_BYTES].copy_from_slice(mad);
    len
}

/// Writes the packet that takes a trap from a LID to the subnet manager, and says how long it is.
pub fn write_trap(slid: u16, kept: &Kept, mad: &Mad, out: &mut [u8; MAX_PACKET]) -> usize {
    let to = From {
        slid: kept.sm_lid,
        dlid: slid,
        sl: kept.sm_sl,
        qpn: QPN_SMI,
        src_qpn: QPN_SMI,
        pkey: DEFAULT_PKEY,
        gids: None,
    };
    write_answer(&to, slid, |_| VL15, mad, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is written can be read, and goes the way back.
        #[test]
        fn answers_go_back(slid: u16, dlid: u16, sl in 0u8..16, smi: bool, src_qpn in 2u32..1 << 24, pkey: u16,
                           gids in proptest::option::of(any::<([u8; 16], [u8; 16])>())) {
            let qpn = if smi { QPN_SMI } else { QPN_GSI };
            let to = From { slid, dlid, sl, qpn, src_qpn: if smi { 0 } else { src_qpn }, pkey, gids };
            let mut mad = [0; MAD_BYTES];
            mad[255] = 7;
            let mut out = [0; MAX_PACKET];
            let len = write_answer(&to, 9, |sl| sl / 2, &mad, &mut out);
            prop_assert_eq!(out[0] >> 4, if smi { 15 } else { sl / 2 });
            prop_assert_eq!(usize::from(u16_at(&out, 4)) * 4, len + 4);
            if smi || src_qpn == 1 {
                let (back, data) = read(&out[..len]).unwrap();
                prop_assert_eq!(data, mad);
                prop_assert_eq!((back.slid, back.dlid, back.sl, back.pkey), (9, slid, sl, pkey));
                prop_assert_eq!(back.gids, gids.filter(|_| !smi).map(|(s, d)| (d, s)));
            } else {
                prop_assert_eq!(u32_at(&out[len - MAD_BYTES - 16..], 0) & 0xff_ffff, src_qpn);
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&bytes);
        }
    }

    /// KEY-8, KEY-9, KEY-14, KEY-17, KEY-19: a table lets in who is of one of its partitions, if one side is a full
    /// member; switches and agents judge as the ports at the ends do.
    #[test]
    fn partitions_are_judged() {
        for (entry, pkey, is_let_in) in [
            (0x8001, 0x0001, true),
            (0x0001, 0x8001, true),
            (0x0001, 0x0001, false),
            (0x8002, 0x8001, false),
            (0x8000, 0x8000, false),
            (0x0000, 0xffff, false),
            (0xffff, 0x7fff, true),
        ] {
            assert_eq!(
                is_member(&[0, 0x8009, entry], pkey),
                is_let_in,
                "{entry:#x} {pkey:#x}"
            );
        }
        assert!(!is_member(&[], 0xffff));
    }
    /// KEY-19: where packets come in, a port sends as what it is, or as less.
    #[test]
    fn ports_send_by_keys_of_their_own() {
        for (entry, pkey, is_let_in) in [
            (0x8001, 0x8001, true),
            (0x8001, 0x0001, true),
            (0x0001, 0x0001, true),
            (0x0001, 0x8001, false),
            (0x8002, 0x8001, false),
            (0x8000, 0x8000, false),
            (0x8000, 0x0000, false),
        ] {
            assert_eq!(
                is_own(&[0, 0x8009, entry], pkey),
                is_let_in,
                "{entry:#x} {pkey:#x}"
            );
        }
        assert!(!is_own(&[], 0xffff));
    }
}
