//! What can go wrong, with the Linux errno each problem maps to.

use hca_abi::{AdminOpcode, AdminStatus, HCA_ID, MAX_SGE, WrOpcode, link_attr};
use hca_dev::DeviceError;
use hca_room::NoRoom;
use thiserror::Error;

/// The card refused an admin command. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{opcode:?} refused: {status:?} (errno {}, about {}){}",
    .status.errno(),
    about(*.opcode, *.status, *.detail),
    remedy(*.opcode, *.status)
)]
pub struct AdminError {
    /// The command.
    pub opcode: AdminOpcode,
    /// Why.
    pub status: AdminStatus,
    /// The argument or object it is about; meaning by command.
    pub detail: u32,
}

/// What the detail of a refusal means.
fn about(opcode: AdminOpcode, status: AdminStatus, detail: u32) -> String {
    if status == AdminStatus::NotPermitted {
        return format!("function {detail}");
    }
    if (opcode, status) == (AdminOpcode::SetVlArb, AdminStatus::BadLength) {
        return format!("this card's tables have {detail} entries");
    }
    let attr = link_attr::TABLE.flags.iter().find(|flag| detail == 1 << flag.bit);
    match (opcode, attr) {
        (AdminOpcode::SetLink, Some(attr)) => attr.name.to_lowercase(),
        (AdminOpcode::SetSl2vl, _) => format!("SL {detail}"),
        (AdminOpcode::SetVlArb, _) => format!("entry {detail}"),
        _ => format!("{detail:#x}"),
    }
}

/// What can be done about a refusal, where that is not plain.
fn remedy(opcode: AdminOpcode, status: AdminStatus) -> &'static str {
    match status {
        AdminStatus::NotPermitted if opcode == AdminOpcode::ModifyQp => {
            ": a Q_Key with its highest bit set is for privileged users; take another, or function 0, the manager"
        }
        AdminStatus::NotPermitted => {
            ": it changes what all functions of the card share; do it through function 0, the card's manager"
        }
        AdminStatus::NoResources => {
            ": the function has all of its share; destroy something (query_device tells how much)"
        }
        _ => "",
    }
}

/// A completion that matches no work request. Small: what a poll returns stays in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("CQ {cqn:#x}: completion for entry {wqe_index} of QP {qpn:#x}, which is not outstanding")]
pub struct BadCompletion {
    /// CQ.
    pub cqn: u32,
    /// QP named by the completion.
    pub qpn: u32,
    /// Entry named by the completion: low bits of its index.
    pub wqe_index: u16,
}

/// Errors of the control path.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The way to the device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The process has no memory for what software remembers.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The card refused a command.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// Not our hardware.
    #[error(
        "{device}: register ID reads {id:#010x} instead of {HCA_ID:#010x}: no OpenHCA function, or it is gone"
    )]
    NotOurs {
        /// Name of the device.
        device: String,
        /// What was read.
        id: u32,
    },
    /// Card and driver were built for different contracts.
    #[error("{device}: the card speaks version {found} of the contract, the driver {wanted}: update one")]
    AbiVersion {
        /// Name of the device.
        device: String,
        /// Version of the card.
        found: u32,
        /// Version of the driver.
        wanted: u32,
    },
    /// The card did not do something in time.
    #[error(
        "waited {waited_ns} ns for {what}: the card hangs, or the limits in OpenOptions are too short for it"
    )]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long, in the device's clock.
        waited_ns: u64,
    },
    /// The card reports that it has failed.
    #[error("the card reports a fatal error: reset it")]
    Fatal,
    /// Registers read all ones.
    #[error("the card does not answer any more")]
    Gone,
    /// As many commands as the ring holds were given up, and none was answered since.
    #[error(
        "the last {entries} admin commands are not answered yet, and the ring holds no more: wait for the card, or \
         close the function and open it again"
    )]
    AdminQueueFull {
        /// Entries of the admin ring.
        entries: usize,
    },
    /// The admin queue stopped, now or earlier.
    #[error("the admin queue has stopped ({status:?}): close the function and open it again")]
    AdminQueueStopped {
        /// Why, if the card said so.
        status: Option<AdminStatus>,
    },
    /// The card answered with something that the contract does not know.
    #[error("the card answered {what} with {value:#x}, which the contract does not know")]
    BadAnswer {
        /// What was asked.
        what: &'static str,
        /// The answer.
        value: u32,
    },
    /// A completion that matches no work request: the card is broken.
    #[error(transparent)]
    BadCompletion(#[from] BadCompletion),
    /// A size or count that no card can have.
    #[error("{what} {value} is out of range: at most {max}")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Given.
        value: u64,
        /// Limit.
        max: u64,
    },
}

impl DriverError {
    /// The Linux errno.
    pub fn errno(&self) -> i32 {
        const EIO: i32 = 5;
        const ENXIO: i32 = 6;
        const ENOMEM: i32 = 12;
        const EINVAL: i32 = 22;
        const ENOSYS: i32 = 38;
        const ETIMEDOUT: i32 = 110;
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        match self {
            // Memory that is shared is a file for a moment.
            Self::Device(DeviceError::NoMemory { reason, .. }) => reason
                .raw_os_error()
                .filter(|errno| [ENFILE, EMFILE].contains(errno))
                .unwrap_or(ENOMEM),
            Self::Device(DeviceError::OverLimit { .. }) | Self::NoRoom(_) => ENOMEM,
            Self::Device(DeviceError::Refused { errno, .. }) => *errno,
            Self::Device(DeviceError::Map { .. } | DeviceError::NotMapped { .. }) => EINVAL,
            Self::Device(DeviceError::BadVector { .. }) | Self::TooLarge { .. } => EINVAL,
            Self::Device(DeviceError::Gone(_)) | Self::NotOurs { .. } => ENXIO,
            Self::Device(DeviceError::Os { reason, .. }) => reason.raw_os_error().unwrap_or(EIO),
            Self::Device(_) | Self::Gone | Self::Fatal | Self::AdminQueueStopped { .. } => EIO,
            Self::BadAnswer { .. } | Self::BadCompletion(_) => EIO,
            Self::Admin(e) => e.status.errno(),
            Self::AbiVersion { .. } => ENOSYS,
            Self::Timeout { .. } | Self::AdminQueueFull { .. } => ETIMEDOUT,
        }
    }
}

/// A work request that was not posted (V-164): found before the card saw anything of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostError {
    /// QPS-5: posting is forbidden in this state.
    #[error("the QP is in a state in which this queue takes no work requests")]
    BadState,
    /// SPEC-9: receives of this QP come from an SRQ.
    #[error("the QP has no receive queue of its own: post to its SRQ")]
    SharedQueue,
    /// No free entry.
    #[error("all {entries} entries of the ring are in use: poll completions first, or make a larger ring")]
    RingFull {
        /// Size of the ring.
        entries: u32,
    },
    /// More scatter/gather entries than the ring was made for.
    #[error("{given} scatter/gather entries, the ring was made for {max} (no ring can have over {MAX_SGE})")]
    TooManySges {
        /// Given.
        given: usize,
        /// Limit of this ring.
        max: usize,
    },
    /// More inline data than fits.
    #[error("{given} bytes of inline data, the ring was made for {max}")]
    InlineTooLong {
        /// Given.
        given: usize,
        /// Limit of this ring.
        max: usize,
    },
    /// Inline data works for SEND and RDMA WRITE only (V-167).
    #[error("inline data with an opcode other than SEND and RDMA WRITE")]
    InlineNotAllowed,
    /// An atomic moves exactly eight bytes into one buffer.
    #[error("an atomic needs one scatter/gather entry of 8 bytes")]
    BadAtomic,
    /// The masks of a compare and swap stand behind its entry.
    #[error(
        "a masked compare and swap needs WQEs of 128 bytes: create the QP with max_send_sge 3 or max_inline_data 33"
    )]
    NoRoomForMasks,
    /// An ATOMIC WRITE has its eight bytes in the WQE.
    #[error("an ATOMIC WRITE needs its data inline, and exactly 8 bytes of it")]
    BadAtomicWrite,
    /// There are two placement types, and a FLUSH needs one of them at least.
    #[error("a FLUSH of placement type {placement:#x}: 1 is global visibility, 2 persistence, 3 both")]
    BadPlacement {
        /// What it has.
        placement: u8,
    },
    /// Longer than any message.
    #[error("message of {length} bytes, at most 2147483648")]
    TooLong {
        /// Sum of the entries.
        length: u64,
    },
    /// No packet goes out.
    #[error("{opcode:?} has no data")]
    DataNotAllowed {
        /// Opcode of the work request.
        opcode: WrOpcode,
    },
    /// V-179: what the peer must answer.
    #[error("{opcode:?} on an unreliable connection: it can SEND and WRITE, with immediate data or without")]
    NotForUnreliable {
        /// Opcode of the work request.
        opcode: WrOpcode,
    },
    /// XPORT-4: a datagram is one packet.
    #[error("datagram of {length} bytes, at most {mtu_bytes}, the MTU of the port")]
    DatagramTooLong {
        /// Bytes of the message.
        length: u32,
        /// MTU of the QP's port.
        mtu_bytes: u32,
    },
    /// XPORT-15: datagrams are sent, and reach no memory of a peer by its address.
    #[error("{opcode:?} on a QP of datagrams, which does SEND and SEND with immediate data only")]
    NotForDatagrams {
        /// What was asked for.
        opcode: WrOpcode,
    },
    /// SPEC-3: a QP of XRC sends, or it is the target of a peer's sends.
    #[error("the QP is an initiator of XRC: it receives nothing")]
    NoReceiveQueue,
    /// SPEC-3: every request of XRC names an SRQ.
    #[error("a work request of XRC without the number of the peer's SRQ")]
    NoRemoteSrq,
    /// SPEC-3: no other service has one.
    #[error("the number of an SRQ for a QP that is no initiator of XRC")]
    RemoteSrqOfOther,
    /// What has operands, or no data.
    #[error("{opcode:?} in the form of SENDs, RDMA WRITEs and RDMA READs")]
    NotPlain {
        /// Opcode of the work request.
        opcode: WrOpcode,
    },
    /// V-179: a frame has all that it needs in it.
    #[error("{opcode:?} on a raw QP, which sends frames (SEND) and nothing else")]
    NotForFrames {
        /// Opcode of the work request.
        opcode: WrOpcode,
    },
    /// OP-17: the other services have no checksums of the program's.
    #[error("IP_CSUM on a QP that sends no frames of the program's making")]
    ChecksumOfOther,
    /// An SRQN has 24 bits.
    #[error("remote_srqn {remote_srqn:#x} has more than 24 bits")]
    BadRemoteSrqn {
        /// What was given.
        remote_srqn: u32,
    },
    /// A datagram needs an address handle.
    #[error("a datagram without a destination: it needs an address handle, QPN and Q_Key")]
    NoDestination,
    /// A connection has its destination.
    #[error("a destination for a connected QP, which sends to its peer only")]
    DestinationOfConnection,
    /// A QPN has 24 bits.
    #[error("remote_qpn {remote_qpn:#x} has more than 24 bits")]
    BadRemoteQpn {
        /// What was given.
        remote_qpn: u32,
    },
    /// MEM-2: the address handle must be in the QP's protection domain.
    #[error("the address handle is in PD {pd:#x}, the QP in PD {qp_pd:#x}")]
    ForeignAddress {
        /// Of the address handle.
        pd: u32,
        /// Of the QP.
        qp_pd: u32,
    },
    /// V-145, UD_AV_PORT_ENFORCE: the address handle must lead through the QP's port.
    #[error("the address handle leads through port {port_num}, the QP is at port {qp_port_num}")]
    AddressOfOtherPort {
        /// Of the address handle.
        port_num: u8,
        /// Of the QP.
        qp_port_num: u8,
    },
}

impl PostError {
    /// The Linux errno.
    pub fn errno(&self) -> i32 {
        match self {
            Self::RingFull { .. } => 12,
            _ => 22,
        }
    }
}
