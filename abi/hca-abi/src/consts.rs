//! Identity, limits and BAR offsets.

use crate::table::abi_consts;

abi_consts! {
    "Identity" {
        /// Value of the ID register: "HCA1".
        HCA_ID = 0x4843_4131,
        /// Value of the ABI_VERSION register. Driver and firmware refuse any other.
        ABI_VERSION = 2,
    }
    "BAR0 of a function" {
        /// Size of BAR0.
        BAR0_BYTES = 0x1_0000,
        /// Function registers (SystemRDL `hca_func`).
        FUNC_REGS_OFFSET = 0x0000,
        /// Doorbell page; every doorbell is one 64-bit write.
        DOORBELL_PAGE_OFFSET = 0x1000,
        /// Send queue doorbell, offset in the doorbell page.
        SQ_DOORBELL_OFFSET = 0x000,
        /// Receive queue doorbell, offset in the doorbell page.
        RQ_DOORBELL_OFFSET = 0x008,
        /// Completion queue doorbell, offset in the doorbell page.
        CQ_DOORBELL_OFFSET = 0x010,
        /// Event queue doorbell, offset in the doorbell page.
        EQ_DOORBELL_OFFSET = 0x018,
        /// Admin queue doorbell, offset in the doorbell page.
        ADMIN_DOORBELL_OFFSET = 0x020,
        /// Shared receive queue doorbell, offset in the doorbell page.
        SRQ_DOORBELL_OFFSET = 0x028,
        /// Size of a doorbell page.
        DOORBELL_PAGE_BYTES = 0x1000,
        /// Push slots: room for one send WQE each, written 64 bits at a time before the doorbell that names the slot.
        PUSH_SLOTS_OFFSET = 0x2000,
        /// Size of a push slot: WQEs of up to so many bytes, inline data not counted, can ride with their doorbell.
        PUSH_SLOT_BYTES = 128,
        /// Push slots of a function.
        PUSH_SLOTS = 64,
    }
    "Functions" {
        /// Functions that the register map has room for: those of a card, unless it is built with fewer.
        FUNCS = 16,
    }
    "Limits of the layouts" {
        /// Scatter/gather entries of one WQE.
        MAX_SGE = 16,
        /// Smallest WQE stride; a stride is 64 << log_stride.
        MIN_WQE_STRIDE_BYTES = 64,
        /// Largest log_stride: 512-byte WQEs.
        MAX_LOG_WQE_STRIDE = 3,
        /// Inline bytes in the largest send WQE.
        MAX_INLINE_BYTES = 480,
        /// Largest log2 of the entries of a send or receive ring, and of the slots of an SRQ.
        MAX_LOG_WQ_SIZE = 16,
        /// Bits of their indices, which run freely: one more, so that a full ring is no empty one.
        WQE_INDEX_BITS = MAX_LOG_WQ_SIZE + 1,
        /// Slot numbers in a line of an SRQ's list; it has at least so many entries.
        SRQ_LINE_ENTRIES = 32,
        /// vendor_err of a receive completion with WR_FLUSH_ERR whose slot of an SRQ was not used: its message was lost
        /// (UC), the WQE is for another one.
        VENDOR_ERR_UNUSED = 0x80,
        /// Largest log2 of the entries of a completion queue; indices are free-running 24 bit.
        MAX_LOG_CQ_SIZE = 22,
        /// Largest log2 of the entries of an event queue; indices are free-running 16 bit.
        MAX_LOG_EQ_SIZE = 15,
        /// Largest log2 of the entries of the admin rings; indices are free-running 16 bit.
        MAX_LOG_ADMIN_SIZE = 10,
        /// Largest log2 of the rows of a key table.
        MAX_LOG_KEYS = 20,
        /// Smallest page_shift of a memory region: 4 KiB.
        MIN_PAGE_SHIFT = 12,
        /// Largest page_shift of a memory region: 1 GiB.
        MAX_PAGE_SHIFT = 30,
        /// page_shift of a region that is one contiguous bus range (no page table).
        DIRECT_PAGE_SHIFT = 63,
        /// Zeros of a null region, in pages of 4 KiB: a segment begins in the first; a frame may be longer than one.
        NULL_PAGES = 3,
        /// A QP's protection domain that is that of every key: the key's domain has been compared with another one.
        PD_ANY = 0xff_ffff,
        /// Bytes of the mailbox memory between firmware and DMA engine.
        MAILBOX_BYTES = 4096,
        /// First EQE kind that carries an asynchronous event: kind = this + ibv_event_type.
        EVENT_KIND_BASE = 0x10,
    }
    "Datagrams over Ethernet" {
        /// cqe.sl: the datagram came behind an IPv6 header. Nothing on the wire is an SL there, and a completion has to
        /// say what network header there was (IBA A17.4.5.1); the values are ConnectX's, which UCX reads.
        WC_SL_ROCE_IPV6 = 9,
        /// cqe.sl: the datagram came behind an IPv4 header.
        WC_SL_ROCE_IPV4 = 10,
    }
    "Rates" {
        /// Groups of QPs with a rate (`rate_group`), number 0 included, which has none.
        RATE_GROUPS = 32,
        /// ... of a card without the feature CONGESTION, for four functions or fewer.
        RATE_GROUPS_LEAST = 16,
        /// Longest rate_interval: 7.8 Mbit/s at 250 MHz.
        MAX_RATE_INTERVAL = 0xff_ffff,
    }
    "Groups" {
        /// Rows of the table GROUP.
        GROUP_ROWS = 512,
        /// The first of them are heads: row p of QP1 of port p (from 0), row GROUP_SMI_HEADS + p of its QP0, row
        /// GROUP_HASH_HEADS + h of multicast groups whose MGID has the hash h, the exclusive or of its 6-bit
        /// pieces from the first bit on.
        GROUP_HEADS = 128,
        /// First head of QP0s.
        GROUP_SMI_HEADS = 2,
        /// First head of multicast groups.
        GROUP_HASH_HEADS = 64,
    }
    "Raw packets" {
        /// Rows of the table RULE, and the most rules of a card.
        RULES = 32,
        /// Bytes of the longest Ethernet header: with a VLAN tag. A frame has so many more than the MTU at most.
        MAX_ETH_HEADER_BYTES = 18,
        /// Bytes of the shortest.
        MIN_ETH_HEADER_BYTES = 14,
        /// Rows of the table RSS, and the most QPs with receive side scaling of a card.
        RSS_QPS = 16,
        /// Entries of the largest indirection table.
        RSS_ENTRIES = 64,
    }
    "Device memory" {
        /// Upper 16 bits of the bus addresses of device memory, which no host has. All of it is there, from the first
        /// address on; each page has an owner, and for other functions is not there.
        DM_BUS_HIGH = 0xffff,
        /// Device memory of a card.
        DM_BYTES = 0x2_0000,
        /// It is given in pages.
        DM_PAGE_BYTES = 0x1000,
        /// Pages of a card.
        DM_PAGES = DM_BYTES / DM_PAGE_BYTES,
        /// Most bytes of COPY_DM.
        DM_COPY_BYTES = 1024,
    }
    "Link" {
        /// VLs of a port, VL15 included.
        VLS = 16,
        /// VL of subnet management; as the VL of an SL: the SL is unusable for data.
        MGMT_VL = 15,
        /// Entries of a VL arbitration table.
        VL_ARB_ENTRIES = 64,
        /// ... of a card without the feature ARBITRATION.
        VL_ARB_ENTRIES_LEAST = 16,
        /// Limit of High Priority: the high table may send without end.
        LIMIT_UNLIMITED = 255,
        /// hoq_life: a packet may wait for ever.
        HOQ_LIFE_NEVER = 31,
        /// Table LINK: rows of one port; row r of port p (from 0) has the index p * LINK_PORT_ROWS + r.
        LINK_PORT_ROWS = 256,
        /// Table LINK: first entry of the high priority table.
        LINK_ROW_HIGH = 0,
        /// Table LINK: first entry of the low priority table.
        LINK_ROW_LOW = 64,
        /// Table LINK: link_sl2vl.
        LINK_ROW_SL2VL = 128,
        /// Table LINK: link_ctrl.
        LINK_ROW_CTRL = 129,
        /// Table LINK: link_congestion.
        LINK_ROW_CONGESTION = 130,
        /// Table LINK: first of the eight link_dscp.
        LINK_ROW_DSCP = 131,
        /// Rows of a port that exist.
        LINK_ROWS = 139,
        /// Status word: link_status.
        LINK_WORD_STATE = 0,
        /// Status word: how many blocks of 64 bytes a VL's transmit ring holds at most, of a pool that all share.
        LINK_WORD_TX_RING = 1,
        /// Status word: size of a VL's receive ring in blocks of 64 bytes.
        LINK_WORD_RX_RING = 2,
        /// Status word: Ethernet: the other end is paused with so many blocks in a receive ring.
        LINK_WORD_PFC_XOFF = 3,
        /// Status word: Ethernet: and goes on with so few.
        LINK_WORD_PFC_XON = 4,
        /// Status word of VL 0, others follow: blocks that the peer has room for.
        LINK_WORD_TX_CREDITS = 16,
        /// Status word of VL 0, others follow: blocks in the transmit ring.
        LINK_WORD_TX_FILL = 32,
        /// Status word of VL 0, others follow: blocks in the receive ring.
        LINK_WORD_RX_FILL = 48,
        /// Status word of VL 0, others follow: packets sent.
        LINK_WORD_TX_PACKETS = 64,
        /// Status word of VL 0, others follow: blocks sent.
        LINK_WORD_TX_BLOCKS = 80,
        /// Status word of VL 0, others follow: packets received.
        LINK_WORD_RX_PACKETS = 96,
        /// Status word of VL 0, others follow: cycles in which a packet waited for credit.
        LINK_WORD_TX_WAIT = 112,
        /// First of the error counters, in the order of query_link_errors_result.
        LINK_WORD_ERRORS = 128,
        /// Status word of priority 0, others follow: pause frames sent that stop it.
        LINK_WORD_PFC_SENT = 144,
        /// Status word of priority 0, others follow: pause frames received that stop it.
        LINK_WORD_PFC_RECEIVED = 160,
        /// Status word of priority 0, others follow: cycles in which the other end paused it.
        LINK_WORD_PFC_PAUSED = 176,
        /// Ethernet: priorities, and the most traffic classes.
        PRIORITIES = 8,
        /// DSCPs.
        DSCPS = 64,
    }
    "Congestion control" {
        /// Cycles of a tick.
        CC_TICK_CYCLES = 64,
        /// A rate of one byte per cycle.
        CC_RATE_UNIT = 16384,
        /// A rate of 64 bytes per cycle: as fast as the card is. QPs with this rate are not held.
        CC_RATE_FULL = 0x10_0000,
        /// Slowest that a QP may be made: it pays what a QP may owe within the time that the card looks back.
        CC_RATE_MIN = 64,
    }
    "Soft core: memory map of the firmware" {
        /// The image: code, constants, first values. Loaded by the board, read-only for firmware.
        SOC_IMAGE_BASE = 0x0000_0000,
        /// Size of the image's memory.
        SOC_IMAGE_BYTES = 0x1_8000,
        /// What the board says (board_data), in the same memory; the board may write it at any time.
        SOC_BOARD_BASE = 0x0001_8000,
        /// Size of the board's data.
        SOC_BOARD_BYTES = 0x8000,
        /// In the board's data: the first board_port.
        SOC_BOARD_PORTS = 64,
        /// In the board's data: board_boot.
        SOC_BOARD_BOOT = 192,
        /// In the board's data: a board_slot each.
        SOC_BOARD_SLOTS = 256,
        /// In the board's data: the first board_neighbour.
        SOC_BOARD_NEIGHBOURS = 512,
        /// The program that checks and starts images, behind the board's data in the same memory. It is there before
        /// the core starts, and nothing changes it.
        SOC_ROM_BASE = 0x0002_0000,
        /// Size of its memory.
        SOC_ROM_BYTES = 0xa000,
        /// Stack and data.
        SOC_DATA_BASE = 0x1000_0000,
        /// Size of the data's memory.
        SOC_DATA_BYTES = 0x10_0000,
        /// The card's firmware registers (SystemRDL `hca_regs`).
        SOC_CARD_BASE = 0x2000_0000,
        /// Registers beside the core, from here on.
        SOC_REGS_BASE = 0x3000_0000,
        /// Read: the card's cycle counter, low word; keeps the high word of that moment.
        SOC_TIME_LO = 0x00,
        /// Read: the high word kept.
        SOC_TIME_HI = 0x04,
        /// Write: timer interrupt from this cycle on, low word; switches the timer off until the high word follows.
        SOC_TIMER_LO = 0x08,
        /// Write: the high word; switches the timer on.
        SOC_TIMER_HI = 0x0c,
        /// Read: what interrupts, a bit each.
        SOC_IRQ = 0x10,
        /// SOC_IRQ: the card has an event.
        SOC_IRQ_CARD = 1,
        /// SOC_IRQ: the board has changed its data.
        SOC_IRQ_BOARD = 2,
        /// SOC_IRQ: the timer's cycle has come.
        SOC_IRQ_TIMER = 4,
        /// Write: takes note of the board's change.
        SOC_BOARD_SEEN = 0x14,
        /// Write: restart after so many cycles awake without another write here; 0: never. The time begins anew.
        SOC_WATCHDOG = 0x18,
        /// Read: restarts by the watchdog since reset.
        SOC_RESTARTS = 0x1c,
        /// Read: restarts since the last write here, SOC_STRIKES_MOST at most: how firmware starts. Write: firmware
        /// is well.
        SOC_STRIKES = 0x20,
        /// With so many of them it is not started any more.
        SOC_STRIKES_MOST = 3,
        /// Write: restarts the core, as if the watchdog's time were over.
        SOC_RESTART = 0x24,
        /// Write: the data are whole (a commit); a restart puts back what is written to them from now on, from so many
        /// bytes behind their beginning. Read: 1 if they are those of the last commit.
        SOC_JOURNAL = 0x28,
        /// Words written between two commits that can be put back.
        SOC_JOURNAL_WORDS = 2048,
        /// Writes from here on to the end of the page reach the board: offset and word.
        SOC_TELL = 0x800,
        /// A byte of the console.
        SOC_TELL_CONSOLE = 0x800,
        /// Four words of a GID, first byte lowest; the port that wants its MAC address follows.
        SOC_TELL_GID = 0x810,
        /// Port (from 1) that needs the neighbour with the GID just told.
        SOC_TELL_WANTED = 0x820,
        /// Port (from 1) in bits 31:16, index in bits 15:0: the GID just told is there in the port's table.
        SOC_TELL_OWN_GID = 0x824,
        /// Where in the slot that does not run the next word goes: a byte offset. 0 erases the slot.
        SOC_TELL_FLASH_AT = 0x830,
        /// A word for the slot; the next one goes behind it.
        SOC_TELL_FLASH_WORD = 0x834,
        /// The board copies a slot to the image's memory; then board_boot.loads counts on.
        SOC_TELL_LOAD = 0x838,
        /// The first four bytes of board_boot.
        SOC_TELL_BOOT = 0x83c,
        /// Slot in bits 7:0, its slot_state in bits 15:8.
        SOC_TELL_SLOT = 0x840,
        /// An epoch that has begun: board_boot.epoch becomes this if it is less.
        SOC_TELL_EPOCH = 0x844,
        /// The four words of a port_view, one behind the other; with the last one it counts.
        SOC_TELL_PORT = 0x850,
        /// That one.
        SOC_TELL_PORT_LAST = 0x85c,
    }
    "Images of the firmware" {
        /// Where in an image its head is: behind vectors and the jump at reset.
        IMAGE_HEAD_OFFSET = 0x84,
        /// First word of the head: "HCWF".
        IMAGE_MAGIC = 0x4657_4348,
        /// Most bytes of one WRITE_FIRMWARE.
        FIRMWARE_CHUNK_BYTES = 1024,
        /// Slots for images.
        FIRMWARE_SLOTS = 2,
        /// No slot.
        SLOT_NONE = 0xff,
    }
}
