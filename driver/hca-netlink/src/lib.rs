//! `libhcanetlink.so`: what the kernel would answer about the cards of a simulator to a program that asks it by RDMA
//! netlink, as `rdma link` does. By `LD_PRELOAD` it stands before `socket` and the calls that send.
//!
//! It knows cards by the files below /sys that `hca run` shows, and nothing else: what is not there cannot be answered.
//!
//! * `calls` gives the program a netlink socket of a family that every kernel has. What it sends to the kernel through
//!   it is answered here, by datagrams that the socket receives like any others.
//! * `answers` says what is answered, from `cards` (the files) by `message` (the format).

mod answers;
mod calls;
mod cards;
mod message;
