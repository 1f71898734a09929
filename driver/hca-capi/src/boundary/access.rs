//! Access rights as programs ask for them.

use std::ffi::c_uint;

use hca_verbs::Access;

use crate::abi::*;
use crate::boundary::{Verb, invalid, unsupported};

/// Bits 20 to 29 are hints that any card may ignore (ibv_reg_mr(3)).
const OPTIONAL_ACCESS: c_uint = 0x3ff0_0000;
/// How the system maps the memory: for a region, nothing that a card has to know.
const HOST_ACCESS: c_uint = IBV_ACCESS_HUGETLB | OPTIONAL_ACCESS;
/// Names that verbs.h has from rdma-core 45 on.
const IBV_ACCESS_FLUSH_GLOBAL: c_uint = 1 << 8;
const IBV_ACCESS_FLUSH_PERSISTENT: c_uint = 1 << 9;
/// Rights that a region can be asked for. The card grants what it has of them.
const KNOWN_ACCESS: c_uint = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_FLUSH_GLOBAL
    | HOST_ACCESS;

/// qp_access_flags without what says nothing about a QP; programs give QPs the rights of their regions. The card
/// judges the rest.
pub fn qp_access(flags: c_uint) -> Access {
    Access::from_bits(flags & !(HOST_ACCESS | IBV_ACCESS_ON_DEMAND))
}

/// Rights of a region.
pub fn check_access(access: c_uint) -> Verb<Access> {
    if access & IBV_ACCESS_ON_DEMAND != 0 {
        return Err(unsupported("on-demand paging: register memory that is there"));
    }
    if access & IBV_ACCESS_FLUSH_PERSISTENT != 0 {
        return Err(invalid(
            "IBV_ACCESS_FLUSH_PERSISTENT: the card does not know what outlives a loss of power: ask for FLUSH_GLOBAL",
        ));
    }
    if access & !KNOWN_ACCESS != 0 {
        let unknown = access & !KNOWN_ACCESS;
        return Err(invalid(format_args!(
            "access {access:#x}: nobody knows {unknown:#x}"
        )));
    }
    let remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if access & remote_writes != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0 {
        return Err(invalid("remote write and atomic rights need LOCAL_WRITE"));
    }
    Ok(Access::from_bits(access & !HOST_ACCESS))
}
