//! The rings that carry work. They know no function: whoever makes one tells the card of it.

pub mod cq_ring;
pub mod eq_ring;
pub mod qpn_table;
pub mod recv_ring;
pub mod send_ring;
pub mod shadow;
pub mod srq_ring;
