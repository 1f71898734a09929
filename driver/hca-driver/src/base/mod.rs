//! What everything here is made of: errors, work requests and their layout, doorbells.

pub mod datagram;
pub mod device;
pub mod doorbell;
pub mod error;
pub mod owner;
pub mod push;
pub mod work;
