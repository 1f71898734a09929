//! Attributes as the kernel's connection manager hands them to user space, into those of verbs; paths also back.

use crate::abi::*;
use crate::boundary::value;

fn ah(src: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: src.grh.dgid },
            flow_label: src.grh.flow_label,
            sgid_index: src.grh.sgid_index,
            hop_limit: src.grh.hop_limit,
            traffic_class: src.grh.traffic_class,
        },
        dlid: src.dlid,
        sl: src.sl,
        src_path_bits: src.src_path_bits,
        static_rate: src.static_rate,
        is_global: src.is_global,
        port_num: src.port_num,
    }
}

/// Both are the caller's structures; NULL does nothing.
fn copy<S, D>(dst: *mut D, src: *mut S, convert: impl FnOnce(&S) -> D) {
    value(|| {
        // SAFETY: the caller's structures, or NULL.
        if let (false, Some(src)) = (dst.is_null(), unsafe { src.as_ref() }) {
            // SAFETY: as above.
            unsafe { dst.write(convert(src)) };
        }
    });
}

pub unsafe extern "C" fn copy_ah_attr(dst: *mut ibv_ah_attr, src: *mut ib_uverbs_ah_attr) {
    copy(dst, src, ah);
}

pub unsafe extern "C" fn copy_qp_attr(dst: *mut ibv_qp_attr, src: *mut ib_uverbs_qp_attr) {
    copy(dst, src, |src| ibv_qp_attr {
        qp_state: src.qp_state,
        cur_qp_state: src.cur_qp_state,
        path_mtu: src.path_mtu,
        path_mig_state: src.path_mig_state,
        qkey: src.qkey,
        rq_psn: src.rq_psn,
        sq_psn: src.sq_psn,
        dest_qp_num: src.dest_qp_num,
        qp_access_flags: src.qp_access_flags,
        cap: ibv_qp_cap {
            max_send_wr: src.max_send_wr,
            max_recv_wr: src.max_recv_wr,
            max_send_sge: src.max_send_sge,
            max_recv_sge: src.max_recv_sge,
            max_inline_data: src.max_inline_data,
        },
        ah_attr: ah(&src.ah_attr),
        alt_ah_attr: ah(&src.alt_ah_attr),
        pkey_index: src.pkey_index,
        alt_pkey_index: src.alt_pkey_index,
        en_sqd_async_notify: src.en_sqd_async_notify,
        sq_draining: src.sq_draining,
        max_rd_atomic: src.max_rd_atomic,
        max_dest_rd_atomic: src.max_dest_rd_atomic,
        min_rnr_timer: src.min_rnr_timer,
        port_num: src.port_num,
        timeout: src.timeout,
        retry_cnt: src.retry_cnt,
        rnr_retry: src.rnr_retry,
        alt_port_num: src.alt_port_num,
        alt_timeout: src.alt_timeout,
        ..Default::default()
    });
}

pub unsafe extern "C" fn copy_path_rec(dst: *mut ibv_sa_path_rec, src: *mut ib_user_path_rec) {
    copy(dst, src, |src| ibv_sa_path_rec {
        dgid: ibv_gid { raw: src.dgid },
        sgid: ibv_gid { raw: src.sgid },
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic as i32,
        flow_label: src.flow_label,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        reversible: src.reversible as i32,
        numb_path: src.numb_path,
        pkey: src.pkey,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        mtu: src.mtu as u8,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    });
}

/// The other way, for who gives the kernel a path that was found elsewhere.
pub unsafe extern "C" fn copy_path_rec_to_kern(dst: *mut ib_user_path_rec, src: *mut ibv_sa_path_rec) {
    copy(dst, src, |src| ib_user_path_rec {
        // SAFETY: any bytes are a GID.
        dgid: unsafe { src.dgid.raw },
        // SAFETY: as above.
        sgid: unsafe { src.sgid.raw },
        dlid: src.dlid,
        slid: src.slid,
        raw_traffic: src.raw_traffic as u32,
        flow_label: src.flow_label,
        reversible: src.reversible as u32,
        mtu: src.mtu.into(),
        pkey: src.pkey,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        numb_path: src.numb_path,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    });
}
