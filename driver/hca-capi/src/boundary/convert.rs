//! Attributes of QPs and flags of work requests between the C structures and ours.

use hca_abi::WrOpcode;
use hca_verbs::{AhAttr, Mtu, QpAttr, QpAttrMask, QpCap, QpState, SendFlags, Sge};

use crate::abi::*;
use crate::boundary::access::qp_access;
use crate::boundary::{Errno, Verb, invalid};

/// What a GRH has of the field (WIRE-18).
const FLOW_LABEL: u32 = 0xf_ffff;

/// Of the flow label what fits, as kernels do: UCX sets all 32 bits.
pub fn ah_from_c(a: &ibv_ah_attr) -> AhAttr {
    AhAttr {
        // SAFETY: any bytes are a GID.
        dgid: unsafe { a.grh.dgid.raw },
        sgid_index: a.grh.sgid_index,
        flow_label: a.grh.flow_label & FLOW_LABEL,
        hop_limit: a.grh.hop_limit,
        traffic_class: a.grh.traffic_class,
        is_global: a.is_global != 0,
        dlid: a.dlid,
        sl: a.sl,
        src_path_bits: a.src_path_bits,
        static_rate: a.static_rate,
        port_num: a.port_num,
        dmac: [0; 6],
    }
}

fn ah_to_c(a: &AhAttr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: a.dgid },
            flow_label: a.flow_label,
            sgid_index: a.sgid_index,
            hop_limit: a.hop_limit,
            traffic_class: a.traffic_class,
        },
        dlid: a.dlid,
        sl: a.sl,
        src_path_bits: a.src_path_bits,
        static_rate: a.static_rate,
        is_global: a.is_global.into(),
        port_num: a.port_num,
    }
}

fn code<T: TryFrom<u8>>(what: &str, value: u32) -> Verb<T> {
    let code = u8::try_from(value).ok().and_then(|code| T::try_from(code).ok());
    code.ok_or_else(|| invalid(format_args!("{what} {value} does not exist")))
}

/// Only what `mask` names is looked at: the rest may be garbage.
pub fn qp_attr_from_c(a: &ibv_qp_attr, mask: u32) -> Verb<(QpAttr, QpAttrMask)> {
    let known = QpAttrMask::from_bits(mask);
    let mut out = QpAttr::default();
    if known.contains(QpAttrMask::STATE) {
        out.qp_state = code::<QpState>("qp_state", a.qp_state)?;
    }
    if known.contains(QpAttrMask::CUR_STATE) {
        out.cur_qp_state = code::<QpState>("cur_qp_state", a.cur_qp_state)?;
    }
    if known.contains(QpAttrMask::PATH_MTU) {
        out.path_mtu = code::<Mtu>("path_mtu", a.path_mtu)?;
    }
    if known.contains(QpAttrMask::PATH_MIG_STATE) {
        out.path_mig_state = code("path_mig_state", a.path_mig_state)?;
    }
    if known.contains(QpAttrMask::AV) {
        out.ah_attr = ah_from_c(&a.ah_attr);
    }
    if known.contains(QpAttrMask::ALT_PATH) {
        out.alt_ah_attr = ah_from_c(&a.alt_ah_attr);
        out.alt_pkey_index = a.alt_pkey_index;
        out.alt_port_num = a.alt_port_num;
        out.alt_timeout = a.alt_timeout;
    }
    out.qkey = a.qkey;
    out.rq_psn = a.rq_psn;
    out.sq_psn = a.sq_psn;
    out.dest_qp_num = a.dest_qp_num;
    out.qp_access_flags = qp_access(a.qp_access_flags);
    out.pkey_index = a.pkey_index;
    out.en_sqd_async_notify = a.en_sqd_async_notify != 0;
    out.max_rd_atomic = a.max_rd_atomic;
    out.max_dest_rd_atomic = a.max_dest_rd_atomic;
    out.min_rnr_timer = a.min_rnr_timer;
    out.port_num = a.port_num;
    out.timeout = a.timeout;
    out.retry_cnt = a.retry_cnt;
    out.rnr_retry = a.rnr_retry;
    out.rate_limit = a.rate_limit;
    Ok((out, known))
}

/// Everything but `cap`.
pub fn qp_attr_to_c(a: &QpAttr) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: u8::from(a.qp_state).into(),
        cur_qp_state: u8::from(a.qp_state).into(),
        path_mtu: u8::from(a.path_mtu).into(),
        path_mig_state: u8::from(a.path_mig_state).into(),
        qkey: a.qkey,
        rq_psn: a.rq_psn,
        sq_psn: a.sq_psn,
        dest_qp_num: a.dest_qp_num,
        qp_access_flags: a.qp_access_flags.bits(),
        ah_attr: ah_to_c(&a.ah_attr),
        alt_ah_attr: ah_to_c(&a.alt_ah_attr),
        pkey_index: a.pkey_index,
        alt_pkey_index: a.alt_pkey_index,
        en_sqd_async_notify: a.en_sqd_async_notify.into(),
        sq_draining: a.sq_draining.into(),
        max_rd_atomic: a.max_rd_atomic,
        max_dest_rd_atomic: a.max_dest_rd_atomic,
        min_rnr_timer: a.min_rnr_timer,
        port_num: a.port_num,
        timeout: a.timeout,
        retry_cnt: a.retry_cnt,
        rnr_retry: a.rnr_retry,
        alt_port_num: a.alt_port_num,
        alt_timeout: a.alt_timeout,
        rate_limit: a.rate_limit,
        ..Default::default()
    }
}

pub fn cap_from_c(cap: &ibv_qp_cap) -> QpCap {
    QpCap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

pub fn cap_to_c(cap: QpCap) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// ibv_send_flags without INLINE.
#[inline]
pub fn flags_of(send_flags: u32) -> Verb<SendFlags> {
    const KNOWN: u32 =
        IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | IBV_SEND_IP_CSUM;
    if send_flags & !KNOWN != 0 {
        return Err(Errno(libc::EINVAL));
    }
    Ok(SendFlags {
        signaled: send_flags & IBV_SEND_SIGNALED != 0,
        solicited: send_flags & IBV_SEND_SOLICITED != 0,
        fence: send_flags & IBV_SEND_FENCE != 0,
        ip_csum: send_flags & IBV_SEND_IP_CSUM != 0,
    })
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Sge>() == size_of::<ibv_sge>() && align_of::<Sge>() == align_of::<ibv_sge>());
    assert!(offset_of!(Sge, addr) == offset_of!(ibv_sge, addr));
    assert!(offset_of!(Sge, length) == offset_of!(ibv_sge, length));
    assert!(offset_of!(Sge, lkey) == offset_of!(ibv_sge, lkey));
    // What is posted by its number.
    assert!(WrOpcode::RdmaWrite as u32 == IBV_WR_RDMA_WRITE);
    assert!(WrOpcode::RdmaWriteWithImm as u32 == IBV_WR_RDMA_WRITE_WITH_IMM);
    assert!(WrOpcode::Send as u32 == IBV_WR_SEND);
    assert!(WrOpcode::SendWithImm as u32 == IBV_WR_SEND_WITH_IMM);
    assert!(WrOpcode::RdmaRead as u32 == IBV_WR_RDMA_READ);
};

/// A program's scatter/gather list, in place.
///
/// # Safety
/// `count` entries are there, and stay as they are while the slice lives.
#[inline]
pub unsafe fn sges_of<'a>(list: *const ibv_sge, count: usize) -> &'a [Sge] {
    // SAFETY: the caller vouches for the list; both structures have the same fields at the same places.
    unsafe { std::slice::from_raw_parts(list.cast(), count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WIRE-18.
    #[test]
    fn a_flow_label_has_twenty_bits() {
        for (given, wanted) in [(0, 0), (0xf_ffff, 0xf_ffff), (0x10_0001, 1), (u32::MAX, 0xf_ffff)] {
            let mut attr = ibv_ah_attr::default();
            attr.grh.flow_label = given;
            assert_eq!(ah_from_c(&attr).flow_label, wanted);
        }
    }
}
