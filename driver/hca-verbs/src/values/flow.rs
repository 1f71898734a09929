//! Rules for received frames: ibv_flow_attr and its specs, and the key and mask that a card compares.

use hca_abi::{CreateRuleCmd, RuleKey, RuleKind};

use crate::values::error::{Error, Result};

/// What a spec compares of an Ethernet header (ibv_flow_eth_filter).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthFilter {
    /// Destination MAC address.
    pub dst_mac: [u8; 6],
    /// Source MAC address.
    pub src_mac: [u8; 6],
    /// EtherType; with a VLAN tag that behind it.
    pub ether_type: u16,
    /// VLAN tag: priority in bits 15:13, VLAN in bits 11:0.
    pub vlan_tag: u16,
}

/// Of an IPv4 header (ibv_flow_ipv4_ext_filter).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4Filter {
    /// Source address.
    pub src_ip: [u8; 4],
    /// Destination address.
    pub dst_ip: [u8; 4],
    /// Protocol.
    pub proto: u8,
    /// Type of service.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Flags: bit 0 more fragments, bit 1 do not fragment.
    pub flags: u8,
}

/// Of an IPv6 header (ibv_flow_ipv6_filter).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv6Filter {
    /// Source address.
    pub src_ip: [u8; 16],
    /// Destination address.
    pub dst_ip: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Next header.
    pub next_hdr: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

/// Of a TCP or UDP header (ibv_flow_tcp_udp_filter).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFilter {
    /// Destination port.
    pub dst_port: u16,
    /// Source port.
    pub src_port: u16,
}

/// What a frame must have: where a bit of the mask (the second) is set, it must be that of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSpec {
    /// An Ethernet header.
    Eth(EthFilter, EthFilter),
    /// An IPv4 header, even if no bit of the mask is set.
    Ipv4(Ipv4Filter, Ipv4Filter),
    /// An IPv6 header.
    Ipv6(Ipv6Filter, Ipv6Filter),
    /// A TCP header.
    Tcp(PortFilter, PortFilter),
    /// A UDP header.
    Udp(PortFilter, PortFilter),
}

/// Which frames a rule is for: ibv_flow_attr_type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowKind {
    /// Those that its specs describe.
    #[default]
    Normal,
    /// Those that no other rule takes.
    AllDefault,
    /// Those to groups that no NORMAL rule takes.
    McDefault,
    /// A copy of every frame that is no RoCEv2 packet for this port.
    Sniffer,
}

/// What a rule is made of: ibv_flow_attr.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowAttr<'a> {
    /// Which frames.
    pub kind: FlowKind,
    /// The smaller goes first. Rules of the same priority do not shut each other out.
    pub priority: u16,
    /// Port, from 1: that of the QP.
    pub port_num: u8,
    /// Frames go to rules of lower rank, too (IBV_FLOW_ATTR_FLAGS_DONT_TRAP).
    pub dont_trap: bool,
    /// Its frames go to nobody (IBV_FLOW_SPEC_ACTION_DROP): NORMAL only.
    pub drops: bool,
    /// `flow_tag` of the completions of its frames (IBV_FLOW_SPEC_ACTION_TAG).
    pub tag: u32,
    /// All of them must hold. None: every frame.
    pub specs: &'a [FlowSpec],
}

/// Highest flow label.
const FLOW_LABEL: u32 = 0xf_ffff;

fn eth_key(key: &mut RuleKey, f: &EthFilter) {
    key.set_dmac(f.dst_mac);
    key.set_smac(f.src_mac);
    key.set_ether_type(f.ether_type.to_be_bytes());
    key.set_vlan(f.vlan_tag.to_be_bytes());
}

fn ipv4_key(key: &mut RuleKey, f: &Ipv4Filter) {
    let wide = |ip: [u8; 4]| {
        let mut out = [0; 16];
        out[..4].copy_from_slice(&ip);
        out
    };
    key.set_src_ip(wide(f.src_ip));
    key.set_dst_ip(wide(f.dst_ip));
    key.set_proto(f.proto);
    key.set_tos(f.tos);
    key.set_ttl(f.ttl);
    key.set_ip_flags(f.flags & 3);
}

fn ipv6_key(key: &mut RuleKey, f: &Ipv6Filter) {
    key.set_src_ip(f.src_ip);
    key.set_dst_ip(f.dst_ip);
    key.set_proto(f.next_hdr);
    key.set_tos(f.traffic_class);
    key.set_ttl(f.hop_limit);
    let [_, label @ ..] = (f.flow_label & FLOW_LABEL).to_be_bytes();
    key.set_flow_label(label);
}

fn port_key(key: &mut RuleKey, f: &PortFilter) {
    key.set_src_port(f.src_port.to_be_bytes());
    key.set_dst_port(f.dst_port.to_be_bytes());
}

fn refused<T>(reason: &str) -> Result<T> {
    Err(Error::Invalid(format!("flow: {reason}")))
}

impl FlowAttr<'_> {
    /// The command that makes it, but for whom.
    pub(crate) fn command(&self) -> Result<CreateRuleCmd> {
        let mut cmd = CreateRuleCmd::new();
        cmd.set_port_num(self.port_num);
        cmd.set_priority(self.priority);
        cmd.set_goes_on(self.dont_trap);
        cmd.set_drops(self.drops);
        cmd.set_tag(self.tag);
        cmd.set_kind(u8::from(match self.kind {
            FlowKind::Normal => RuleKind::Normal,
            FlowKind::AllDefault => RuleKind::AllDefault,
            FlowKind::McDefault => RuleKind::McDefault,
            FlowKind::Sniffer => RuleKind::Sniffer,
        }));
        if self.kind != FlowKind::Normal {
            if !self.specs.is_empty() {
                return refused("only a NORMAL one has specs");
            }
            if self.dont_trap || self.drops {
                return refused("DONT_TRAP and DROP go with NORMAL alone");
            }
        }
        if self.dont_trap && self.drops {
            return refused("DONT_TRAP hands on what DROP takes away");
        }
        let (value, mask) = self.pattern()?;
        cmd.set_value(value.0);
        cmd.set_mask(mask.0);
        Ok(cmd)
    }

    /// Bits of the value that do not count are 0.
    fn pattern(&self) -> Result<(RuleKey, RuleKey)> {
        let (mut value, mut mask) = (RuleKey::new(), RuleKey::new());
        let (mut has_eth, mut has_ip, mut has_ports) = (false, false, false);
        for spec in self.specs {
            let seen = match spec {
                FlowSpec::Eth(v, m) => {
                    eth_key(&mut value, v);
                    eth_key(&mut mask, m);
                    if m.vlan_tag != 0 {
                        [&mut value, &mut mask]
                            .into_iter()
                            .for_each(|key| key.set_has_vlan(true));
                    }
                    &mut has_eth
                }
                FlowSpec::Ipv4(v, m) => {
                    ipv4_key(&mut value, v);
                    ipv4_key(&mut mask, m);
                    [&mut value, &mut mask]
                        .into_iter()
                        .for_each(|key| key.set_is_ipv4(true));
                    &mut has_ip
                }
                FlowSpec::Ipv6(v, m) => {
                    ipv6_key(&mut value, v);
                    ipv6_key(&mut mask, m);
                    [&mut value, &mut mask]
                        .into_iter()
                        .for_each(|key| key.set_is_ipv6(true));
                    &mut has_ip
                }
                FlowSpec::Tcp(v, m) => {
                    port_key(&mut value, v);
                    port_key(&mut mask, m);
                    [&mut value, &mut mask]
                        .into_iter()
                        .for_each(|key| key.set_is_tcp(true));
                    &mut has_ports
                }
                FlowSpec::Udp(v, m) => {
                    port_key(&mut value, v);
                    port_key(&mut mask, m);
                    [&mut value, &mut mask]
                        .into_iter()
                        .for_each(|key| key.set_is_udp(true));
                    &mut has_ports
                }
            };
            if std::mem::replace(seen, true) {
                return refused("two specs of one layer");
            }
        }
        for (value, mask) in value.0.iter_mut().zip(mask.0) {
            *value &= mask;
        }
        Ok((value, mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(specs: &[FlowSpec]) -> Result<(RuleKey, RuleKey)> {
        let attr = FlowAttr {
            specs,
            ..FlowAttr::default()
        };
        attr.pattern()
    }

    /// V-155: a value counts where its mask does, and a spec of a layer asks for that layer.
    #[test]
    fn masks_cut_values_and_layers_are_asked_for() {
        let v = EthFilter {
            dst_mac: [0xff; 6],
            ether_type: 0x1234,
            vlan_tag: 0x2005,
            ..EthFilter::default()
        };
        let m = EthFilter {
            dst_mac: [0xff, 0, 0, 0, 0, 1],
            vlan_tag: 0x0fff,
            ..EthFilter::default()
        };
        let (value, mask) = pattern(&[FlowSpec::Eth(v, m)]).unwrap();
        assert_eq!(value.dmac(), [0xff, 0, 0, 0, 0, 1]);
        assert_eq!((value.ether_type(), mask.ether_type()), ([0, 0], [0, 0]));
        assert_eq!((value.vlan(), value.has_vlan()), ([0, 5], true));

        let none = Ipv4Filter::default();
        let (value, mask) = pattern(&[FlowSpec::Ipv4(none, none)]).unwrap();
        assert!(value.is_ipv4() && mask.is_ipv4());
        let ports = PortFilter {
            dst_port: 0x0102,
            src_port: 0x0304,
        };
        let (value, mask) = pattern(&[FlowSpec::Udp(ports, ports)]).unwrap();
        assert!(value.is_udp() && mask.is_udp() && !mask.is_tcp());
        assert_eq!((value.src_port(), value.dst_port()), ([3, 4], [1, 2]));
    }

    #[test]
    fn a_layer_comes_once() {
        let (four, six) = (Ipv4Filter::default(), Ipv6Filter::default());
        assert!(pattern(&[FlowSpec::Ipv4(four, four), FlowSpec::Ipv6(six, six)]).is_err());
        let eth = EthFilter::default();
        assert!(pattern(&[FlowSpec::Eth(eth, eth), FlowSpec::Eth(eth, eth)]).is_err());
    }

    /// V-155: DONT_TRAP and specs go with NORMAL alone.
    #[test]
    fn other_kinds_have_no_specs() {
        let eth = EthFilter::default();
        for kind in [FlowKind::AllDefault, FlowKind::McDefault, FlowKind::Sniffer] {
            let specs = &[FlowSpec::Eth(eth, eth)];
            let plain = FlowAttr {
                kind,
                ..FlowAttr::default()
            };
            assert!(plain.command().is_ok());
            assert!(FlowAttr { specs, ..plain }.command().is_err());
            let dont_trap = true;
            assert!(FlowAttr { dont_trap, ..plain }.command().is_err());
        }
    }
}
