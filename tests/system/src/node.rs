//! One card with its driver: the smallest set of objects that traffic needs.

use std::rc::Rc;

use hca_cosim::SimDevice;
use hca_dev::{Device, DmaBuf};
use hca_verbs::{
    Access, ConnectOptions, Context, Cq, CqOptions, Mr, MrOptions, OpenOptions, PageSize, Pd, QpCap,
    QpOptions, RawQp, Result, Service, WorkCompletion, connect_raw, peer_info,
};

/// Pointer to a device of this thread.
pub type Dev = Rc<SimDevice>;

/// A card's function, opened, with a protection domain and a CQ.
pub struct Node {
    /// The device.
    pub dev: Dev,
    /// The context.
    pub context: Context<Dev>,
    /// Everything made here belongs to it.
    pub pd: Pd<Dev>,
    /// Both queues of every QP made here complete into it.
    pub cq: Cq<Dev>,
}

/// Where a region lies in a buffer, and how it is registered.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// First byte of the buffer.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Rights.
    pub access: Access,
    /// Translation.
    pub page_size: PageSize,
    /// Virtual address of the buffer's first byte, a multiple of the page size: chosen, so that all runs are equal.
    pub base: u64,
}

impl Place {
    /// A whole buffer, direct.
    pub fn whole(buf: &DmaBuf, access: Access, base: u64) -> Self {
        Self {
            offset: 0,
            len: buf.len_bytes() as u64,
            access,
            page_size: PageSize::Direct,
            base,
        }
    }
}

impl Node {
    /// Opens a function and makes a CQ for `cqe` completions.
    pub fn open(dev: SimDevice, cqe: u32) -> Result<Self> {
        Self::open_with(dev, cqe, &OpenOptions::simulated())
    }

    /// The same, told how.
    pub fn open_with(dev: SimDevice, cqe: u32, options: &OpenOptions) -> Result<Self> {
        let dev = Rc::new(dev);
        let context = Context::open_with(dev.clone(), options)?;
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(&CqOptions::new(cqe))?;
        Ok(Self { dev, context, pd, cq })
    }

    /// Memory that the card may reach, not registered yet.
    pub fn alloc(&self, len_bytes: usize) -> Result<DmaBuf> {
        Ok(self.dev.alloc_dma(len_bytes)?)
    }

    /// Registers a part of a buffer.
    pub fn register(&self, buf: &DmaBuf, place: Place) -> Result<Mr<Dev>> {
        self.register_in(&self.pd, buf, place)
    }

    /// Registers in another protection domain.
    pub fn register_in(&self, pd: &Pd<Dev>, buf: &DmaBuf, place: Place) -> Result<Mr<Dev>> {
        pd.reg_mr_with(
            buf,
            &MrOptions {
                access: place.access,
                page_size: place.page_size,
                addr: Some(place.base + place.offset),
                offset: place.offset as usize,
                length: Some(place.len as usize),
            },
        )
    }

    /// A QP in RESET.
    pub fn create_qp(&self, cap: QpCap, sq_sig_all: bool) -> Result<RawQp<Dev>> {
        self.create_qp_of(Service::Rc, cap, sq_sig_all)
    }

    /// The same of a service.
    pub fn create_qp_of(&self, service: Service, cap: QpCap, sq_sig_all: bool) -> Result<RawQp<Dev>> {
        self.pd.create_raw_qp(&QpOptions {
            service,
            cap,
            sq_sig_all,
            ..QpOptions::new(&self.cq, &self.cq)
        })
    }

    /// The oldest completion that is there; no time passes.
    pub fn poll_ready(&self) -> Result<Option<WorkCompletion>> {
        let mut wc = [WorkCompletion::default()];
        Ok((self.cq.poll_ready(&mut wc)? == 1).then_some(wc[0]))
    }

    /// The oldest completion. Finding none lets time go on.
    pub fn poll(&self) -> Result<Option<WorkCompletion>> {
        let mut wc = [WorkCompletion::default()];
        Ok((self.cq.poll_cq(&mut wc)? == 1).then_some(wc[0]))
    }
}

/// Connects a QP of one node with one of another.
pub fn connect(qps: &mut [RawQp<Dev>; 2], options: &ConnectOptions) -> Result<()> {
    let infos = [
        peer_info(&qps[0], options, options.psns.0)?,
        peer_info(&qps[1], options, options.psns.1)?,
    ];
    connect_raw(&mut qps[0], options, options.psns.0, &infos[1])?;
    connect_raw(&mut qps[1], options, options.psns.1, &infos[0])
}

/// Options for a cable of 100 ns: acknowledge timeout 262 us, RNR retried without end.
pub fn path(mtu: hca_verbs::Mtu) -> ConnectOptions {
    ConnectOptions {
        mtu,
        timeout: 6,
        psns: (0, 0),
        ..ConnectOptions::default()
    }
}
