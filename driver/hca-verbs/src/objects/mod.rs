//! What a program makes, uses and destroys. Each constructor is a method of what the object is made in, and lives with
//! the object.

pub mod ah;
pub mod channel;
pub mod congestion;
pub mod context;
pub mod cq;
pub mod device_memory;
pub mod fast_mr;
pub mod flow;
pub mod link;
pub mod lldp;
pub mod memory;
pub mod pd;
pub mod raw_qp;
pub mod rss;
pub mod srq;
pub mod typed_qp;
pub mod window;
pub mod wq;
pub mod xrc;
