//! A function of a card: its admin queue, bring-up, and what it can be asked.

pub mod admin;
pub mod bring_up;
mod commands;
pub mod device_memory;
mod firmware_commands;
pub mod key_table;
pub mod link_commands;
mod regions;
