//! Contexts of QPs: which pairs of words they use, and what of them comes from CREATE_QP.

use crate::held::PAIR_BYTES;
use crate::lines::QPC_RECORD_OFFSET;
use crate::record::Made;
use hca_abi::Qpc;

/// Pairs of a QP context before its record.
pub(crate) const QPC_PAIRS: u32 = qpc_pairs(false);

/// Pairs in which fields of a QP context begin or end. Made when this is compiled: names are slow to compare.
const fn qpc_pairs(in_reset: bool) -> u32 {
    let (mut pairs, mut at) = (0, 0);
    while at < Qpc::TABLE.fields.len() {
        let field = &Qpc::TABLE.fields[at];
        let is_before_record = field.byte < QPC_RECORD_OFFSET as u32;
        if is_before_record && !(in_reset && is_attribute(field.name)) {
            let bits = PAIR_BYTES as u32 * 8;
            pairs |= (2 << ((field.lsb() + field.width - 1) / bits)) - (1 << (field.lsb() / bits));
        }
        at += 1;
    }
    pairs
}

/// Fields of a QP context that are zero in RESET.
const fn is_attribute(field: &str) -> bool {
    matches!(
        field.as_bytes(),
        b"pkey_index"
            | b"path_mig_state"
            | b"dest_qpn"
            | b"max_rd_atomic"
            | b"qkey"
            | b"max_dest_rd_atomic"
            | b"sq_psn"
            | b"timeout"
            | b"rq_psn"
            | b"retry_cnt"
            | b"rnr_retry"
            | b"min_rnr_timer"
            | b"sgid_index"
            | b"sl"
            | b"src_path_bits"
            | b"rate_limit"
            | b"udp_src_port"
            | b"dlid"
            | b"dgid"
            | b"sgid"
            | b"dmac"
            | b"hop_limit"
            | b"traffic_class"
            | b"flow_label"
            | b"static_rate"
            | b"rate_interval"
            | b"rate_group"
    )
}
/// Those that one of a QP in RESET uses: what the QP was made with.
pub(crate) const RESET_PAIRS: u32 = qpc_pairs(true);

/// What a context has of what its QP was made with, in RESET and else: all of it, whatever was there.
#[inline(never)]
pub(crate) fn set_made(q: &mut Qpc, c: &Made, qpn: u32) {
    let (sq, rq) = (c.sq(), c.rq());
    q.set_service(c.service());
    q.set_is_target(c.is_target());
    q.set_xrcd(c.xrcd());
    q.set_func(c.func());
    q.set_pd(c.pd());
    q.set_port(1);
    q.set_path_mtu(1);
    q.set_sq_sig_all(c.sq_sig_all());
    q.set_sq_base(sq.base);
    q.set_sq_log_size(sq.log_size);
    q.set_sq_log_stride(sq.log_stride);
    q.set_rq_base(rq.base);
    q.set_rq_log_size(rq.log_size);
    q.set_rq_log_stride(rq.log_stride);
    q.set_has_srq(c.has_srq());
    q.set_srqn(c.srqn());
    q.set_send_cqn(c.send_cqn());
    q.set_recv_cqn(c.recv_cqn());
    q.set_qpn(qpn);
    q.set_is_gsi(c.is_gsi());
    q.set_is_smi(c.is_smi());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Ring;
    use hca_abi::CreateQpCmd;

    /// Whatever a QP is made with lies in the pairs that a context in RESET uses, and leaves nothing of another one.
    #[test]
    fn what_is_made_lies_in_its_pairs() {
        let ring = Ring {
            base: u64::MAX << 9,
            log_size: 15,
            log_stride: 3,
        };
        let mut row = Qpc::new();
        for all in [u8::MAX, 0] {
            let mut made = Made::new();
            made.set(all & 3, &CreateQpCmd([all; 248]), ring, ring);
            set_made(&mut row, &made, u32::from(all) << 16);
            for (at, pair) in row.as_bytes().as_chunks::<PAIR_BYTES>().0.iter().enumerate() {
                assert!(
                    RESET_PAIRS >> at & 1 == 1 || *pair == [0; PAIR_BYTES],
                    "pair {at}"
                );
            }
            let mut fresh = Qpc::new();
            set_made(&mut fresh, &made, u32::from(all) << 16);
            assert_eq!(row, fresh, "as in a row of zeros");
        }
        assert_eq!(RESET_PAIRS & !QPC_PAIRS, 0);
    }
}
