//! Bringing QPs to RTS.

use hca_abi::{LinkLayer, Mtu, QpState, Service};
use hca_driver::DevicePtr;

use crate::objects::context::Context;
use crate::objects::raw_qp::RawQp;
use crate::objects::typed_qp::{Init, Qp, Reset, Rts, State};
use crate::objects::xrc::XrcTarget;
use crate::values::address::AhAttr;
use crate::values::attr::{
    Access, INIT_MASK, QpAttr, QpAttrMask, RTR_MASK, RTS_MASK, TARGET_RTS_MASK, UC_RTR_MASK, UC_RTS_MASK,
};
use crate::values::error::{Error, Result};
use crate::values::gid::Gid;

/// How to connect. The same options serve both ends; `psns` are (first send PSN of the first end, of the
/// second).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Payload bytes of a packet.
    pub mtu: Mtu,
    /// Port, from 1.
    pub port_num: u8,
    /// Index of the GID at both ends; 1 is the IPv4 one. On InfiniBand `None` leaves the GRH away.
    pub gid_index: Option<u8>,
    /// Index of the P_Key at both ends.
    pub pkey_index: u16,
    /// First PSNs, 24 bits.
    pub psns: (u32, u32),
    /// Acknowledge timeout: 4.096 us << n, 0 = never; 0..=31.
    pub timeout: u8,
    /// Retries after timeout or sequence NAK, 0..=7.
    pub retry_cnt: u8,
    /// Retries after RNR NAK, 0..=7; 7 = without end.
    pub rnr_retry: u8,
    /// RNR timer code, 0..=31; 1 = 10 us, 12 = 640 us.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding in either direction; no more are agreed on than both devices can.
    pub rd_atomic: u8,
    /// What the peer may do.
    pub access: Access,
    /// Service level, 0..=15 (InfiniBand): picks the virtual lane.
    pub sl: u8,
    /// Traffic class; on Ethernet its upper three bits are the priority, which picks the lane.
    pub traffic_class: u8,
    /// Static rate: a code of `StaticRate`; 0: that of the port.
    pub static_rate: u8,
    /// WRITEs of a connection (RC) may pass one another if the peer agrees: what is lost of them is then sent again
    /// alone, and what came behind it need not be (docs/decisions/0066).
    pub selective_repeat: bool,
    /// A connection (RC) tells its peer how many receives it has, and sends no more than the peer has told: it waits
    /// where it would be answered by an RNR NAK (docs/decisions/0068). A peer that tells nothing sets no limit.
    pub credits: bool,
}

impl Default for ConnectOptions {
    /// MTU 1024, IPv4 GID, timeout 67 ms, 7 retries, RNR without end, 16 READs, all rights of this card.
    fn default() -> Self {
        Self {
            mtu: Mtu::Bytes1024,
            port_num: 1,
            gid_index: Some(1),
            pkey_index: 0,
            psns: (0x12_3456, 0x65_4321),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            rd_atomic: 16,
            access: Access::LOCAL_WRITE
                | Access::REMOTE_WRITE
                | Access::REMOTE_READ
                | Access::REMOTE_ATOMIC
                | Access::FLUSH_GLOBAL,
            sl: 0,
            traffic_class: 0,
            static_rate: 0,
            selective_repeat: false,
            credits: true,
        }
    }
}

/// What one end must know of the other: programs exchange it over any channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// QPN.
    pub qp_num: u32,
    /// First send PSN.
    pub psn: u32,
    /// GID; `None`: without GRH.
    pub gid: Option<Gid>,
    /// LID (InfiniBand).
    pub lid: u16,
    /// MAC address (Ethernet); all zero: found from the GID.
    pub mac: [u8; 6],
    /// READs and atomics that it can have outstanding in either direction.
    pub rd_atomic: u8,
    /// It takes WRITEs that pass one another, and sends them so.
    pub selective_repeat: bool,
}

/// What a peer must know of this QP. `psn` is our first send PSN.
pub fn peer_info<P: DevicePtr>(qp: &RawQp<P>, options: &ConnectOptions, psn: u32) -> Result<PeerInfo> {
    info_of(&qp.context(), qp.qp_num(), options, psn)
}

fn info_of<P: DevicePtr>(
    context: &Context<P>,
    qp_num: u32,
    options: &ConnectOptions,
    psn: u32,
) -> Result<PeerInfo> {
    let port = context.query_port(options.port_num)?;
    let ethernet = port.link_layer() == u8::from(LinkLayer::Ethernet);
    let gid = match options.gid_index {
        Some(index) => Some(context.query_gid(options.port_num, index.into())?),
        None if ethernet => return Err(Error::Invalid("a path over Ethernet needs a gid_index".into())),
        None => None,
    };
    Ok(PeerInfo {
        qp_num,
        psn,
        gid,
        lid: port.lid(),
        mac: port.mac(),
        rd_atomic: options.rd_atomic.min(context.rd_atomic_max()?),
        selective_repeat: options.selective_repeat,
    })
}

/// Brings a QP of RC or UC that is in RESET or INIT to RTS; for UC nothing of the acknowledge protocol counts. A peer
/// that can have more READs outstanding than this device gets as many as this can, as a connection manager would agree.
/// `psn` is our first send PSN.
pub fn connect_raw<P: DevicePtr>(
    qp: &mut RawQp<P>,
    options: &ConnectOptions,
    psn: u32,
    peer: &PeerInfo,
) -> Result<()> {
    if qp.state() == QpState::Reset {
        qp.modify(&init_attr(options), INIT_MASK)?;
    }
    let depth = options
        .rd_atomic
        .min(peer.rd_atomic)
        .min(qp.context().rd_atomic_max()?);
    let mut attr = path_attr(options, psn, peer, depth);
    let (mut rtr, rts) = match qp.service() {
        Service::Uc => (UC_RTR_MASK, UC_RTS_MASK),
        Service::Xrc => (UC_RTR_MASK, RTS_MASK),
        _ => (RTR_MASK, RTS_MASK),
    };
    // Both ends or none.
    if options.selective_repeat && peer.selective_repeat && qp.service() == Service::Rc {
        attr.qp_access_flags = access_of(options) | Access::RELAXED_ORDERING;
        rtr = rtr | QpAttrMask::ACCESS_FLAGS;
    }
    qp.modify(
        &QpAttr {
            qp_state: QpState::Rtr,
            ..attr
        },
        rtr,
    )?;
    qp.modify(
        &QpAttr {
            qp_state: QpState::Rts,
            ..attr
        },
        rts,
    )
}

/// The same of a target of XRC in RESET. It sends nothing but answers; `psn` is of no use to anybody.
pub fn connect_target<P: DevicePtr>(
    target: &mut XrcTarget<P>,
    options: &ConnectOptions,
    psn: u32,
    peer: &PeerInfo,
) -> Result<()> {
    target.modify(&init_attr(options), INIT_MASK)?;
    let depth = options
        .rd_atomic
        .min(peer.rd_atomic)
        .min(target.context().rd_atomic_max()?);
    let mut attr = path_attr(options, psn, peer, depth);
    for (qp_state, mask) in [(QpState::Rtr, RTR_MASK), (QpState::Rts, TARGET_RTS_MASK)] {
        attr.qp_state = qp_state;
        target.modify(&attr, mask)?;
    }
    Ok(())
}

/// Connects an initiator of XRC with the target that it sends to. `options.psns.0` is the initiator's first PSN.
pub fn connect_xrc<P: DevicePtr>(
    initiator: &mut RawQp<P>,
    target: &mut XrcTarget<P>,
    options: &ConnectOptions,
) -> Result<()> {
    let (psn, other) = options.psns;
    let from = peer_info(initiator, options, psn)?;
    let to = info_of(&target.context(), target.qp_num(), options, other)?;
    connect_target(target, options, other, &from)?;
    connect_raw(initiator, options, psn, &to)
}

fn access_of(options: &ConnectOptions) -> Access {
    if options.credits {
        options.access
    } else {
        options.access | Access::NO_CREDITS
    }
}

fn init_attr(options: &ConnectOptions) -> QpAttr {
    QpAttr {
        qp_state: QpState::Init,
        pkey_index: options.pkey_index,
        port_num: options.port_num,
        qp_access_flags: access_of(options),
        ..QpAttr::default()
    }
}

fn path_attr(options: &ConnectOptions, psn: u32, peer: &PeerInfo, rd_atomic: u8) -> QpAttr {
    let ah_attr = AhAttr {
        dgid: peer.gid.unwrap_or_default(),
        sgid_index: options.gid_index.unwrap_or(0),
        is_global: peer.gid.is_some(),
        dlid: peer.lid,
        port_num: options.port_num,
        dmac: peer.mac,
        sl: options.sl,
        traffic_class: options.traffic_class,
        static_rate: options.static_rate,
        ..AhAttr::default()
    };
    QpAttr {
        ah_attr,
        path_mtu: options.mtu,
        dest_qp_num: peer.qp_num,
        rq_psn: peer.psn,
        sq_psn: psn,
        max_dest_rd_atomic: rd_atomic,
        max_rd_atomic: rd_atomic,
        min_rnr_timer: options.min_rnr_timer,
        timeout: options.timeout,
        retry_cnt: options.retry_cnt,
        rnr_retry: options.rnr_retry,
        ..QpAttr::default()
    }
}

/// A state from which a QP can be connected.
pub trait Connectable: State {}
impl Connectable for Reset {}
impl Connectable for Init {}

/// Brings one QP to RTS. `psn` is our first send PSN.
pub fn connect<S: Connectable, P: DevicePtr>(
    qp: Qp<S, P>,
    options: &ConnectOptions,
    psn: u32,
    peer: &PeerInfo,
) -> Result<Qp<Rts, P>> {
    let mut raw = qp.into_raw();
    connect_raw(&mut raw, options, psn, peer)?;
    Ok(Qp::new(raw))
}

/// Connects two QPs that this program has both.
pub fn connect_pair<A: Connectable, B: Connectable, P: DevicePtr, Q: DevicePtr>(
    a: Qp<A, P>,
    b: Qp<B, Q>,
    options: &ConnectOptions,
) -> Result<(Qp<Rts, P>, Qp<Rts, Q>)> {
    let (psn_a, psn_b) = options.psns;
    let info_a = peer_info(a.raw(), options, psn_a)?;
    let info_b = peer_info(b.raw(), options, psn_b)?;
    Ok((
        connect(a, options, psn_a, &info_b)?,
        connect(b, options, psn_b, &info_a)?,
    ))
}
