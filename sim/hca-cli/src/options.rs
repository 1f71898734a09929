//! Options that several commands share.

use clap::ValueEnum;
use hca_cosim::{Design, Processor};
use hca_host::PcieParams;
use hca_link::{FaultSpec, LinkKind};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

/// Personality of the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Link {
    /// Ethernet with RoCEv2
    Eth,
    /// InfiniBand
    Ib,
}

impl From<Link> for LinkKind {
    fn from(link: Link) -> Self {
        match link {
            Link::Eth => Self::Ethernet,
            Link::Ib => Self::InfiniBand,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eth => "eth",
            Self::Ib => "ib",
        })
    }
}

/// How the simulator uses the machine.
#[derive(clap::Args, Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Threads that evaluate the cards: results are the same with any number, and more are faster while as many
    /// processors have nothing else to do
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads())]
    pub threads: usize,
    #[command(flatten)]
    pub cards: CardOptions,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            threads: 1,
            cards: CardOptions::default(),
        }
    }
}

/// What the cards are made of.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq)]
pub struct CardOptions {
    /// Cards without gates: the transport's reference model behind the same registers and rings, fast, without cycles
    /// inside (docs/model.md); as HCA_CARD says, else the RTL
    #[arg(long)]
    pub model: bool,
    /// What runs the cards' firmware: this machine, or each card's own RISC-V processor, cycle by cycle; as
    /// HCA_FIRMWARE says, else native
    #[arg(long, value_name = "WHERE")]
    pub firmware: Option<FirmwareOn>,
}

/// See above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FirmwareOn {
    /// This machine
    Native,
    /// The card's own processor
    Core,
}

impl CardOptions {
    /// Fails where they are chosen to be models, or can be nothing else, for a command that counts cycles of the RTL.
    pub fn need_cycles(self, command: &str) -> anyhow::Result<()> {
        if !hca_cosim::has_rtl() {
            anyhow::bail!(
                "hca {command} measures the cycles of the RTL, and this hca was built without it: build it on a \
                 machine with Verilator (make hca)"
            );
        }
        if self.model || Design::chosen() == Design::Model {
            anyhow::bail!(
                "hca {command} measures the cycles of the RTL, and a card of the model has none: leave --model and \
                 HCA_CARD away"
            );
        }
        Ok(())
    }

    /// For all cards that this thread makes.
    pub fn apply(self) {
        if self.model {
            Design::Model.choose();
        }
        if let Some(firmware) = self.firmware {
            let processor = match firmware {
                FirmwareOn::Native => Processor::Native,
                FirmwareOn::Core => Processor::Core,
            };
            processor.choose();
        }
    }
}

fn threads() -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser as _;
    clap::value_parser!(u8).range(1..=64).map(usize::from)
}

/// The PCIe link of every card.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub struct Pcie {
    /// PCIe: time from the request for 64 bytes to their arrival [default: 500]
    #[arg(long, value_name = "NS")]
    pub pcie_read_latency: Option<u32>,
    /// PCIe: raw bandwidth of each direction, in 10^6 bytes per second [default: 16000]
    #[arg(long, value_name = "MBPS")]
    pub pcie_bandwidth: Option<u32>,
    /// PCIe: largest payload of a packet, 64 to 4096 [default: 256]
    #[arg(long, value_name = "BYTES")]
    pub pcie_mps: Option<u32>,
    /// PCIe: largest read request, 64 to 512 [default: 512]
    #[arg(long, value_name = "BYTES")]
    pub pcie_mrrs: Option<u32>,
}

impl Pcie {
    /// Parameters with these on top.
    pub fn over(&self, params: &PcieParams) -> PcieParams {
        PcieParams {
            read_latency_ns: self.pcie_read_latency.unwrap_or(params.read_latency_ns),
            bandwidth_mbps: self.pcie_bandwidth.unwrap_or(params.bandwidth_mbps),
            max_payload_bytes: self.pcie_mps.unwrap_or(params.max_payload_bytes),
            max_read_request_bytes: self.pcie_mrrs.unwrap_or(params.max_read_request_bytes),
            ..params.clone()
        }
    }
}

/// Where a timeline goes.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
pub struct TimelineArgs {
    /// Write a timeline for Perfetto or Chrome: work requests, packets, PCIe, queues of every card (docs/timeline.md)
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
    /// Only these cycles of it [default: all]
    #[arg(long, value_name = "FROM:TO", requires = "timeline")]
    pub timeline_window: Option<Window>,
}

impl TimelineArgs {
    /// File and window of cycles.
    pub fn wanted(&self) -> Option<(PathBuf, Range<u64>)> {
        let window = self
            .timeline_window
            .map_or(0..u64::MAX, |window| window.from..window.to);
        self.timeline.clone().map(|file| (file, window))
    }
}

/// Text of `--faults`.
pub const FAULTS_HELP: &str = "Faults of the cable, for example loss=0.01,reorder=0.02,delay_ns=500: \
    loss, dup, reorder, corrupt, pause are probabilities per packet, delay_ns and pause_ns times; \
    fc_loss and fc_corrupt are loss and corrupt of InfiniBand flow control";

/// Text of `--peer`.
pub const PEER_HELP: &str = "Lead the cable of an Ethernet port out of the simulator, card0=PEER or card0.2=PEER for \
    its second port: unix:PATH or PATH (a stream socket with QEMU's framing, listens), unix-connect:PATH, \
    dgram:LOCAL,REMOTE, udp:LOCAL_IP:PORT,REMOTE_IP:PORT, tap:INTERFACE; may be repeated";

/// An option about a port of a card: `CARD=VALUE` or `CARD.PORT=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOption<T> {
    /// Name of the card, and perhaps the port.
    pub port: String,
    /// What is said of it.
    pub value: T,
}

impl<T: FromStr<Err: fmt::Display>> FromStr for PortOption<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (port, value) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' names no port; write card0={text}"))?;
        Ok(Self {
            port: port.to_owned(),
            value: value.parse().map_err(|error: T::Err| error.to_string())?,
        })
    }
}

/// Words that repeat these options on a command line; nothing for defaults.
pub fn repeat(link: Link, faults: &FaultSpec, seed: u64) -> String {
    let faults = if faults.is_clean() {
        String::new()
    } else {
        format!(" --faults {faults}")
    };
    format!("--link {link}{faults} --seed {seed}")
}

/// Cycles `FROM:TO`; either may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First cycle.
    pub from: u64,
    /// Cycle after the last.
    pub to: u64,
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let explain = || format!("'{text}' is not a window of cycles; write FROM:TO, as in 20000:25000");
        let (from, to) = text.split_once(':').ok_or_else(explain)?;
        let cycle = |text: &str, missing| match text {
            "" => Ok(missing),
            digits => digits.parse().map_err(|_| explain()),
        };
        let window = Self {
            from: cycle(from, 0)?,
            to: cycle(to, u64::MAX)?,
        };
        if window.from < window.to {
            Ok(window)
        } else {
            Err(format!("window '{text}' ends before it starts"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows() {
        assert_eq!("5:9".parse(), Ok(Window { from: 5, to: 9 }));
        assert_eq!(
            ":".parse(),
            Ok(Window {
                from: 0,
                to: u64::MAX
            })
        );
        for text in ["", "5", "9:5", "a:b", "5:5", "-1:2"] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }

    #[test]
    fn repeat_names_what_is_not_default() {
        let faults = "loss=0.5".parse().unwrap();
        assert_eq!(
            repeat(Link::Ib, &faults, 7),
            "--link ib --faults loss=0.5 --seed 7"
        );
        assert_eq!(repeat(Link::Eth, &FaultSpec::default(), 1), "--link eth --seed 1");
    }
}
