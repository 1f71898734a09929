//! What Ethernet ports tell their neighbours, and hear of them (LLDP). The agent is in `hca-agents`; here is what a
//! port says of itself. Hardware gives firmware the frames, and sends what it writes.

use hca_abi::{AdminStatus, QueryLldpCmd, QueryLldpResult};
use hca_agents::divide;
use hca_agents::lldp::{FRAME_MAX, Facts, LLDPDU_MAX};
use hca_wire::lldp::{Ets, FAMILY_IPV4, FAMILY_IPV6, Pfc, selection};

use crate::hal::Hal;
use crate::link::Link;
use crate::objects::require;
use crate::priorities::PRIORITY_COUNT;
use crate::{Bus, CmdResult, Control};

/// System description.
const DESCRIPTION: &[u8] = b"OpenHCA, an InfiniBand and RoCEv2 host channel adapter";
const US_PER_S: u32 = 1_000_000;
/// Bytes of a part of the answer.
const PART_BYTES: usize = 192;

/// The traffic classes, as a neighbour is told.
fn ets_of(link: &Link) -> Ets {
    let (priorities, map, classes) = link.classes();
    let mut ets = Ets {
        willing: false,
        classes,
        prio_tc: core::array::from_fn(|priority| (map >> (4 * priority) & 15) as u8),
        percent: [0; PRIORITY_COUNT],
        selection: [selection::ETS; PRIORITY_COUNT],
    };
    // Without shares all have the same; percents have no fractions.
    let (share, rest) = (
        100u8.checked_div(classes).unwrap_or(0),
        100u8.checked_rem(classes).unwrap_or(0),
    );
    let even = |class| share + u8::from(class < rest);
    for (class, (percent, how)) in (0..).zip(ets.percent.iter_mut().zip(&mut ets.selection)) {
        match &priorities.ets {
            Some(set) if set.strict >> class & 1 != 0 => *how = selection::STRICT,
            Some(set) => *percent = set.percent.get(usize::from(class)).copied().unwrap_or(0),
            None if class < classes => *percent = even(class),
            None => {}
        }
    }
    ets
}

impl Control {
    /// Takes the frame that waits, of so many bytes: behind them are bytes of others.
    pub(crate) fn hear_frame<B: Bus>(&mut self, hal: &mut Hal<B>, at: usize, bytes: usize) {
        let mut frame = [0; FRAME_MAX];
        if let Some(words) = frame.get_mut(..bytes.next_multiple_of(4)) {
            hal.mad_read(0, words);
        }
        let now_us = hal.micros();
        let port = &mut self.ports[at];
        // A card hears its own frames to groups.
        let is_own = |frame: &[u8]| frame.get(6..12) == Some(&port.identity().mac);
        if let Some(frame) = frame.get(..bytes).filter(|frame| !is_own(frame)) {
            port.lldp.receive(now_us, frame);
        }
    }

    /// Sends the frames whose time has come.
    #[inline(never)]
    pub(crate) fn tell_neighbours<B: Bus>(&mut self, hal: &mut Hal<B>) -> bool {
        let Some(due_us) = self.lldp_due_us() else {
            return false;
        };
        let now_us = hal.micros();
        if due_us > now_us {
            return false;
        }
        for at in 0..usize::from(self.num_ports) {
            self.ports[at].lldp.age(now_us);
            if !self.ports[at].link.status(hal).1 || !self.ports[at].enabled() {
                self.ports[at].lldp.link_down();
            } else if let Some(frame) = self.ports[at].lldp.take_due(now_us) {
                let mut bytes = [0; FRAME_MAX];
                let len = frame.write(&self.lldp_facts(at), &mut bytes);
                if let Some(bytes) = bytes.get(..len) {
                    hal.mad_send(at as u8, bytes);
                }
            }
        }
        true
    }

    /// When the next frame goes, or a neighbour is to be forgotten.
    pub(crate) fn lldp_due_us(&self) -> Option<u64> {
        self.fitted().iter().filter_map(|port| port.lldp.wakes_us()).min()
    }

    fn lldp_facts(&self, at: usize) -> Facts<'_> {
        let port = &self.ports[at];
        let name = self.description.split(|byte| *byte == 0).next().unwrap_or(&[]);
        let ipv4 = port
            .gids()
            .iter()
            .find_map(|gid| gid.strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]));
        let ipv6 = port.gid(0).map(|gid| (FAMILY_IPV6, gid.as_slice()));
        Facts {
            mac: port.identity().mac,
            chassis: self.ports[0].identity().mac,
            port: port.number(),
            name,
            description: DESCRIPTION,
            is_bridge: false,
            address: ipv4.map(|ipv4| (FAMILY_IPV4, ipv4)).or(ipv6),
            ets: ets_of(&port.link),
            pfc: Pfc {
                willing: false,
                capability: PRIORITY_COUNT as u8,
                enabled: port.link.pfc_enable(),
            },
        }
    }

    pub(crate) fn query_lldp<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        cmd: &QueryLldpCmd,
    ) -> CmdResult<QueryLldpResult> {
        let at = self.port_at(cmd.port_num())?;
        if self.ports[at].infiniband() {
            return Err((AdminStatus::Unsupported, cmd.port_num().into()));
        }
        let first = usize::from(cmd.part()) * PART_BYTES;
        require(first < LLDPDU_MAX, cmd.part().into())?;
        let now_us = hal.micros();
        let agent = &mut self.ports[at].lldp;
        let mut out = QueryLldpResult::new();
        out.set_tx(agent.is_on());
        let (tlvs, left_us) = agent.neighbour(now_us);
        let mut part = [0; PART_BYTES];
        for (to, byte) in part.iter_mut().zip(tlvs.iter().skip(first)) {
            *to = *byte;
        }
        out.set_tlvs(part);
        out.set_bytes(tlvs.len() as u16);
        if !tlvs.is_empty() {
            out.set_left_s(divide(left_us + u64::from(US_PER_S) - 1, US_PER_S) as u32);
        }
        let counters = agent.counters();
        out.set_sent(counters.sent);
        out.set_received(counters.received);
        out.set_malformed(counters.malformed);
        out.set_aged_out(counters.aged_out);
        out.set_replaced(counters.replaced);
        Ok(out)
    }
}
