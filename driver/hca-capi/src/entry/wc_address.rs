//! The way back: an address vector from a datagram's completion and the 40 bytes before its data, which hold the GRH,
//! or, behind 20 bytes of nothing, the IPv4 header (IBA annex A17.4.5.2).

use std::ffi::c_int;

use hca_verbs::LinkLayer;

use crate::abi::*;
use crate::boundary::{Errno, Verb, count, invalid, put};
use crate::entry::query::gid_entry;
use crate::objects::context::{ContextObject, check_port, context_of};

const GRH_BYTES: usize = size_of::<ibv_grh>();
const IPV4_BYTES: usize = 20;
/// next_hdr of the GRH: UDP, and the one of InfiniBand itself.
const NEXT_UDP: u8 = 17;
const NEXT_IBA: u8 = 0x1b;

/// What the header in front of the data says about the sender.
struct Route {
    sgid: [u8; 16],
    dgid: [u8; 16],
    gid_type: ibv_gid_type,
    flow_label: u32,
    traffic_class: u8,
    hop_limit: u8,
}

/// Ones' complement sum of the header: all ones when it is one.
fn is_ipv4(header: &[u8; IPV4_BYTES]) -> bool {
    let sum: u32 = header
        .chunks_exact(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    header[0] == 0x45 && (sum & 0xffff) + (sum >> 16) == 0xffff
}

fn parse(bytes: &[u8; GRH_BYTES], is_ethernet: bool) -> Verb<Route> {
    let ipv4: [u8; IPV4_BYTES] = std::array::from_fn(|i| bytes[GRH_BYTES - IPV4_BYTES + i]);
    let gid_of = |at: usize| hca_verbs::gid_of_ipv4(std::array::from_fn(|i| ipv4[at + i]));
    if is_ethernet && is_ipv4(&ipv4) {
        return Ok(Route {
            sgid: gid_of(12),
            dgid: gid_of(16),
            gid_type: IBV_GID_TYPE_ROCE_V2,
            flow_label: 0,
            traffic_class: ipv4[1],
            hop_limit: ipv4[8],
        });
    }
    let word = u32::from_be_bytes(std::array::from_fn(|i| bytes[i]));
    let gid_type = match (word >> 28, bytes[6], is_ethernet) {
        (6, NEXT_UDP, true) => IBV_GID_TYPE_ROCE_V2,
        (6, NEXT_IBA, true) => IBV_GID_TYPE_ROCE_V1,
        (6, NEXT_IBA, false) => IBV_GID_TYPE_IB,
        _ => return Err(Errno(libc::EPROTONOSUPPORT)),
    };
    Ok(Route {
        sgid: std::array::from_fn(|i| bytes[8 + i]),
        dgid: std::array::from_fn(|i| bytes[24 + i]),
        gid_type,
        flow_label: word & 0xf_ffff,
        traffic_class: (word >> 20) as u8,
        hop_limit: bytes[7],
    })
}

/// The entry that the sender wrote to.
fn gid_index(context: &ContextObject, port_num: u8, route: &Route) -> Verb<u8> {
    if route.dgid[0] == 0xff {
        return Err(invalid(
            "a datagram to a multicast group tells no source GID to answer with",
        ));
    }
    let entries = context.hca().port_tables(port_num)?.gid_tbl_len;
    for index in 0..entries {
        let entry = gid_entry(context, port_num.into(), index)?;
        // SAFETY: any bytes are a GID.
        if entry.gid_type == route.gid_type && unsafe { entry.gid.raw } == route.dgid {
            return u8::try_from(index).map_err(|_| Errno(libc::ERANGE));
        }
    }
    Err(Errno(libc::ENOENT))
}

/// The way back to who sent a datagram that `port_num` has received.
///
/// # Safety
/// The program's open device, completion and header of 40 bytes; each may be NULL.
pub unsafe fn address_behind(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
) -> Verb<ibv_ah_attr> {
    // SAFETY: as context_of says; the program's completion, or NULL.
    let (context, wc) = unsafe { (context_of(context)?, wc.as_ref()) };
    check_port(context, port_num)?;
    let wc = wc.ok_or_else(|| invalid("ibv_init_ah_from_wc: no completion"))?;
    let mut attr = ibv_ah_attr {
        dlid: wc.slid,
        sl: wc.sl,
        src_path_bits: wc.dlid_path_bits,
        port_num,
        ..Default::default()
    };
    if wc.wc_flags & IBV_WC_GRH != 0 {
        // SAFETY: the program's buffer of 40 bytes, or NULL.
        let bytes = unsafe { grh.cast::<[u8; GRH_BYTES]>().as_ref() };
        let bytes = bytes.ok_or_else(|| invalid("ibv_init_ah_from_wc: no GRH"))?;
        let is_ethernet = context.hca().port_tables(port_num)?.link_layer == LinkLayer::Ethernet;
        let route = parse(bytes, is_ethernet)?;
        attr.is_global = 1;
        attr.grh = ibv_global_route {
            dgid: ibv_gid { raw: route.sgid },
            flow_label: route.flow_label,
            sgid_index: gid_index(context, port_num, &route)?,
            hop_limit: route.hop_limit,
            traffic_class: route.traffic_class,
        };
    }
    Ok(attr)
}

/// -1 and EPROTONOSUPPORT: the 40 bytes are no header; ENOENT: its destination is no GID of the port.
pub unsafe extern "C" fn init_ah_from_wc(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    ah_attr: *mut ibv_ah_attr,
) -> c_int {
    count(|| {
        // SAFETY: the program's pointers, checked for what can be checked.
        unsafe { put(ah_attr, address_behind(context, port_num, wc, grh)?)? };
        Ok(0)
    })
}
