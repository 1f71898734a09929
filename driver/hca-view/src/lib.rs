//! `libhcaview.so`: cards in /sys and /dev by LD_PRELOAD, for programs of hosts on which nothing can be mounted.

mod calls;
mod place;
