//! What the card is built with (decision 0081), and what is refused for what it is built without.

use crate::{CmdResult, Control};
use hca_abi::{
    AdminOpcode, AdminStatus, CreateQpCmd, LinkPolicy, Service, VL_ARB_ENTRIES, VL_ARB_ENTRIES_LEAST,
    feature, link_attr,
};

/// Bits of [`feature`] that this firmware and its card have. `HCA_VSIM_FEATURES`, when this is compiled, says which:
/// names with commas between them, or `none`; all without it.
pub const FEATURES: u16 = features(option_env!("HCA_VSIM_FEATURES"));

const fn features(named: Option<&str>) -> u16 {
    let Some(text) = named else { return feature::ALL };
    if is_same(text.as_bytes(), b"none") {
        return 0;
    }
    let (mut bits, mut rest) = (0, text.as_bytes());
    loop {
        let mut at = 0;
        while at < rest.len() && rest[at] != b',' {
            at += 1;
        }
        let (name, behind) = rest.split_at(at);
        bits |= bit_of(name);
        let Some((_, next)) = behind.split_first() else {
            return bits;
        };
        rest = next;
    }
}

const fn bit_of(name: &[u8]) -> u16 {
    let (flags, mut at) = (feature::TABLE.flags, 0);
    while at < flags.len() {
        if is_same(name, flags[at].name.as_bytes()) {
            return 1 << flags[at].bit;
        }
        at += 1;
    }
    panic!("HCA_VSIM_FEATURES is `none`, or names of `feature` (docs/abi.md) with commas between them")
}

/// Are they the same, whatever their case?
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at].eq_ignore_ascii_case(&other[at]) {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Is all of `bits` there?
pub(crate) const fn has(bits: u16) -> bool {
    FEATURES & bits == bits
}

/// Entries of a VL arbitration table that this card has; the others are empty.
pub(crate) const USED_ENTRIES: u32 = if has(feature::ARBITRATION) {
    VL_ARB_ENTRIES
} else {
    VL_ARB_ENTRIES_LEAST
};

/// An arbitration policy; refused if there is no such one, or the card is built without it.
pub(crate) fn arbitration_policy(code: u8) -> CmdResult<LinkPolicy> {
    match LinkPolicy::try_from(code) {
        Ok(policy) if policy == LinkPolicy::Iba || has(feature::ARBITRATION) => Ok(policy),
        Ok(_) => Err((AdminStatus::Unsupported, link_attr::POLICY)),
        Err(_) => Err((AdminStatus::BadParam, link_attr::POLICY)),
    }
}

/// What a command is about, of that which a card may be built without.
const fn needed(opcode: AdminOpcode) -> u16 {
    match opcode {
        AdminOpcode::CreateRule | AdminOpcode::CreateRss => feature::RAW,
        AdminOpcode::CreateSrq | AdminOpcode::AllocXrcd => feature::SRQ,
        AdminOpcode::AllocMw => feature::KEY_WR,
        AdminOpcode::AllocDm => feature::DEVICE_MEMORY,
        _ => 0,
    }
}

/// Refuses a command that makes something which the card is built without; who has none of it names none.
pub(crate) fn check_command(opcode: AdminOpcode) -> CmdResult {
    if has(needed(opcode)) {
        Ok(())
    } else {
        Err((AdminStatus::Unsupported, u8::from(opcode).into()))
    }
}

impl Control {
    /// Can there be a QP of this service, with what the command names?
    pub(crate) fn serves(&self, cmd: &CreateQpCmd) -> bool {
        let needed = match Service::try_from(cmd.service()) {
            Ok(Service::Rc | Service::Uc | Service::Ud) => 0,
            Ok(Service::Xrc) => feature::SRQ,
            Ok(Service::Raw) if !self.has_transport_alone() => feature::RAW,
            _ => return false,
        };
        has(needed) && (!cmd.has_srq() || has(feature::SRQ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which() {
        assert_eq!(features(None), feature::ALL);
        assert_eq!(features(Some("none")), 0);
        assert_eq!(features(Some("srq")), feature::SRQ);
        assert_eq!(
            features(Some("RAW,key_wr,Atomic")),
            feature::RAW | feature::KEY_WR | feature::ATOMIC
        );
    }

    #[test]
    #[should_panic = "HCA_VSIM_FEATURES"]
    fn an_unknown_name_is_refused() {
        features(Some("srq,atomics"));
    }
}
