//! `hca firmware`: images of the cards' own processors, in the slots of their boards, and what signs them.

use anyhow::{Context as _, Result, anyhow, bail};
use hca_abi::{BoardSlot, FIRMWARE_SLOTS, QueryFirmwareResult, SLOT_NONE, SlotState};
use hca_verbs::{Context, OpenOptions};
use hca_vfio_user::VfioUserDevice;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use crate::sim::folder::Folder;

/// A simulator may be slow in wall-clock time: it shares the processor with its programs.
const PATIENCE_NS: u64 = 60_000_000_000;
/// The function that may change what all of them share.
const MANAGER: u8 = 0;

const EXAMPLES: &str = "Examples:
  hca firmware show
  hca firmware image new.img                       the image that this program was built with
  hca firmware key my.key                          then build with HCA_FIRMWARE_KEY=my.key
  hca firmware sign new.img --key my.key --version 0.2.0 -o signed.img
  hca firmware update signed.img --card 0 --restart

An update goes to the slot that does not run, and needs function 0. At the restart the card checks digest and signature;
an image that is wrong, or does not come up, is left, and the one before runs. A restart costs the functions in use:
programs get IBV_EVENT_DEVICE_FATAL. Needs `hca sim --firmware core`: firmware that runs natively cannot be replaced.

Exit code: 0 done; 2 no simulator, no such card, an image that is none, or a card that refuses.";

/// Commands of `hca firmware`.
#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// What runs, and what is in the slots
    Show(Which),
    /// Write an image into the slot that does not run, to be tried at the next start
    Update {
        /// Signed image
        file: PathBuf,
        /// Start it at once
        #[arg(long)]
        restart: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Write the image that this program was built with to a file
    Image {
        /// File to make
        file: PathBuf,
    },
    /// Make a key: the seed of an Ed25519 key, as hexadecimal digits
    Key {
        /// File to make; only its owner can read it
        file: PathBuf,
    },
    /// Sign an image
    Sign {
        /// Image, signed or not
        file: PathBuf,
        /// File with the key; without it the development key, which everybody knows
        #[arg(long)]
        key: Option<PathBuf>,
        /// Version to give it: major.minor.patch
        #[arg(long, value_parser = parse_version)]
        version: Option<u32>,
        /// Signed image to make
        #[arg(short, long)]
        output: PathBuf,
    },
}

/// Which card.
#[derive(clap::Args)]
pub struct Which {
    /// This card only
    #[arg(long, value_name = "N")]
    card: Option<u32>,
    /// Folder with the simulator's sockets, as given to hca sim
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Does it.
pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Show(which) => show(which)?,
        Command::Update { file, restart, which } => update(file, *restart, which)?,
        Command::Image { file } => {
            if hca_image::IMAGE.is_empty() {
                bail!(
                    "this program was built without an image: rustup target add riscv32imc-unknown-none-elf, and build again"
                );
            }
            write(file, hca_image::IMAGE)?;
        }
        Command::Key { file } => make_key(file)?,
        Command::Sign {
            file,
            key,
            version,
            output,
        } => {
            let seed = match key {
                Some(path) => read_key(path)?,
                None => hca_image::DEVELOPMENT_SEED,
            };
            let signed = hca_image::sign(&read(file)?, seed, *version);
            write(output, &signed.map_err(|e| anyhow!("{}: {e}", file.display()))?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn parse_version(text: &str) -> Result<u32, String> {
    let parts: Vec<_> = text.split('.').collect();
    let wrong = || {
        format!(
            "'{text}' is no version: three numbers as in 0.2.0, the first up to 65535, the others up to 255"
        )
    };
    let [major, minor, patch] = parts[..] else {
        return Err(wrong());
    };
    let major: u16 = major.parse().map_err(|_| wrong())?;
    let [minor, patch]: [u8; 2] = [
        minor.parse().map_err(|_| wrong())?,
        patch.parse().map_err(|_| wrong())?,
    ];
    Ok(u32::from(major) << 16 | u32::from(minor) << 8 | u32::from(patch))
}

/// As people write it.
pub fn version_text(version: u32) -> String {
    format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn read_key(path: &Path) -> Result<[u8; 32]> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    hca_image::seed_from(&text).map_err(|e| anyhow!("{}: {e}", path.display()))
}

fn make_key(path: &Path) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut seed = [0; 32];
    let mut random = fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    random.read_exact(&mut seed).context("cannot read /dev/urandom")?;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.with_context(|| format!("cannot make {}", path.display()))?;
    writeln!(file, "{}", digits(&seed)).with_context(|| format!("cannot write {}", path.display()))
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(folder: &Folder, card: u32, func: u8) -> Result<Context<Rc<VfioUserDevice>>> {
    let device = VfioUserDevice::connect(&folder.socket(card, func))?;
    let options = OpenOptions {
        ready_timeout_ns: PATIENCE_NS,
        command_timeout_ns: PATIENCE_NS,
        ..OpenOptions::default()
    };
    Ok(Context::open_with(Rc::new(device), &options)?)
}

fn show(which: &Which) -> Result<()> {
    let folder = Folder::find(which.dir.as_deref())?;
    for (card, functions) in folder.demand_cards(which.card)? {
        if which.card.is_some_and(|wanted| wanted != card) {
            continue;
        }
        let free = functions
            .iter()
            .rev()
            .find_map(|func| open(&folder, card, *func).ok());
        let text = match free {
            Some(context) => text(card, &context.function().query_firmware()?),
            None => format!("card {card}: all functions are taken\n"),
        };
        crate::print(&text)?;
    }
    Ok(())
}

fn text(card: u32, result: &QueryFirmwareResult) -> String {
    let version = version_text(result.version());
    if !result.on_core() {
        return format!(
            "card {card}: {version}, a part of the simulator: it cannot be replaced (hca sim --firmware core)\n"
        );
    }
    let mut text = format!("card {card}: {version}, digest {}\n", digits(&result.digest()));
    let slots = result.slots();
    let slots = slots.chunks_exact(BoardSlot::BYTES).take(FIRMWARE_SLOTS as usize);
    for (index, slot) in (0..).zip(slots.filter_map(BoardSlot::read_from)) {
        let mut line = match SlotState::try_from(slot.state()) {
            Ok(SlotState::Empty) => "empty".to_owned(),
            Ok(SlotState::Untried) => "not tried yet".to_owned(),
            Ok(SlotState::Good) => "has come up".to_owned(),
            Ok(SlotState::Refused) => "refused: digest or signature is wrong".to_owned(),
            Ok(SlotState::Failed) => "failed: it did not come up".to_owned(),
            Err(code) => format!("state {}", code.code),
        };
        if slot.bytes() != 0 {
            let _ = write!(line, ", {}, {} bytes", version_text(slot.version()), slot.bytes());
        }
        for (marked, mark) in [
            (result.running(), ", runs"),
            (result.next(), ", is tried at the next start"),
        ] {
            if marked == index && u32::from(index) != SLOT_NONE {
                line += mark;
            }
        }
        let _ = writeln!(text, "  slot {index}: {line}");
    }
    text
}

fn update(file: &Path, restart: bool, which: &Which) -> Result<()> {
    let image = read(file)?;
    let head = hca_image::head(&image).map_err(|e| anyhow!("{}: {e}", file.display()))?;
    if image.len() != head.bytes() as usize + hca_image::SIGNATURE_BYTES {
        bail!("{} is not signed: hca firmware sign", file.display());
    }
    let folder = Folder::find(which.dir.as_deref())?;
    let cards = folder.demand_cards(which.card)?;
    for card in cards
        .keys()
        .filter(|card| which.card.is_none_or(|wanted| wanted == **card))
    {
        let context = open(&folder, *card, MANAGER).with_context(|| {
            format!("card {card}: an update needs its function {MANAGER}, which must be free")
        })?;
        let mut function = context.function();
        if !function.query_firmware()?.is_updatable() {
            bail!("card {card}: its firmware is a part of the simulator; start hca sim with --firmware core");
        }
        function
            .write_firmware(&image)
            .with_context(|| format!("card {card}"))?;
        function
            .activate_firmware(restart)
            .with_context(|| format!("card {card}"))?;
        let when = if restart {
            "starts now"
        } else {
            "is tried at the next start"
        };
        let version = version_text(head.version());
        crate::print(&format!("card {card}: {version} is in its slot and {when}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        assert_eq!(parse_version("1.2.3"), Ok(0x0001_0203));
        assert_eq!(version_text(0x0001_0203), "1.2.3");
        for wrong in ["", "1.2", "1.2.3.4", "1.2.256", "65536.0.0", "a.b.c"] {
            assert!(parse_version(wrong).unwrap_err().contains("0.2.0"), "{wrong}");
        }
    }

    #[test]
    fn slots_are_told_in_words() {
        let mut result = QueryFirmwareResult::new();
        result.set_version(0x0000_0100);
        assert!(text(3, &result).contains("card 3: 0.1.0, a part of the simulator"));
        let mut slot = BoardSlot::new();
        slot.set_state(SlotState::Refused.into());
        slot.set_bytes(100);
        let mut slots = [0; 128];
        slots[64..].copy_from_slice(slot.as_bytes());
        result.set_on_core(true);
        result.set_next(SLOT_NONE as u8);
        result.set_slots(slots);
        let said = text(3, &result);
        assert!(
            said.contains("slot 0: empty, runs") && said.contains("slot 1: refused"),
            "{said}"
        );
    }
}
