//! What programs call: one function for each name and for each entry of the tables of verbs.h.

pub mod absent;
pub mod ah;
pub mod channel;
pub mod context;
pub mod counters;
pub mod cq;
pub mod cq_ex;
pub mod device;
pub mod device_memory;
pub mod flow;
pub mod import;
pub mod kern;
pub mod memory;
pub mod post;
pub mod qp;
pub mod qp_ex;
pub mod query;
pub mod rate;
pub mod rss;
pub mod srq;
pub mod strings;
pub mod wc_address;
pub mod window;
pub mod wq;
pub mod xrc;
