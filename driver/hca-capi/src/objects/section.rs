//! The work requests between wr_start and wr_complete.

use std::collections::TryReserveError;
use std::ffi::c_int;
use std::ops::Range;

use hca_verbs::{
    AddressVector, Datagram, Destination, QpCap, RawQp, SendFlags, SendOp, SendWr, Service, Sge, WrData,
};

use crate::boundary::convert::flags_of;
use crate::boundary::{Errno, Verb};
use crate::cards::DevPtr;

/// Room for so many work requests is there from the start; a longer section makes it once.
const USUAL_SECTION: u32 = 64;

struct Wr {
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    data: Data,
    /// Place among the section's.
    destination: Option<usize>,
    /// Of XRC: the peer's SRQ.
    remote_srqn: Option<u32>,
}

/// Where a datagram goes.
pub struct To {
    pub address: AddressVector,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

enum Data {
    /// No setter was called.
    Missing,
    Sges(Range<usize>),
    Inline(Range<usize>),
}

/// The work requests of one section. It keeps its memory from section to section.
pub struct Section {
    cap: QpCap,
    service: Service,
    wrs: Vec<Wr>,
    sges: Vec<Sge>,
    bytes: Vec<u8>,
    destinations: Vec<To>,
    /// The first thing that was wrong: the whole section fails with it (V-177).
    error: Option<Errno>,
}

impl Section {
    pub fn new(cap: QpCap, service: Service) -> Self {
        Self {
            cap,
            service,
            wrs: Vec::new(),
            sges: Vec::new(),
            bytes: Vec::new(),
            destinations: Vec::new(),
            error: None,
        }
    }

    pub fn clear(&mut self) {
        self.wrs.clear();
        self.sges.clear();
        self.bytes.clear();
        self.destinations.clear();
        self.error = None;
    }

    /// Only extended QPs need it.
    pub fn reserve(&mut self) {
        let usual = USUAL_SECTION.min(self.cap.max_send_wr) as usize;
        if self.reserve_for(usual).is_err() {
            self.fail(libc::ENOMEM);
        }
    }

    fn reserve_for(&mut self, usual: usize) -> Result<(), TryReserveError> {
        self.wrs.try_reserve(usual)?;
        self.sges.try_reserve(usual)?;
        self.bytes
            .try_reserve(usual * self.cap.max_inline_data as usize)?;
        if self.service == Service::Ud {
            self.destinations.try_reserve(usual)?;
        }
        Ok(())
    }

    pub fn fail(&mut self, errno: c_int) {
        self.error.get_or_insert(Errno(errno));
    }

    pub fn build(&mut self, wr_id: u64, wr_flags: u32, op: SendOp) {
        if self.wrs.try_reserve(1).is_err() {
            return self.fail(libc::ENOMEM);
        }
        match flags_of(wr_flags) {
            Ok(flags) => self.wrs.push(Wr {
                wr_id,
                op,
                flags,
                data: Data::Missing,
                destination: None,
                remote_srqn: op.is_local().then_some(0),
            }),
            Err(errno) => self.fail(errno.0),
        }
    }

    /// Gives the last work request its data.
    fn set(&mut self, data: Data) {
        match self.wrs.last_mut() {
            Some(wr) => wr.data = data,
            None => self.fail(libc::EINVAL),
        }
    }

    pub fn set_sges(&mut self, list: impl ExactSizeIterator<Item = Sge>) {
        if list.len() > self.cap.max_send_sge as usize {
            return self.fail(libc::EINVAL);
        }
        if self.sges.try_reserve(list.len()).is_err() {
            return self.fail(libc::ENOMEM);
        }
        let start = self.sges.len();
        self.sges.extend(list);
        self.set(Data::Sges(start..self.sges.len()));
    }

    /// V-177: all of them, or none and the first error.
    pub fn post(&self, qp: &mut RawQp<DevPtr>) -> Verb<()> {
        if let Some(errno) = self.error {
            return Err(errno);
        }
        let posted = if self.service == Service::Xrc {
            if self.wrs.iter().any(|wr| wr.remote_srqn.is_none()) {
                return Err(Errno(libc::EINVAL));
            }
            let requests = self.wrs.iter();
            qp.post_send_all_xrc(requests.filter_map(|wr| Some((self.send_wr(wr), wr.remote_srqn?))))
        } else if self.service == Service::Ud {
            if self.wrs.iter().any(|wr| wr.destination.is_none()) {
                return Err(Errno(libc::EINVAL));
            }
            qp.post_send_all_to(self.wrs.iter().filter_map(|wr| self.datagram(wr)))
        } else {
            qp.post_send_all(self.wrs.iter().map(|wr| self.send_wr(wr)))
        };
        posted.map_err(|error| Errno(error.errno()))
    }

    fn send_wr(&self, wr: &Wr) -> SendWr<'_> {
        SendWr {
            wr_id: wr.wr_id,
            op: wr.op,
            flags: wr.flags,
            data: match &wr.data {
                Data::Missing => WrData::Sges(&[]),
                Data::Sges(range) => WrData::Sges(&self.sges[range.clone()]),
                Data::Inline(range) => WrData::Inline(&self.bytes[range.clone()]),
            },
        }
    }

    /// `None`: it has no destination.
    fn datagram(&self, wr: &Wr) -> Option<Datagram<'_>> {
        let to = self.destinations.get(wr.destination?)?;
        Some(Datagram {
            wr: self.send_wr(wr),
            to: Destination {
                address: &to.address,
                remote_qpn: to.remote_qpn,
                remote_qkey: to.remote_qkey,
            },
        })
    }

    /// V-176: mandatory for datagrams. The handle is looked at now, and may be gone when the section ends.
    pub fn set_destination(&mut self, to: To) {
        if self.destinations.try_reserve(1).is_err() {
            return self.fail(libc::ENOMEM);
        }
        match self.wrs.last_mut() {
            Some(wr) => {
                wr.destination = Some(self.destinations.len());
                self.destinations.push(to);
            }
            None => self.fail(libc::EINVAL),
        }
    }

    /// V-176: mandatory for initiators of XRC, except where no packet goes out (V-179).
    pub fn set_remote_srqn(&mut self, remote_srqn: u32) {
        match self.wrs.last_mut() {
            Some(wr) => wr.remote_srqn = Some(remote_srqn),
            None => self.fail(libc::EINVAL),
        }
    }

    /// The data of an ATOMIC WRITE is an operand: it needs no room for inline data.
    pub fn set_operand(&mut self, bytes: [u8; 8]) {
        let start = self.bytes.len();
        if self.bytes.try_reserve(bytes.len()).is_err() {
            return self.fail(libc::ENOMEM);
        }
        self.bytes.extend_from_slice(&bytes);
        self.set(Data::Inline(start..self.bytes.len()));
    }

    /// V-180: for SEND and RDMA WRITE only.
    pub fn set_inline<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) {
        let start = self.bytes.len();
        for piece in pieces {
            if self.bytes.len() - start + piece.len() > self.cap.max_inline_data as usize {
                return self.fail(libc::EINVAL);
            }
            if self.bytes.try_reserve(piece.len()).is_err() {
                return self.fail(libc::ENOMEM);
            }
            self.bytes.extend_from_slice(piece);
        }
        self.set(Data::Inline(start..self.bytes.len()));
    }
}
