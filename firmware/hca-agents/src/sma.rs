//! The agent of subnet management (MGMT-2): what it answers, and to whom. One agent is one port's; it keeps what a
//! subnet manager writes there for other managers to read, and does what it asks for by [`Port`].

use crate::mad::{
    self, Mad, SMP_DATA, SMP_DATA_BYTES, attribute_of, class_of, method, method_of, mkey_of, modifier_of,
    put_u16, put_u32, put_u64, status,
};
use crate::notice::{self, Notices, Trap};
use crate::port_info::{self, PortFacts, PortSettings, State};
use crate::smp;

/// Attributes (IBA vol1 14.2.5).
pub mod attr {
    /// Notice.
    pub const NOTICE: u16 = 0x02;
    /// NodeDescription.
    pub const NODE_DESC: u16 = 0x10;
    /// NodeInfo.
    pub const NODE_INFO: u16 = 0x11;
    /// GUIDInfo.
    pub const GUID_INFO: u16 = 0x14;
    /// PortInfo.
    pub const PORT_INFO: u16 = 0x15;
    /// P_KeyTable.
    pub const PKEY_TABLE: u16 = 0x16;
    /// SLtoVLMappingTable.
    pub const SL_TO_VL: u16 = 0x17;
    /// VLArbitrationTable.
    pub const VL_ARB: u16 = 0x18;
}

/// P_Keys of a block.
pub const PKEYS_PER_BLOCK: usize = 32;
/// Entries of a block of a VL arbitration table.
pub const ARB_PER_BLOCK: usize = 32;
/// CapabilityMask2: a subnet manager may set NodeDescription.
const SET_NODE_DESC: u16 = 1;
/// NodeType, and who issues a notice.
const CHANNEL_ADAPTER: u8 = 1;

/// What stands in NodeInfo and NodeDescription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// GUID of all ports of the system.
    pub system_guid: u64,
    /// GUID of the adapter.
    pub node_guid: u64,
    /// GUID of this port.
    pub port_guid: u64,
    /// Ports of the adapter.
    pub ports: u8,
    /// P_Keys of each port.
    pub pkeys: u16,
    /// Of the product.
    pub device: u16,
    /// Of the product.
    pub revision: u32,
    /// IEEE company number.
    pub vendor: u32,
    /// NodeDescription.
    pub description: [u8; 64],
}

/// A key that packets name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// P_Key.
    Partition,
    /// Q_Key.
    Queue,
}

/// A value that the port does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A port as its agent works on it.
pub trait Port {
    /// NodeInfo and NodeDescription.
    fn node(&mut self) -> NodeFacts;
    /// Sets NodeDescription (MGMT-13), if CapabilityMask2 says that it can be.
    fn set_description(&mut self, _text: &[u8; SMP_DATA_BYTES]) -> Result<(), Refused> {
        Err(Refused)
    }
    /// What PortInfo tells.
    fn facts(&mut self) -> PortFacts;
    /// What PortInfo sets.
    fn set(&mut self, settings: &PortSettings) -> Result<(), Refused>;
    /// The violations counted so far no longer count (P_Key, Q_Key).
    fn clear_violations(&mut self, pkey: bool, qkey: bool);
    /// A block of the P_Key table; `None`: there is none.
    fn pkeys(&mut self, block: u16) -> Option<[u16; PKEYS_PER_BLOCK]>;
    /// Writes a block that is there.
    fn set_pkeys(&mut self, block: u16, pkeys: &[u16; PKEYS_PER_BLOCK]) -> Result<(), Refused>;
    /// VL of each SL.
    fn sl2vl(&mut self) -> [u8; 16];
    /// Sets the VL of each SL.
    fn set_sl2vl(&mut self, vls: &[u8; 16]) -> Result<(), Refused>;
    /// VL and weight of the entries of a block of a VL arbitration table.
    fn vl_arb(&mut self, high: bool, block: u8) -> Option<[(u8, u8); ARB_PER_BLOCK]>;
    /// Writes a block that is there.
    fn set_vl_arb(
        &mut self,
        high: bool,
        block: u8,
        entries: &[(u8, u8); ARB_PER_BLOCK],
    ) -> Result<(), Refused>;
}

/// What a subnet manager has written and the port does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// M_Key; 0: none.
    pub mkey: u64,
    /// M_KeyProtectBits.
    pub protect: u8,
    /// M_KeyLeasePeriod, in seconds; 0: for ever.
    pub lease_s: u16,
    /// M_KeyViolations.
    pub mkey_violations: u16,
    /// Subnet prefix.
    pub gid_prefix: u64,
    /// LID of the subnet manager.
    pub sm_lid: u16,
    /// Its service level.
    pub sm_sl: u8,
    /// SubnetTimeOut.
    pub subnet_timeout: u8,
    /// InitTypeReply (MGMT-11): what the manager says it has kept. Nobody here asks for anything by InitType.
    pub init_type_reply: u8,
}

/// The agent of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent {
    pub(crate) kept: Kept,
    /// When the lease of the M_Key began to run.
    lease_from_s: Option<u64>,
    pub(crate) notices: Notices,
}

/// The prefix of GIDs that nobody has set (IBA vol1 4.1.1).
pub const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

impl Agent {
    /// Of a port that no subnet manager has spoken to.
    pub const fn new() -> Self {
        Self {
            kept: Kept {
                mkey: 0,
                protect: 0,
                lease_s: 0,
                mkey_violations: 0,
                gid_prefix: DEFAULT_PREFIX,
                sm_lid: 0,
                sm_sl: 0,
                subnet_timeout: 0,
                init_type_reply: 0,
            },
            lease_from_s: None,
            notices: Notices::new(),
        }
    }

    /// The capability mask of the port, whose LID this is, has changed.
    pub fn capabilities_changed(&mut self, lid: u16, cap_mask: u32) {
        self.notices.raise_local(notice::local_change(lid, cap_mask, 0));
    }

    /// Somebody on the host has given the node another NodeDescription (MGMT-13).
    pub fn description_changed(&mut self, lid: u16, cap_mask: u32) {
        let details = notice::local_change(lid, cap_mask, notice::NODE_DESCRIPTION_CHANGED);
        self.notices.raise_local(details);
    }

    /// A packet from a LID, with a wrong key, was for this QP of the port, whose own LID is `lid`.
    pub fn bad_key(&mut self, key: Key, slid: u16, lid: u16, qpn: u32) {
        let trap = match key {
            Key::Partition => Trap::BadPkey,
            Key::Queue => Trap::BadQkey,
        };
        self.notices.raise(trap, notice::bad_key(slid, lid, qpn));
    }

    /// When [`Agent::trap`] has something, in microseconds since the moment that its `now_us` counts from.
    pub fn trap_due_us(&self) -> Option<u64> {
        self.notices.due_us(&self.kept)
    }

    /// The trap that goes now to the subnet manager, whose LID and service level [`Agent::kept`] says.
    pub fn trap(&mut self, now_us: u64, lid: u16) -> Option<Mad> {
        self.notices.next(now_us, &self.kept, lid, CHANNEL_ADAPTER)
    }

    /// What subnet managers have written so far.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Takes a datagram that has come to QP0 through the port from a LID, `now_s` seconds after some moment. True: it
    /// has become the answer to itself, which goes back. False: there is none.
    pub fn handle(&mut self, mad: &mut Mad, slid: u16, port: &mut impl Port, now_s: u64) -> bool {
        let is_ours = matches!(class_of(mad), mad::class::SM_LID | mad::class::SM_DIRECTED);
        let method = method_of(mad);
        if !is_ours || !matches!(method, method::GET | method::SET | method::TRAP_REPRESS) {
            return false;
        }
        if smp::is_directed(mad) && !smp::arrive(mad, port.facts().number) {
            return false;
        }
        if !self.is_let_in(mad, slid, now_s) {
            return false;
        }
        let result = if (mad[0], mad[2]) == (1, 1) {
            self.attribute(mad, port)
        } else {
            Err(status::BAD_VERSION)
        };
        mad::answer(mad, result.err().unwrap_or(status::OK));
        true
    }

    /// May who sent this request ask for it, and is there an answer to it? KEY-3, KEY-5.
    pub(crate) fn is_let_in(&mut self, mad: &Mad, slid: u16, now_s: u64) -> bool {
        let method = method_of(mad);
        self.run_lease(now_s);
        if !self.admits(method, mkey_of(mad)) {
            self.kept.mkey_violations = self.kept.mkey_violations.saturating_add(1);
            self.notices.raise(Trap::BadMkey, notice::bad_mkey(mad, slid));
            if self.kept.lease_s != 0 {
                self.lease_from_s.get_or_insert(now_s);
            }
            return false;
        }
        if self.holds(mkey_of(mad)) {
            self.lease_from_s = None;
        }
        if method == method::TRAP_REPRESS {
            if attribute_of(mad) == attr::NOTICE {
                self.notices.repress(mad);
            }
            return false;
        }
        true
    }

    /// KEY-5: whose lease is over protects nothing more.
    fn run_lease(&mut self, now_s: u64) {
        let begun = self.lease_from_s;
        if begun.is_some_and(|begun| now_s.saturating_sub(begun) >= u64::from(self.kept.lease_s)) {
            self.lease_from_s = None;
            self.kept.protect = 0;
        }
    }

    /// Does who names this key hold the port's? With none set everybody does.
    pub(crate) fn holds(&self, mkey: u64) -> bool {
        self.kept.mkey == 0 || self.kept.mkey == mkey
    }

    /// KEY-3 (IBA vol1 14.2.4.1).
    fn admits(&self, method: u8, mkey: u64) -> bool {
        self.holds(mkey) || (method == method::GET && self.kept.protect < 2)
    }

    /// Reads or writes the attribute, in place.
    fn attribute(&mut self, mad: &mut Mad, port: &mut impl Port) -> Result<(), u16> {
        let is_set = method_of(mad) == method::SET;
        let modifier = modifier_of(mad);
        let mkey = mkey_of(mad);
        let attribute = attribute_of(mad);
        if attribute == attr::NOTICE {
            self.notices
                .attribute(mad, is_set, port.facts().lid, CHANNEL_ADAPTER);
            return Ok(());
        }
        let data = &mut mad[SMP_DATA..SMP_DATA + SMP_DATA_BYTES];
        let refused = |_: Refused| status::BAD_VALUE;
        match (attribute, is_set) {
            (attr::NODE_INFO, false) => node_info(data, CHANNEL_ADAPTER, &port.node(), port.facts().number),
            (attr::NODE_DESC, _) => {
                if is_set {
                    require(port.facts().cap_mask2 & SET_NODE_DESC != 0).map_err(|_| status::NO_ATTRIBUTE)?;
                    let text = core::array::from_fn(|at| data[at]);
                    port.set_description(&text).map_err(refused)?;
                }
                data.copy_from_slice(&port.node().description);
            }
            (attr::PORT_INFO, _) => self.port_info(data, port, is_set, modifier, mkey)?,
            // GUIDCap is 1: the port's own GUID, which nobody changes.
            (attr::GUID_INFO, _) => {
                require(modifier == 0)?;
                let guid = port.node().port_guid;
                data.fill(0);
                put_u64(data, 0, guid);
            }
            (attr::PKEY_TABLE, _) => {
                let block = modifier as u16;
                let mut pkeys = port.pkeys(block).ok_or(status::BAD_VALUE)?;
                if is_set {
                    for (pkey, pair) in pkeys.iter_mut().zip(data.chunks_exact(2)) {
                        *pkey = mad::u16_at(pair, 0);
                    }
                    port.set_pkeys(block, &pkeys).map_err(refused)?;
                }
                for (index, pkey) in pkeys.iter().enumerate() {
                    put_u16(data, 2 * index, *pkey);
                }
            }
            (attr::SL_TO_VL, _) => {
                if is_set {
                    let vls = core::array::from_fn(|sl| {
                        let pair = data[sl / 2];
                        if sl % 2 == 0 { pair >> 4 } else { pair & 15 }
                    });
                    port.set_sl2vl(&vls).map_err(refused)?;
                }
                let vls = port.sl2vl();
                data.fill(0);
                for (byte, pair) in data.iter_mut().zip(vls.chunks_exact(2)) {
                    *byte = pair[0] << 4 | pair[1] & 15;
                }
            }
            (attr::VL_ARB, _) => vl_arb(data, port, is_set, modifier)?,
            _ => return Err(status::NO_ATTRIBUTE),
        }
        Ok(())
    }

    fn port_info(
        &mut self,
        data: &mut [u8],
        port: &mut impl Port,
        is_set: bool,
        modifier: u32,
        mkey: u64,
    ) -> Result<(), u16> {
        let facts = port.facts();
        // Each port speaks for itself. A subnet manager that knows extended speeds sets the uppermost bit.
        let number = modifier & !(1 << 31);
        require(number == 0 || number == u32::from(facts.number))?;
        if is_set {
            let mut kept = self.kept;
            let settings = port_info::read(data, &facts, &mut kept)?;
            port.set(&settings).map_err(|_| status::BAD_VALUE)?;
            let clears = |at| mad::u16_at(data, at) == 0;
            port.clear_violations(clears(46), clears(48));
            self.kept = kept;
        }
        let shows_mkey = self.kept.protect == 0 || self.holds(mkey) || is_set;
        let mut facts = port.facts();
        if facts.state == State::Down {
            // Who asks has reached it: the link trains again, and is there.
            facts.state = State::Init;
        }
        port_info::write(data, &facts, &self.kept, facts.number, shows_mkey);
        Ok(())
    }
}

impl Default for Agent {
    fn default() -> Self {
        Self::new()
    }
}

fn require(ok: bool) -> Result<(), u16> {
    ok.then_some(()).ok_or(status::BAD_VALUE)
}

pub(crate) fn node_info(data: &mut [u8], kind: u8, node: &NodeFacts, port: u8) {
    data.fill(0);
    (data[0], data[1], data[2], data[3]) = (1, 1, kind, node.ports);
    put_u64(data, 4, node.system_guid);
    put_u64(data, 12, node.node_guid);
    put_u64(data, 20, node.port_guid);
    put_u16(data, 28, node.pkeys);
    put_u16(data, 30, node.device);
    put_u32(data, 32, node.revision);
    put_u32(data, 36, u32::from(port) << 24 | node.vendor & 0xff_ffff);
}

/// Which table an attribute modifier means, and which half of it: blocks 1 and 2 are of the low table, 3 and 4 of the
/// high one.
pub(crate) fn arb_block(modifier: u32) -> Result<(bool, u8), u16> {
    match (modifier >> 16) as u8 {
        block @ (1 | 2) => Ok((false, block - 1)),
        block @ (3 | 4) => Ok((true, block - 3)),
        _ => Err(status::BAD_VALUE),
    }
}

fn vl_arb(data: &mut [u8], port: &mut impl Port, is_set: bool, modifier: u32) -> Result<(), u16> {
    let (high, block) = arb_block(modifier)?;
    let mut entries = port.vl_arb(high, block).ok_or(status::BAD_VALUE)?;
    if is_set {
        for (entry, pair) in entries.iter_mut().zip(data.chunks_exact(2)) {
            *entry = (pair[0] & 15, pair[1]);
        }
        port.set_vl_arb(high, block, &entries)
            .map_err(|_| status::BAD_VALUE)?;
    }
    for (pair, (vl, weight)) in data.chunks_exact_mut(2).zip(entries) {
        pair.copy_from_slice(&[vl, weight]);
    }
    Ok(())
}

#[cfg(test)]
#[path = "sma_tests.rs"]
pub(crate) mod tests;
