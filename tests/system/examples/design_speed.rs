//! How much faster the card of the model is than that of RTL: the same programs on both, in the
//! processor's time: a machine that has other work does not matter.
//!
//! `cargo run --release -p hca-system-tests --example design_speed`; the model alone, so many times as many messages,
//! all loads or those with a word in their name: `... --example design_speed 10 KiB`

use std::error::Error;

use hca_cosim::Design;
use hca_link::LinkKind;
use hca_system_tests::{Dev, Place, Rig, RigConfig, path};
use hca_verbs::{Access, Mr, Mtu, QpCap, RawQp, RecvWr, SendFlags, SendOp, SendWr, WrData};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Messages from node 0 to node 1 and, if they alternate, back.
struct Load {
    name: &'static str,
    bytes: u32,
    qps: usize,
    /// Messages of a QP under way.
    depth: u32,
    alternate: bool,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Write,
    Read,
    Send,
}

const LOADS: [Load; 7] = [
    Load {
        name: "WRITE 64 B, there and back",
        bytes: 64,
        qps: 1,
        depth: 1,
        alternate: true,
        kind: Kind::Write,
    },
    Load {
        name: "WRITE 4 KiB, there and back",
        bytes: 4096,
        qps: 1,
        depth: 1,
        alternate: true,
        kind: Kind::Write,
    },
    Load {
        name: "WRITE 64 B, 16 QPs",
        bytes: 64,
        qps: 16,
        depth: 16,
        alternate: false,
        kind: Kind::Write,
    },
    Load {
        name: "WRITE 64 KiB, one QP",
        bytes: 65536,
        qps: 1,
        depth: 4,
        alternate: false,
        kind: Kind::Write,
    },
    Load {
        name: "WRITE 1 MiB, one QP",
        bytes: 1 << 20,
        qps: 1,
        depth: 4,
        alternate: false,
        kind: Kind::Write,
    },
    Load {
        name: "READ 1 MiB, one QP",
        bytes: 1 << 20,
        qps: 1,
        depth: 4,
        alternate: false,
        kind: Kind::Read,
    },
    Load {
        name: "SEND 1 MiB, one QP",
        bytes: 1 << 20,
        qps: 1,
        depth: 4,
        alternate: false,
        kind: Kind::Send,
    },
];
/// Number of all receives.
const RECEIVES: u64 = u64::MAX;
/// Messages of a load: the RTL's share takes some seconds.
const MESSAGES: [(Design, u32); 2] = [(Design::Rtl, 320), (Design::Model, 32_000)];

fn main() -> Outcome<()> {
    if let Some(times) = std::env::args().nth(1) {
        let word = std::env::args().nth(2).unwrap_or_default();
        return model_alone(times.parse()?, &word);
    }
    println!(
        "{:30} {:>14} {:>14} {:>8}",
        "processor time of a message", "RTL", "model", "ratio"
    );
    for load in &LOADS {
        let mut us = Vec::new();
        for (design, messages) in MESSAGES {
            us.push(carry(design, load, messages)?);
        }
        println!(
            "{:30} {:>11.1} us {:>11.1} us {:>8.0}",
            load.name,
            us[0],
            us[1],
            us[0] / us[1]
        );
    }
    Ok(())
}

fn model_alone(times: u32, word: &str) -> Outcome<()> {
    let [_, (design, messages)] = MESSAGES;
    for load in LOADS.iter().filter(|load| load.name.contains(word)) {
        let us = carry(design, load, messages * times)?;
        println!("{:30} {us:>11.2} us", load.name);
    }
    Ok(())
}

/// Microseconds for each message.
fn carry(design: Design, load: &Load, messages: u32) -> Outcome<f64> {
    // A long message is as good as many.
    let messages = match load.bytes {
        ..=4096 => messages,
        4097..=65536 => messages / 10,
        _ => messages / 40,
    };
    let rig = Rig::new(&RigConfig {
        designs: [design; 2],
        ..RigConfig::new(1, LinkKind::Ethernet)
    })?;
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    let memory = |node: usize| -> Outcome<Mr<Dev>> {
        let buf = rig.nodes[node].alloc(load.bytes as usize)?;
        Ok(rig.nodes[node].register(&buf, Place::whole(&buf, access, (node as u64 + 1) << 40))?)
    };
    let memory = [memory(0)?, memory(1)?];
    let cap = QpCap {
        max_send_wr: load.depth,
        max_recv_wr: load.depth,
        ..QpCap::default()
    };
    let connect = |_| rig.connect([cap; 2], [false; 2], &path(Mtu::Bytes4096));
    let mut qps = (0..load.qps).map(connect).collect::<Result<Vec<_>, _>>()?;
    let each = messages / load.qps as u32;
    let (mut posted, mut completed) = (vec![0; load.qps], vec![0; load.qps]);
    let start = cpu_s();
    while completed.iter().any(|count| *count < each) {
        for (at, qp) in qps.iter_mut().enumerate() {
            while posted[at] - completed[at] < load.depth && posted[at] < each {
                let from = usize::from(load.alternate && posted[at] % 2 == 1);
                let ends = [&memory[from], &memory[1 - from]];
                if load.kind == Kind::Send {
                    let sges = [ends[1].sge(0, load.bytes)];
                    let (wr_id, sges) = (RECEIVES, &sges[..]);
                    qp[1 - from].post_recv(&[RecvWr { wr_id, sges }])?;
                }
                post(&mut qp[from], at as u64, load, ends)?;
                posted[at] += 1;
            }
        }
        for node in &rig.nodes {
            // Finding none lets time go on.
            while let Some(wc) = node.poll()? {
                if !wc.is_ok() {
                    return Err(format!("a work request failed: {wc:?}").into());
                }
                if wc.wr_id != RECEIVES {
                    completed[wc.wr_id as usize] += 1;
                }
            }
        }
    }
    Ok((cpu_s() - start) * 1e6 / f64::from(each * load.qps as u32))
}

/// Processor time of this process.
fn cpu_s() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is ours and large enough.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn post(qp: &mut RawQp<Dev>, wr_id: u64, load: &Load, [source, target]: [&Mr<Dev>; 2]) -> Outcome<()> {
    let (remote_addr, rkey) = (target.addr(), target.rkey());
    let wr = SendWr {
        wr_id,
        op: match load.kind {
            Kind::Write => SendOp::RdmaWrite { remote_addr, rkey },
            Kind::Read => SendOp::RdmaRead { remote_addr, rkey },
            Kind::Send => SendOp::Send,
        },
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&[source.sge(0, load.bytes)]),
    };
    qp.post_send(&[wr])?;
    Ok(())
}
