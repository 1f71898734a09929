//! Attributes of QPs. The crate's own tests have them too: names of the C interface come from whoever includes this.

use super::*;

/// Queues of 30 entries, two data segments each.
pub fn init_attr(cq: *mut ibv_cq) -> ibv_qp_init_attr {
    let cap = ibv_qp_cap {
        max_send_wr: 30,
        max_recv_wr: 30,
        max_send_sge: 2,
        max_recv_sge: 2,
        max_inline_data: 16,
    };
    ibv_qp_init_attr {
        send_cq: cq,
        recv_cq: cq,
        cap,
        qp_type: IBV_QPT_RC,
        ..Default::default()
    }
}

/// The same for an extended QP, with these operations.
pub fn init_attr_ex(pd: *mut ibv_pd, cq: *mut ibv_cq, send_ops_flags: u32) -> ibv_qp_init_attr_ex {
    let plain = init_attr(cq);
    ibv_qp_init_attr_ex {
        send_cq: plain.send_cq,
        recv_cq: plain.recv_cq,
        cap: plain.cap,
        qp_type: plain.qp_type,
        comp_mask: IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        pd,
        send_ops_flags: send_ops_flags.into(),
        ..Default::default()
    }
}

/// The steps to INIT, RTR and RTS, with their masks, to a QP of the card that has this GID.
pub fn steps(dest_qp_num: u32, dgid: ibv_gid) -> [(ibv_qp_attr, u32); 3] {
    let init = ibv_qp_attr {
        qp_state: IBV_QPS_INIT,
        port_num: 1,
        qp_access_flags: 7,
        ..Default::default()
    };
    let grh = ibv_global_route {
        dgid,
        sgid_index: 1,
        hop_limit: 64,
        ..Default::default()
    };
    let rtr = ibv_qp_attr {
        qp_state: IBV_QPS_RTR,
        path_mtu: IBV_MTU_1024,
        dest_qp_num,
        ah_attr: ibv_ah_attr {
            grh,
            is_global: 1,
            port_num: 1,
            sl: 3,
            src_path_bits: 2,
            static_rate: 5,
            ..Default::default()
        },
        max_dest_rd_atomic: 1,
        min_rnr_timer: 12,
        ..Default::default()
    };
    let rts = ibv_qp_attr {
        qp_state: IBV_QPS_RTS,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        max_rd_atomic: 1,
        ..Default::default()
    };
    let path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    let retries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
    [
        (init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        (rtr, path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
        (rts, IBV_QP_SQ_PSN | retries | IBV_QP_MAX_QP_RD_ATOMIC),
    ]
    .map(|(attr, mask)| (attr, mask | IBV_QP_STATE))
}
