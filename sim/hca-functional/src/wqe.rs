//! WQEs: from the bytes of a ring to requests of the transport.

use hca_abi::{
    MAX_PAGE_SHIFT, MAX_SGE, MIN_PAGE_SHIFT, Mpt, Qpc, RqWqeCtrl, Service, SqWqeAtomic, SqWqeBind, SqWqeCtrl,
    SqWqeFlush, SqWqeMasks, SqWqeUdCtrl, WcOpcode, WcStatus, WrOpcode, access,
};
use hca_model::{Atomic, BadReceive, Destination, Op, RecvRequest, Refusal, SendFlags, SendRequest, Sge};

use crate::HostPort;
use crate::body::Body;
use crate::keys::KeyUser;
use crate::srq::ReceivePlace;

/// A send WQE.
pub(crate) enum SendWqe {
    /// One with packets.
    Request(Box<SendRequest>),
    /// One that the card does by itself, when everything before it has completed.
    Local(LocalWqe),
}

/// BIND_MW, REG_MR or LOCAL_INV.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalWqe {
    pub index: u32,
    pub signaled: bool,
    pub opcode: WcOpcode,
    /// The key that the window or region gets, or that becomes nothing.
    key: u32,
    va: u64,
    how: SqWqeBind,
}

fn entries(bytes: &[u8]) -> Vec<Sge> {
    let entry = |bytes| {
        let sge = hca_abi::Sge::read_from(bytes).unwrap_or_default();
        Sge::new(sge.lkey(), sge.addr(), sge.length())
    };
    bytes.chunks_exact(hca_abi::Sge::BYTES).map(entry).collect()
}

fn sum(entries: &[Sge]) -> u64 {
    entries.iter().map(|entry| u64::from(entry.len)).sum()
}

/// What follows the header of an atomic.
fn operands_of(opcode: WrOpcode, bytes: &[u8]) -> Option<Atomic> {
    let operands = SqWqeAtomic::read_from(bytes.get(SqWqeCtrl::BYTES..)?)?;
    let (compare, swap) = (operands.compare_add(), operands.swap());
    match opcode {
        WrOpcode::AtomicCmpAndSwp => Some(Atomic::CompareSwap { compare, swap }),
        WrOpcode::AtomicFetchAndAdd => Some(Atomic::FetchAdd { add: compare }),
        WrOpcode::MaskedAtomicFetchAndAdd => Some(Atomic::MaskedFetchAdd {
            add: compare,
            boundaries: swap,
        }),
        WrOpcode::MaskedAtomicCmpAndSwp => {
            let at = SqWqeCtrl::BYTES + SqWqeAtomic::BYTES + hca_abi::Sge::BYTES;
            let masks = SqWqeMasks::read_from(bytes.get(at..)?)?;
            Some(Atomic::MaskedCompareSwap {
                compare,
                swap,
                compare_mask: masks.compare_mask(),
                swap_mask: masks.swap_mask(),
            })
        }
        _ => None,
    }
}

/// What a WQE asks for, if its service has that.
fn op_of(ctrl: &SqWqeCtrl, atomic: Option<Atomic>) -> Option<Op> {
    let imm = Some(ctrl.imm_data().swap_bytes());
    let (va, rkey) = (ctrl.remote_addr(), ctrl.rkey());
    Some(match WrOpcode::try_from(ctrl.opcode()).ok()? {
        WrOpcode::Send => Op::SEND,
        WrOpcode::SendWithImm => Op::Send {
            imm,
            invalidate: None,
        },
        WrOpcode::SendWithInv => Op::Send {
            imm: None,
            invalidate: imm,
        },
        WrOpcode::RdmaWrite => Op::Write { va, rkey, imm: None },
        WrOpcode::RdmaWriteWithImm => Op::Write { va, rkey, imm },
        WrOpcode::RdmaRead => Op::Read { va, rkey },
        WrOpcode::AtomicCmpAndSwp
        | WrOpcode::AtomicFetchAndAdd
        | WrOpcode::MaskedAtomicCmpAndSwp
        | WrOpcode::MaskedAtomicFetchAndAdd => Op::Atomic {
            va,
            rkey,
            atomic: atomic?,
        },
        WrOpcode::LocalInv
        | WrOpcode::BindMw
        | WrOpcode::RegMr
        | WrOpcode::Tso
        | WrOpcode::AtomicWrite
        | WrOpcode::Flush => return None,
    })
}

/// XPORT-12, and what may be inline.
fn is_allowed(service: Service, op: Op, ctrl: &SqWqeCtrl) -> bool {
    let is_fetch = op.fetches();
    let is_atomic = matches!(op, Op::Atomic { .. });
    let of_service = match service {
        Service::Rc | Service::Xrc => true,
        Service::Uc => {
            !is_fetch
                && !matches!(
                    op,
                    Op::Send {
                        invalidate: Some(_),
                        ..
                    }
                )
        }
        Service::Ud => matches!(op, Op::Send { invalidate: None, .. }),
        Service::Raw => false,
    };
    of_service && !(is_fetch && ctrl.inline_data()) && (!is_atomic || ctrl.num_sge() == 1)
}

/// Its eight bytes are inline, whatever it costs to say so of a request that is answered.
fn atomic_write(service: Service, ctrl: &SqWqeCtrl, bytes: &[u8]) -> Option<SendWqe> {
    if !matches!(service, Service::Rc | Service::Xrc) || !ctrl.inline_data() || ctrl.num_sge() != 0 {
        return None;
    }
    let op = match ctrl.length() {
        8 => Op::AtomicWrite {
            va: ctrl.remote_addr(),
            rkey: ctrl.rkey(),
            value: bytes.get(SqWqeCtrl::BYTES..)?.get(..8)?.try_into().ok()?,
        },
        _ => Op::Broken(WcStatus::LocLenErr),
    };
    let mut request = SendRequest::new(0, op, Vec::new());
    request.remote_srqn = ctrl.remote_srqn();
    Some(SendWqe::Request(Box::new(request)))
}

/// It has no data, and says behind the header what it is to reach.
fn flush(service: Service, ctrl: &SqWqeCtrl, bytes: &[u8]) -> Option<SendWqe> {
    let is_bare = !ctrl.inline_data() && ctrl.num_sge() == 0 && ctrl.length() == 0;
    if !matches!(service, Service::Rc | Service::Xrc) || !is_bare {
        return None;
    }
    let how = SqWqeFlush::read_from(bytes.get(SqWqeCtrl::BYTES..)?)?;
    let op = Op::Flush {
        va: ctrl.remote_addr(),
        rkey: ctrl.rkey(),
        len: how.length(),
        placement: how.placement(),
        selectivity: how.selectivity(),
    };
    let mut request = SendRequest::new(0, op, Vec::new());
    request.remote_srqn = ctrl.remote_srqn();
    Some(SendWqe::Request(Box::new(request)))
}

impl Body {
    /// A send WQE of a ring; one that makes no sense comes as a request that fails in its turn.
    pub fn fetch_send(&mut self, host: &mut dyn HostPort, qpc: &Qpc, index: u32) -> SendWqe {
        let stride = 64usize << qpc.sq_log_stride();
        let slot = u64::from(index) & ((1 << qpc.sq_log_size()) - 1);
        let mut bytes = std::mem::take(&mut self.wqe);
        bytes.resize(stride, 0);
        let was_read = self.look_at(host, qpc.func(), qpc.sq_base() + slot * stride as u64, &mut bytes);
        let ctrl = SqWqeCtrl::read_from(&bytes).unwrap_or_default();
        let signaled = ctrl.signaled() || qpc.sq_sig_all();
        let service = Service::try_from(qpc.service());
        let found = match service {
            Ok(service) if was_read && ctrl.wqe_index() == index => {
                self.read_send(service, qpc, &ctrl, &bytes)
            }
            _ => None,
        };
        self.wqe = bytes;
        let mut wqe = found.unwrap_or_else(|| {
            let broken = Op::Broken(WcStatus::LocQpOpErr);
            SendWqe::Request(Box::new(SendRequest::new(0, broken, Vec::new())))
        });
        match &mut wqe {
            SendWqe::Request(request) => {
                request.wr_id = index.into();
                request.flags = SendFlags {
                    signaled,
                    solicited: ctrl.solicited(),
                    fence: ctrl.fence(),
                };
            }
            SendWqe::Local(local) => {
                (local.index, local.signaled) = (index, signaled);
            }
        }
        wqe
    }

    fn read_send(&self, service: Service, qpc: &Qpc, ctrl: &SqWqeCtrl, bytes: &[u8]) -> Option<SendWqe> {
        let opcode = WrOpcode::try_from(ctrl.opcode()).ok()?;
        if matches!(opcode, WrOpcode::BindMw | WrOpcode::RegMr | WrOpcode::LocalInv) {
            return local(service, opcode, ctrl, bytes).map(SendWqe::Local);
        }
        let atomic = operands_of(opcode, bytes);
        let is_atomic = atomic.is_some();
        let mut at = SqWqeCtrl::BYTES + if is_atomic { SqWqeAtomic::BYTES } else { 0 };
        if service == Service::Ud {
            at = SqWqeUdCtrl::BYTES;
        }
        if opcode == WrOpcode::AtomicWrite {
            return atomic_write(service, ctrl, bytes);
        }
        if opcode == WrOpcode::Flush {
            return flush(service, ctrl, bytes);
        }
        let op = op_of(ctrl, atomic).filter(|op| is_allowed(service, *op, ctrl))?;
        let mut request = SendRequest::new(0, op, Vec::new());
        if ctrl.inline_data() {
            let data = bytes.get(at..)?.get(..ctrl.length() as usize)?;
            request.inline = Some(data.to_vec());
        } else {
            let count = usize::from(ctrl.num_sge());
            let list = bytes.get(at..)?.get(..count * hca_abi::Sge::BYTES)?;
            request.sges = entries(list);
            let is_right = sum(&request.sges) == u64::from(ctrl.length());
            if count > MAX_SGE as usize || !is_right || (is_atomic && ctrl.length() != 8) {
                return None;
            }
        }
        if ctrl.length() > 1 << 31 {
            request.op = Op::Broken(WcStatus::LocLenErr);
        }
        request.remote_srqn = ctrl.remote_srqn();
        if service == Service::Ud {
            let wqe = SqWqeUdCtrl::read_from(bytes)?;
            request.destination = Some(Destination {
                link: self.datagram_link(qpc, &wqe)?,
                qpn: wqe.remote_qpn(),
                qkey: wqe.qkey(),
            });
            let port = self.port_of(qpc)?;
            request.pkey = qpc.is_gsi().then(|| port.pkey(wqe.pkey_index()));
        }
        Some(SendWqe::Request(Box::new(request)))
    }

    /// A receive WQE.
    pub fn fetch_receive(
        &mut self,
        host: &mut dyn HostPort,
        func: u8,
        place: ReceivePlace,
    ) -> Result<RecvRequest, BadReceive> {
        let stride = 64usize << place.log_stride;
        let slot = u64::from(place.index) & ((1 << place.log_size) - 1);
        let mut bytes = std::mem::take(&mut self.wqe);
        bytes.resize(stride, 0);
        let was_read = self.look_at(host, func, place.base + slot * stride as u64, &mut bytes);
        let ctrl = RqWqeCtrl::read_from(&bytes).unwrap_or_default();
        let list = bytes
            .get(RqWqeCtrl::BYTES..)
            .and_then(|rest| rest.get(..usize::from(ctrl.num_sge()) * hca_abi::Sge::BYTES));
        let wr_id = place.index.into();
        let found = match list {
            Some(list) if was_read && ctrl.wqe_index() == place.index => {
                Ok(RecvRequest::new(wr_id, entries(list)))
            }
            _ => Err(BadReceive {
                wr_id,
                status: WcStatus::LocQpOpErr,
            }),
        };
        self.wqe = bytes;
        found
    }

    // ---- Memory windows (decision 0036), fast registration (decision 0073)

    /// Does what a WQE without packets asks for.
    pub fn do_local(
        &mut self,
        host: &mut dyn HostPort,
        user: KeyUser,
        wqe: &LocalWqe,
    ) -> Result<(), WcStatus> {
        let done = match wqe.opcode {
            WcOpcode::BindMw => self.bind_window(host, user, wqe, &wqe.how),
            WcOpcode::RegMr => self.register(host, user, wqe, &wqe.how),
            _ => self.invalidate(host, user, wqe.key, false),
        };
        done.map_err(|_| WcStatus::MwBindErr)
    }

    fn write_window(
        &mut self,
        host: &mut dyn HostPort,
        func: u8,
        key: u32,
        row: &Mpt,
    ) -> Result<(), Refusal> {
        let addr = self.key_row_addr(func, key).ok_or(Refusal::Key)?;
        // Read back: whoever looks at the row from now on sees what it is.
        let mut after = [0; Mpt::BYTES];
        let is_there = host.write(func, addr, row.as_bytes()) && host.read(func, addr, &mut after);
        is_there.then_some(()).ok_or(Refusal::Key)
    }

    /// KEY-30: only by the key that it has now. A window of type 2B: only who has bound it, or its peer. A region for
    /// fast registration: any QP of its domain, and of the peers those that may use it.
    pub fn invalidate(
        &mut self,
        host: &mut dyn HostPort,
        user: KeyUser,
        key: u32,
        is_remote: bool,
    ) -> Result<(), Refusal> {
        let mut row = self.key_row(host, user.func, key).ok_or(Refusal::Key)?;
        let is_own = row.func() == user.func && row.pd() == user.pd;
        let is_remote_key = row.remote_write() || row.remote_read() || row.remote_atomic();
        let is_kind = match row.is_window() {
            true => row.is_type_2() && row.qpn() == user.qpn,
            false => row.is_fast() && (!is_remote || is_remote_key),
        };
        if !is_own || !is_kind || !row.valid() || u32::from(row.tag()) != key & 0xff {
            return Err(Refusal::Key);
        }
        row.set_valid(false);
        self.write_window(host, user.func, key, &row)
    }

    /// MEM-16: the key is free, and the operation of a region that it may be of.
    fn register(
        &mut self,
        host: &mut dyn HostPort,
        user: KeyUser,
        wqe: &LocalWqe,
        how: &SqWqeBind,
    ) -> Result<(), Refusal> {
        let mut row = self.key_row(host, user.func, wqe.key).ok_or(Refusal::Key)?;
        let (right, shift) = (u32::from(how.access()), u32::from(how.page_shift()));
        let is_own = row.func() == user.func && row.pd() == user.pd;
        let is_free = row.is_fast() && !row.is_window() && !row.valid();
        let writes = right & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
        let is_right = right & (access::MW_BIND | access::ZERO_BASED) == 0
            && (!writes || right & access::LOCAL_WRITE != 0);
        let is_shape = (MIN_PAGE_SHIFT..=MAX_PAGE_SHIFT).contains(&shift)
            && (1..=1 << 48).contains(&how.length())
            && wqe.va.checked_add(how.length()).is_some()
            && how.page_list_addr().is_multiple_of(64);
        if !is_own || !is_free || !is_right || !is_shape {
            return Err(Refusal::Right);
        }
        let inside = wqe.va & ((1 << shift) - 1);
        let pages = ((inside + how.length() - 1) >> shift) + 1;
        if pages > u64::from(row.max_pages()) {
            return Err(Refusal::Right);
        }
        row.set_valid(true);
        row.set_is_null(false);
        row.set_access(right);
        row.set_tag(wqe.key as u8);
        row.set_page_shift(how.page_shift());
        row.set_start(wqe.va);
        row.set_length(how.length());
        row.set_iova(how.page_list_addr());
        row.set_list_offset(inside);
        row.set_num_pages(pages as u32);
        self.write_window(host, user.func, wqe.key, &row)
    }

    fn bind_window(
        &mut self,
        host: &mut dyn HostPort,
        user: KeyUser,
        wqe: &LocalWqe,
        bind: &SqWqeBind,
    ) -> Result<(), Refusal> {
        let before = self.key_row(host, user.func, wqe.key).ok_or(Refusal::Key)?;
        let region = self.key_row(host, user.func, bind.lkey()).unwrap_or_default();
        let right = u32::from(bind.access());
        let is_own = before.is_window() && before.func() == user.func && before.pd() == user.pd;
        let is_kind = bind.is_type_2() == before.is_type_2() && !(before.is_type_2() && before.valid());
        let unbinds = bind.length() == 0 && !bind.is_type_2();
        let is_region_own = region.valid()
            && !region.is_window()
            && !region.is_fast()
            && region.func() == user.func
            && region.pd() == user.pd
            && u32::from(region.tag()) == bind.lkey() & 0xff;
        let writes = right & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
        let is_granted = right & (access::LOCAL_WRITE | access::MW_BIND) == 0
            && region.mw_bind()
            && (!writes || region.local_write());
        let offset = wqe.va.checked_sub(region.start());
        let end = offset.and_then(|offset| offset.checked_add(bind.length()));
        let fits = end.is_some_and(|end| end <= region.length()) && bind.length() != 0;
        if !is_own || !is_kind || !(unbinds || (is_region_own && is_granted && fits)) {
            return Err(Refusal::Right);
        }
        let offset = offset.unwrap_or(0);
        let mut row = region;
        row.set_valid(!unbinds);
        row.set_is_window(true);
        row.set_is_type_2(bind.is_type_2());
        row.set_access(right & !(access::LOCAL_WRITE | access::MW_BIND));
        row.set_tag(wqe.key as u8);
        row.set_func(user.func);
        row.set_pd(user.pd);
        row.set_qpn(user.qpn);
        row.set_region(bind.lkey() >> 8 & ((1 << hca_abi::MAX_LOG_KEYS) - 1));
        row.set_start(wqe.va);
        row.set_length(bind.length());
        row.set_list_offset(region.list_offset().wrapping_add(offset));
        if u32::from(region.page_shift()) == hca_abi::DIRECT_PAGE_SHIFT {
            row.set_iova(region.iova().wrapping_add(offset));
        }
        self.write_window(host, user.func, wqe.key, &row)
    }
}

fn local(service: Service, opcode: WrOpcode, ctrl: &SqWqeCtrl, bytes: &[u8]) -> Option<LocalWqe> {
    let is_empty = !ctrl.inline_data() && ctrl.num_sge() == 0 && ctrl.length() == 0;
    if !is_empty || !matches!(service, Service::Rc | Service::Uc | Service::Xrc) {
        return None;
    }
    let (opcode, key) = match opcode {
        WrOpcode::BindMw => (WcOpcode::BindMw, ctrl.rkey()),
        WrOpcode::RegMr => (WcOpcode::RegMr, ctrl.rkey()),
        _ => (WcOpcode::LocalInv, ctrl.imm_data().swap_bytes()),
    };
    Some(LocalWqe {
        index: 0,
        signaled: false,
        opcode,
        key,
        va: ctrl.remote_addr(),
        how: SqWqeBind::read_from(bytes.get(SqWqeCtrl::BYTES..)?)?,
    })
}
