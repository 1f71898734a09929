//! The transfer: WRITE the file to the other card, READ it back, exchange digests by SEND.

use anyhow::{Result, bail};
use hca_dev::DmaBuf;
use hca_system_tests::{Dev, Place, Rig, RigError, Rng, path};
use hca_verbs::{
    Access, Mr, Mtu, QpCap, RawQp, RecvWr, SendFlags, SendOp, SendWr, WcStatus, WorkCompletion, WrData,
};
use sha2::{Digest, Sha256};

use crate::progress::Progress;
use crate::samples::Samples;

/// Messages in flight.
const OUTSTANDING: usize = 8;
/// Smallest and largest message.
const MESSAGE_BYTES: (u32, u32) = (64 << 10, 1 << 20);
const DIGEST_BYTES: usize = 32;
/// A message that has not completed after this time is lost.
const MESSAGE_LIMIT_NS: u64 = 2_000_000_000;
/// Virtual addresses of the buffers, the same in every run.
const BASES: [u64; 2] = [0x1000_0000_0000, 0x2000_0000_0000];

/// One direction of the transfer.
#[derive(Default)]
pub struct Phase {
    /// Messages.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// From the first post to the last completion.
    pub ns: u64,
    /// From post to completion of each message.
    pub latency: Samples,
}

impl Phase {
    /// Payload bits per second.
    pub fn goodput_bits_per_s(&self) -> f64 {
        if self.ns == 0 {
            0.0
        } else {
            self.bytes as f64 * 8e9 / self.ns as f64
        }
    }
}

/// What the transfer has shown.
pub struct Transfer {
    /// File to the other card.
    pub writes: Phase,
    /// And back.
    pub reads: Phase,
    /// Digest of the file, of what lies at the other card, of what came back.
    pub digests: [[u8; DIGEST_BYTES]; 3],
    /// Digests as the cards exchanged them: received by card 0, received by card 1.
    pub exchanged: [[u8; DIGEST_BYTES]; 2],
}

impl Transfer {
    /// All copies and both messages agree.
    pub fn matches(&self) -> bool {
        self.digests
            .iter()
            .chain(&self.exchanged)
            .all(|digest| *digest == self.digests[0])
    }

    /// Runs it.
    pub fn run(rig: &mut Rig, data: &[u8], seed: u64) -> Result<Self> {
        let cap = QpCap {
            max_send_wr: 2 * OUTSTANDING as u32,
            ..QpCap::default()
        };
        let mut qps = rig.connect([cap; 2], [true; 2], &path(Mtu::Bytes4096))?;
        let buffers = Buffers::new(rig, data)?;
        let sizes = sizes(seed, data.len());
        let [client, _] = &mut qps;
        let writes = move_all(rig, client, &buffers, &sizes, Direction::Write)?;
        let reads = move_all(rig, client, &buffers, &sizes, Direction::Read)?;
        let file = digest(data);
        let there = digest(&buffers.contents(&buffers.there, data.len()));
        let back = digest(&buffers.contents(&buffers.back, data.len()));
        let exchanged = exchange(rig, &mut qps, [file, there])?;
        Ok(Self {
            writes,
            reads,
            digests: [file, there, back],
            exchanged,
        })
    }
}

fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    Sha256::digest(bytes).into()
}

/// Cuts the file into messages; an empty file is one empty message.
fn sizes(seed: u64, len: usize) -> Vec<u32> {
    let mut rng = Rng::new(seed, "demo messages");
    let mut sizes = Vec::new();
    let mut left = len;
    loop {
        let size = (rng.between(MESSAGE_BYTES.0, MESSAGE_BYTES.1) as usize).min(left);
        sizes.push(size as u32);
        left -= size;
        if left == 0 {
            return sizes;
        }
    }
}

struct Buffers {
    there: DmaBuf,
    back: DmaBuf,
    source_mr: Mr<Dev>,
    there_mr: Mr<Dev>,
    back_mr: Mr<Dev>,
}

impl Buffers {
    fn new(rig: &Rig, data: &[u8]) -> Result<Self> {
        let [client, server] = &rig.nodes;
        let len = data.len().max(1);
        let (source, back, there) = (client.alloc(len)?, client.alloc(len)?, server.alloc(len)?);
        source.write_bytes(0, data);
        let remote = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let source_mr = client.register(&source, Place::whole(&source, Access::empty(), BASES[0]))?;
        let behind = BASES[0] + source.len_bytes() as u64;
        let back_mr = client.register(&back, Place::whole(&back, Access::LOCAL_WRITE, behind))?;
        let there_mr = server.register(&there, Place::whole(&there, remote, BASES[1]))?;
        Ok(Self {
            there,
            back,
            source_mr,
            there_mr,
            back_mr,
        })
    }

    fn contents(&self, buf: &DmaBuf, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        buf.read_bytes(0, &mut bytes);
        bytes
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Write,
    Read,
}

/// Moves the whole file with several messages in flight.
fn move_all(
    rig: &mut Rig,
    qp: &mut RawQp<Dev>,
    buffers: &Buffers,
    sizes: &[u32],
    direction: Direction,
) -> Result<Phase> {
    let total = sizes.iter().map(|size| u64::from(*size)).sum();
    let what = if direction == Direction::Write {
        "RDMA WRITE"
    } else {
        "RDMA READ"
    };
    let mut progress = Progress::new(what, total, false);
    let (mut posted_at, mut latency) = (Vec::new(), Vec::new());
    let mut offset = 0;
    let start_ns = rig.now_ns();
    while latency.len() < sizes.len() {
        while posted_at.len() < sizes.len() && posted_at.len() - latency.len() < OUTSTANDING {
            let size = sizes[posted_at.len()];
            let (remote_addr, rkey) = (buffers.there_mr.addr() + offset, buffers.there_mr.rkey());
            let (op, mr) = match direction {
                Direction::Write => (SendOp::RdmaWrite { remote_addr, rkey }, &buffers.source_mr),
                Direction::Read => (SendOp::RdmaRead { remote_addr, rkey }, &buffers.back_mr),
            };
            let (wr_id, sges) = (posted_at.len() as u64, [mr.sge(offset, size)]);
            qp.post_send(&[SendWr {
                wr_id,
                op,
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&sges),
            }])?;
            posted_at.push(rig.now_ns());
            offset += u64::from(size);
        }
        let wc = wait(rig, 0)?;
        if wc.wr_id != latency.len() as u64 {
            bail!("{what} {} completed when {} was due", wc.wr_id, latency.len());
        }
        progress.add(sizes[latency.len()].into());
        latency.push(rig.now_ns() - posted_at[latency.len()]);
    }
    let (count, ns) = (sizes.len() as u64, rig.now_ns() - start_ns);
    Ok(Phase {
        count,
        bytes: total,
        ns,
        latency: latency.into(),
    })
}

/// The next completion of a node; anything but success is an error.
fn wait(rig: &mut Rig, node: usize) -> Result<WorkCompletion> {
    let end_ns = rig.now_ns() + MESSAGE_LIMIT_NS;
    loop {
        let found = rig.nodes[node].poll()?;
        match found {
            Some(wc) if wc.status == WcStatus::Success => return Ok(wc),
            Some(wc) => bail!(
                "work request {} of QP {:#x} failed at cycle {}: {:?}, vendor code {:#x}",
                wc.wr_id,
                wc.qp_num,
                rig.now_cycles(),
                wc.status,
                wc.vendor_err
            ),
            None if rig.now_ns() > end_ns => {
                let what = format!("a completion at card {node}");
                return Err(RigError::Late {
                    what,
                    limit_ns: MESSAGE_LIMIT_NS,
                }
                .into());
            }
            None => {}
        }
    }
}

/// Each side sends its digest to the other.
fn exchange(
    rig: &mut Rig,
    qps: &mut [RawQp<Dev>; 2],
    digests: [[u8; DIGEST_BYTES]; 2],
) -> Result<[[u8; DIGEST_BYTES]; 2]> {
    const RECV: u64 = 1;
    let mut memory = Vec::new();
    for node in 0..2 {
        let buf = rig.nodes[node].alloc(2 * DIGEST_BYTES)?;
        buf.write_bytes(0, &digests[node]);
        let base = BASES[node] + (1 << 40);
        let mr = rig.nodes[node].register(&buf, Place::whole(&buf, Access::LOCAL_WRITE, base))?;
        let sges = [mr.sge(DIGEST_BYTES as u64, DIGEST_BYTES as u32)];
        qps[node].post_recv(&[RecvWr {
            wr_id: RECV,
            sges: &sges,
        }])?;
        memory.push((buf, mr));
    }
    for node in 0..2 {
        let sges = [memory[node].1.sge(0, DIGEST_BYTES as u32)];
        let flags = SendFlags {
            solicited: true,
            ..SendFlags::SIGNALED
        };
        qps[node].post_send(&[SendWr {
            wr_id: 0,
            op: SendOp::Send,
            flags,
            data: WrData::Sges(&sges),
        }])?;
    }
    let mut received = [[0; DIGEST_BYTES]; 2];
    for node in 0..2 {
        for _ in 0..2 {
            let wc = wait(rig, node)?;
            if wc.wr_id == RECV {
                memory[node].0.read_bytes(DIGEST_BYTES, &mut received[node]);
            }
        }
    }
    Ok(received)
}
