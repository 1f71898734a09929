//! Two flows on one wire, measured on the RTL.

use anyhow::{Result, bail};
use hca_link::{Dir, LinkKind};
use hca_system_tests::{Dev, Place, Rig, RigConfig, path};
use hca_verbs::{Access, ConnectOptions, Mr, Mtu, QpCap, RawQp, SendFlags, SendOp, SendWr, WcStatus};
use hca_verbs::{WorkCompletion, WrData};

use super::formula::{Policy, Setting};
use super::tally::{Flow, Tally, Window};

/// QOS-6: messages of both flows.
const MESSAGE_BYTES: u32 = 64 << 10;
/// Messages of each flow under way: more than the wire's round trip.
const OUTSTANDING: u32 = 8;
/// The flow of service level and VL 0 is in the high table.
const FLOWS: [Flow; 2] = [Flow::High, Flow::Low];
/// A setting that is not measured by then never will be: two hundred thousand packets.
const LIMIT_NS: u64 = 50_000_000;
/// Acknowledge timeout of the QPs.
const NO_TIMEOUT: u8 = 0;
/// InfiniBand link packets are this long; no data packet is.
const LINK_PACKET_BYTES: u32 = 6;

/// Two cards, and a saturating flow of WRITEs on each of two service levels.
pub struct Bench {
    rig: Rig,
    flows: Vec<Stream>,
    mtu: Mtu,
    mtu_bytes: u32,
}

struct Stream {
    qps: [RawQp<Dev>; 2],
    mrs: [Mr<Dev>; 2],
    under_way: u32,
}

impl Bench {
    /// Connects both flows.
    pub fn new(seed: u64, mtu: Mtu, mtu_bytes: u32, rate_bits_per_s: u64) -> Result<Self> {
        let config = RigConfig {
            rate_bits_per_s,
            ..RigConfig::new(seed, LinkKind::InfiniBand)
        };
        let rig = Rig::new(&config)?;
        let cap = QpCap {
            max_send_wr: OUTSTANDING,
            ..QpCap::default()
        };
        let mut flows = Vec::new();
        for sl in 0..FLOWS.len() as u8 {
            // The cable loses nothing; a message of a VL with little of the wire takes as long as it takes.
            let options = ConnectOptions {
                sl,
                timeout: NO_TIMEOUT,
                gid_index: None,
                ..path(mtu)
            };
            let qps = rig.connect([cap; 2], [false; 2], &options)?;
            let mr = |node: usize| -> Result<Mr<Dev>> {
                let buf = rig.nodes[node].alloc(MESSAGE_BYTES as usize)?;
                let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
                let base = ((node as u64 + 1) << 44) + (u64::from(sl) << 32);
                Ok(rig.nodes[node].register(&buf, Place::whole(&buf, access, base))?)
            };
            let mrs = [mr(0)?, mr(1)?];
            flows.push(Stream {
                qps,
                mrs,
                under_way: 0,
            });
        }
        rig.sim.fabric().cable_mut(rig.cable).watch(Dir::AToB, true);
        Ok(Self {
            rig,
            flows,
            mtu,
            mtu_bytes,
        })
    }

    /// Payload bytes of a packet.
    pub fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }

    /// Sets the arbiter of card 0 and counts until the ratio is known.
    pub fn measure(&mut self, setting: Setting, policy: Policy) -> Result<Window> {
        super::arbiter::set(&self.rig.nodes[0].context, self.mtu, setting, policy)?;
        self.rig
            .sim
            .fabric()
            .cable_mut(self.rig.cable)
            .take_sightings(Dir::AToB);
        let mut tally = Tally::new(setting);
        let limit_ns = self.rig.now_ns() + LIMIT_NS;
        while !tally.is_done() {
            self.keep_busy()?;
            let (seen, lost) = self
                .rig
                .sim
                .fabric()
                .cable_mut(self.rig.cable)
                .take_sightings(Dir::AToB);
            if lost > 0 {
                bail!("{lost} packets went by uncounted");
            }
            for packet in seen.iter().filter(|packet| packet.len_bytes != LINK_PACKET_BYTES) {
                let vl = usize::from(packet.head[0] >> 4);
                let Some(flow) = FLOWS.get(vl) else {
                    bail!("a packet left on VL {vl}, which no flow uses");
                };
                tally.add(*flow, u64::from(packet.len_bytes), packet.sent_ps);
            }
            if self.rig.now_ns() > limit_ns {
                bail!("{setting:?}: no whole rounds of both flows within {LIMIT_NS} ns of simulated time");
            }
        }
        tally
            .done()
            .ok_or_else(|| anyhow::anyhow!("the loop above ends with a window"))
    }

    /// Posts what has completed again, and lets time pass until something more completes.
    fn keep_busy(&mut self) -> Result<()> {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            let (remote_addr, rkey) = (flow.mrs[1].addr(), flow.mrs[1].rkey());
            let sges = [flow.mrs[0].sge(0, MESSAGE_BYTES)];
            let wr = SendWr {
                wr_id: index as u64,
                op: SendOp::RdmaWrite { remote_addr, rkey },
                flags: SendFlags {
                    signaled: true,
                    ..SendFlags::default()
                },
                data: WrData::Sges(&sges),
            };
            let room = (OUTSTANDING - flow.under_way) as usize;
            if room > 0 {
                flow.qps[0].post_send(&vec![wr; room])?;
                flow.under_way = OUTSTANDING;
            }
        }
        let mut wcs = [WorkCompletion::default(); 2 * OUTSTANDING as usize];
        let count = self.rig.nodes[0].cq.poll_cq(&mut wcs)?;
        for wc in &wcs[..count] {
            if wc.status != WcStatus::Success {
                bail!("a message of flow {} failed: {:?}", wc.wr_id, wc.status);
            }
            self.flows[wc.wr_id as usize].under_way -= 1;
        }
        if count == 0 {
            self.rig.progress();
        }
        Ok(())
    }
}
