//! A path that the program names itself, in the place of rdma_resolve_route (CM-16: RDMA_OPTION_IB_PATH; RS-3:
//! RDMA_ROUTE; CM-28: ai_route).

use crate::abi::*;
use crate::address::Gid;
use crate::errno::{Call, EINVAL};
use crate::gsi::Route;
use crate::state::{Cm, Path, Phase, Port};

/// What the kernel asks of a path: it is for data and for management, and goes there and back.
const WHOLE: u32 = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
/// Bit 15 of a P_Key is the membership (KEY-8).
const PARTITION: u16 = 0x7fff;
/// Selectors are above the values of MTU, rate and life time: it is exactly this one.
const VALUE: u8 = 0x3f;
const EXACTLY: u8 = 2 << 6;
const MTU_CODES: std::ops::RangeInclusive<u8> = 1..=5;

/// The first whole path of a program's list.
pub fn first_whole(bytes: &[u8]) -> Call<ibv_path_data> {
    let (list, rest) = bytes.as_chunks::<{ size_of::<ibv_path_data>() }>();
    if !rest.is_empty() {
        return Err(EINVAL);
    }
    // SAFETY: as many bytes; any bits are one.
    let paths = list
        .iter()
        .map(|bytes| unsafe { bytes.as_ptr().cast::<ibv_path_data>().read_unaligned() });
    paths.into_iter().find(|path| path.flags == WHOLE).ok_or(EINVAL)
}

/// GIDs of both ends: own, and the other one's.
pub fn ends(path: &ibv_path_data) -> (Gid, Gid) {
    // SAFETY: any bytes are a GID.
    unsafe { (path.path.sgid.raw, path.path.dgid.raw) }
}

/// The path as it is taken from a port. EINVAL: it does not begin there, leads nowhere, or is of another partition.
fn taken_from(port: &Port, data: &ibv_path_data) -> Call<Path> {
    let record = &data.path;
    let (sgid, dgid) = ends(data);
    let (dlid, slid) = (u16::from_be(record.dlid), u16::from_be(record.slid));
    let labels = u32::from_be(record.flowlabel_hoplimit);
    let (hop_limit, mtu) = (labels as u8, record.mtu & VALUE);
    let sgid_index = port.index_of(&sgid).ok_or(EINVAL)?;
    let is_of_partition = (u16::from_be(record.pkey) ^ port.pkey) & PARTITION == 0;
    if dgid == [0; 16] || !is_of_partition || !MTU_CODES.contains(&mtu) || (dlid == 0 && !port.is_ethernet) {
        return Err(EINVAL);
    }
    let route = Route {
        // A path beyond the subnet has hops to go.
        is_global: port.is_ethernet || hop_limit > 1,
        dgid,
        sgid_index,
        hop_limit,
        traffic_class: record.tclass,
        flow_label: labels >> 8 & 0xf_ffff,
        dlid: if port.is_ethernet { 0 } else { dlid },
        sl: (u16::from_be(record.qosclass_sl) & 15) as u8,
        src_path_bits: if port.is_ethernet {
            0
        } else {
            slid.wrapping_sub(port.lid) as u8
        },
        port_num: port.num,
    };
    Ok(Path {
        route,
        sgid,
        dgid,
        slid: if port.is_ethernet { port.lid } else { slid },
        mtu: mtu.min(port.mtu),
        rate: record.rate & VALUE,
        life_time: record.packetlifetime & VALUE,
    })
}

/// A path record as a program names it.
pub fn data_of(record: &ibv_sa_path_rec) -> ibv_path_data {
    let hops = u32::from_be(record.flow_label) << 8 | u32::from(record.hop_limit);
    let mut data = ibv_path_data {
        // As librdmacm does.
        flags: record.preference.into(),
        ..Default::default()
    };
    data.path.dgid = record.dgid;
    data.path.sgid = record.sgid;
    data.path.dlid = record.dlid;
    data.path.slid = record.slid;
    data.path.flowlabel_hoplimit = hops.to_be();
    data.path.tclass = record.traffic_class;
    data.path.reversible_numpath = (record.reversible as u8) << 7 | 1;
    data.path.pkey = record.pkey;
    data.path.qosclass_sl = u16::from(record.sl).to_be();
    data.path.mtu = record.mtu | EXACTLY;
    data.path.rate = record.rate | EXACTLY;
    data.path.packetlifetime = record.packet_life_time | EXACTLY;
    data
}

impl Cm {
    /// The id goes this way. As of rdma_resolve_route the result is an event, but what is wrong is said at once.
    pub fn set_path(&mut self, id: usize, bytes: &[u8]) -> Call<()> {
        let data = first_whole(bytes)?;
        let port = self.port_of(id)?;
        if self.id(id)?.phase != Phase::AddressResolved {
            return Err(EINVAL);
        }
        let path = taken_from(&self.ports[port], &data)?;
        // A neighbour that does not answer is not there.
        self.ports[port].gsi.as_mut().ok_or(EINVAL)?.reach(&path.route)?;
        self.id(id)?.path = path;
        self.route_resolved(id)
    }
}
