//! What the board tells the firmware on the soft core, from SOC_BOARD_BASE on: a head, a port each, neighbours. On a
//! board it comes out of its flash, in a simulator from the configuration. And what firmware tells the board.

use crate::table::{StructDef, abi_enum, layout};

/// Tables of this module.
pub const STRUCTS: &[&StructDef] = &[
    &BoardHead::TABLE,
    &BoardPort::TABLE,
    &BoardNeighbour::TABLE,
    &PortView::TABLE,
    &BoardBoot::TABLE,
    &BoardSlot::TABLE,
    &ImageHead::TABLE,
];

layout! {
    /// The first bytes.
    BoardHead("board_head", 32, Software) {
        /// Ports fitted; a board_port each, from SOC_BOARD_PORTS on.
        ports set_ports: u8 [1, 0, 8];
        /// Bit p: who is on the network of port p + 1 is found out on demand.
        asks set_asks: u8 [2, 0, 8];
        /// soc_fault: firmware fails fault_cycles after it has read this, whatever it does then; again after each
        /// restart until there were fault_until of them.
        fault set_fault: u8 [3, 0, 8];
        /// board_neighbours from SOC_BOARD_NEIGHBOURS on.
        neighbours set_neighbours: u16 [4, 0, 16];
        /// Cycles awake after which the watchdog restarts the firmware; 0: never.
        watchdog_cycles set_watchdog_cycles: u32 [8, 0, 32];
        /// See there.
        fault_cycles set_fault_cycles: u32 [12, 0, 32];
        /// See there.
        fault_until set_fault_until: u32 [16, 0, 32];
        /// What functions have of the card's tables: four bits each, of 16 parts at most.
        quotas set_quotas: u64 [24, 0, 64];
    }
}

layout! {
    /// What makes a port different from all others.
    BoardPort("board_port", 64, Software) {
        /// Port GUID, first byte on the wire first.
        guid set_guid: [u8; 8] [0, 0, 64];
        /// MAC address, first byte on the wire first.
        mac set_mac: [u8; 6] [8, 0, 48];
        /// LID given at start.
        lid set_lid: u16 [14, 0, 16];
        /// IPv4 address; zero: none.
        ipv4 set_ipv4: [u8; 4] [16, 0, 32];
        /// InfiniBand framing instead of RoCEv2.
        infiniband set_infiniband: bool [20, 0, 1];
        /// It goes to ACTIVE by itself.
        self_active set_self_active: bool [20, 1, 1];
        /// op_vls of the other end.
        peer_vls set_peer_vls: u8 [21, 0, 8];
        /// Rate of the cable in Mbit/s.
        rate_mbps set_rate_mbps: u32 [24, 0, 32];
        /// IPv6 address beside the link-local one; zero: none.
        ipv6 set_ipv6: [u8; 16] [32, 0, 128];
    }
}

layout! {
    /// Who has which GID on the network of a port.
    BoardNeighbour("board_neighbour", 24, Software) {
        /// GID, first byte on the wire first.
        gid set_gid: [u8; 16] [0, 0, 128];
        /// MAC address, first byte on the wire first.
        mac set_mac: [u8; 6] [16, 0, 48];
        /// Port of this card, from 1.
        port_num set_port_num: u8 [22, 0, 8];
    }
}

layout! {
    /// What a port is now, as firmware tells its board, which shows it to whoever has no function of the card. What it
    /// is not on Ethernet is 0.
    PortView("port_view", 16, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// port_state.
        state set_state: u8 [1, 0, 8];
        /// PortPhysicalState.
        phys_state set_phys_state: u8 [2, 0, 8];
        /// LID mask control.
        lmc set_lmc: u8 [3, 0, 8];
        /// Base LID.
        lid set_lid: u16 [4, 0, 16];
        /// LID of the subnet manager.
        sm_lid set_sm_lid: u16 [6, 0, 16];
        /// Its service level.
        sm_sl set_sm_sl: u8 [8, 0, 8];
        /// port_cap.
        cap_flags set_cap_flags: u32 [12, 0, 32];
    }
}

abi_enum! {
    /// How the board makes the firmware on the soft core fail, to show what happens then.
SocFault("soc_fault", "SocFault", 8, Software) {
        /// It does not.
        None = 0,
        /// It hangs.
        Hang = 1,
        /// It asks for a restart.
        GiveUp = 2,
        /// It traps.
        Trap = 3,
        /// Its stack outgrows its memory.
        Overflow = 4,
    }
}

abi_enum! {
    /// What is known of an image in a slot of the board's flash.
SlotState("slot_state", "Slot", 8, Software) {
        /// There is none.
        Empty = 0,
        /// It has not been started.
        Untried = 1,
        /// It has come up: it has answered a command.
        Good = 2,
        /// Its head, its digest or its signature is wrong: it does not start.
        Refused = 3,
        /// It was started and did not come up.
        Failed = 4,
        /// It is signed, but for hardware of another kind.
        OtherCard = 5,
        /// It is signed, but its epoch is over.
        TooOld = 6,
    }
}

layout! {
    /// Which image runs, and which is to. SLOT_NONE: no slot.
    BoardBoot("board_boot", 64, Software) {
        /// Slot whose image is in memory and has been checked.
        running set_running: u8 [0, 0, 8];
        /// Slot whose image is to be tried.
        next set_next: u8 [1, 0, 8];
        /// Slot whose image has come up last.
        good set_good: u8 [2, 0, 8];
        /// Times that the image to be tried has been started.
        tries set_tries: u8 [3, 0, 8];
        /// Slots that the board has copied to memory, modulo 256.
        loads set_loads: u8 [4, 0, 8];
        /// What images have to be made for (image_head.hardware).
        hardware set_hardware: u32 [8, 0, 32];
        /// Images of an epoch before this one do not start any more; it only grows.
        epoch set_epoch: u32 [12, 0, 32];
        /// Ed25519 key that images are signed with.
        public_key set_public_key: [u8; 32] [32, 0, 256];
    }
}

layout! {
    /// A slot of the board's flash.
    BoardSlot("board_slot", 64, Software) {
        /// slot_state.
        state set_state: u8 [0, 0, 8];
        /// Version of the image: major, minor, patch in bits 31:16, 15:8, 7:0.
        version set_version: u32 [4, 0, 32];
        /// Its bytes, without the signature.
        bytes set_bytes: u32 [8, 0, 32];
        /// Its epoch.
        epoch set_epoch: u32 [12, 0, 32];
        /// Its SHA-256.
        digest set_digest: [u8; 32] [32, 0, 256];
    }
}

layout! {
    /// Head of an image, at IMAGE_HEAD_OFFSET. Behind the image is the Ed25519 signature of the head.
    ImageHead("image_head", 64, Software) {
        /// IMAGE_MAGIC.
        magic set_magic: u32 [0, 0, 32];
        /// Where in the image the first values of data are.
        data_at set_data_at: u32 [4, 0, 32];
        /// Bytes of the image, without the signature; a multiple of 4.
        bytes set_bytes: u32 [8, 0, 32];
        /// Version: major, minor, patch in bits 31:16, 15:8, 7:0.
        version set_version: u32 [12, 0, 32];
        /// SHA-256 of the image with this field zero.
        digest set_digest: [u8; 32] [16, 0, 256];
        /// When it has come up, images of an epoch before its own never start again on this board.
        epoch set_epoch: u32 [48, 0, 32];
        /// What it is for: version of the hardware in bits 31:24, what it is built without in bits
        /// 23:8 (feature), log2 of the card's lines in bits 7:0.
        hardware set_hardware: u32 [52, 0, 32];
    }
}
