//! Priorities of Ethernet ports: what a frame's is, which traffic class it waits in, how the classes share the link,
//! who may be paused. How they are written on a command line, and how a look shows them.

use anyhow::Result;
use clap::ValueEnum;
use hca_verbs::{EthTrust, EtsConfig, LinkConfig, LinkLayer, LinkStatus, PfcStatus};
use serde::Serialize;
use std::fmt::Write as _;
use std::str::FromStr;

use super::notation::Priorities;
use super::{Card, Which};

const PRIORITIES: usize = hca_abi::PRIORITIES as usize;
const DSCPS: usize = hca_abi::DSCPS as usize;

/// What to change of an Ethernet port.
#[derive(clap::Subcommand)]
pub enum Change {
    /// Ethernet: where the priority of a frame is
    Trust {
        #[command(flatten)]
        which: Which,
        /// In its DSCP, or in its VLAN tag; a frame without it has priority 0
        #[arg(value_enum)]
        trust: Trust,
    },
    /// Ethernet: the priorities of DSCPs
    Dscp {
        #[command(flatten)]
        which: Which,
        /// DSCP:PRIORITY or FIRST-LAST:PRIORITY; default: the DSCP's upper three bits, for all
        #[arg(value_name = "DSCP:PRIORITY", required = true)]
        entries: Vec<DscpEntry>,
    },
    /// Ethernet: traffic classes: strict ones go first, the highest before the others; those with percent share what is
    /// left
    Ets {
        #[command(flatten)]
        which: Which,
        /// Class of each priority 0 to 7, TC,TC,..
        #[arg(long, value_name = "TCS", default_value = "0,1,2,3,4,5,6,7")]
        map: ClassMap,
        /// TC:PERCENT or TC:strict for each class in use; the percents are 100 together
        #[arg(value_name = "TC:SHARE", required = true)]
        shares: Vec<Share>,
    },
    /// Ethernet: the priorities with PFC, which pause and are paused
    Pfc {
        #[command(flatten)]
        which: Which,
        /// N,N,.. or none
        priorities: Priorities,
    },
}

impl Change {
    /// Which cards and port it is for.
    pub fn which(&self) -> &Which {
        match self {
            Self::Trust { which, .. }
            | Self::Dscp { which, .. }
            | Self::Ets { which, .. }
            | Self::Pfc { which, .. } => which,
        }
    }

    /// What it asks of a port.
    pub fn config(&self) -> Result<LinkConfig> {
        let config = LinkConfig::new();
        Ok(match self {
            Self::Trust { trust, .. } => config.trust((*trust).into()),
            Self::Dscp { entries, .. } => entries.iter().fold(config, |config, entry| entry.add_to(config)),
            Self::Ets { map, shares, .. } => config.ets(ets(map, shares).map_err(anyhow::Error::msg)?),
            Self::Pfc { priorities, .. } => config.pfc_enable(priorities.0),
        })
    }
}

/// Where the priority of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trust {
    /// The DSCP of its IP header
    Dscp,
    /// Its VLAN tag (priority code point)
    Pcp,
}

impl From<Trust> for EthTrust {
    fn from(trust: Trust) -> Self {
        match trust {
            Trust::Dscp => Self::Dscp,
            Trust::Pcp => Self::Pcp,
        }
    }
}

/// `DSCP:PRIORITY`, `FIRST-LAST:PRIORITY`, or `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DscpEntry {
    /// Every DSCP has the priority in its upper three bits.
    Default,
    /// These have this priority.
    Of(u8, u8, u8),
}

impl DscpEntry {
    fn add_to(self, config: LinkConfig) -> LinkConfig {
        match self {
            Self::Default => (0..DSCPS as u8).fold(config, |config, dscp| config.dscp(dscp, dscp >> 3)),
            Self::Of(first, last, priority) => {
                (first..=last).fold(config, |config, dscp| config.dscp(dscp, priority))
            }
        }
    }
}

impl FromStr for DscpEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let explain = || {
            format!(
                "'{text}' is not DSCP:PRIORITY or FIRST-LAST:PRIORITY with DSCPs of 0 to 63 and a priority of 0 to 7, \
                 or default"
            )
        };
        if text == "default" {
            return Ok(Self::Default);
        }
        let (dscps, priority) = text.split_once(':').ok_or_else(explain)?;
        let (first, last) = dscps.split_once('-').unwrap_or((dscps, dscps));
        match (first.parse(), last.parse(), priority.parse()) {
            (Ok(first), Ok(last @ 0..=63), Ok(priority @ 0..=7)) if first <= last => {
                Ok(Self::Of(first, last, priority))
            }
            _ => Err(explain()),
        }
    }
}

/// Class of each priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassMap([u8; PRIORITIES]);

impl FromStr for ClassMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let class = |part: &str| {
            let class = part.trim().parse().ok().filter(|class| *class <= 7);
            class.ok_or_else(|| format!("'{part}' is no traffic class; they are 0 to 7"))
        };
        let classes: Vec<u8> = text.split(',').map(class).collect::<Result<_, _>>()?;
        let count = classes.len();
        let classes = classes.try_into().map(Self);
        classes.map_err(|_| format!("{count} traffic classes; one for each of 8 priorities"))
    }
}

/// `TC:PERCENT` or `TC:strict`, which is 0 here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    class: u8,
    percent: u8,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let explain =
            || format!("'{text}' is not TC:PERCENT or TC:strict with a class of 0 to 7 and 1 to 100 percent");
        let (class, share) = text.split_once(':').ok_or_else(explain)?;
        let percent = match share {
            "strict" => Some(0),
            _ => share.parse().ok().filter(|percent| (1..=100).contains(percent)),
        };
        match (class.parse(), percent) {
            (Ok(class @ 0..=7), Some(percent)) => Ok(Self { class, percent }),
            _ => Err(explain()),
        }
    }
}

/// Classes and their shares, if they can be.
fn ets(map: &ClassMap, shares: &[Share]) -> Result<EtsConfig, String> {
    let mut ets = EtsConfig {
        prio_tc: map.0,
        strict: 0,
        percent: [0; PRIORITIES],
    };
    let mut named = 0u8;
    for share in shares {
        let bit = 1 << share.class;
        if named & bit != 0 {
            return Err(format!("class {} has two shares", share.class));
        }
        named |= bit;
        ets.percent[usize::from(share.class)] = share.percent;
        if share.percent == 0 {
            ets.strict |= bit;
        }
    }
    for (priority, class) in map.0.iter().enumerate() {
        if named >> class & 1 == 0 {
            return Err(format!(
                "priority {priority} is of class {class}, which has no share; give {class}:PERCENT or {class}:strict"
            ));
        }
    }
    let sum: u32 = ets.percent.iter().map(|percent| u32::from(*percent)).sum();
    if sum != 100 && sum != 0 {
        return Err(format!("the shares are {sum} percent together; they must be 100"));
    }
    Ok(ets)
}

/// What a look shows of an Ethernet port.
#[derive(Serialize)]
pub struct Ethernet {
    trust: &'static str,
    dscp: Vec<u8>,
    /// False: nobody has set shares, and all classes have the same weight.
    has_ets: bool,
    priorities: Vec<Priority>,
    classes: Vec<Class>,
    rx_ring_blocks: u32,
    xoff_blocks: u32,
    xon_blocks: u32,
    headroom_blocks: u32,
}

#[derive(Serialize)]
struct Priority {
    priority: u8,
    class: u8,
    pfc: bool,
    rx_fill: u32,
    pauses_sent: u32,
    pauses_received: u32,
    paused_cycles: u32,
}

#[derive(Serialize)]
struct Class {
    class: u8,
    strict: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u8>,
}

impl Ethernet {
    /// Asks about a port, if it is one.
    pub fn take(card: &Card, port: u8, status: &LinkStatus) -> Result<Option<Self>> {
        if status.link_layer != LinkLayer::Ethernet {
            return Ok(None);
        }
        Ok(Some(Self::new(status, &card.pfc_status(port)?)))
    }

    /// From what the card says.
    pub fn new(status: &LinkStatus, pfc: &PfcStatus) -> Self {
        let class_of = |priority: usize| status.sl2vl[priority];
        let priority = |(at, counts): (usize, &hca_verbs::PfcCounters)| Priority {
            priority: at as u8,
            class: class_of(at),
            pfc: status.pfc_enable >> at & 1 != 0,
            rx_fill: counts.rx_fill(),
            pauses_sent: counts.sent(),
            pauses_received: counts.received(),
            paused_cycles: counts.paused_cycles(),
        };
        let classes = (0..PRIORITIES as u8).filter(|class| (0..PRIORITIES).any(|at| class_of(at) == *class));
        let class = |class: u8| Class {
            class,
            strict: status.ets.is_some_and(|ets| ets.strict >> class & 1 != 0),
            percent: status
                .ets
                .map(|ets| ets.percent[usize::from(class)])
                .filter(|percent| *percent != 0),
        };
        Self {
            trust: match status.trust {
                EthTrust::Dscp => "dscp",
                EthTrust::Pcp => "pcp",
            },
            dscp: status.dscp.to_vec(),
            has_ets: status.ets.is_some(),
            priorities: pfc.priorities.iter().enumerate().map(priority).collect(),
            classes: classes.map(class).collect(),
            rx_ring_blocks: pfc.rx_ring_blocks,
            xoff_blocks: pfc.xoff_blocks,
            xon_blocks: pfc.xon_blocks,
            headroom_blocks: pfc.rx_ring_blocks.saturating_sub(pfc.xoff_blocks),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let share = |class: &Class| match (class.strict, class.percent) {
            (true, _) => format!("{}:strict", class.class),
            (_, Some(percent)) => format!("{}:{percent}", class.class),
            _ => class.class.to_string(),
        };
        let shares: Vec<_> = self.classes.iter().map(share).collect();
        let mut text = format!(
            "  trust {}; DSCPs {}\n  classes {}{}\n  \
             PFC pauses with {} of {} blocks of a receive ring (headroom {}), lets go with {}\n",
            self.trust,
            ranges(&self.dscp),
            shares.join(" "),
            if self.has_ets { "" } else { ", all alike" },
            self.xoff_blocks,
            self.rx_ring_blocks,
            self.headroom_blocks,
            self.xon_blocks,
        );
        text += " prio class PFC  rx ring  pauses sent     received paused cycles\n";
        for p in &self.priorities {
            let pfc = if p.pfc { "on" } else { "off" };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "  {:>3} {:>5} {pfc:>3} {:>8} {:>12} {:>12} {:>13}",
                p.priority, p.class, p.rx_fill, p.pauses_sent, p.pauses_received, p.paused_cycles
            );
        }
        text
    }
}

/// The map as `FIRST-LAST:PRIORITY`, in the notation of the command.
fn ranges(dscp: &[u8]) -> String {
    let mut parts = Vec::new();
    let mut first = 0;
    for run in dscp.chunk_by(|a, b| a == b) {
        let last = first + run.len() - 1;
        parts.push(if first == last {
            format!("{first}:{}", run[0])
        } else {
            format!("{first}-{last}:{}", run[0])
        });
        first = last + 1;
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dscps_are_read_and_shown_alike() {
        assert_eq!("26:3".parse(), Ok(DscpEntry::Of(26, 26, 3)));
        assert_eq!("0-63:7".parse(), Ok(DscpEntry::Of(0, 63, 7)));
        assert_eq!("default".parse(), Ok(DscpEntry::Default));
        for wrong in ["", "26", "64:0", "3:8", "5-4:1", "1-64:1", "-1:0", "a:b", "1:2:3"] {
            assert!(
                wrong.parse::<DscpEntry>().unwrap_err().contains("DSCP:PRIORITY"),
                "{wrong}"
            );
        }
        let mut dscp: Vec<u8> = (0..64).map(|dscp| dscp >> 3).collect();
        dscp[26] = 5;
        assert!(ranges(&dscp).starts_with("0-7:0 8-15:1 16-23:2 24-25:3 26:5 27-31:3 32-39:4"));
    }

    #[test]
    fn shares_say_what_is_wrong() {
        let shares = |list: &[&str]| -> Vec<Share> { list.iter().map(|s| s.parse().unwrap()).collect() };
        let map: ClassMap = "0,0,0,1,1,2,2,2".parse().unwrap();
        let found = ets(&map, &shares(&["0:30", "1:70", "2:strict"])).unwrap();
        assert_eq!((found.strict, found.percent[..3].to_vec()), (4, vec![30, 70, 0]));
        let wrong = |list: &[&str]| ets(&map, &shares(list)).unwrap_err();
        assert!(wrong(&["0:30", "1:60", "2:strict"]).contains("90 percent"));
        assert!(wrong(&["0:30", "1:70"]).contains("priority 5 is of class 2"));
        assert!(wrong(&["0:30", "0:70"]).contains("two shares"));
        for text in ["0", "0:0", "0:101", "8:1", "0:stricter", ":1"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert!(
            "0,1"
                .parse::<ClassMap>()
                .unwrap_err()
                .contains("2 traffic classes")
        );
        assert!("0,1,2,3,4,5,6,8".parse::<ClassMap>().is_err());
    }
}
