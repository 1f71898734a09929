//! Attributes of QPs and access rights.

use hca_abi::{Mtu, PathMigState, QpState, access, qp_attr};

use crate::values::address::AhAttr;
use crate::values::error::{Error, Result};

macro_rules! mask_type {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $flag:ident = $value:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(u32);

        impl $name {
            $($(#[$fdoc])* pub const $flag: Self = Self($value);)*

            /// No bit.
            pub const fn empty() -> Self {
                Self(0)
            }

            /// Any bits, known or not; the card judges.
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// The bits, as libibverbs numbers them.
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// All of `other`'s bits?
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

mask_type! {
    /// Access rights: ibv_access_flags.
    Access {
        /// The card may write for local operations.
        LOCAL_WRITE = access::LOCAL_WRITE,
        /// Peer may RDMA WRITE.
        REMOTE_WRITE = access::REMOTE_WRITE,
        /// Peer may RDMA READ.
        REMOTE_READ = access::REMOTE_READ,
        /// Peer may use atomics.
        REMOTE_ATOMIC = access::REMOTE_ATOMIC,
        /// Windows may be bound to it.
        MW_BIND = access::MW_BIND,
        /// Addresses count from 0 at the start of the region.
        ZERO_BASED = access::ZERO_BASED,
        /// Peer may FLUSH, so that all can see what it has written.
        FLUSH_GLOBAL = access::FLUSH_GLOBAL,
        /// A hint that writes may pass one another.
        RELAXED_ORDERING = access::RELAXED_ORDERING,
        /// Of a QP: without end-to-end credits.
        NO_CREDITS = access::NO_CREDITS,
    }
}

mask_type! {
    /// Which attributes a modify changes: ibv_qp_attr_mask.
    QpAttrMask {
        /// qp_state.
        STATE = qp_attr::STATE,
        /// cur_qp_state.
        CUR_STATE = qp_attr::CUR_STATE,
        /// en_sqd_async_notify.
        EN_SQD_ASYNC_NOTIFY = qp_attr::EN_SQD_ASYNC_NOTIFY,
        /// qp_access_flags.
        ACCESS_FLAGS = qp_attr::ACCESS_FLAGS,
        /// pkey_index.
        PKEY_INDEX = qp_attr::PKEY_INDEX,
        /// port_num.
        PORT = qp_attr::PORT,
        /// qkey.
        QKEY = qp_attr::QKEY,
        /// ah_attr.
        AV = qp_attr::AV,
        /// path_mtu.
        PATH_MTU = qp_attr::PATH_MTU,
        /// timeout.
        TIMEOUT = qp_attr::TIMEOUT,
        /// retry_cnt.
        RETRY_CNT = qp_attr::RETRY_CNT,
        /// rnr_retry.
        RNR_RETRY = qp_attr::RNR_RETRY,
        /// rq_psn.
        RQ_PSN = qp_attr::RQ_PSN,
        /// max_rd_atomic.
        MAX_QP_RD_ATOMIC = qp_attr::MAX_QP_RD_ATOMIC,
        /// The alternate path.
        ALT_PATH = qp_attr::ALT_PATH,
        /// min_rnr_timer.
        MIN_RNR_TIMER = qp_attr::MIN_RNR_TIMER,
        /// sq_psn.
        SQ_PSN = qp_attr::SQ_PSN,
        /// max_dest_rd_atomic.
        MAX_DEST_RD_ATOMIC = qp_attr::MAX_DEST_RD_ATOMIC,
        /// path_mig_state.
        PATH_MIG_STATE = qp_attr::PATH_MIG_STATE,
        /// cap.
        CAP = qp_attr::CAP,
        /// dest_qp_num.
        DEST_QPN = qp_attr::DEST_QPN,
        /// rate_limit.
        RATE_LIMIT = qp_attr::RATE_LIMIT,
    }
}

/// Size of a QP: ibv_qp_cap. A created QP says what it really has, which is never less than what was asked
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCap {
    /// Outstanding sends, at most 65,536.
    pub max_send_wr: u32,
    /// Outstanding receives, at most 65,536.
    pub max_recv_wr: u32,
    /// Scatter/gather entries of a send, at most 16.
    pub max_send_sge: u32,
    /// Scatter/gather entries of a receive, at most 16.
    pub max_recv_sge: u32,
    /// Inline bytes of a send, at most 480, of a datagram 448.
    pub max_inline_data: u32,
}

impl Default for QpCap {
    fn default() -> Self {
        Self {
            max_send_wr: 64,
            max_recv_wr: 64,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        }
    }
}

/// Attributes of a QP: ibv_qp_attr. Only those named by the mask count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpAttr {
    /// State to move to; in a query, the state.
    pub qp_state: QpState,
    /// State the caller assumes.
    pub cur_qp_state: QpState,
    /// Payload bytes of a packet. Of datagrams that of the port; query only.
    pub path_mtu: Mtu,
    /// Path migration state.
    pub path_mig_state: PathMigState,
    /// Q_Key.
    pub qkey: u32,
    /// First expected PSN; the lower 24 bits count.
    pub rq_psn: u32,
    /// First send PSN; the lower 24 bits count.
    pub sq_psn: u32,
    /// QP at the peer, 24 bits.
    pub dest_qp_num: u32,
    /// What the peer may do.
    pub qp_access_flags: Access,
    /// Primary path.
    pub ah_attr: AhAttr,
    /// Alternate path.
    pub alt_ah_attr: AhAttr,
    /// Index into the port's P_Key table.
    pub pkey_index: u16,
    /// The same for the alternate path.
    pub alt_pkey_index: u16,
    /// Ask for SQ_DRAINED.
    pub en_sqd_async_notify: bool,
    /// Query only: in SQD and not yet drained.
    pub sq_draining: bool,
    /// READs and atomics outstanding as requester, at most 16.
    pub max_rd_atomic: u8,
    /// READs and atomics that the peer may have outstanding here, at most 16.
    pub max_dest_rd_atomic: u8,
    /// RNR timer code, 0..=31.
    pub min_rnr_timer: u8,
    /// Port, from 1.
    pub port_num: u8,
    /// Acknowledge timeout: 4.096 us << n, 0 = never; 0..=31.
    pub timeout: u8,
    /// Retries after timeout or sequence NAK, 0..=7.
    pub retry_cnt: u8,
    /// Retries after RNR NAK, 0..=7; 7 = without end.
    pub rnr_retry: u8,
    /// Port of the alternate path.
    pub alt_port_num: u8,
    /// Timeout of the alternate path.
    pub alt_timeout: u8,
    /// Pacing in kbit/s, 0 = none.
    pub rate_limit: u32,
    /// RoCEv2 UDP source port; 0: the card chooses. Counts with AV.
    pub udp_src_port: u16,
}

impl Default for QpAttr {
    fn default() -> Self {
        Self {
            qp_state: QpState::Reset,
            cur_qp_state: QpState::Reset,
            path_mtu: Mtu::Bytes1024,
            path_mig_state: PathMigState::Migrated,
            qkey: 0,
            rq_psn: 0,
            sq_psn: 0,
            dest_qp_num: 0,
            qp_access_flags: Access::empty(),
            ah_attr: AhAttr::default(),
            alt_ah_attr: AhAttr::default(),
            pkey_index: 0,
            alt_pkey_index: 0,
            en_sqd_async_notify: false,
            sq_draining: false,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 0,
            port_num: 1,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            alt_port_num: 0,
            alt_timeout: 0,
            rate_limit: 0,
            udp_src_port: 0,
        }
    }
}

/// PSNs count in 24 bits. Programs draw 32 random ones, and mean the lower.
const PSN_MASK: u32 = 0xff_ffff;

fn bits24(what: &str, value: u32) -> Result<u32> {
    if value >> 24 == 0 {
        Ok(value)
    } else {
        Err(Error::Invalid(format!("{what} {value:#x} has more than 24 bits")))
    }
}

impl QpAttr {
    /// For the card. A value that its field cannot hold is refused here, if the mask names it.
    pub(crate) fn to_abi(self, mask: QpAttrMask) -> Result<hca_abi::QpAttr> {
        let has = |bit| mask.contains(bit);
        let mut out = hca_abi::QpAttr::new();
        out.set_qp_state(self.qp_state.into());
        out.set_cur_qp_state(self.cur_qp_state.into());
        out.set_path_mtu(self.path_mtu.into());
        out.set_path_mig_state(self.path_mig_state.into());
        out.set_qkey(self.qkey);
        out.set_rq_psn(self.rq_psn & PSN_MASK);
        out.set_sq_psn(self.sq_psn & PSN_MASK);
        if has(QpAttrMask::DEST_QPN) {
            out.set_dest_qp_num(bits24("dest_qp_num", self.dest_qp_num)?);
        }
        if has(QpAttrMask::AV) {
            out.set_ah_attr(self.ah_attr.to_abi()?.0);
            out.set_udp_src_port(self.udp_src_port);
        }
        if has(QpAttrMask::ALT_PATH) {
            out.set_alt_ah_attr(self.alt_ah_attr.to_abi()?.0);
        }
        out.set_qp_access_flags(self.qp_access_flags.bits());
        out.set_pkey_index(self.pkey_index);
        out.set_alt_pkey_index(self.alt_pkey_index);
        out.set_en_sqd_async_notify(self.en_sqd_async_notify);
        out.set_max_rd_atomic(self.max_rd_atomic);
        out.set_max_dest_rd_atomic(self.max_dest_rd_atomic);
        out.set_min_rnr_timer(self.min_rnr_timer);
        out.set_port_num(self.port_num);
        out.set_timeout(self.timeout);
        out.set_retry_cnt(self.retry_cnt);
        out.set_rnr_retry(self.rnr_retry);
        out.set_alt_port_num(self.alt_port_num);
        out.set_alt_timeout(self.alt_timeout);
        out.set_rate_limit(self.rate_limit);
        Ok(out)
    }

    pub(crate) fn from_abi(a: &hca_abi::QpAttr) -> Self {
        Self {
            qp_state: QpState::try_from(a.qp_state()).unwrap_or(QpState::Err),
            cur_qp_state: QpState::try_from(a.cur_qp_state()).unwrap_or(QpState::Err),
            path_mtu: Mtu::try_from(a.path_mtu()).unwrap_or(Mtu::Bytes256),
            path_mig_state: PathMigState::try_from(a.path_mig_state()).unwrap_or(PathMigState::Migrated),
            qkey: a.qkey(),
            rq_psn: a.rq_psn(),
            sq_psn: a.sq_psn(),
            dest_qp_num: a.dest_qp_num(),
            qp_access_flags: Access::from_bits(a.qp_access_flags()),
            ah_attr: AhAttr::from_abi(&hca_abi::AhAttr(a.ah_attr())),
            alt_ah_attr: AhAttr::from_abi(&hca_abi::AhAttr(a.alt_ah_attr())),
            pkey_index: a.pkey_index(),
            alt_pkey_index: a.alt_pkey_index(),
            en_sqd_async_notify: a.en_sqd_async_notify(),
            sq_draining: a.sq_draining(),
            max_rd_atomic: a.max_rd_atomic(),
            max_dest_rd_atomic: a.max_dest_rd_atomic(),
            min_rnr_timer: a.min_rnr_timer(),
            port_num: a.port_num(),
            timeout: a.timeout(),
            retry_cnt: a.retry_cnt(),
            rnr_retry: a.rnr_retry(),
            alt_port_num: a.alt_port_num(),
            alt_timeout: a.alt_timeout(),
            rate_limit: a.rate_limit(),
            udp_src_port: a.udp_src_port(),
        }
    }
}

const fn union(masks: &[QpAttrMask]) -> QpAttrMask {
    let mut bits = 0;
    let mut i = 0;
    while i < masks.len() {
        bits |= masks[i].bits();
        i += 1;
    }
    QpAttrMask::from_bits(bits)
}

/// What RESET to INIT needs of a connection.
pub(crate) const INIT_MASK: QpAttrMask = union(&[
    QpAttrMask::STATE,
    QpAttrMask::PKEY_INDEX,
    QpAttrMask::PORT,
    QpAttrMask::ACCESS_FLAGS,
]);
/// What INIT to RTR needs (QPS-T-RC).
pub(crate) const RTR_MASK: QpAttrMask = union(&[
    QpAttrMask::STATE,
    QpAttrMask::AV,
    QpAttrMask::PATH_MTU,
    QpAttrMask::DEST_QPN,
    QpAttrMask::RQ_PSN,
    QpAttrMask::MAX_DEST_RD_ATOMIC,
    QpAttrMask::MIN_RNR_TIMER,
]);
/// What RTR to RTS needs (QPS-T-RC).
pub(crate) const RTS_MASK: QpAttrMask = union(&[
    QpAttrMask::STATE,
    QpAttrMask::SQ_PSN,
    QpAttrMask::TIMEOUT,
    QpAttrMask::RETRY_CNT,
    QpAttrMask::RNR_RETRY,
    QpAttrMask::MAX_QP_RD_ATOMIC,
]);

/// The same where nobody acknowledges (QPS-T-UC).
pub(crate) const UC_RTR_MASK: QpAttrMask = union(&[
    QpAttrMask::STATE,
    QpAttrMask::AV,
    QpAttrMask::PATH_MTU,
    QpAttrMask::DEST_QPN,
    QpAttrMask::RQ_PSN,
]);
pub(crate) const UC_RTS_MASK: QpAttrMask = union(&[QpAttrMask::STATE, QpAttrMask::SQ_PSN]);

/// What a target of XRC needs (QPS-20).
pub(crate) const TARGET_RTS_MASK: QpAttrMask =
    union(&[QpAttrMask::STATE, QpAttrMask::SQ_PSN, QpAttrMask::TIMEOUT]);
