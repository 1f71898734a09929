//! One look at a link: what it is set to, what is in its rings, what it has counted.

use anyhow::Result;
use hca_verbs::{LinkCounters, LinkErrors, LinkLayer, LinkStatus, VlArbTable, VlCounters};
use serde::Serialize;
use std::fmt::Write as _;

use super::Card;
use super::ethernet::Ethernet;
use super::lldp::Lldp;
use super::notation::{Arbitration, Limit, policy_name};

const BLOCK_BYTES: f64 = 64.0;
const FOR_EVER: u8 = 31;
/// The partition of a P_Key; the bit above it says full or limited member.
const PARTITION: u16 = 0x7fff;
/// Entries of the P_Key table that are read again at each look.
const PKEYS_PER_LOOK: usize = 4;

/// Counters of the look before, for rates.
#[derive(Clone, Default)]
pub struct Rates {
    before: Option<(u64, [VlCounters; 16])>,
}

impl Rates {
    /// Bytes per simulated second that each VL has sent since the last call; nothing at the first.
    fn next(&mut self, cycles: u64, clock_hz: u32, vls: &[VlCounters; 16]) -> Option<[f64; 16]> {
        let (then, old) = self.before.replace((cycles, *vls))?;
        let seconds = cycles.saturating_sub(then) as f64 / f64::from(clock_hz.max(1));
        if seconds <= 0.0 {
            return None;
        }
        Some(std::array::from_fn(|vl| {
            let blocks = vls[vl].tx_blocks().wrapping_sub(old[vl].tx_blocks());
            f64::from(blocks) * BLOCK_BYTES / seconds
        }))
    }
}

/// A look.
#[derive(Serialize)]
pub struct Look {
    card: u32,
    port: u8,
    cycle: u64,
    link: &'static str,
    state: String,
    wanted_state: String,
    phy_up: bool,
    mtu_bytes: u32,
    lid: u16,
    lmc: u8,
    pkeys: Vec<Pkey>,
    built_vls: u8,
    peer_vls: u8,
    vls: u8,
    policy: &'static str,
    high_limit: u8,
    hoq_life: u8,
    pfc_enable: u8,
    sl2vl: [u8; 16],
    vlarb_high: String,
    vlarb_low: String,
    tx_ring_blocks: u32,
    rx_ring_blocks: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ethernet: Option<Ethernet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lldp: Option<Lldp>,
    lanes: Vec<Lane>,
    errors: serde_json::Map<String, serde_json::Value>,
}

/// A valid entry of the P_Key table.
#[derive(Serialize)]
struct Pkey {
    index: u16,
    pkey: u16,
}

/// One VL.
#[derive(Serialize)]
struct Lane {
    vl: u8,
    tx_credits: u32,
    tx_fill: u32,
    rx_fill: u32,
    tx_packets: u32,
    tx_blocks: u32,
    rx_packets: u32,
    tx_wait_cycles: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_bytes_per_s: Option<f64>,
}

impl Look {
    /// Asks a card about one of its ports.
    pub fn take(card: u32, port: u8, context: &Card, (rates, pkeys): &mut (Rates, Pkeys)) -> Result<Self> {
        let status = context.link_status(port)?;
        let high = Arbitration(context.vl_arb(port, VlArbTable::High)?);
        let low = Arbitration(context.vl_arb(port, VlArbTable::Low)?);
        let cycle = context.function().time_cycles();
        let counters = context.link_counters(port)?;
        pkeys.look(context, port)?;
        let speed = rates.next(cycle, context.info().clock_hz, &counters.vls);
        let ethernet = Ethernet::take(context, port, &status)?;
        let mut look = Self::new(
            (card, port),
            cycle,
            &status,
            pkeys.valid(),
            [high, low].map(|table| table.to_string()),
            &counters,
            speed,
        );
        look.ethernet = ethernet;
        let counted = context.query_counters(port)?;
        let congestion = [
            ("np_ecn_marked_roce_packets", counted.np_ecn_marked_roce_packets()),
            ("np_cnp_sent", counted.np_cnp_sent()),
            ("rp_cnp_handled", counted.rp_cnp_handled()),
        ];
        let named = congestion.map(|(name, count)| (name.to_owned(), count.into()));
        look.errors.extend(named);
        look.lldp = Lldp::take(context, port)?;
        let counted = context.query_counters(port)?;
        let congestion = [
            ("np_ecn_marked_roce_packets", counted.np_ecn_marked_roce_packets()),
            ("np_cnp_sent", counted.np_cnp_sent()),
            ("rp_cnp_handled", counted.rp_cnp_handled()),
        ];
        let named = congestion.map(|(name, count)| (name.to_owned(), count.into()));
        look.errors.extend(named);
        Ok(look)
    }

    fn new(
        (card, port): (u32, u8),
        cycle: u64,
        s: &LinkStatus,
        pkeys: Vec<Pkey>,
        [vlarb_high, vlarb_low]: [String; 2],
        counters: &LinkCounters,
        speed: Option<[f64; 16]>,
    ) -> Self {
        // VL15, and those in use.
        let shown = (0..16).filter(|vl| *vl < usize::from(s.op_vls.count()) || *vl == 15);
        let lane = |vl: usize| {
            let c = &counters.vls[vl];
            Lane {
                vl: vl as u8,
                tx_credits: c.tx_credits(),
                tx_fill: c.tx_fill(),
                rx_fill: c.rx_fill(),
                tx_packets: c.tx_packets(),
                tx_blocks: c.tx_blocks(),
                rx_packets: c.rx_packets(),
                tx_wait_cycles: c.tx_wait(),
                tx_bytes_per_s: speed.map(|speed| speed[vl]),
            }
        };
        Self {
            card,
            port,
            cycle,
            link: if s.link_layer == LinkLayer::Ethernet {
                "eth"
            } else {
                "ib"
            },
            state: format!("{:?}", s.state),
            wanted_state: format!("{:?}", s.wanted_state),
            phy_up: s.phy_up,
            mtu_bytes: 128 << u8::from(s.mtu),
            lid: s.lid,
            lmc: s.lmc,
            pkeys,
            built_vls: s.built_vls.count(),
            peer_vls: s.peer_vls.count(),
            vls: s.op_vls.count(),
            policy: policy_name(s.policy),
            high_limit: s.limit,
            hoq_life: s.hoq_life,
            pfc_enable: s.pfc_enable,
            sl2vl: s.sl2vl,
            vlarb_high,
            vlarb_low,
            tx_ring_blocks: s.tx_ring_blocks,
            rx_ring_blocks: s.rx_ring_blocks,
            ethernet: None,
            lldp: None,
            lanes: shown.map(lane).collect(),
            errors: errors(&counters.errors),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let life = match self.hoq_life {
            FOR_EVER => "for ever".to_owned(),
            n => format!("{} cycles", 1024u64 << n),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "card {} port {}: {}, {} (asked for {}), cable {}, MTU {}, LID {} LMC {}, cycle {}\n  \
             {} data VLs of {} (peer {}), {}, high limit {}, packets wait {life}, PFC {:#04x}",
            self.card,
            self.port,
            self.link,
            self.state,
            self.wanted_state,
            if self.phy_up { "in" } else { "out" },
            self.mtu_bytes,
            self.lid,
            self.lmc,
            self.cycle,
            self.vls,
            self.built_vls,
            self.peer_vls,
            self.policy,
            Limit(self.high_limit),
            self.pfc_enable,
        );
        let pkeys = self
            .pkeys
            .iter()
            .map(|entry| format!(" {}={:#06x}", entry.index, entry.pkey));
        let _ = writeln!(text, "  P_Keys{}", pkeys.collect::<String>());
        let map = self.sl2vl.map(|vl| vl.to_string()).join(",");
        let or_none = |table: &str| if table.is_empty() { "empty" } else { table }.to_owned();
        let _ = writeln!(
            text,
            "  sl2vl {map}\n  high  {}\n  low   {}\n  {:>3} {:>8} {:>8} {:>8} {:>12} {:>12} {:>12} {:>12} {:>12}",
            or_none(&self.vlarb_high),
            or_none(&self.vlarb_low),
            "VL",
            "credits",
            "tx ring",
            "rx ring",
            "sent",
            "blocks",
            "B/s",
            "received",
            "waited"
        );
        for lane in &self.lanes {
            let speed = lane
                .tx_bytes_per_s
                .map_or("-".to_owned(), crate::plots::engineering);
            let _ = writeln!(
                text,
                "  {:>3} {:>8} {:>8} {:>8} {:>12} {:>12} {speed:>12} {:>12} {:>12}",
                lane.vl,
                lane.tx_credits,
                lane.tx_fill,
                lane.rx_fill,
                lane.tx_packets,
                lane.tx_blocks,
                lane.rx_packets,
                lane.tx_wait_cycles
            );
        }
        if let Some(ethernet) = &self.ethernet {
            text += &ethernet.text();
        }
        if let Some(lldp) = &self.lldp {
            text += &lldp.summary();
        }
        let seen: Vec<String> = self
            .errors
            .iter()
            .filter(|(_, count)| count.as_u64() != Some(0))
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let _ = writeln!(
            text,
            "  counted: {}",
            if seen.is_empty() {
                "nothing".to_owned()
            } else {
                seen.join(", ")
            }
        );
        text
    }
}

/// The P_Key table as it was seen last.
#[derive(Clone, Default)]
pub struct Pkeys {
    table: Vec<u16>,
    next: usize,
}

impl Pkeys {
    /// Reads the table at the first look, a few of its entries at each later one: every entry costs a command.
    fn look(&mut self, context: &Card, port: u8) -> Result<()> {
        let mut count = PKEYS_PER_LOOK;
        if self.table.is_empty() {
            count = context.query_port(port)?.pkey_tbl_len().into();
            self.table = vec![0; count];
        }
        for _ in 0..count.min(self.table.len()) {
            self.table[self.next] = context.query_pkey(port, self.next as u16)?;
            self.next = (self.next + 1) % self.table.len();
        }
        Ok(())
    }

    /// Entries that stand for a partition: the rest match nothing (KEY-9).
    fn valid(&self) -> Vec<Pkey> {
        let entries = (0..).zip(&self.table).filter(|(_, pkey)| **pkey & PARTITION != 0);
        entries.map(|(index, pkey)| Pkey { index, pkey: *pkey }).collect()
    }
}

/// Every counter by its name in the contract.
fn errors(errors: &LinkErrors) -> serde_json::Map<String, serde_json::Value> {
    let counters = LinkErrors::TABLE
        .fields
        .iter()
        .zip(errors.as_bytes().chunks_exact(4));
    counters
        .map(|(field, bytes)| {
            let value = bytes
                .iter()
                .rev()
                .fold(0u32, |value, byte| value << 8 | u32::from(*byte));
            (field.name.to_owned(), value.into())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hca_verbs::{EthTrust, LinkPolicy, Mtu, OpVls, PortState};

    fn status() -> LinkStatus {
        LinkStatus {
            state: PortState::ActiveDefer,
            wanted_state: PortState::Active,
            phy_up: false,
            link_layer: LinkLayer::Infiniband,
            built_vls: OpVls::Eight,
            peer_vls: OpVls::Two,
            op_vls: OpVls::Two,
            policy: LinkPolicy::RoundQuantum,
            limit: 255,
            mtu: Mtu::Bytes2048,
            hoq_life: 3,
            pfc_enable: 8,
            lmc: 1,
            lid: 6,
            sl2vl: [1; 16],
            trust: EthTrust::Dscp,
            dscp: [0; 64],
            ets: None,
            tx_ring_blocks: 1024,
            rx_ring_blocks: 512,
        }
    }

    #[test]
    fn text_and_json_of_a_look() {
        let mut counters = LinkCounters {
            vls: [VlCounters::new(); 16],
            errors: LinkErrors::new(),
        };
        counters.vls[1].set_tx_credits(4321);
        counters.errors.set_lpcrc_errors(9);
        let speed = Some([1e9; 16]);
        let pkeys = vec![Pkey {
            index: 3,
            pkey: 0x8001,
        }];
        let look = Look::new(
            (3, 1),
            77,
            &status(),
            pkeys,
            ["0:16".into(), String::new()],
            &counters,
            speed,
        );
        let text = look.text();
        for word in [
            "card 3",
            "ActiveDefer",
            "cable out",
            "MTU 2048",
            "LID 6 LMC 1",
            "P_Keys 3=0x8001",
            "2 data VLs of 8",
            "round-quantum",
            "unlimited",
            "8192 cycles",
            "high  0:16",
            "low   empty",
            "4321",
            "lpcrc_errors 9",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!text.contains("vl15_dropped"), "{text}");
        let json = serde_json::to_value(&look).unwrap();
        let lanes: Vec<_> = json["lanes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l["vl"].as_u64())
            .collect();
        assert_eq!(lanes, [Some(0), Some(1), Some(15)]);
        assert_eq!(json["errors"]["vl15_dropped"], 0);
        assert_eq!(json["errors"].as_object().unwrap().len(), 16);
    }

    #[test]
    fn entries_without_a_partition_are_not_shown() {
        let pkeys = Pkeys {
            table: vec![0x8001, 0, 0x8000, 0x7fff],
            next: 0,
        };
        let valid = pkeys.valid();
        let shown: Vec<_> = valid.iter().map(|entry| (entry.index, entry.pkey)).collect();
        assert_eq!(shown, [(0, 0x8001), (3, 0x7fff)]);
    }

    /// Counters wrap; a rate does not.
    #[test]
    fn rates_of_lanes() {
        let mut rates = Rates::default();
        let mut vls = [VlCounters::new(); 16];
        vls[2].set_tx_blocks(u32::MAX);
        assert_eq!(rates.next(1000, 250_000_000, &vls), None);
        vls[2].set_tx_blocks(99);
        assert_eq!(
            rates.next(1250, 250_000_000, &vls).unwrap()[2],
            100.0 * 64.0 / 1e-6
        );
        assert_eq!(rates.next(1250, 250_000_000, &vls), None);
    }
}
