//! Headers of the network: from contexts and WQEs.

use hca_abi::{CtxTable, GidRow, MGMT_VL, Mtu, PathMigState, QpState, Qpc, SqWqeUdCtrl};
use hca_fw_core::NUM_GIDS;
use hca_model::{Access, Manners, QpConfig, Service};
use hca_wire::{LID_PERMISSIVE, Link, Network, Psn, ethernet, grh, ipv4, ipv6, lrh, udp};

use crate::body::Body;
use crate::port::Port;
use crate::reach::NO_QUEUE;

const IPV4_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// UDP source ports of connections that were given none: this and some bits of the QPN.
const UDP_SRC_BASE: u16 = 0xc000;

/// Where a packet goes and how, besides its MAC or LID.
struct Global {
    sgid: [u8; 16],
    dgid: [u8; 16],
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
}

fn ip_of(way: &Global, is_ipv4: bool) -> Network {
    let last = |gid: [u8; 16]| [gid[12], gid[13], gid[14], gid[15]];
    if is_ipv4 {
        return Network::Ipv4(ipv4::Repr {
            dscp: way.traffic_class >> 2,
            ecn: way.traffic_class & 3,
            ttl: way.hop_limit,
            dont_fragment: true,
            src_addr: last(way.sgid),
            dst_addr: last(way.dgid),
            ..Default::default()
        });
    }
    Network::Ipv6(ipv6::Repr {
        traffic_class: way.traffic_class,
        flow_label: way.flow_label,
        hop_limit: way.hop_limit,
        src_addr: way.sgid,
        dst_addr: way.dgid,
        ..Default::default()
    })
}

fn ethernet_link(port: &Port, dmac: [u8; 6], way: &Global, is_ipv4: bool, src_port: u16) -> Link {
    Link::Ethernet {
        eth: ethernet::Repr {
            src_mac: port.mac,
            dst_mac: dmac,
            ..Default::default()
        },
        vlan: None,
        ip: ip_of(way, is_ipv4),
        udp: udp::Repr {
            src_port,
            ..Default::default()
        },
    }
}

fn infiniband_link(port: &Port, sl: u8, slid_bits: u8, dlid: u16, way: Option<Global>) -> Link {
    Link::InfiniBand {
        lrh: lrh::Repr {
            vl: port.vl_of(sl),
            sl,
            slid: port.lid | u16::from(slid_bits),
            dlid,
            ..Default::default()
        },
        grh: way.map(|way| grh::Repr {
            tclass: way.traffic_class,
            flow_label: way.flow_label,
            hop_limit: way.hop_limit,
            sgid: way.sgid,
            dgid: way.dgid,
            ..Default::default()
        }),
    }
}

fn udp_src_port(given: u16, qpn: u32) -> u16 {
    if given == 0 {
        UDP_SRC_BASE | (qpn & 0x3fff) as u16
    } else {
        given
    }
}

impl Body {
    /// The port of a QP, if the card has it.
    pub fn port_of(&self, qpc: &Qpc) -> Option<&Port> {
        self.ports.get(usize::from(qpc.port()).wrapping_sub(1))
    }

    /// Headers of a connection.
    pub fn connection_link(&self, qpc: &Qpc) -> Option<Link> {
        let port = self.port_of(qpc)?;
        let way = Global {
            sgid: qpc.sgid(),
            dgid: qpc.dgid(),
            flow_label: qpc.flow_label(),
            hop_limit: qpc.hop_limit(),
            traffic_class: qpc.traffic_class(),
        };
        Some(if port.is_infiniband {
            let way = qpc.is_global().then_some(way);
            infiniband_link(port, qpc.sl(), qpc.src_path_bits(), qpc.dlid(), way)
        } else {
            let src_port = udp_src_port(qpc.udp_src_port(), qpc.qpn());
            ethernet_link(port, qpc.dmac(), &way, qpc.is_ipv4(), src_port)
        })
    }

    /// Headers of a datagram; none where its WQE names no source that there is.
    pub fn datagram_link(&self, qpc: &Qpc, wqe: &SqWqeUdCtrl) -> Option<Link> {
        let port = self.port_of(qpc)?;
        let row = u32::from(qpc.port() - 1) * NUM_GIDS as u32 + u32::from(wqe.sgid_index());
        let sgid = GidRow::read_from(self.row(CtxTable::Gid, row))?.gid();
        let way = Global {
            sgid,
            dgid: wqe.dgid(),
            flow_label: wqe.flow_label(),
            hop_limit: wqe.hop_limit(),
            traffic_class: wqe.traffic_class(),
        };
        if port.is_infiniband {
            let way = wqe.is_global().then_some(way);
            let mut link = infiniband_link(port, wqe.sl(), wqe.src_path_bits(), wqe.dlid(), way);
            if let Link::InfiniBand { lrh, .. } = &mut link
                && qpc.is_smi()
            {
                lrh.vl = MGMT_VL as u8;
                // Along a directed route there are no LIDs yet (MGMT-3).
                if lrh.dlid == LID_PERMISSIVE {
                    lrh.slid = LID_PERMISSIVE;
                }
            }
            return Some(link);
        }
        if !wqe.is_global() || sgid == [0; 16] {
            return None;
        }
        let is_ipv4 = wqe.dgid()[..12] == IPV4_PREFIX;
        let src_port = udp_src_port(wqe.udp_src_port(), qpc.qpn());
        Some(ethernet_link(port, wqe.dmac(), &way, is_ipv4, src_port))
    }

    /// A QP's attributes for the transport; none: it is in RESET, or of a service that is not here.
    pub fn config_of(&self, qpc: &Qpc) -> Option<QpConfig> {
        let service = match hca_abi::Service::try_from(qpc.service()).ok()? {
            hca_abi::Service::Rc => Service::Rc,
            hca_abi::Service::Uc => Service::Uc,
            hca_abi::Service::Ud => Service::Ud,
            hca_abi::Service::Xrc => Service::Xrc,
            hca_abi::Service::Raw => return None,
        };
        if QpState::try_from(qpc.state()).ok()? == QpState::Reset {
            return None;
        }
        // In INIT its port may not be known yet.
        let port = self.port_of(qpc)?;
        let source_qpn = match (qpc.is_smi(), qpc.is_gsi()) {
            (true, _) => hca_wire::QPN_SMI,
            (_, true) => hca_wire::QPN_GSI,
            _ => qpc.qpn(),
        };
        let right = |is_granted: bool, right| if is_granted { right } else { Access::NONE };
        Some(QpConfig {
            service,
            source_qpn,
            pkey: port.pkey(qpc.pkey_index()),
            path_mig_state: PathMigState::try_from(qpc.path_mig_state()).unwrap_or(PathMigState::Migrated),
            qkey: qpc.qkey(),
            mtu: Mtu::try_from(qpc.path_mtu()).unwrap_or(Mtu::Bytes256),
            sq_psn: Psn::new(qpc.sq_psn()),
            rq_psn: Psn::new(qpc.rq_psn()),
            timeout: qpc.timeout(),
            retry_cnt: qpc.retry_cnt(),
            rnr_retry: qpc.rnr_retry(),
            min_rnr_timer: qpc.min_rnr_timer(),
            max_rd_atomic: qpc.max_rd_atomic(),
            max_dest_rd_atomic: qpc.max_dest_rd_atomic(),
            access: right(qpc.remote_write(), Access::REMOTE_WRITE)
                | right(qpc.remote_read(), Access::REMOTE_READ)
                | right(qpc.remote_atomic(), Access::REMOTE_ATOMIC)
                | right(qpc.flush_global(), Access::FLUSH_GLOBAL),
            domain: qpc.pd(),
            receive_queue: if service == Service::Xrc {
                NO_QUEUE
            } else {
                qpc.qpn()
            },
            manners: Manners {
                ask_every: 64,
                window: 256,
                selective: qpc.selective() && service == Service::Rc,
                credits: qpc.credits() && service == Service::Rc,
                ..Manners::default()
            },
            ..QpConfig::rc(qpc.qpn(), qpc.dest_qpn(), self.connection_link(qpc)?)
        })
    }
}
