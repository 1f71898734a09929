//! The data path: executes send WQEs between QPs of the same card, one at a time, and moves the data.

use hca_abi::{
    Cqe, CtxTable, DIRECT_PAGE_SHIFT, HwEventKind, HwEventWho, KeyTable, MAX_LOG_KEYS, Mpt, QpState, Qpc,
    RqWqeCtrl, Service, Sge, SqWqeAtomic, SqWqeCtrl, SqWqeFlush, SqWqeUdCtrl, WcOpcode, WcStatus, WrOpcode,
    access, wc_flag, wqe_index,
};
use hca_fw_core::line_of;

use crate::card::Card;

/// A work request fails with this status.
type Fails<T> = Result<T, WcStatus>;

/// Who uses a key, and for what.
struct KeyUse {
    pd: u32,
    right: u32,
    /// What a refusal is called.
    refusal: WcStatus,
}

/// A send WQE out of the ring.
struct SendWqe {
    ctrl: SqWqeCtrl,
    /// The same of a datagram, with its destination.
    datagram: Option<SqWqeUdCtrl>,
    /// Of an atomic.
    operands: Option<SqWqeAtomic>,
    /// Of a FLUSH.
    flush: SqWqeFlush,
    payload: Vec<u8>,
    sges: Vec<Sge>,
}

/// Bytes of a send WQE before its data.
pub(crate) fn send_header_bytes(qpc: &Qpc) -> usize {
    if is_datagram(qpc) {
        SqWqeUdCtrl::BYTES
    } else {
        SqWqeCtrl::BYTES
    }
}

fn is_datagram(qpc: &Qpc) -> bool {
    Service::try_from(qpc.service()) == Ok(Service::Ud)
}

fn is_atomic(ctrl: &SqWqeCtrl) -> bool {
    let atomics = [
        WrOpcode::AtomicCmpAndSwp,
        WrOpcode::AtomicFetchAndAdd,
        WrOpcode::MaskedAtomicCmpAndSwp,
        WrOpcode::MaskedAtomicFetchAndAdd,
    ];
    atomics.iter().any(|opcode| ctrl.opcode() == u8::from(*opcode))
}

fn is_unreliable(qpc: &Qpc) -> bool {
    Service::try_from(qpc.service()) == Ok(Service::Uc)
}

fn state_of(qpc: &Qpc) -> Option<QpState> {
    QpState::try_from(qpc.state()).ok()
}

/// What a receive completion says of a message that a WQE sends over a connection.
fn received(ctrl: &SqWqeCtrl) -> Cqe {
    let mut cqe = Cqe::new();
    let is_write = ctrl.opcode() == u8::from(WrOpcode::RdmaWriteWithImm);
    let opcode = if is_write {
        WcOpcode::RecvRdmaWithImm
    } else {
        WcOpcode::Recv
    };
    cqe.set_opcode(opcode.into());
    cqe.set_byte_len(ctrl.length());
    if is_write || ctrl.opcode() == u8::from(WrOpcode::SendWithImm) {
        cqe.set_wc_flags(wc_flag::WITH_IMM);
        cqe.set_imm_data(ctrl.imm_data());
    }
    cqe
}

impl Card {
    /// Executes one send WQE of some QP; false when none can be executed.
    pub fn step(&mut self) -> bool {
        let mut qpns: Vec<u32> = self.qps.keys().copied().collect();
        qpns.sort_unstable();
        qpns.into_iter().any(|qpn| self.step_qp(qpn))
    }

    /// Executes the next send WQE of a QP; false when it has none, or has to wait for a receive.
    pub fn step_qp(&mut self, qpn: u32) -> bool {
        let (qpc, rings) = (self.qpc(qpn), self.rings(qpn));
        if state_of(&qpc) != Some(QpState::Rts) || rings.failed || rings.sq_consumer == rings.sq_producer {
            return false;
        }
        let index = rings.sq_consumer;
        let wqe = self.fetch_send(qpn, &qpc, index);
        let done = wqe.and_then(|wqe| match self.execute(&qpc, &wqe) {
            // What goes wrong there is no matter of who gets no answer.
            Err(
                WcStatus::RemAccessErr | WcStatus::RemInvReqErr | WcStatus::RemOpErr | WcStatus::RetryExcErr,
            ) if is_unreliable(&qpc) => Ok((true, wqe)),
            done => Ok((done?, wqe)),
        });
        match done {
            Ok((false, _)) => false,
            Ok((true, wqe)) => {
                self.qps.entry(qpn).or_default().sq_consumer = wqe_index(index + 1);
                if wqe.ctrl.signaled() || qpc.sq_sig_all() {
                    self.complete_send(&qpc, index, WcStatus::Success, wqe.ctrl);
                }
                true
            }
            Err(status) => {
                let rings = self.qps.entry(qpn).or_default();
                rings.sq_consumer = wqe_index(index + 1);
                rings.failed = true;
                self.complete_send(&qpc, index, status, SqWqeCtrl::new());
                let who = if is_datagram(&qpc) || is_unreliable(&qpc) {
                    HwEventWho::Requester
                } else {
                    HwEventWho::Ack
                };
                let cause = u32::from(u8::from(status)) | (who as u32) << 16;
                self.raise(HwEventKind::QpError, qpn, cause);
                true
            }
        }
    }

    fn complete_send(&mut self, qpc: &Qpc, index: u32, status: WcStatus, ctrl: SqWqeCtrl) {
        let mut cqe = Cqe::new();
        cqe.set_qpn(qpc.qpn());
        cqe.set_wqe_index(index as u16);
        cqe.set_status(status.into());
        let opcode = match WrOpcode::try_from(ctrl.opcode()) {
            Ok(WrOpcode::RdmaWrite | WrOpcode::RdmaWriteWithImm) => WcOpcode::RdmaWrite,
            Ok(WrOpcode::RdmaRead) => WcOpcode::RdmaRead,
            Ok(WrOpcode::AtomicCmpAndSwp) => WcOpcode::CompSwap,
            Ok(WrOpcode::AtomicFetchAndAdd) => WcOpcode::FetchAdd,
            Ok(WrOpcode::AtomicWrite) => WcOpcode::AtomicWrite,
            Ok(WrOpcode::Flush) => WcOpcode::Flush,
            _ => WcOpcode::Send,
        };
        cqe.set_opcode(opcode.into());
        let brings = [
            WcOpcode::RdmaRead,
            WcOpcode::CompSwap,
            WcOpcode::FetchAdd,
            WcOpcode::AtomicWrite,
        ];
        if brings.contains(&opcode) {
            cqe.set_byte_len(ctrl.length());
        }
        self.write_cqe(qpc.send_cqn(), cqe, false);
    }

    fn fetch_send(&mut self, qpn: u32, qpc: &Qpc, index: u32) -> Fails<SendWqe> {
        let stride = 64usize << qpc.sq_log_stride();
        let slot = u64::from(index) & ((1 << qpc.sq_log_size()) - 1);
        let mut bytes = vec![0; stride];
        if !self.host.read(qpc.sq_base() + slot * stride as u64, &mut bytes) {
            return Err(WcStatus::LocQpOpErr);
        }
        let ctrl = SqWqeCtrl::read_from(&bytes).unwrap_or_default();
        let (num_sge, length) = (usize::from(ctrl.num_sge()), ctrl.length() as usize);
        let data_bytes = if ctrl.inline_data() {
            length
        } else {
            num_sge * Sge::BYTES
        };
        let operands =
            is_atomic(&ctrl).then(|| SqWqeAtomic::read_from(&bytes[SqWqeCtrl::BYTES..]).unwrap_or_default());
        let header_bytes = send_header_bytes(qpc) + operands.map_or(0, |_| SqWqeAtomic::BYTES);
        if ctrl.wqe_index() != index || header_bytes + data_bytes > stride {
            self.violation(format!("QP {qpn:#x}: send WQE {index:#x} is garbage: {ctrl:?}"));
            return Err(WcStatus::LocQpOpErr);
        }
        let flush = SqWqeFlush::read_from(&bytes[SqWqeCtrl::BYTES..]).unwrap_or_default();
        let datagram = is_datagram(qpc).then(|| SqWqeUdCtrl::read_from(&bytes).unwrap_or_default());
        let data = &bytes[header_bytes..][..data_bytes];
        if ctrl.inline_data() {
            return Ok(SendWqe {
                ctrl,
                datagram,
                operands,
                flush,
                payload: data.to_vec(),
                sges: Vec::new(),
            });
        }
        let sges: Vec<Sge> = data.chunks(Sge::BYTES).filter_map(Sge::read_from).collect();
        if sges.iter().map(|s| u64::from(s.length())).sum::<u64>() != length as u64 {
            self.violation(format!(
                "QP {qpn:#x}: send WQE {index:#x}: length {length} is not that of its entries"
            ));
            return Err(WcStatus::LocLenErr);
        }
        Ok(SendWqe {
            ctrl,
            datagram,
            operands,
            flush,
            payload: Vec::new(),
            sges,
        })
    }

    /// False: has to wait for a receive.
    fn execute(&mut self, qpc: &Qpc, wqe: &SendWqe) -> Fails<bool> {
        if let Some(datagram) = &wqe.datagram {
            let data = self.gather(qpc, wqe)?;
            self.send_datagram(qpc, datagram, &data)?;
            return Ok(true);
        }
        let peer_qpn = line_of(qpc.dest_qpn());
        let peer = self.qpc(peer_qpn);
        let is_there = matches!(state_of(&peer), Some(QpState::Rtr | QpState::Rts));
        if !is_there || peer.qpn() != qpc.dest_qpn() {
            return Err(WcStatus::RetryExcErr);
        }
        let opcode = WrOpcode::try_from(wqe.ctrl.opcode()).map_err(|_| WcStatus::LocQpOpErr)?;
        let with_imm = matches!(opcode, WrOpcode::SendWithImm | WrOpcode::RdmaWriteWithImm);
        let is_send = matches!(opcode, WrOpcode::Send | WrOpcode::SendWithImm);
        if (is_send || with_imm) && !self.can_receive(peer_qpn) {
            return Ok(is_unreliable(qpc));
        }
        let remote = |right| KeyUse {
            pd: peer.pd(),
            right,
            refusal: WcStatus::RemAccessErr,
        };
        let va = wqe.ctrl.remote_addr();
        match opcode {
            WrOpcode::RdmaRead => {
                let mut data = vec![0; wqe.ctrl.length() as usize];
                self.access(
                    &remote(access::REMOTE_READ),
                    wqe.ctrl.rkey(),
                    va,
                    &mut data,
                    false,
                )?;
                self.scatter(qpc, &wqe.sges, &data)?;
            }
            WrOpcode::AtomicCmpAndSwp | WrOpcode::AtomicFetchAndAdd => {
                let operands = wqe.operands.unwrap_or_default();
                if !va.is_multiple_of(8) {
                    return Err(WcStatus::RemInvReqErr);
                }
                let right = remote(access::REMOTE_ATOMIC);
                let mut word = [0; 8];
                self.access(&right, wqe.ctrl.rkey(), va, &mut word, false)?;
                let original = u64::from_le_bytes(word);
                let after = match opcode {
                    WrOpcode::AtomicFetchAndAdd => original.wrapping_add(operands.compare_add()),
                    _ if original == operands.compare_add() => operands.swap(),
                    _ => original,
                };
                self.access(&right, wqe.ctrl.rkey(), va, &mut after.to_le_bytes(), true)?;
                self.scatter(qpc, &wqe.sges, &word)?;
            }
            WrOpcode::AtomicWrite => {
                let mut data = self.gather(qpc, wqe)?;
                if !va.is_multiple_of(8) || data.len() != 8 {
                    return Err(WcStatus::RemInvReqErr);
                }
                let right = remote(access::REMOTE_WRITE);
                self.access(&right, wqe.ctrl.rkey(), va, &mut data, true)?;
            }
            WrOpcode::Flush => {
                let how = wqe.flush;
                if how.placement() != 1 {
                    return Err(WcStatus::RemAccessErr);
                }
                // Whatever was written is there; whether the peer may ask, of the range or of the region.
                let (va, len) = match how.selectivity() {
                    0 => (va, how.length().max(1) as usize),
                    _ => (self.key_row(wqe.ctrl.rkey() >> 8).start(), 1),
                };
                let right = remote(access::FLUSH_GLOBAL);
                self.access(&right, wqe.ctrl.rkey(), va, &mut vec![0; len], false)?;
            }
            WrOpcode::RdmaWrite | WrOpcode::RdmaWriteWithImm => {
                let mut data = self.gather(qpc, wqe)?;
                self.access(
                    &remote(access::REMOTE_WRITE),
                    wqe.ctrl.rkey(),
                    va,
                    &mut data,
                    true,
                )?;
                if with_imm {
                    self.receive(peer_qpn, &peer, received(&wqe.ctrl), None, wqe.ctrl.solicited())?;
                }
            }
            WrOpcode::Send | WrOpcode::SendWithImm => {
                let data = self.gather(qpc, wqe)?;
                self.receive(
                    peer_qpn,
                    &peer,
                    received(&wqe.ctrl),
                    Some(&data),
                    wqe.ctrl.solicited(),
                )?;
            }
            _ => return Err(WcStatus::LocQpOpErr),
        }
        Ok(true)
    }

    /// Consumes a receive WQE of `qpn`, whose completion says what `cqe` says; with `data`, the message goes into it.
    pub(crate) fn receive(
        &mut self,
        qpn: u32,
        qpc: &Qpc,
        mut cqe: Cqe,
        data: Option<&[u8]>,
        is_solicited: bool,
    ) -> Fails<()> {
        let index = self.take_receive(qpn, qpc).ok_or(WcStatus::RemOpErr)?;
        let stride = 64usize << qpc.rq_log_stride();
        let slot = u64::from(index) & ((1 << qpc.rq_log_size()) - 1);
        let mut bytes = vec![0; stride];
        let fetched = self.host.read(qpc.rq_base() + slot * stride as u64, &mut bytes);
        let rq = RqWqeCtrl::read_from(&bytes).unwrap_or_default();
        let sge_bytes = usize::from(rq.num_sge()) * Sge::BYTES;
        if !fetched || rq.wqe_index() != index || sge_bytes > stride - RqWqeCtrl::BYTES {
            self.violation(format!("QP {qpn:#x}: receive WQE {index:#x} is garbage: {rq:?}"));
            return Err(WcStatus::RemOpErr);
        }
        let sges: Vec<Sge> = bytes[RqWqeCtrl::BYTES..][..sge_bytes]
            .chunks(Sge::BYTES)
            .filter_map(Sge::read_from)
            .collect();
        let stored = match data {
            None => Ok(()),
            Some(data) if data.len() > rq.length() as usize => Err(WcStatus::LocLenErr),
            Some(data) => self.scatter(qpc, &sges, data),
        };
        cqe.set_qpn(qpc.qpn());
        cqe.set_wqe_index(index as u16);
        cqe.set_status(stored.err().unwrap_or(WcStatus::Success).into());
        self.write_cqe(qpc.recv_cqn(), cqe, is_solicited);
        if let Err(status) = stored {
            self.qps.entry(qpn).or_default().failed = true;
            let cause = u32::from(u8::from(status)) | (HwEventWho::Responder as u32) << 16;
            self.raise(HwEventKind::QpError, qpn, cause);
            return Err(if status == WcStatus::LocLenErr {
                WcStatus::RemInvReqErr
            } else {
                WcStatus::RemOpErr
            });
        }
        Ok(())
    }

    fn gather(&mut self, qpc: &Qpc, wqe: &SendWqe) -> Fails<Vec<u8>> {
        let mut data = wqe.payload.clone();
        for sge in &wqe.sges {
            let mut piece = vec![0; sge.length() as usize];
            let key = KeyUse {
                pd: qpc.pd(),
                right: 0,
                refusal: WcStatus::LocProtErr,
            };
            self.access(&key, sge.lkey(), sge.addr(), &mut piece, false)?;
            data.extend_from_slice(&piece);
        }
        Ok(data)
    }

    fn scatter(&mut self, qpc: &Qpc, sges: &[Sge], mut data: &[u8]) -> Fails<()> {
        for sge in sges {
            let (piece, rest) = data.split_at((sge.length() as usize).min(data.len()));
            let key = KeyUse {
                pd: qpc.pd(),
                right: access::LOCAL_WRITE,
                refusal: WcStatus::LocProtErr,
            };
            self.access(&key, sge.lkey(), sge.addr(), &mut piece.to_vec(), true)?;
            data = rest;
        }
        Ok(())
    }

    /// The row of a key in its function's table; an empty one where there is none, or it cannot be read.
    fn key_row(&mut self, index: u32) -> Mpt {
        let (func, row) = (index >> MAX_LOG_KEYS, index & ((1 << MAX_LOG_KEYS) - 1));
        let table = KeyTable::read_from(&self.row(CtxTable::KeyTable, func)).unwrap_or_default();
        let mut mpt = Mpt::new();
        let there = table.valid() && row >> table.log_size() == 0;
        let addr = table.base() + u64::from(row) * Mpt::BYTES as u64;
        if there && self.host.read(addr, &mut mpt.0) {
            mpt
        } else {
            Mpt::new()
        }
    }

    /// Checks a key and moves bytes, page by page.
    fn access(&mut self, user: &KeyUse, key: u32, va: u64, data: &mut [u8], write: bool) -> Fails<()> {
        let mpt = self.key_row(key >> 8);
        let inside = va
            .checked_sub(mpt.start())
            .and_then(|offset| offset.checked_add(data.len() as u64));
        let allowed = mpt.valid()
            && u32::from(mpt.tag()) == key & 0xff
            && mpt.pd() == user.pd
            && mpt.access() & user.right == user.right
            && inside.is_some_and(|end| end <= mpt.length());
        if data.is_empty() {
            return Ok(());
        }
        if !allowed {
            return Err(user.refusal);
        }
        let mut done = 0;
        while done < data.len() {
            let at = va + done as u64;
            let Some((bus, room)) = self.translate(&mpt, at) else {
                return Err(user.refusal);
            };
            let end = (done as u64 + room).min(data.len() as u64) as usize;
            let piece = &mut data[done..end];
            let moved = if write {
                self.host.write(bus, piece)
            } else {
                self.host.read(bus, piece)
            };
            if !moved {
                return Err(user.refusal);
            }
            done = end;
        }
        Ok(())
    }

    /// Bus address of `va`, and the bytes up to the end of its page; none where the page list cannot be read.
    fn translate(&mut self, mpt: &Mpt, va: u64) -> Option<(u64, u64)> {
        if u32::from(mpt.page_shift()) == DIRECT_PAGE_SHIFT {
            return Some((mpt.iova() + (va - mpt.start()), u64::MAX >> 1));
        }
        let shift = mpt.page_shift();
        let page = (va >> shift) - (mpt.start() >> shift);
        let mut entry = [0; 8];
        let mask = (1 << shift) - 1;
        let found = self.host.read(mpt.iova() + 8 * page, &mut entry);
        let addr = (u64::from_le_bytes(entry) & !mask) + (va & mask);
        found.then_some((addr, (1 << shift) - (va & mask)))
    }
}
