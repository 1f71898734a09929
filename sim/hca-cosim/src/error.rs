use hca_host::ParamError;
use hca_link::LinkError;
use hca_outside::WireError;
use hca_switch::SwitchError;
use thiserror::Error;

/// What stops a simulation from being built or observed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimError {
    /// Parameters of the host side.
    #[error(transparent)]
    Pcie(#[from] ParamError),
    /// Parameters or captures of a cable.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Parameters or connections of a switch.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// A port that has a cable already.
    #[error("{0} already has a cable at this port")]
    PortTaken(String),
    /// A port that the card does not have.
    #[error("port {port} does not exist: card {card} has {ports}")]
    NoPort {
        /// The card.
        card: String,
        /// What was asked for.
        port: u8,
        /// How many there are.
        ports: u8,
    },
    /// A cable whose clock is not the cards'.
    #[error("cable {cable} counts cycles of {cable_ps} ps, card {card} of {card_ps} ps: they must be equal")]
    Clock {
        /// The cable.
        cable: String,
        /// Its cycle.
        cable_ps: u64,
        /// The card.
        card: String,
        /// Its cycle.
        card_ps: u64,
    },
    /// A wire to the outside on a cable that is not Ethernet.
    #[error("{0} is Ethernet, its cable InfiniBand")]
    OutsideKind(String),
    /// A wire to the outside that cannot be opened.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A function that the card does not have.
    #[error("function {func} does not exist: card {card} has functions 0 to {last}")]
    NoFunction {
        /// The card.
        card: String,
        /// What was asked for.
        func: u8,
        /// The last there is.
        last: u8,
    },
    /// A build without the firmware's image.
    #[error(
        "card {0} cannot run firmware on its own processor: this program was built without the image. \
             Run 'rustup target add riscv32imc-unknown-none-elf' and build again, or choose native firmware"
    )]
    NoImage(String),
    /// A build without the RTL.
    #[error(
        "card {0} is of RTL, and this program was built without the RTL: choose cards of the model (--model, or \
             HCA_CARD=model), or build with the RTL, which needs Verilator (make hca)"
    )]
    NoRtl(String),
    /// Something that a card of the model does not have.
    #[error("card {card} is a model without gates (--model, HCA_CARD=model): {what}")]
    Functional {
        /// The card.
        card: String,
        /// What it does not have, and what to do.
        what: &'static str,
    },
    /// More neighbours than the board's memory holds.
    #[error("card {card}: the board's memory holds {limit} neighbours, not {count}")]
    BoardFull {
        /// The card.
        card: String,
        /// What it should hold.
        count: usize,
        /// What it holds.
        limit: usize,
    },
    /// No memory for the firmware's stack, or a file that cannot be written.
    #[error("{what}: {reason}")]
    Os {
        /// What was tried.
        what: String,
        /// The system's reason. Part of the sentence, so not a `source()` that would say it twice.
        reason: std::io::Error,
    },
}
