//! What the numbers of the admin queue mean beyond their names: errnos, and who may.

use crate::admin_opcode::AdminOpcode;
use crate::enums::AdminStatus;

impl AdminStatus {
    /// Linux errno that the status maps to; 0 for `Ok`.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::BadOpcode => 38,
            Self::BadParam | Self::BadState | Self::BadLength => 22,
            Self::BadHandle => 2,
            Self::NoResources => 12,
            Self::InUse => 16,
            Self::Unsupported => 95,
            Self::DmaError => 14,
            Self::Internal => 5,
            Self::NotPermitted => 1,
            Self::Unreachable | Self::Resolving => 113,
        }
    }
}

impl AdminOpcode {
    /// Does it change what all functions of a card share? Then function 0 alone may (KEY-3, KEY-11, SYS-7). Everything
    /// else concerns the asking function's own objects, or reads.
    pub const fn is_for_manager(self) -> bool {
        match self {
            Self::ModifyPort
            | Self::SetGid
            | Self::SetPkey
            | Self::SetNodeDesc
            | Self::SetLink
            | Self::SetVlArb
            | Self::SetSl2vl
            | Self::SetCongestion
            | Self::CreateRule
            | Self::DestroyRule
            | Self::QueryRule
            | Self::SetContextMemory
            | Self::CreateRss
            | Self::DestroyRss
            | Self::WriteFirmware
            | Self::ActivateFirmware => true,
            Self::Nop
            | Self::QueryDevice
            | Self::QueryPort
            | Self::QueryCounters
            | Self::QueryGid
            | Self::QueryPkey
            | Self::QueryNodeDesc
            | Self::ResolveGid
            | Self::QueryLink
            | Self::QueryVlArb
            | Self::QueryVlCounters
            | Self::QueryLinkErrors
            | Self::QueryCongestion
            | Self::QueryPfcCounters
            | Self::QueryLldp
            | Self::QueryFirmware
            | Self::AllocPd
            | Self::DeallocPd
            | Self::CreateEq
            | Self::DestroyEq
            | Self::CreateCq
            | Self::ResizeCq
            | Self::ModifyCq
            | Self::DestroyCq
            | Self::CreateQp
            | Self::ModifyQp
            | Self::QueryQp
            | Self::DestroyQp
            | Self::AttachMcast
            | Self::DetachMcast
            | Self::SetKeyTable
            | Self::RegMr
            | Self::DeregMr
            | Self::ModifyMr
            | Self::QueryMr
            | Self::AllocMw
            | Self::DeallocMw
            | Self::AllocDm
            | Self::FreeDm
            | Self::CopyDm
            | Self::CreateSrq
            | Self::ModifySrq
            | Self::QuerySrq
            | Self::DestroySrq
            | Self::AllocXrcd
            | Self::DeallocXrcd
            | Self::ResetFunc => false,
        }
    }
}
