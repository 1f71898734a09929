//! What posting and polling cost the processor: a null device takes the doorbells, completions are written by hand.
//!
//! Run with `cargo run --release -p hca-driver --example post_poll_cost`. Prints nanoseconds per operation.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use hca_abi::Cqe;
use hca_dev::{Device, DeviceError, DeviceInfo, DmaBuf, SharedMem, UserMemory};
use hca_driver::*;

/// Takes doorbells and does nothing.
struct NullDevice(Cell<u64>);

impl Device for NullDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: "null".into(),
            bar_len_bytes: 0,
            num_vectors: 0,
        }
    }
    fn mmio_write32(&self, _offset: u32, _value: u32) {}
    fn mmio_write64(&self, _offset: u32, value: u64) {
        self.0.set(value);
    }
    fn mmio_read32(&self, _offset: u32) -> u32 {
        u32::MAX
    }
    fn alloc_dma(&self, len_bytes: usize) -> Result<DmaBuf, DeviceError> {
        Ok(DmaBuf::new(Arc::new(SharedMem::new("null", len_bytes)?), 0))
    }
    fn free_dma(&self, _buf: DmaBuf) -> Result<(), DeviceError> {
        Ok(())
    }
    fn map_dma(&self, _memory: UserMemory) -> Result<u64, DeviceError> {
        Ok(0)
    }
    fn unmap_dma(&self, _iova: u64, _len_bytes: usize) -> Result<(), DeviceError> {
        Ok(())
    }
    fn progress(&self) {}
    fn wait_irq(&self, _vector: u16, _deadline_ns: u64) -> Result<bool, DeviceError> {
        Ok(false)
    }
    fn now_ns(&self) -> u64 {
        0
    }
}

const LOG_SIZE: u8 = 8;
const BATCH: u32 = 128;
const ROUNDS: u32 = 20_000;
const QPN: u32 = 5;

fn main() -> Result<(), DriverError> {
    let dev: Rc<dyn Device> = Rc::new(NullDevice(Cell::new(0)));
    let doorbells = Doorbells::new(dev.clone());
    let size = WqSize {
        log_size: LOG_SIZE,
        log_stride: 0,
    };
    let mut send = SendRing::new(dev.alloc_dma(size.ring_bytes())?, size)?;
    let recv = RecvRing::new(dev.alloc_dma(size.ring_bytes())?, size)?;
    let cq_memory = dev.alloc_dma(CqRing::ring_bytes(LOG_SIZE))?;
    let mut cq = CqRing::new(cq_memory.clone(), 1, LOG_SIZE, 10);
    cq.attach(
        QPN,
        QpShadow {
            send: send.shadow().clone(),
            recv: RecvShadow::Own(recv.shadow().clone()),
        },
    );
    let (mut post_ns, mut poll_ns, mut single_ns) = (0, 0, 0);
    let sges = [Sge {
        addr: 0x1000,
        length: 64,
        lkey: 7,
    }];
    let op = SendOp::RdmaWrite {
        remote_addr: 0x2000,
        rkey: 9,
    };
    let wr = |wr_id| SendWr {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&sges),
    };
    let mut index = 0u32;
    for round in 0..ROUNDS {
        let one_by_one = round % 2 == 1;
        let start = Instant::now();
        for i in 0..BATCH {
            send.push(black_box(&wr(i.into()))).expect("the ring has room");
            if one_by_one {
                send.ring_doorbell(&doorbells, QPN);
            }
        }
        send.ring_doorbell(&doorbells, QPN);
        *(if one_by_one { &mut single_ns } else { &mut post_ns }) += start.elapsed().as_nanos();
        for _ in 0..BATCH {
            let mut cqe = Cqe::new();
            cqe.set_qpn(QPN);
            cqe.set_wqe_index(index as u16);
            cqe.set_phase(index >> LOG_SIZE & 1 == 0);
            cq_memory.write_bytes(
                (index as usize & ((1 << LOG_SIZE) - 1)) * Cqe::BYTES,
                cqe.as_bytes(),
            );
            index += 1;
        }
        let start = Instant::now();
        for _ in 0..BATCH {
            black_box(cq.poll(&doorbells)?);
        }
        poll_ns += start.elapsed().as_nanos();
    }
    let posted = f64::from(BATCH * (ROUNDS / 2));
    println!(
        "post_send, one doorbell for {BATCH}: {:5.1} ns",
        post_ns as f64 / posted
    );
    println!(
        "post_send, one doorbell each:    {:5.1} ns",
        single_ns as f64 / posted
    );
    println!(
        "poll_cq, per completion:         {:5.1} ns",
        poll_ns as f64 / posted / 2.0
    );
    Ok(())
}
