//! How tables of a link are written on a command line: the notation of OpenSM's options.

use clap::ValueEnum;
use hca_verbs::{CcAlgorithm, Congestion, LinkPolicy, OpVls, PortState, VlWeight};
use std::fmt;
use std::str::FromStr;

/// Entries of an arbitration table.
const ENTRIES_MAX: usize = 64;
/// An SL that maps to this VL carries no data.
const UNUSABLE: u8 = 15;

/// `VL:WEIGHT,VL:WEIGHT,..`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arbitration(pub Vec<VlWeight>);

impl FromStr for Arbitration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entry = |part: &str| {
            let explain =
                || format!("'{part}' is not VL:WEIGHT with a VL of 0 to 14 and a weight of 0 to 255");
            let (vl, weight) = part.split_once(':').ok_or_else(explain)?;
            let (vl, weight) = (vl.trim().parse::<u8>(), weight.trim().parse::<u8>());
            match (vl, weight) {
                (Ok(vl @ 0..=14), Ok(weight)) => Ok(VlWeight { vl, weight }),
                _ => Err(explain()),
            }
        };
        let entries: Vec<VlWeight> = list(text).map(entry).collect::<Result<_, _>>()?;
        if entries.len() > ENTRIES_MAX {
            return Err(format!("{} entries; a table has {ENTRIES_MAX}", entries.len()));
        }
        Ok(Self(entries))
    }
}

impl fmt::Display for Arbitration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}:{}", entry.vl, entry.weight)?;
        }
        Ok(())
    }
}

/// The VL of each SL, `VL,VL,..`. Fewer than 16 are repeated; 15: the SL is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sl2vl(pub [u8; 16]);

impl FromStr for Sl2vl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let vl = |part: &str| {
            let vl = part.trim().parse().ok().filter(|vl| *vl <= UNUSABLE);
            vl.ok_or_else(|| format!("'{part}' is not a VL; they are 0 to 14, and 15 for none"))
        };
        let vls: Vec<u8> = list(text).map(vl).collect::<Result<_, _>>()?;
        if vls.is_empty() || vls.len() > 16 {
            return Err(format!(
                "{} VLs; one for each of 16 service levels, or fewer that repeat",
                vls.len()
            ));
        }
        Ok(Self(std::array::from_fn(|sl| vls[sl % vls.len()])))
    }
}

/// Limit of High Priority: 0 to 254 units of 4096 bytes, or `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub u8);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unlimited" => Ok(Self(u8::MAX)),
            _ => text
                .parse()
                .map(Self)
                .map_err(|_| format!("'{text}' is not a limit: 0 to 255, or unlimited, which is 255")),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u8::MAX => f.write_str("unlimited"),
            limit => write!(f, "{limit}"),
        }
    }
}

/// Priorities `N,N,..` of 0 to 7, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities(pub u8);

impl FromStr for Priorities {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(0));
        }
        let mut bits = 0;
        for part in list(text) {
            match part.trim().parse::<u8>() {
                Ok(priority @ 0..=7) => bits |= 1 << priority,
                _ => {
                    return Err(format!(
                        "'{part}' is not a priority of 0 to 7; write N,N,.. or none"
                    ));
                }
            }
        }
        Ok(Self(bits))
    }
}

/// An entry of the P_Key table: `INDEX=PKEY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PkeyEntry {
    /// Index.
    pub index: u16,
    /// P_Key.
    pub pkey: u16,
}

impl FromStr for PkeyEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let explain = || format!("'{text}' is not INDEX=PKEY, as in 1=0x8001");
        let (index, pkey) = text.split_once('=').ok_or_else(explain)?;
        let pkey = match pkey.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16),
            None => pkey.parse(),
        };
        match (index.parse(), pkey) {
            (Ok(index), Ok(pkey)) => Ok(Self { index, pkey }),
            _ => Err(explain()),
        }
    }
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|part| !part.trim().is_empty())
}

/// How the arbiter shares the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Weighted round robin; high until its limit is used up, then one low packet
    Iba,
    /// Rounds in which low gets its weights once and high its own a whole number of times
    RoundQuantum,
}

impl From<Policy> for LinkPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Iba => Self::Iba,
            Policy::RoundQuantum => Self::RoundQuantum,
        }
    }
}

/// Name of a policy, as the option takes it.
pub fn policy_name(policy: LinkPolicy) -> &'static str {
    match policy {
        LinkPolicy::Iba => "iba",
        LinkPolicy::RoundQuantum => "round-quantum",
    }
}

/// A state to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AskedState {
    /// Everything is dropped
    Down,
    /// Management packets only
    Init,
    /// Receives, but sends management packets only
    Armed,
    /// In use
    Active,
}

impl From<AskedState> for PortState {
    fn from(state: AskedState) -> Self {
        match state {
            AskedState::Down => Self::Down,
            AskedState::Init => Self::Init,
            AskedState::Armed => Self::Armed,
            AskedState::Active => Self::Active,
        }
    }
}

/// Congestion control to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AskedCongestion {
    /// None
    Off,
    /// By marks, as in DCQCN
    Dcqcn,
    /// By round trips
    Delay,
}

impl AskedCongestion {
    /// With its usual parameters.
    pub fn parameters(self) -> Option<Congestion> {
        let algorithm = match self {
            Self::Off => return None,
            Self::Dcqcn => CcAlgorithm::Dcqcn,
            Self::Delay => CcAlgorithm::Delay,
        };
        Some(Congestion {
            algorithm,
            ..Congestion::default()
        })
    }
}

/// A number of data VLs.
pub fn vls(text: &str) -> Result<OpVls, String> {
    let found = OpVls::ALL.iter().find(|vls| vls.count().to_string() == text);
    found
        .copied()
        .ok_or_else(|| format!("'{text}' is no number of data VLs: 1, 2, 4, 8 or 15"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VL-12: entries in their order, also several for one VL; what cannot be is explained.
    #[test]
    fn arbitration_tables() {
        let table: Arbitration = "0:64,1:0, 14:255,0:1".parse().unwrap();
        let pairs: Vec<_> = table.0.iter().map(|e| (e.vl, e.weight)).collect();
        assert_eq!(pairs, [(0, 64), (1, 0), (14, 255), (0, 1)]);
        assert_eq!(table.to_string(), "0:64,1:0,14:255,0:1");
        assert_eq!("".parse(), Ok(Arbitration(Vec::new())));
        for wrong in [
            "0", "0:", ":1", "15:1", "0:256", "0:-1", "a:b", "0:1:2", "0:1;1:1",
        ] {
            assert!(
                wrong.parse::<Arbitration>().unwrap_err().contains("VL:WEIGHT"),
                "{wrong}"
            );
        }
        assert!(vec!["0:1"; 64].join(",").parse::<Arbitration>().is_ok());
        assert!(vec!["0:1"; 65].join(",").parse::<Arbitration>().is_err());
    }

    /// VL-8.
    #[test]
    fn service_levels() {
        let alternating = std::array::from_fn(|sl| sl as u8 % 2);
        assert_eq!("0,1".parse(), Ok(Sl2vl(alternating)));
        let all = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15";
        assert_eq!(all.parse(), Ok(Sl2vl(std::array::from_fn(|sl| sl as u8))));
        for wrong in ["", "16", "-1", "x", &format!("{all},0")] {
            assert!(wrong.parse::<Sl2vl>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!("unlimited".parse(), Ok(Limit(255)));
        assert_eq!("0".parse(), Ok(Limit(0)));
        assert!("256".parse::<Limit>().is_err() && "".parse::<Limit>().is_err());
        assert_eq!(
            (Limit(254).to_string(), Limit(255).to_string()),
            ("254".into(), "unlimited".into())
        );
        assert_eq!("3,4,3".parse(), Ok(Priorities(0b11000)));
        assert_eq!("none".parse(), Ok(Priorities(0)));
        assert!("8".parse::<Priorities>().is_err());
        assert_eq!(
            "2=0x8001".parse(),
            Ok(PkeyEntry {
                index: 2,
                pkey: 0x8001
            })
        );
        assert_eq!("0=7".parse(), Ok(PkeyEntry { index: 0, pkey: 7 }));
        for wrong in ["", "1", "=1", "1=", "1=0x", "1=0x10000", "x=1"] {
            assert!(wrong.parse::<PkeyEntry>().is_err(), "{wrong}");
        }
        assert_eq!(vls("15"), Ok(OpVls::Fifteen));
        assert!(vls("3").is_err() && vls("").is_err() && vls("08").is_err());
    }
}
