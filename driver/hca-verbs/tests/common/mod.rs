//! A context on a lone card, and what most tests need with it.
#![allow(dead_code)]

use std::rc::Rc;

use hca_dev::DmaBuf;
use hca_lone::LoneCard;
use hca_verbs::*;

pub type Dev = Rc<LoneCard>;

/// What INIT needs (QPS-T-RC).
pub fn init_mask() -> QpAttrMask {
    QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS
}

/// What INIT to RTR needs (QPS-T-RC).
pub fn rtr_mask() -> QpAttrMask {
    QpAttrMask::STATE
        | QpAttrMask::AV
        | QpAttrMask::PATH_MTU
        | QpAttrMask::DEST_QPN
        | QpAttrMask::RQ_PSN
        | QpAttrMask::MAX_DEST_RD_ATOMIC
        | QpAttrMask::MIN_RNR_TIMER
}

/// Everything for two connected QPs on one card.
pub struct Bench {
    pub dev: Dev,
    pub context: Context<Dev>,
    pub pd: Pd<Dev>,
    pub buf: DmaBuf,
    pub mr: Mr<Dev>,
    pub cq: Cq<Dev>,
    pub options: ConnectOptions,
}

pub fn all_rights() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ
}

impl Bench {
    pub fn new(cqe: u32) -> Self {
        let dev = Rc::new(LoneCard::new());
        let context = Context::open_with(dev.clone(), &OpenOptions::simulated()).unwrap();
        let pd = context.alloc_pd().unwrap();
        let buf = hca_dev::Device::alloc_dma(&*dev, 1 << 16).unwrap();
        let mr = pd.reg_mr(&buf, all_rights()).unwrap();
        let cq = context.create_cq(&CqOptions::new(cqe)).unwrap();
        Self {
            dev,
            context,
            pd,
            buf,
            mr,
            cq,
            options: ConnectOptions::default(),
        }
    }

    pub fn qp(&self, cap: QpCap) -> Qp<Reset, Dev> {
        self.pd
            .create_qp(&QpOptions {
                cap,
                ..QpOptions::new(&self.cq, &self.cq)
            })
            .unwrap()
    }

    pub fn pair(&self, cap: QpCap) -> (Qp<Rts, Dev>, Qp<Rts, Dev>) {
        connect_pair(self.qp(cap), self.qp(cap), &self.options).unwrap()
    }

    /// Waits for exactly `count` completions.
    pub fn completions(&self, count: usize) -> Vec<WorkCompletion> {
        let mut wc = vec![WorkCompletion::default(); count];
        let deadline_ns = hca_dev::Device::now_ns(&*self.dev) + 1_000_000;
        self.cq.poll_all(&mut wc, deadline_ns).unwrap();
        wc
    }

    pub fn assert_no_completion(&self) {
        self.dev.settle();
        assert_eq!(self.cq.poll_cq(&mut [WorkCompletion::default()]).unwrap(), 0);
    }
}

pub fn send<'a>(wr_id: u64, sges: &'a [Sge]) -> SendWr<'a> {
    SendWr {
        wr_id,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(sges),
    }
}
