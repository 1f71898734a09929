//! QUERY_DEVICE: what the card can do, and what a function can have of it.

use crate::admin::MANAGER;
use crate::features::has;
use crate::hal::Hal;
use crate::memory::{MAX_KEYS, MAX_PAGES};
use crate::{Bus, Control};
use hca_abi::{
    AtomicCap, MAX_INLINE_BYTES, MAX_LOG_CQ_SIZE, MAX_LOG_EQ_SIZE, MAX_LOG_WQ_SIZE, MAX_SGE, PUSH_SLOTS,
    QueryDeviceResult, RSS_ENTRIES, RSS_QPS, device_cap, feature,
};

/// Part number, ours to choose.
pub(crate) const VENDOR_PART_ID: u32 = 1;
/// local_ca_ack_delay: 4.096 us << 4 = 65 us, beyond the longest stay of a request in the responder (REL-15).
const ACK_DELAY: u8 = 4;
/// Address handles are the driver's own: there are as many as its memory holds. Programs count them in a signed int.
const MAX_AH: u32 = i32::MAX as u32;
/// READs and atomics to answer that the card has room for beside one for each QP (JobPlaces of hca_pkg).
const SHARED_RESPONSES: u32 = if crate::NUM_QPS > 4096 { 8192 } else { 16384 };
/// QP type that can be paced: IBV_QPT_RC.
const PACED_QP_TYPE: u32 = 2;
/// V-33: bit of raw_packet_caps.
const RAW_CAP_IP_CSUM: u32 = 1 << 2;

/// The vendor number is an IEEE OUI, and so are the first three bytes of a MAC address: one card cannot have two. No
/// OUI is assigned to OpenHCA; the MAC addresses of simulated cards start with a locally administered one (bit 1 of the
/// first byte; in the GUID made from them it is turned), which the IEEE gives to nobody.
pub(crate) fn vendor_of(mac: &[u8; 6]) -> u32 {
    u32::from_be_bytes([0, mac[0], mac[1], mac[2]])
}

/// Capabilities of what a card may be built without.
const fn features_told() -> u64 {
    let mut told = 0;
    if has(feature::SRQ) {
        told |= device_cap::XRC;
    }
    if has(feature::KEY_WR) {
        told |= device_cap::MEM_WINDOW | device_cap::MEM_MGT_EXTENSIONS | device_cap::MEM_WINDOW_TYPE_2B;
    }
    if has(feature::ATOMIC) {
        told |= device_cap::FLUSH_GLOBAL | device_cap::ATOMIC_WRITE;
    }
    told
}

impl Control {
    /// READs and atomics that a function's QPs can owe together: one each, and its part of what is there beside.
    fn max_responses(&self, func: u8) -> u32 {
        let qps = self.qp_ids.limit(func);
        let quotas = self.qp_ids.quotas();
        let beside = SHARED_RESPONSES / quotas.parts() * quotas.parts_of(func);
        (u32::from(crate::qp::MAX_RD_ATOMIC) * qps).min(qps + beside)
    }

    /// Truth about this card: what it lacks is zero. Limits are those of the function that asks.
    pub(crate) fn query_device<B: Bus>(&self, hal: &mut Hal<B>, func: u8) -> QueryDeviceResult {
        let mut d = QueryDeviceResult::new();
        let version = self.image.version;
        d.set_fw_ver_major((version >> 16) as u16);
        d.set_fw_ver_minor((version >> 8 & 0xff) as u16);
        d.set_fw_ver_patch((version & 0xff) as u16);
        d.set_phys_port_cnt(self.num_ports);
        d.set_node_guid(self.ports[0].identity().guid);
        d.set_sys_image_guid(self.ports[0].identity().guid);
        d.set_max_mr_size(crate::memory::MAX_MR_BYTES);
        // Page sizes 4 KiB .. 1 GiB.
        d.set_page_size_cap(0x7fff_f000);
        // Frames are the manager's alone.
        let raw = if func == MANAGER && has(feature::RAW) && !self.has_transport_alone() {
            d.set_raw_packet_caps(RAW_CAP_IP_CSUM);
            d.set_rss_qps(RSS_QPS as u8);
            d.set_rss_entries(RSS_ENTRIES as u8);
            device_cap::RAW_IP_CSUM | device_cap::MANAGED_FLOW_STEERING
        } else {
            0
        };
        d.set_device_cap_flags(
            raw | features_told()
                | device_cap::BAD_PKEY_CNTR
                | device_cap::BAD_QKEY_CNTR
                | device_cap::UD_AV_PORT_ENFORCE
                | device_cap::CURR_QP_STATE_MOD
                | device_cap::RC_RNR_NAK_GEN
                | device_cap::PORT_ACTIVE_EVENT
                | device_cap::AUTO_PATH_MIG,
        );
        d.set_vendor_id(vendor_of(&self.ports[0].identity().mac));
        d.set_vendor_part_id(VENDOR_PART_ID);
        d.set_hw_ver(crate::HARDWARE_VERSION);
        d.set_max_qp(self.max_qps(func));
        d.set_qpn_line_bits(self.lines.index_bits() as u8);
        if func == MANAGER && self.lines.are_shared() && has(feature::CONTEXT_MEMORY) {
            d.set_log_context_bytes(self.log_context_bytes());
        }
        // A ring that is read in no time needs no copy of its last entry.
        d.set_push_slots(if self.has_transport_alone() {
            0
        } else {
            PUSH_SLOTS as u8
        });
        d.set_max_qp_wr(1 << MAX_LOG_WQ_SIZE);
        d.set_max_sge(MAX_SGE);
        d.set_max_sge_rd(MAX_SGE);
        d.set_max_cq(self.cq_ids.limit(func));
        d.set_max_cqe(1 << MAX_LOG_CQ_SIZE);
        if has(feature::SRQ) {
            d.set_max_srq(self.srq_ids.limit(func));
            d.set_max_srq_wr(1 << MAX_LOG_WQ_SIZE);
            d.set_max_srq_sge(MAX_SGE);
        }
        d.set_max_mr(MAX_KEYS);
        d.set_max_mw(if has(feature::KEY_WR) { MAX_KEYS } else { 0 });
        d.set_max_pd(self.pd_ids.limit(func));
        d.set_max_qp_rd_atom(crate::qp::MAX_RD_ATOMIC.into());
        d.set_max_res_rd_atom(self.max_responses(func));
        d.set_max_qp_init_rd_atom(crate::qp::MAX_RD_ATOMIC.into());
        // Against each other, whoever they come from; not against the host's processor.
        if has(feature::ATOMIC) {
            d.set_atomic_cap(AtomicCap::Hca as u8);
            d.set_masked_atomic_cap(AtomicCap::Hca as u8);
        }
        d.set_max_ah(MAX_AH);
        d.set_max_mcast_grp(self.groups.limit(func));
        d.set_max_mcast_qp_attach(crate::groups::MAX_QPS_PER_GROUP);
        d.set_max_total_mcast_qp_attach(self.groups.limit(func));
        d.set_max_pkeys(crate::port::NUM_PKEYS as u16);
        d.set_max_gids(crate::port::NUM_GIDS as u16);
        d.set_local_ca_ack_delay(ACK_DELAY);
        d.set_num_comp_vectors(hal.vectors(func));
        d.set_max_eq(self.eq_ids.limit(func));
        d.set_max_eqe(1 << MAX_LOG_EQ_SIZE);
        if !self.has_transport_alone() {
            d.set_pacing_min_kbps(crate::rate::MIN_KBPS);
            d.set_pacing_max_kbps(crate::rate::PORT_KBPS);
            d.set_pacing_qp_types(1 << PACED_QP_TYPE);
        }
        d.set_max_inline_data(MAX_INLINE_BYTES);
        d.set_max_mtt(MAX_PAGES);
        d.set_completion_timestamp_mask(u64::MAX);
        d.set_hca_core_clock_khz(hal.clock_khz());
        if has(feature::DEVICE_MEMORY) {
            d.set_max_dm_size(self.device_memory.limit_bytes(func).into());
        }
        d.set_max_cq_count(u16::MAX);
        d.set_max_cq_period_us(crate::objects::max_cq_period_us(hal.clock_khz()));
        d
    }
}
