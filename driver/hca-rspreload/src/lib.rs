//! `librspreload.so`: programs that know sockets alone use rsockets, by LD_PRELOAD.
//!
//! A program's descriptor stays the kernel's socket. Where an address turns out to be one that a card has or reaches,
//! an rsocket stands behind the descriptor, and calls go there; the kernel's socket keeps the number, and the options
//! that rsockets do not have. Everything else (files, other kinds of sockets, other addresses) goes to the C library
//! as it is. Who listens on all addresses listens on the machine's and on the cards'.
//!
//! * `real` finds the C library's calls, `rdma` names rsockets'.
//! * `table` says what stands behind a descriptor, without a lock: calls must work in a child of fork, too.
//! * `connect`, `data`, `names`, `wait`, `epoll` are the calls; `fork` is what becomes of connections in children.
//!
//! Nothing here keeps a lock while it calls rsockets: those call the C library, and so come here again.

mod connect;
mod data;
mod epoll;
mod fork;
mod names;
mod rdma;
mod real;
mod table;
mod wait;
