//! What card and ports say about themselves.

use std::ffi::{c_char, c_int, c_uint};
use std::fmt::Display;

use hca_verbs::{DeviceAttr, LinkLayer, ModifyPortCmd, PortAttr, port_attr};

use crate::abi::*;
use crate::boundary::{EINVAL, Errno, Verb, count, invalid, put, status_with_room, unsupported, warn};
use crate::objects::context::{ContextObject, check_port, context_of};

/// Bytes that programs of the first ABI reserve for ibv_port_attr.
const OLD_PORT_ATTR_BYTES: usize = 48;

fn int(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// What ibv_create_cq can be asked for: a part of the ring is the driver's reserve.
pub fn max_cqe(d: &DeviceAttr) -> u32 {
    let log_size = d.max_cqe().checked_ilog2().unwrap_or(0);
    hca_driver::usable_cqes(log_size as u8)
}

fn device_attr(d: &DeviceAttr) -> ibv_device_attr {
    let mut fw_ver = [0; 64];
    let text = format!("{}.{}.{}", d.fw_ver_major(), d.fw_ver_minor(), d.fw_ver_patch());
    for (to, byte) in fw_ver.iter_mut().zip(text.bytes()) {
        *to = byte as c_char;
    }
    ibv_device_attr {
        fw_ver,
        node_guid: u64::from_ne_bytes(d.node_guid()),
        sys_image_guid: u64::from_ne_bytes(d.sys_image_guid()),
        max_mr_size: d.max_mr_size(),
        page_size_cap: d.page_size_cap(),
        vendor_id: d.vendor_id(),
        vendor_part_id: d.vendor_part_id(),
        hw_ver: d.hw_ver(),
        max_qp: int(d.max_qp()),
        max_qp_wr: int(d.max_qp_wr()),
        device_cap_flags: d.device_cap_flags() as c_uint,
        max_sge: int(d.max_sge()),
        max_sge_rd: int(d.max_sge_rd()),
        max_cq: int(d.max_cq()),
        max_cqe: int(max_cqe(d)),
        max_mr: int(d.max_mr()),
        max_pd: int(d.max_pd()),
        max_qp_rd_atom: int(d.max_qp_rd_atom()),
        max_res_rd_atom: int(d.max_res_rd_atom()),
        max_qp_init_rd_atom: int(d.max_qp_init_rd_atom()),
        atomic_cap: d.atomic_cap().into(),
        max_mw: int(d.max_mw()),
        max_raw_ipv6_qp: int(d.max_raw_ipv6_qp()),
        max_raw_ethy_qp: int(d.max_raw_ethy_qp()),
        max_mcast_grp: int(d.max_mcast_grp()),
        max_mcast_qp_attach: int(d.max_mcast_qp_attach()),
        max_total_mcast_qp_attach: int(d.max_total_mcast_qp_attach()),
        max_ah: int(d.max_ah()),
        max_srq: int(d.max_srq()),
        max_srq_wr: int(d.max_srq_wr()),
        max_srq_sge: int(d.max_srq_sge()),
        max_pkeys: d.max_pkeys(),
        local_ca_ack_delay: d.local_ca_ack_delay(),
        phys_port_cnt: d.phys_port_cnt(),
        ..Default::default()
    }
}

pub unsafe extern "C" fn query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: the program's pointers, checked for what can be checked.
    status_with_room(|| unsafe { put(attr, device_attr(&context_of(context)?.hca().query_device()?)) })
}

fn device_attr_ex(d: &DeviceAttr) -> ibv_device_attr_ex {
    let mut out = ibv_device_attr_ex {
        orig_attr: device_attr(d),
        completion_timestamp_mask: d.completion_timestamp_mask(),
        hca_core_clock: d.hca_core_clock_khz().into(),
        device_cap_flags_ex: d.device_cap_flags(),
        raw_packet_caps: d.raw_packet_caps(),
        max_dm_size: d.max_dm_size(),
        phys_port_cnt_ex: d.phys_port_cnt().into(),
        ..Default::default()
    };
    if d.rss_qps() != 0 {
        out.rss_caps.supported_qpts = 1 << IBV_QPT_RAW_PACKET;
        out.rss_caps.max_rwq_indirection_tables = d.rss_qps().into();
        out.rss_caps.max_rwq_indirection_table_size = d.rss_entries().into();
        out.rss_caps.rx_hash_fields_mask = hca_abi::rx_hash::ALL.into();
        out.rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ as u8;
        out.max_wq_type_rq = d.max_qp();
    }
    out.tso_caps.max_tso = d.max_tso();
    out.packet_pacing_caps.qp_rate_limit_min = d.pacing_min_kbps();
    out.packet_pacing_caps.qp_rate_limit_max = d.pacing_max_kbps();
    out.packet_pacing_caps.supported_qpts = d.pacing_qp_types();
    out.cq_mod_caps.max_cq_count = d.max_cq_count();
    out.cq_mod_caps.max_cq_period = d.max_cq_period_us();
    out.pci_atomic_caps.fetch_add = d.pci_atomic_fetch_add();
    out.pci_atomic_caps.swap = d.pci_atomic_swap();
    out.pci_atomic_caps.compare_swap = d.pci_atomic_cmp_swap();
    out
}

/// Fills as much of the structure as the program knows.
pub unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
) -> c_int {
    status_with_room(|| {
        // SAFETY: the program's structure, or NULL.
        if unsafe { input.as_ref() }.is_some_and(|input| input.comp_mask != 0) {
            return Err(invalid("ibv_query_device_ex knows no comp_mask"));
        }
        if attr.is_null() || attr_size < size_of::<ibv_device_attr>() {
            return Err(invalid("ibv_query_device_ex: no room for the attributes"));
        }
        // SAFETY: as context_of says.
        let ours = device_attr_ex(&unsafe { context_of(context)? }.hca().query_device()?);
        let len = attr_size.min(size_of_val(&ours));
        // SAFETY: `len` bytes of both; the caller's structure has attr_size bytes.
        unsafe {
            attr.cast::<u8>()
                .copy_from_nonoverlapping((&raw const ours).cast(), len)
        };
        Ok(())
    })
}

/// The card's clock in cycles, in `tv_nsec`, as rdma-core's drivers give theirs.
pub unsafe extern "C" fn query_rt_values(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int {
    status_with_room(|| {
        // SAFETY: as context_of says; the program's structure, or NULL.
        let (context, values) = unsafe { (context_of(context)?, values.as_mut()) };
        let values = values.ok_or(Errno(libc::EINVAL))?;
        let wanted = values.comp_mask;
        values.comp_mask = wanted & IBV_VALUES_MASK_RAW_CLOCK;
        if values.comp_mask == 0 {
            return Err(invalid(
                "ibv_query_rt_values_ex: only IBV_VALUES_MASK_RAW_CLOCK is known",
            ));
        }
        values.raw_clock.tv_sec = 0;
        values.raw_clock.tv_nsec = context.hca().function().time_cycles() as i64;
        Ok(())
    })
}

fn port_attr(p: &PortAttr) -> ibv_port_attr {
    ibv_port_attr {
        state: p.state().into(),
        max_mtu: p.max_mtu().into(),
        active_mtu: p.active_mtu().into(),
        gid_tbl_len: int(p.gid_tbl_len()),
        port_cap_flags: p.port_cap_flags(),
        max_msg_sz: p.max_msg_sz(),
        bad_pkey_cntr: p.bad_pkey_cntr(),
        qkey_viol_cntr: p.qkey_viol_cntr(),
        pkey_tbl_len: p.pkey_tbl_len(),
        lid: p.lid(),
        sm_lid: p.sm_lid(),
        lmc: p.lmc(),
        max_vl_num: p.max_vl_num(),
        sm_sl: p.sm_sl(),
        subnet_timeout: p.subnet_timeout(),
        init_type_reply: p.init_type_reply(),
        active_width: p.active_width(),
        active_speed: p.active_speed(),
        phys_state: p.phys_state(),
        link_layer: p.link_layer(),
        flags: p.flags(),
        port_cap_flags2: p.port_cap_flags2(),
    }
}

/// `hca_set_is_sm`, for our libibumad: a subnet manager runs at a port, or no longer. EPERM: ports do not belong to the
/// function of this context.
pub unsafe extern "C" fn set_is_sm(context: *mut ibv_context, port_num: u8, is_sm: c_int) -> c_int {
    status_with_room(|| {
        // SAFETY: as context_of says.
        let context = unsafe { context_of(context)? };
        check_port(context, port_num)?;
        let mut cmd = ModifyPortCmd::new();
        cmd.set_port_num(port_num);
        cmd.set_attr_mask(port_attr::IS_SM);
        cmd.set_is_sm(is_sm != 0);
        Ok(context.hca().modify_port(&cmd)?)
    })
}

/// What verbs.h calls: `len` is the size of the program's structure.
pub unsafe extern "C" fn query_port_len(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut ibv_port_attr,
    len: usize,
) -> c_int {
    status_with_room(|| {
        // SAFETY: as context_of says.
        let context = unsafe { context_of(context)? };
        check_port(context, port_num)?;
        if attr.is_null() {
            return Err(invalid("ibv_query_port: no room for the attributes"));
        }
        let ours = port_attr(&context.hca().query_port(port_num)?);
        let len = len.min(size_of_val(&ours));
        // SAFETY: `len` bytes of both; the program's structure is at least so long.
        unsafe {
            attr.cast::<u8>()
                .copy_from_nonoverlapping((&raw const ours).cast(), len)
        };
        Ok(())
    })
}

/// What programs call that were built before the structure grew.
pub unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the same pointers.
    unsafe { query_port_len(context, port_num, attr, OLD_PORT_ATTR_BYTES) }
}

/// V-40, V-41: an index behind the end of a table.
fn no_entry(what: impl Display, len: u32) -> Errno {
    warn(&format_args!("{what}: the table of the port has {len} entries"));
    Errno(libc::EMFILE)
}

/// The card has no network interface of its own. Programs insist on one for a RoCE GID, and what they then look up is
/// how this host reaches others of the simulation: by loopback.
fn net_device() -> u32 {
    // SAFETY: a C string.
    unsafe { libc::if_nametoindex(c"lo".as_ptr()) }
}

pub fn gid_entry(context: &ContextObject, port_num: u32, index: u32) -> Verb<ibv_gid_entry> {
    let port = u8::try_from(port_num).map_err(|_| invalid("port number over 255"))?;
    check_port(context, port)?;
    let tables = context.hca().port_tables(port)?;
    if index >= tables.gid_tbl_len {
        return Err(no_entry(format_args!("GID {index}"), tables.gid_tbl_len));
    }
    let (gid_type, ndev_ifindex) = match tables.link_layer {
        LinkLayer::Ethernet => (IBV_GID_TYPE_ROCE_V2, net_device()),
        _ => (IBV_GID_TYPE_IB, 0),
    };
    Ok(ibv_gid_entry {
        gid: ibv_gid {
            raw: context.hca().query_gid(port, index as u16)?,
        },
        gid_index: index,
        port_num,
        gid_type,
        ndev_ifindex,
    })
}

fn is_empty(entry: &ibv_gid_entry) -> bool {
    // SAFETY: any bytes are a GID.
    unsafe { entry.gid.raw == [0; 16] }
}

pub unsafe extern "C" fn query_gid(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    count(|| {
        hca_room::require()?;
        // A negative one is behind the end too.
        let index = index as u32;
        // SAFETY: the program's pointers, checked for what can be checked.
        unsafe { put(gid, gid_entry(context_of(context)?, port_num.into(), index)?.gid)? };
        Ok(0)
    })
}

/// ENODATA for an entry that is empty, as rdma-core says.
pub unsafe extern "C" fn query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    status_with_room(|| {
        if flags != 0 || entry_size < size_of::<ibv_gid_entry>() {
            return Err(unsupported(
                "ibv_query_gid_ex: no flags are known, and entries have 32 bytes",
            ));
        }
        // SAFETY: as context_of says. No such entry is EINVAL here, as the kernel says to rdma-core.
        let found = gid_entry(unsafe { context_of(context)? }, port_num, index).map_err(|e| match e {
            Errno(libc::EMFILE) => EINVAL,
            other => other,
        })?;
        if is_empty(&found) {
            return Err(Errno(libc::ENODATA));
        }
        // SAFETY: the program's structure.
        unsafe { put(entry, found) }
    })
}

/// The entries in use, of all ports; how many, or an errno below 0.
pub unsafe extern "C" fn query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    let mut found = 0;
    let errno = status_with_room(|| {
        if flags != 0 || entry_size < size_of::<ibv_gid_entry>() {
            return Err(unsupported(
                "ibv_query_gid_table: no flags are known, and entries have 32 bytes",
            ));
        }
        // SAFETY: as context_of says.
        let context = unsafe { context_of(context)? };
        for port in 1..=context.hca().query_device()?.phys_port_cnt() {
            for index in 0..context.hca().port_tables(port)?.gid_tbl_len {
                let entry = gid_entry(context, port.into(), index)?;
                if is_empty(&entry) {
                    continue;
                }
                if found == max_entries {
                    return Err(invalid("ibv_query_gid_table: more GIDs than entries"));
                }
                // SAFETY: inside the program's array of max_entries entries of entry_size bytes.
                unsafe { put(entries.byte_add(found * entry_size), entry)? };
                found += 1;
            }
        }
        Ok(())
    });
    if errno == 0 {
        found as isize
    } else {
        -(errno as isize)
    }
}

/// 0: InfiniBand or RoCE version 1; 1: RoCE version 2.
pub unsafe extern "C" fn query_gid_type(
    context: *mut ibv_context,
    port_num: u8,
    index: c_uint,
    gid_type: *mut c_uint,
) -> c_int {
    count(|| {
        hca_room::require()?;
        // SAFETY: as context_of says.
        let entry = gid_entry(unsafe { context_of(context)? }, port_num.into(), index)?;
        // SAFETY: the program's integer.
        unsafe { put(gid_type, c_uint::from(entry.gid_type == IBV_GID_TYPE_ROCE_V2))? };
        Ok(0)
    })
}

fn pkey_table_len(context: &ContextObject, port_num: u8) -> Verb<u16> {
    check_port(context, port_num)?;
    Ok(context.hca().port_tables(port_num)?.pkey_tbl_len)
}

pub unsafe extern "C" fn query_pkey(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut __be16,
) -> c_int {
    count(|| {
        hca_room::require()?;
        // SAFETY: as context_of says.
        let context = unsafe { context_of(context)? };
        let len = pkey_table_len(context, port_num)?;
        let index = u16::try_from(index).ok().filter(|index| *index < len);
        let index = index.ok_or_else(|| no_entry("P_Key", len.into()))?;
        // SAFETY: the program's integer.
        unsafe { put(pkey, context.hca().query_pkey(port_num, index)?.to_be())? };
        Ok(0)
    })
}

pub unsafe extern "C" fn get_pkey_index(context: *mut ibv_context, port_num: u8, pkey: __be16) -> c_int {
    count(|| {
        hca_room::require()?;
        // SAFETY: as context_of says.
        let context = unsafe { context_of(context)? };
        for index in 0..pkey_table_len(context, port_num)? {
            if context.hca().query_pkey(port_num, index)? == u16::from_be(pkey) {
                return Ok(index.into());
            }
        }
        Err(Errno(libc::EMFILE))
    })
}

/// MAC address of the neighbour with the GID of an address vector; no VLAN.
pub unsafe extern "C" fn resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    mac: *mut [u8; 6],
    vlan: *mut u16,
) -> c_int {
    const NO_VLAN: u16 = 0xffff;
    status_with_room(|| {
        // SAFETY: the program's structures, or NULL; any bytes are a GID.
        let (attr, context) = unsafe { (attr.as_ref().ok_or(Errno(libc::EINVAL))?, context_of(context)?) };
        // SAFETY: as above.
        let gid = unsafe { attr.grh.dgid.raw };
        let found = context.hca().resolve_gid(attr.port_num, gid)?;
        // SAFETY: the program's structures.
        unsafe {
            put(mac, found)?;
            if !vlan.is_null() {
                put(vlan, NO_VLAN)?;
            }
        }
        Ok(())
    })
}
