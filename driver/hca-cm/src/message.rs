//! Messages of the communication manager (IBA vol1 12.6), as they lie in a management datagram behind its header.

use crate::layout::{Place, message};

/// Bytes of a management datagram (IBA vol1 13.4.2).
pub const MAD_BYTES: usize = 256;
/// A management datagram.
pub type Mad = [u8; MAD_BYTES];

/// Where a message begins.
const DATA: usize = 24;
const BASE_VERSION: u8 = 1;
/// Management class of communication management.
const CLASS: u8 = 7;
const CLASS_VERSION: u8 = 2;
/// The one method of the class.
const METHOD_SEND: u8 = 3;
const TRANSACTION_ID: Place = Place(8, 0, 64);
const ATTRIBUTE_ID: Place = Place(16, 0, 16);

message! {
    /// Request for communication (12.6.5).
    Req {
        /// Communication ID of the sender.
        local_communication_id: u32 [0, 0, 32],
        /// Service that is asked for.
        service_id: u64 [8, 0, 64],
        /// GUID of the sender's card.
        local_ca_guid: u64 [16, 0, 64],
        /// Q_Key; of datagram services.
        local_qkey: u32 [28, 0, 32],
        /// QPN of the sender.
        local_qpn: u32 [32, 0, 24],
        /// READs and atomics that the sender takes.
        responder_resources: u8 [35, 0, 8],
        /// READs and atomics that it sends.
        initiator_depth: u8 [39, 0, 8],
        /// Time that the other manager has for its answer: 4.096 us << n.
        remote_cm_response_timeout: u8 [43, 0, 5],
        /// 0 RC, 1 UC, 3 as the extended type says.
        transport_service_type: u8 [43, 5, 2],
        /// The sender does end-to-end flow control.
        end_to_end_flow_control: bool [43, 7, 1],
        /// First PSN that it expects: with it the receiver of this message begins (IBA 12.7).
        starting_psn: u32 [44, 0, 24],
        /// Time that the sender's manager needs for an answer.
        local_cm_response_timeout: u8 [47, 0, 5],
        /// Retry count for the receiver's QP.
        retry_count: u8 [47, 5, 3],
        /// P_Key of the connection.
        partition_key: u16 [48, 0, 16],
        /// Path MTU: 1 = 256 .. 5 = 4096 bytes.
        path_mtu: u8 [50, 0, 4],
        /// RNR retry count for the receiver's QP.
        rnr_retry_count: u8 [50, 5, 3],
        /// How often either side repeats a message.
        max_cm_retries: u8 [51, 0, 4],
        /// The sender's QP has an SRQ.
        srq: bool [51, 4, 1],
        /// 1 XRC.
        extended_transport_type: u8 [51, 5, 3],
        /// LID of the sender's port.
        primary_local_lid: u16 [52, 0, 16],
        /// LID of the receiver's port.
        primary_remote_lid: u16 [54, 0, 16],
        /// GID of the sender's port.
        primary_local_gid: [u8; 16] [56, 0, 128],
        /// GID of the receiver's port.
        primary_remote_gid: [u8; 16] [72, 0, 128],
        /// Flow label.
        primary_flow_label: u32 [88, 0, 20],
        /// Static rate.
        primary_packet_rate: u8 [91, 2, 6],
        /// Traffic class.
        primary_traffic_class: u8 [92, 0, 8],
        /// Hop limit.
        primary_hop_limit: u8 [93, 0, 8],
        /// Service level.
        primary_sl: u8 [94, 0, 4],
        /// Both ports are on one subnet.
        primary_subnet_local: bool [94, 4, 1],
        /// Acknowledge timeout for the receiver's QP.
        primary_local_ack_timeout: u8 [95, 0, 5],
    } private [140, 92]
}

impl Req {
    /// Service type: there is an extended one.
    pub const EXTENDED: u8 = 3;
    /// Extended transport type of XRC.
    pub const XRC: u8 = 1;

    /// Of an initiator of XRC?
    pub fn is_xrc(&self) -> bool {
        (self.transport_service_type, self.extended_transport_type) == (Self::EXTENDED, Self::XRC)
    }
}

message! {
    /// Message receipt acknowledgement (12.6.6): the answer takes longer.
    Mra {
        /// Communication ID of the sender.
        local_communication_id: u32 [0, 0, 32],
        /// Communication ID of the receiver.
        remote_communication_id: u32 [4, 0, 32],
        /// 0 REQ, 1 REP, 2 LAP.
        message_mraed: u8 [8, 0, 2],
        /// Until then: 4.096 us << n.
        service_timeout: u8 [9, 0, 5],
    } private [10, 222]
}

message! {
    /// Reject (12.6.7).
    Rej {
        /// Communication ID of the sender.
        local_communication_id: u32 [0, 0, 32],
        /// Communication ID of the receiver.
        remote_communication_id: u32 [4, 0, 32],
        /// 0 REQ, 1 REP, 2 none.
        message_rejected: u8 [8, 0, 2],
        /// Bytes of additional information.
        reject_info_length: u8 [9, 0, 7],
        /// Why.
        reason: u16 [10, 0, 16],
    } private [84, 148]
}

message! {
    /// Reply to a request (12.6.8).
    Rep {
        /// Communication ID of the sender.
        local_communication_id: u32 [0, 0, 32],
        /// Communication ID of the receiver.
        remote_communication_id: u32 [4, 0, 32],
        /// Q_Key; of datagram services.
        local_qkey: u32 [8, 0, 32],
        /// QPN of the sender.
        local_qpn: u32 [12, 0, 24],
        /// EE context of the sender; of XRC, where it has no QPN to send to, its QP.
        local_eecn: u32 [16, 0, 24],
        /// First PSN that it expects: with it the receiver of this message begins (IBA 12.7).
        starting_psn: u32 [20, 0, 24],
        /// READs and atomics that the sender takes.
        responder_resources: u8 [24, 0, 8],
        /// READs and atomics that it sends.
        initiator_depth: u8 [25, 0, 8],
        /// Time that the sender's card takes for an acknowledge.
        target_ack_delay: u8 [26, 0, 5],
        /// 0 an alternate path is taken, 1 none was asked for or is possible, 2 refused.
        failover_accepted: u8 [26, 5, 2],
        /// The sender does end-to-end flow control.
        end_to_end_flow_control: bool [26, 7, 1],
        /// RNR retry count for the receiver's QP.
        rnr_retry_count: u8 [27, 0, 3],
        /// The sender's QP has an SRQ.
        srq: bool [27, 3, 1],
        /// GUID of the sender's card.
        local_ca_guid: u64 [28, 0, 64],
    } private [36, 196]
}

message! {
    /// Ready to use (12.6.9).
    Rtu {
        /// Communication ID of the sender.
        local_communication_id: u32 [0, 0, 32],
        /// Communication ID of the receiver.
        remote_communication_id: u32 [4, 0, 32],
    } private [8, 224]
}

message! {
    /// Request for communication release (12.6.10).
    Dreq {
        /// Communication ID of the sender.
        local_communication_id: u32 [0, 0, 32],
        /// Communication ID of the receiver.
        remote_communication_id: u32 [4, 0, 32],
        /// QPN of the receiver.
        remote_qpn: u32 [8, 0, 24],
    } private [12, 220]
}

message! {
    /// Reply to a request for communication release (12.6.11).
    Drep {
        /// Communication ID of the sender.
        local_communication_id: u32 [0, 0, 32],
        /// Communication ID of the receiver.
        remote_communication_id: u32 [4, 0, 32],
    } private [8, 224]
}

message! {
    /// Service ID resolution request (12.11.1.1).
    SidrReq {
        /// Number of the request.
        request_id: u32 [0, 0, 32],
        /// P_Key.
        partition_key: u16 [4, 0, 16],
        /// Service that is asked for.
        service_id: u64 [8, 0, 64],
    } private [16, 216]
}

message! {
    /// Service ID resolution response (12.11.1.2).
    SidrRep {
        /// Number of the request.
        request_id: u32 [0, 0, 32],
        /// 0 valid, 1 no such service, 2 rejected by the service, 3 no QP, 4 elsewhere, 5 unsupported version.
        status: u8 [4, 0, 8],
        /// Bytes of additional information.
        info_length: u8 [5, 0, 8],
        /// QPN of the service.
        qpn: u32 [8, 0, 24],
        /// The service.
        service_id: u64 [12, 0, 64],
        /// Its Q_Key.
        qkey: u32 [20, 0, 32],
    } private [96, 136]
}

message! {
    /// Load alternate path (12.8.1), as far as it is answered.
    Lap {
        /// Communication ID of the sender.
        local_communication_id: u32 [0, 0, 32],
        /// Communication ID of the receiver.
        remote_communication_id: u32 [4, 0, 32],
    } private [64, 168]
}

message! {
    /// Alternate path response (12.8.2).
    Apr {
        /// Communication ID of the sender.
        local_communication_id: u32 [0, 0, 32],
        /// Communication ID of the receiver.
        remote_communication_id: u32 [4, 0, 32],
        /// Bytes of additional information.
        info_length: u8 [8, 0, 8],
        /// 0 taken, 2 not supported.
        status: u8 [9, 0, 8],
    } private [84, 148]
}

macro_rules! messages {
    ($($name:ident = $id:literal,)*) => {
        /// Any message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Message {
            $(#[doc = concat!("Attribute ", stringify!($id), ".")] $name($name),)*
        }

        impl Message {
            /// Transaction ID and message of a datagram; `None`: it is none of communication management, or a message
            /// that is not known.
            pub fn parse(mad: &Mad) -> Option<(u64, Self)> {
                if mad[..4] != [BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND] {
                    return None;
                }
                let data = &mad[DATA..];
                let message = match ATTRIBUTE_ID.get::<u16>(mad) {
                    $($id => Self::$name($name::read(data)),)*
                    _ => return None,
                };
                Some((TRANSACTION_ID.get(mad), message))
            }

            /// The datagram.
            pub fn emit(&self, transaction_id: u64) -> Mad {
                let mut mad = [0; MAD_BYTES];
                mad[..4].copy_from_slice(&[BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
                TRANSACTION_ID.set(&mut mad, transaction_id);
                let data = &mut mad[DATA..];
                let id: u16 = match self {
                    $(Self::$name(message) => {
                        message.write(data);
                        $id
                    })*
                };
                ATTRIBUTE_ID.set(&mut mad, id);
                mad
            }
        }

        $(impl From<$name> for Message {
            fn from(message: $name) -> Self {
                Self::$name(message)
            }
        })*
    };
}

messages! {
    Req = 0x10,
    Mra = 0x11,
    Rej = 0x12,
    Rep = 0x13,
    Rtu = 0x14,
    Dreq = 0x15,
    Drep = 0x16,
    SidrReq = 0x17,
    SidrRep = 0x18,
    Lap = 0x19,
    Apr = 0x1a,
}

/// Reasons of a reject (12.6.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RejectReason {
    /// No QP was to be had.
    NoQp = 1,
    /// Nothing is left.
    NoResources = 3,
    /// No answer has come in time.
    Timeout = 4,
    /// The communication ID is not known.
    InvalidCommunicationId = 6,
    /// Nobody serves it.
    InvalidServiceId = 8,
    /// The transport service is not one of these.
    InvalidTransportServiceType = 9,
    /// The QP is that of an older connection.
    StaleConnection = 10,
    /// The user does not want it.
    Consumer = 28,
    /// What the request says of its vendor is not for this side.
    VendorOption = 35,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any bytes are read or refused; what was read is written with the same fields.
        #[test]
        fn any_bytes(mut mad in prop::array::uniform32(any::<[u8; 8]>()), id in 0x0fu8..0x1c, is_cm in any::<bool>()) {
            if is_cm {
                mad[0][..4].copy_from_slice(&[BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
                mad[2][..2].copy_from_slice(&[0, id]);
            }
            let mad: Mad = mad.concat().try_into().unwrap();
            let parsed = Message::parse(&mad);
            if is_cm {
                prop_assert_eq!(parsed.is_some(), (0x10..=0x1a).contains(&id));
            }
            if let Some((transaction_id, message)) = parsed {
                let again = message.emit(transaction_id);
                prop_assert_eq!(Message::parse(&again), Some((transaction_id, message)));
            }
        }
    }
}
