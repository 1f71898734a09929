//! PortInfo (IBA vol1 14.2.5.6): its layout, and what of it can be changed to what.

use crate::mad::status;
use crate::mad::{SMP_DATA_BYTES, put_u16, put_u32, put_u64, u16_at, u64_at};
use crate::sma::Kept;

/// LIDs of ports (IBA vol1 4.1.3).
const UNICAST_LIDS: core::ops::Range<u16> = 1..0xc000;
/// PortPhysicalState that a Set asks for: none, polling, or off.
const PHYS_KEEP: u8 = 0;
const PHYS_POLLING: u8 = 2;
const PHYS_DISABLED: u8 = 3;
/// LinkWidthEnabled and LinkSpeedEnabled: all that is supported.
const ALL_WIDTHS: u8 = 0xff;
const ALL_SPEEDS: u8 = 0xf;

/// State of a port, by its number in PortInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No link.
    Down = 1,
    /// A link, over which nothing but subnet management goes.
    Init = 2,
    /// Set up: data are taken, none are sent.
    Armed = 3,
    /// Data go.
    Active = 4,
}

/// What a port is, for those who ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Its number.
    pub number: u8,
    /// First of its LIDs.
    pub lid: u16,
    /// Bits of a LID that are free.
    pub lmc: u8,
    /// Capabilities.
    pub cap_mask: u32,
    /// Those of CapabilityMask2, which counts where `cap_mask` says so.
    pub cap_mask2: u16,
    /// Whether it is up.
    pub state: State,
    /// PortPhysicalState.
    pub phys_state: u8,
    /// Code of the width in use.
    pub width: u8,
    /// Code of the speed in use, as PortInfo has it: 1 to 4 (up to 10 Gb/s a lane).
    pub speed: u8,
    /// The same for faster lanes: LinkSpeedExtActive; 0: none.
    pub speed_ext: u8,
    /// Code of the MTU in use.
    pub mtu: u8,
    /// Code of the longest MTU.
    pub mtu_cap: u8,
    /// Code of the VLs that are built.
    pub vl_cap: u8,
    /// Code of the VLs in use.
    pub op_vls: u8,
    /// VLHighLimit.
    pub high_limit: u8,
    /// HOQLife: 20 and more: for ever.
    pub hoq_life: u8,
    /// LocalPhyErrors: the count of errors on the wire that hardware takes for a loss of integrity.
    pub phy_errors: u8,
    /// Entries of each VL arbitration table.
    pub arb_entries: u8,
    /// The port of a switch drops packets of other partitions that come in, that leave.
    pub enforces_pkeys: [bool; 2],
    /// Packets of other partitions.
    pub pkey_violations: u16,
    /// Packets with a wrong Q_Key.
    pub qkey_violations: u16,
}

/// What a subnet manager sets at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Subnet prefix of its GIDs.
    pub gid_prefix: u64,
    /// First of its LIDs.
    pub lid: u16,
    /// Bits of a LID that are free.
    pub lmc: u8,
    /// Code of the MTU.
    pub mtu: u8,
    /// Code of the VLs to be used.
    pub op_vls: u8,
    /// VLHighLimit.
    pub high_limit: u8,
    /// HOQLife.
    pub hoq_life: u8,
    /// The state to go to, if it is another.
    pub state: Option<State>,
    /// The port of a switch is switched on or off.
    pub is_enabled: Option<bool>,
    /// The port of a switch shall drop packets of other partitions that come in, that leave.
    pub enforces_pkeys: [bool; 2],
    /// LID or service level of the subnet manager are others now.
    pub has_new_sm: bool,
    /// Programs shall register again with the subnet administrator (MGMT-10).
    pub reregister: bool,
}

/// Writes it. `input`: the port that was asked through; `shows_mkey`: who asks may read the M_Key (KEY-4).
pub(crate) fn write(data: &mut [u8], facts: &PortFacts, kept: &Kept, input: u8, shows_mkey: bool) {
    data[..SMP_DATA_BYTES].fill(0);
    put_u64(data, 0, if shows_mkey { kept.mkey } else { 0 });
    put_u64(data, 8, kept.gid_prefix);
    put_u16(data, 16, facts.lid);
    put_u16(data, 18, kept.sm_lid);
    put_u32(data, 20, facts.cap_mask);
    put_u16(data, 26, kept.lease_s);
    data[28] = input;
    // A port that is built for a width or speed is for all lesser ones; the cable says which it is.
    let and_lesser = |code: u8| (code << 1).wrapping_sub(u8::from(code != 0));
    data[29..31].fill(and_lesser(facts.width));
    data[31] = facts.width;
    data[32] = and_lesser(facts.speed) << 4 | facts.state as u8;
    data[33] = facts.phys_state << 4 | PHYS_POLLING;
    data[34] = kept.protect << 6 | facts.lmc;
    data[35] = facts.speed << 4 | and_lesser(facts.speed);
    data[36] = facts.mtu << 4 | kept.sm_sl;
    data[37] = facts.vl_cap << 4;
    data[38] = facts.high_limit;
    data[39..41].fill(facts.arb_entries);
    data[41] = kept.init_type_reply << 4 | facts.mtu_cap;
    data[42] = facts.hoq_life & 31;
    let [inbound, outbound] = facts.enforces_pkeys.map(u8::from);
    data[43] = facts.op_vls << 4 | inbound << 3 | outbound << 2;
    put_u16(data, 44, kept.mkey_violations);
    put_u16(data, 46, facts.pkey_violations);
    put_u16(data, 48, facts.qkey_violations);
    data[50] = 1;
    data[51] = kept.subnet_timeout;
    data[52] = RESPONSE_TIME;
    // Each overrun is one too many: OverrunErrors is 0.
    data[53] = facts.phy_errors << 4;
    put_u16(data, 60, facts.cap_mask2);
    data[62] = facts.speed_ext << 4 | and_lesser(facts.speed_ext);
    data[63] = and_lesser(facts.speed_ext);
}

/// RespTimeValue: 4.096 us * 2^n within which the agent answers.
const RESPONSE_TIME: u8 = 16;

/// What a Set asks for; `kept` takes what only the agent needs to know. The status of the answer if a value cannot be;
/// nothing has changed then.
pub(crate) fn read(data: &[u8], facts: &PortFacts, kept: &mut Kept) -> Result<PortSettings, u16> {
    let (lid, lmc) = (u16_at(data, 16), data[34] & 7);
    demand(UNICAST_LIDS.contains(&lid) && lid.trailing_zeros() >= u32::from(lmc))?;
    let sm_lid = u16_at(data, 18);
    demand(UNICAST_LIDS.contains(&sm_lid))?;
    // A channel adapter that is off could not say so: who wants this switches off the other end.
    demand(data[33] >> 4 != PHYS_DISABLED)?;
    let mut settings = read_link(data, facts)?;
    let sm_sl = data[36] & 15;
    settings.has_new_sm = (sm_lid, sm_sl) != (kept.sm_lid, kept.sm_sl);
    (kept.sm_lid, kept.sm_sl) = (sm_lid, sm_sl);
    kept.mkey = u64_at(data, 0);
    kept.gid_prefix = u64_at(data, 8);
    kept.lease_s = u16_at(data, 26);
    kept.protect = data[34] >> 6;
    kept.subnet_timeout = data[51] & 31;
    kept.init_type_reply = data[41] >> 4;
    // A counter is set to 0 by a Set of 0, and stays as it is otherwise.
    if u16_at(data, 44) == 0 {
        kept.mkey_violations = 0;
    }
    (settings.gid_prefix, settings.lid, settings.lmc) = (kept.gid_prefix, lid, lmc);
    settings.reregister = data[51] & 0x80 != 0;
    Ok(settings)
}

fn demand(ok: bool) -> Result<(), u16> {
    ok.then_some(()).ok_or(status::BAD_VALUE)
}

/// The part of a Set that is about the link: all that a port of a switch has.
pub(crate) fn read_link(data: &[u8], facts: &PortFacts) -> Result<PortSettings, u16> {
    let or = |asked: u8, now: u8| if asked == 0 { now } else { asked };
    let (width, speed, speed_ext) = (data[29], data[35] & 15, data[63] & 31);
    demand([0, facts.width, ALL_WIDTHS].contains(&width) || width & facts.width != 0)?;
    demand([0, facts.speed, ALL_SPEEDS].contains(&speed) || speed & facts.speed != 0)?;
    demand([0, 30, 31].contains(&speed_ext) || speed_ext & facts.speed_ext != 0)?;
    let (phys, down_default) = (data[33] >> 4, data[33] & 15);
    demand([PHYS_KEEP, PHYS_POLLING, PHYS_DISABLED].contains(&phys))?;
    demand([PHYS_KEEP, PHYS_POLLING].contains(&down_default))?;
    let mtu = or(data[36] >> 4, facts.mtu);
    demand((1..=facts.mtu_cap).contains(&mtu))?;
    let op_vls = or(data[43] >> 4, facts.op_vls);
    demand((1..=facts.vl_cap).contains(&op_vls))?;
    // VL-14: what the port is, or the next on its way to ACTIVE, or down to the beginning.
    let state = match (facts.state, data[32] & 15) {
        (_, 0) => None,
        (State::Init, 3) => Some(State::Armed),
        (State::Armed, 4) => Some(State::Active),
        (State::Init | State::Armed | State::Active, 1) => Some(State::Down),
        (now, asked) if now as u8 == asked => None,
        _ => return Err(status::BAD_VALUE),
    };
    let is_enabled = (phys != PHYS_KEEP).then_some(phys == PHYS_POLLING);
    let state = if is_enabled.is_some() {
        Some(State::Down)
    } else {
        state
    };
    Ok(PortSettings {
        gid_prefix: 0,
        lid: 0,
        lmc: 0,
        mtu,
        op_vls,
        high_limit: data[38],
        hoq_life: data[42] & 31,
        state,
        is_enabled,
        enforces_pkeys: [data[43] & 8 != 0, data[43] & 4 != 0],
        has_new_sm: false,
        reregister: false,
    })
}

#[cfg(test)]
#[path = "port_info_tests.rs"]
mod tests;
