//! What the pointers of a program point at. No function here is called by C.

pub mod ah;
pub mod card;
pub mod channel;
pub mod context;
pub mod counters;
pub mod cq;
pub mod device;
pub mod device_memory;
pub mod events;
pub mod flow;
pub mod memory;
pub mod names;
pub mod qp;
pub mod section;
pub mod srq;
pub mod wq;
pub mod xrc;
