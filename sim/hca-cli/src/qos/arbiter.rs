//! Programs the arbiter of a port as the paper's subnet manager did.

use anyhow::Result;
use hca_system_tests::Dev;
use hca_verbs::{Context, LinkConfig, LinkPolicy, ModifyPortCmd, Mtu, VlArbTable, VlWeight, port_attr};

use super::formula::{Policy, Setting};

const PORT: u8 = 1;
/// An SL that may not be used.
const NO_VL: u8 = 15;

/// VL 0 in the high table, VL 1 in the low one; service levels 0 and 1 on them, no other.
/// The arbiter knows the port's MTU, not the path's: the limit's packets are counted in it.
pub fn set(context: &Context<Dev>, mtu: Mtu, setting: Setting, policy: Policy) -> Result<()> {
    let mut port = ModifyPortCmd::new();
    port.set_port_num(PORT);
    port.set_attr_mask(port_attr::MTU);
    port.set_mtu(mtu.into());
    context.modify_port(&port)?;
    let mut sl2vl = [NO_VL; 16];
    (sl2vl[0], sl2vl[1]) = (0, 1);
    context.set_sl2vl(PORT, &sl2vl)?;
    let entry = |vl, weight| [VlWeight { vl, weight }];
    context.set_vl_arb(PORT, VlArbTable::High, &entry(0, setting.h))?;
    context.set_vl_arb(PORT, VlArbTable::Low, &entry(1, setting.l))?;
    let policy = match policy {
        Policy::Iba => LinkPolicy::Iba,
        Policy::RoundQuantum => LinkPolicy::RoundQuantum,
    };
    context.link_config(PORT, &LinkConfig::new().limit(setting.q).policy(policy))?;
    Ok(())
}
