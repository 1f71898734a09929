//! The Verilated models themselves, to be linked with what uses [`hca_vsim`]: `use hca_models as _;` in a program.
//!
//! A crate of its own, and one that libraries do without: after a change of RTL only this one and the programs are
//! built again, and not everything that drives a card.

// Programs that link the models have what calls them, too.
use hca_vsim as _;
