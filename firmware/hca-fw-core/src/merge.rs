//! Attributes of a QP of which some are new.

use crate::memory::GRANTED;
use crate::record::Attrs;
use crate::transition::Attr;
use hca_abi::{AhAttr, QpAttr, QpState, access};

/// The attributes of `old` with those of `mask` taken from `new`.
pub(crate) fn merge(old: &Attrs, new: &QpAttr, mask: Attr) -> Attrs {
    let mut out = *old;
    let has = |attr: Attr| mask.contains(attr);
    if has(Attr::ACCESS_FLAGS) {
        // Both ends have agreed on the order of WRITEs before the first one, and on credits: it stays.
        let is_open = old.qp_state() < u8::from(QpState::Rtr);
        let order = if is_open {
            new.qp_access_flags()
        } else {
            old.qp_access_flags()
        };
        let rights = new.qp_access_flags() & GRANTED & !access::MW_BIND;
        out.set_qp_access_flags(rights | order & (access::RELAXED_ORDERING | access::NO_CREDITS));
    }
    if has(Attr::PKEY_INDEX) {
        out.set_pkey_index(new.pkey_index() as u8);
    }
    if has(Attr::PORT) {
        out.set_port_num(new.port_num());
    }
    if has(Attr::QKEY) {
        out.set_qkey(new.qkey());
    }
    if has(Attr::AV) {
        out.set_path(&AhAttr(new.ah_attr()));
        out.set_udp_src_port(new.udp_src_port());
    }
    if has(Attr::PATH_MTU) {
        out.set_path_mtu(new.path_mtu());
    }
    if has(Attr::DEST_QPN) {
        out.set_dest_qp_num(new.dest_qp_num());
    }
    if has(Attr::RATE_LIMIT) {
        out.set_rate_limit(new.rate_limit());
    }
    merge_reliability(&mut out, new, mask);
    out
}

fn merge_reliability(out: &mut Attrs, new: &QpAttr, mask: Attr) {
    let has = |attr: Attr| mask.contains(attr);
    if has(Attr::TIMEOUT) {
        out.set_timeout(new.timeout());
    }
    if has(Attr::RETRY_CNT) {
        out.set_retry_cnt(new.retry_cnt());
    }
    if has(Attr::RNR_RETRY) {
        out.set_rnr_retry(new.rnr_retry());
    }
    if has(Attr::MIN_RNR_TIMER) {
        out.set_min_rnr_timer(new.min_rnr_timer());
    }
    if has(Attr::RQ_PSN) {
        out.set_rq_psn(new.rq_psn());
    }
    if has(Attr::SQ_PSN) {
        out.set_sq_psn(new.sq_psn());
    }
    if has(Attr::MAX_QP_RD_ATOMIC) {
        out.set_max_rd_atomic(new.max_rd_atomic());
    }
    if has(Attr::MAX_DEST_RD_ATOMIC) {
        out.set_max_dest_rd_atomic(new.max_dest_rd_atomic());
    }
}
