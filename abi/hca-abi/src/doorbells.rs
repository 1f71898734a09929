//! The 64-bit words written to a doorbell page. Offsets are in [`crate::consts`].

use crate::table::{StructDef, layout};

/// Tables of this module.
pub const STRUCTS: &[&StructDef] = &[
    &SqDoorbell::TABLE,
    &RqDoorbell::TABLE,
    &CqDoorbell::TABLE,
    &EqDoorbell::TABLE,
    &AdminDoorbell::TABLE,
    &SrqDoorbell::TABLE,
];

macro_rules! doorbell_word {
    ($($name:ident),*) => {$(
        impl $name {
            /// The word to write.
            pub const fn to_word(self) -> u64 {
                u64::from_le_bytes(self.0)
            }

            /// The doorbell that a written word means.
            pub const fn from_word(word: u64) -> Self {
                Self(word.to_le_bytes())
            }
        }
    )*};
}
doorbell_word!(
    SqDoorbell,
    RqDoorbell,
    CqDoorbell,
    EqDoorbell,
    AdminDoorbell,
    SrqDoorbell
);

layout! {
    /// Send queue doorbell.
    SqDoorbell("sq_doorbell", 8, Hardware) {
        /// QP.
        qpn set_qpn: u32 [0, 0, 24];
        /// With `push`: the function's push slot that has the last WQE posted.
        push_slot set_push_slot: u8 [3, 0, 6];
        /// The last WQE posted lies in a push slot, too.
        push set_push: bool [3, 7, 1];
        /// Index after the last WQE posted, free-running.
        producer_index set_producer_index: u32 [4, 0, 17];
    }
}

layout! {
    /// Receive queue doorbell.
    RqDoorbell("rq_doorbell", 8, Hardware) {
        /// QP.
        qpn set_qpn: u32 [0, 0, 24];
        /// Index after the last WQE posted, free-running.
        producer_index set_producer_index: u32 [4, 0, 17];
    }
}

layout! {
    /// Completion queue doorbell.
    CqDoorbell("cq_doorbell", 8, Hardware) {
        /// CQ.
        cqn set_cqn: u32 [0, 0, 24];
        /// cq_arm.
        arm set_arm: u8 [3, 0, 2];
        /// Index after the last CQE consumed, free-running.
        consumer_index set_consumer_index: u32 [4, 0, 24];
    }
}

layout! {
    /// Event queue doorbell.
    EqDoorbell("eq_doorbell", 8, Hardware) {
        /// EQ.
        eqn set_eqn: u8 [0, 0, 8];
        /// Index after the last EQE consumed, free-running.
        consumer_index set_consumer_index: u16 [4, 0, 16];
    }
}

layout! {
    /// Admin queue doorbell.
    AdminDoorbell("admin_doorbell", 8, Hardware) {
        /// Index after the last command posted, free-running.
        producer_index set_producer_index: u16 [0, 0, 16];
    }
}

layout! {
    /// Shared receive queue doorbell.
    SrqDoorbell("srq_doorbell", 8, Hardware) {
        /// SRQ.
        srqn set_srqn: u32 [0, 0, 24];
        /// Index after the last entry of its list, free-running.
        producer_index set_producer_index: u32 [4, 0, 17];
    }
}
