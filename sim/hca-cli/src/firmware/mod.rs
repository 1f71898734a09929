//! `hca firmware`: images of the cards' own processors, in the slots of their boards, and what signs them.

use anyhow::{Context as _, Result, anyhow, bail};
use hca_abi::{
    BoardBoot, BoardSlot, FIRMWARE_SLOTS, ImageHead, QueryFirmwareResult, SLOT_NONE, SlotState, feature,
};
use hca_verbs::{Context, OpenOptions};
use hca_vfio_user::VfioUserDevice;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

mod files;

use crate::progress::Progress;
use crate::sim::folder::Folder;
use files::{make_key, parse_version, read, read_key, write};

/// A simulator may be slow in wall-clock time: it shares the processor with its programs.
const PATIENCE_NS: u64 = 60_000_000_000;
/// For two images that are checked one after the other and started, by a slow simulator.
const START_PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks at a card that starts.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The function that may change what all of them share.
const MANAGER: u8 = 0;
const NONE: u8 = SLOT_NONE as u8;

const EXAMPLES: &str = "Examples:
  hca firmware show
  hca firmware update signed.img --card 0 --restart
  hca firmware rollback --card 0
  hca firmware image new.img                       the image that this program was built with
  hca firmware key my.key                          then build with HCA_FIRMWARE_KEY=my.key
  hca firmware sign new.img --key my.key --version 0.2.0 -o signed.img

An update goes to the slot that does not run, and needs function 0. At the restart the card checks digest and signature;
an image that is wrong, or does not come up, is left, and the one before runs. A restart costs the functions in use:
programs get IBV_EVENT_DEVICE_FATAL. Needs `hca sim --firmware core`: firmware that runs natively cannot be replaced.

Exit code: 0 done; 2 no simulator, no such card, an image that is none or that the card refuses or has left.";

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
        /// Start it at once, and wait until it has come up
        #[arg(long)]
        restart: bool,
        /// Also an image of a version before the one that runs
        #[arg(long)]
        allow_older: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Start the image in the other slot, and wait until it has come up
    Activate(Which),
    /// The same for an image that has come up before, and no other: back to the firmware before an update
    Rollback(Which),
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
        /// Epoch to give it: when it has come up, images of an epoch before never start again on that board
        #[arg(long)]
        epoch: Option<u32>,
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

impl Which {
    /// Does it to each of the cards.
    fn each(&self, mut work: impl FnMut(&Folder, u32, &[u8]) -> Result<()>) -> Result<()> {
        let folder = Folder::find(self.dir.as_deref())?;
        for (card, functions) in folder.demand_cards(self.card)? {
            if self.card.is_none_or(|wanted| wanted == card) {
                work(&folder, card, &functions).with_context(|| format!("card {card}"))?;
            }
        }
        Ok(())
    }
}

/// Does it.
pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Show(which) => which.each(show)?,
        Command::Update {
            file,
            restart,
            allow_older,
            which,
        } => {
            let image = read(file)?;
            let head = hca_image::head(&image).map_err(|e| anyhow!("{}: {e}", file.display()))?;
            which.each(|folder, card, _| {
                let context = manager(folder, card)?;
                let runs = context.function().query_firmware()?;
                may_run(&image, &head, &runs, *allow_older).with_context(|| file.display().to_string())?;
                write_image(&context, &image)?;
                let version = version_text(head.version());
                if *restart {
                    return activate(folder, card, context);
                }
                context.function().activate_firmware(false)?;
                print(&format!(
                    "card {card}: {version} is in its slot and is tried at the next start: hca firmware activate\n"
                ))
            })?;
        }
        Command::Activate(which) => which.each(|folder, card, _| {
            let context = manager(folder, card)?;
            activate(folder, card, context)
        })?,
        Command::Rollback(which) => which.each(|folder, card, _| {
            let context = manager(folder, card)?;
            let result = context.function().query_firmware()?;
            let other = u8::from(result.running() == 0);
            if slot(&result, other).state() != u8::from(SlotState::Good) {
                bail!(
                    "its slot {other} has no image that has come up before, so there is nothing to go back to: \
                     hca firmware show, hca firmware update"
                );
            }
            activate(folder, card, context)
        })?,
        Command::Image { file } => {
            if hca_image::IMAGE.is_empty() {
                bail!(
                    "built without an image: rustup target add riscv32imc-unknown-none-elf, and build again"
                );
            }
            write(file, hca_image::IMAGE)?;
        }
        Command::Key { file } => make_key(file)?,
        Command::Sign {
            file,
            key,
            version,
            epoch,
            output,
        } => {
            let seed = match key {
                Some(path) => read_key(path)?,
                None => hca_image::DEVELOPMENT_SEED,
            };
            let signed = hca_image::sign(&read(file)?, seed, |head| {
                head.set_version(version.unwrap_or(head.version()));
                head.set_epoch(epoch.unwrap_or(head.epoch()));
            });
            write(output, &signed.map_err(|e| anyhow!("{}: {e}", file.display()))?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) -> Result<()> {
    Ok(crate::print(text)?)
}

/// As people write it.
fn version_text(version: u32) -> String {
    format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff)
}

/// image_head.hardware in words.
fn hardware_text(hardware: u32) -> String {
    let lines = 1u32.checked_shl(hardware & 0xff).unwrap_or(0);
    let missing = hardware >> 8 & 0xffff;
    let without: Vec<_> = feature::TABLE
        .flags
        .iter()
        .filter(|flag| missing & 1 << flag.bit != 0)
        .map(|flag| flag.name)
        .collect();
    let without = match without.as_slice() {
        [] => String::new(),
        names => format!(", without {}", names.join(", ")),
    };
    format!("hardware {} with {lines} lines{without}", hardware >> 24)
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

type Card = Context<Rc<VfioUserDevice>>;

fn open(folder: &Folder, card: u32, func: u8) -> Result<Card> {
    let device = VfioUserDevice::connect(&folder.socket(card, func))?;
    let options = OpenOptions {
        ready_timeout_ns: PATIENCE_NS,
        command_timeout_ns: PATIENCE_NS,
        ..OpenOptions::default()
    };
    Ok(Context::open_with(Rc::new(device), &options)?)
}

/// Function 0 of a card whose firmware can be replaced.
fn manager(folder: &Folder, card: u32) -> Result<Card> {
    let context = open(folder, card, MANAGER).with_context(|| {
        format!(
            "only function {MANAGER} may replace firmware, and it must be free: end the process that uses it"
        )
    })?;
    if !context.function().query_firmware()?.is_updatable() {
        bail!("its firmware is a part of the simulator and cannot be replaced: hca sim --firmware core");
    }
    Ok(context)
}

fn slot(result: &QueryFirmwareResult, index: u8) -> BoardSlot {
    let at = usize::from(index) * BoardSlot::BYTES;
    let bytes = result.slots();
    let slot = bytes.get(at..).and_then(BoardSlot::read_from);
    slot.unwrap_or(BoardSlot::new())
}

fn show(folder: &Folder, card: u32, functions: &[u8]) -> Result<()> {
    let free = functions
        .iter()
        .rev()
        .find_map(|func| open(folder, card, *func).ok());
    print(&match free {
        Some(context) => text(card, &context.function().query_firmware()?),
        None => format!("card {card}: all functions are taken\n"),
    })
}

fn text(card: u32, result: &QueryFirmwareResult) -> String {
    let version = version_text(result.version());
    if !result.on_core() {
        return format!(
            "card {card}: {version}, a part of the simulator: it cannot be replaced (hca sim --firmware core)\n"
        );
    }
    let mut text = format!("card {card}: {version}, digest {}\n", digits(&result.digest()));
    let _ = writeln!(
        text,
        "  takes images for {} of epoch {} and later, signed with {}",
        hardware_text(result.hardware()),
        result.epoch(),
        digits(&result.public_key())
    );
    for index in 0..FIRMWARE_SLOTS as u8 {
        let slot = slot(result, index);
        let mut line = state_text(slot.state()).to_owned();
        if slot.bytes() != 0 {
            let _ = write!(line, ", {}, {} bytes", version_text(slot.version()), slot.bytes());
        }
        for (marked, mark) in [
            (result.running(), ", runs"),
            (result.next(), ", is tried at the next start"),
        ] {
            if marked == index {
                line += mark;
            }
        }
        let _ = writeln!(text, "  slot {index}: {line}");
    }
    text
}

fn state_text(state: u8) -> &'static str {
    match SlotState::try_from(state) {
        Ok(SlotState::Empty) => "empty",
        Ok(SlotState::Untried) => "not tried yet",
        Ok(SlotState::Good) => "has come up",
        Ok(SlotState::Refused) => "refused: head, digest or signature is wrong",
        Ok(SlotState::Failed) => "failed: it did not come up",
        Ok(SlotState::OtherCard) => "refused: it is for hardware of another kind",
        Ok(SlotState::TooOld) => "refused: its epoch is over",
        Err(_) => "in a state that this program does not know",
    }
}

/// Would the card start it? What the card would find later is said now, before anything is written.
fn may_run(image: &[u8], head: &ImageHead, runs: &QueryFirmwareResult, allow_older: bool) -> Result<()> {
    let mut board = BoardBoot::new();
    board.set_public_key(runs.public_key());
    board.set_hardware(runs.hardware());
    board.set_epoch(runs.epoch());
    if head.hardware() != runs.hardware() {
        bail!(
            "it is for {}, and the card is {}: build the image for this card",
            hardware_text(head.hardware()),
            hardware_text(runs.hardware())
        );
    }
    if head.epoch() < runs.epoch() {
        bail!(
            "its epoch {} is over: this board starts images of epoch {} and later",
            head.epoch(),
            runs.epoch()
        );
    }
    hca_image::verify(image, &board).map_err(|e| {
        let key = digits(&runs.public_key());
        anyhow!(
            "{e}: get the file anew, or have it signed by whoever has the key of {key} (hca firmware sign)"
        )
    })?;
    let whole = head.bytes() as usize + hca_image::SIGNATURE_BYTES;
    if image.len() != whole {
        bail!(
            "it has {} bytes, and image and signature are {whole}: it is not what was signed",
            image.len()
        );
    }
    if head.version() < runs.version() && !allow_older {
        bail!(
            "its version {} is older than {}, which runs: --allow-older, or hca firmware rollback",
            version_text(head.version()),
            version_text(runs.version())
        );
    }
    Ok(())
}

fn write_image(context: &Card, image: &[u8]) -> Result<()> {
    let mut progress = Progress::new("firmware", image.len() as u64, false);
    let mut done = 0;
    let written = context.function().write_firmware(image, |bytes| {
        progress.add((bytes - done) as u64);
        done = bytes;
    });
    written.with_context(|| {
        format!(
            "the update ended after {done} of {} bytes: the firmware that runs goes on; write the image again",
            image.len()
        )
    })
}

/// Has the image in the other slot started, and waits until it runs or the one before does again.
fn activate(folder: &Folder, card: u32, context: Card) -> Result<()> {
    let before = context.function().query_firmware()?;
    let other = u8::from(before.running() == 0);
    let tried = version_text(slot(&before, other).version());
    eprintln!(
        "card {card}: {tried} is checked and started: some 14 million cycles, seconds of the simulator"
    );
    context.function().activate_firmware(true).with_context(|| {
        format!(
            "slot {other}, {}: it cannot be started",
            state_text(slot(&before, other).state())
        )
    })?;
    drop(context);
    let began = Instant::now();
    let after = loop {
        // The answer that it gives is what a new image is waiting for: the next one tells that it is kept.
        let looked =
            open(folder, card, MANAGER).and_then(|context| Ok(context.function().query_firmware()?));
        match looked {
            Ok(after) if after.next() == NONE => break after,
            Err(e) if began.elapsed() > START_PATIENCE => {
                return Err(e.context("neither image has come up: see what the card's console says"));
            }
            Ok(_) if began.elapsed() > START_PATIENCE => {
                bail!("{tried} runs but is not kept: see what the card's console says");
            }
            _ => std::thread::sleep(LOOK_EVERY),
        }
    };
    if after.running() != other {
        bail!(
            "{tried} was left ({}), and {} runs again",
            state_text(slot(&after, other).state()),
            version_text(after.version())
        );
    }
    print(&format!("card {card}: {} runs\n", version_text(after.version())))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        result.set_hardware(0x0100_010a);
        result.set_next(NONE);
        result.set_slots(slots);
        let said = text(3, &result);
        for part in [
            "slot 0: empty, runs",
            "slot 1: refused",
            "hardware 1 with 1024 lines, without RAW",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    /// What the card would refuse is named before a byte is written: the thing, the limit, the remedy.
    #[test]
    fn what_the_card_would_refuse_is_said_first() {
        if hca_image::IMAGE.is_empty() {
            return;
        }
        let seed = [3; 32];
        let hardware = hca_image::head(hca_image::IMAGE).unwrap().hardware();
        let mut runs = QueryFirmwareResult::new();
        runs.set_hardware(hardware);
        runs.set_epoch(2);
        runs.set_version(0x0001_0200);
        runs.set_public_key(hca_image::public_key(seed));
        let image = |seed, hardware, epoch, version| {
            hca_image::sign(hca_image::IMAGE, seed, |head| {
                head.set_hardware(hardware);
                head.set_epoch(epoch);
                head.set_version(version);
            })
            .unwrap()
        };
        let good = image(seed, hardware, 2, 0x0001_0200);
        let refused = |image: &[u8], allow_older| {
            let head = hca_image::head(image).unwrap();
            may_run(image, &head, &runs, allow_older)
                .err()
                .map(|e| e.to_string())
        };
        assert_eq!(refused(&good, false), None);
        let older = image(seed, hardware, 2, 0x0001_01ff);
        assert_eq!(refused(&older, true), None);
        let mut damaged = good.clone();
        damaged[300] ^= 1;
        for (image, parts) in [
            (older, ["1.1.255", "1.2.0", "--allow-older"]),
            (
                image(seed, hardware + 1, 2, 0x0001_0200),
                ["2048 lines", "1024 lines", "build"],
            ),
            (
                image(seed, hardware, 1, 0x0001_0200),
                ["epoch 1 is over", "epoch 2", "later"],
            ),
            (
                image([4; 32], hardware, 2, 0x0001_0200),
                ["not signed", "board's key", "hca firmware sign"],
            ),
            (damaged, ["digest", "wrong", "hca firmware sign"]),
            (
                [good.clone(), vec![0]].concat(),
                ["bytes", "signature", "not what was signed"],
            ),
        ] {
            let said = refused(&image, false).unwrap_or_default();
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
    }
}
