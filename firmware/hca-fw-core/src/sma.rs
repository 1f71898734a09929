//! Management datagrams that firmware answers: hardware gives it the requests to the agents of the ports, and sends
//! what it writes. What agents say is in `hca-agents`; here is what their ports are.

use hca_abi::{EventKind, HOQ_LIFE_NEVER, Mtu, OpVls, PortState, VL_ARB_ENTRIES, port_cap2};
use hca_agents::packet::{self, MAX_PACKET};
use hca_agents::pma::Counts;
use hca_agents::sma::{ARB_PER_BLOCK, PKEYS_PER_BLOCK};
use hca_agents::{Key, NodeFacts, PortFacts, PortSettings, Refused, State};
use hca_wire::{LID_PERMISSIVE, LNH_IBA_GLOBAL, QPN_SMI};

use crate::counters::{counter_index, error_index};
use crate::device::{VENDOR_PART_ID, vendor_of};
use crate::features::USED_ENTRIES;
use crate::hal::Hal;
use crate::port::{NUM_PKEYS, PHYS_LINK_UP, PHYS_POLLING, width_and_speed};
use crate::{Bus, Control};

const _: () = assert!(NUM_PKEYS == PKEYS_PER_BLOCK);
const _: () = assert!(VL_ARB_ENTRIES as usize == 2 * ARB_PER_BLOCK);
/// Speeds of a lane up to 10 Gb/s (E-6); faster ones are told by LinkSpeedExt, beside this one.
const SPEED_10_GBPS: u8 = 4;
/// LocalPhyErrors: what the hardware counts a loss of integrity after (`hca_link_stats`).
const PHY_ERRORS: u8 = 8;
/// Bytes of a packet without GRH.
const LOCAL_PACKET: usize = MAX_PACKET - 40;

impl Control {
    /// Answers the management datagram that waits, or takes the neighbour's frame, if one does.
    #[inline(never)]
    pub(crate) fn answer_mad<B: Bus>(&mut self, hal: &mut Hal<B>) -> bool {
        if !self.has_mads {
            return false;
        }
        let Some((port, frame_bytes)) = hal.mad_pending() else {
            self.has_mads = false;
            return false;
        };
        let at = usize::from(port);
        if at < usize::from(self.num_ports) {
            if self.ports[at].infiniband() {
                self.answer_packet(hal, port);
            } else {
                self.hear_frame(hal, at, frame_bytes);
            }
        }
        hal.mad_pop();
        true
    }

    /// Answers the datagram that waits, as far as it is one.
    fn answer_packet<B: Bus>(&mut self, hal: &mut Hal<B>, port: u8) {
        let mut bytes = [0; MAX_PACKET];
        hal.mad_read(0, &mut bytes[..LOCAL_PACKET]);
        if bytes[1] & 3 == LNH_IBA_GLOBAL {
            hal.mad_read(LOCAL_PACKET, &mut bytes[LOCAL_PACKET..]);
        }
        self.answer_at(hal, port, &mut bytes);
    }

    /// Answers a datagram that has come through a port, from 0.
    fn answer_at<B: Bus>(&mut self, hal: &mut Hal<B>, port: u8, bytes: &mut [u8; MAX_PACKET]) {
        let at = usize::from(port);
        let Some((mut from, mut mad)) = packet::read(bytes) else {
            return;
        };
        let is_local = self.is_own_lid(at, from.slid);
        let is_answered = if from.qpn == QPN_SMI {
            // The agent works on the port that it is of: it is taken out meanwhile.
            let mut agent = self.ports[at].sma;
            let now_s = hal.seconds();
            let is_answered = agent.handle(
                &mut mad,
                from.slid,
                &mut Hands {
                    control: self,
                    hal,
                    at,
                },
                now_s,
            );
            self.ports[at].sma = agent;
            is_answered
        } else {
            // KEY-14, KEY-16: whoever shares a partition with the port may ask.
            let number = self.ports[at].number();
            packet::is_member(self.ports[at].pkeys(), from.pkey)
                && self.ports[at].pma.handle(&mut mad, number, || counts(hal, port))
        };
        if is_answered {
            if is_local && !self.is_own_lid(at, from.slid) {
                // Who asked sits at this port, which has just got another LID.
                from.slid = self.ports[at].identity().lid;
            }
            let slid = match from.dlid {
                LID_PERMISSIVE => LID_PERMISSIVE,
                _ => self.ports[at].identity().lid,
            };
            let map = self.ports[at].link.sl2vl_now();
            let vl_of = |sl| (map >> (4 * u32::from(sl)) & 15) as u8;
            let len = packet::write_answer(&from, slid, vl_of, &mad, bytes);
            hal.mad_send(port, &bytes[..len]);
        }
    }

    /// Sends the traps whose time has come.
    #[inline(never)]
    pub(crate) fn send_traps<B: Bus>(&mut self, hal: &mut Hal<B>) -> bool {
        let Some(due_us) = self.trap_due_us() else {
            return false;
        };
        let now_us = hal.micros();
        if due_us > now_us {
            return false;
        }
        for at in 0..usize::from(self.num_ports) {
            let port = &mut self.ports[at];
            let lid = port.identity().lid;
            let is_there = port.infiniband() && port.link.status(hal).1;
            if is_there && let Some(mad) = port.sma.trap(now_us, lid) {
                let mut bytes = [0; MAX_PACKET];
                let len = packet::write_trap(lid, port.sma.kept(), &mad, &mut bytes);
                hal.mad_send(at as u8, &bytes[..len]);
            }
        }
        true
    }

    /// When the next trap goes.
    pub(crate) fn trap_due_us(&self) -> Option<u64> {
        let ports = self.fitted().iter();
        ports.filter_map(|port| port.sma.trap_due_us()).min()
    }

    /// KEY-15, KEY-23: a packet of another partition, or with a wrong Q_Key, was for this QP.
    pub(crate) fn bad_key(&mut self, key: Key, qpn: u32, slid: u16) {
        if let Some(at) = self.port_of_qp(qpn) {
            let port = &mut self.ports[at];
            port.sma.bad_key(key, slid, port.identity().lid, qpn);
        }
    }

    /// The card has another name, by its host or through one of its ports; managers at the other ports hear of it.
    pub(crate) fn set_description(&mut self, text: [u8; DESCRIPTION_BYTES], by: Option<usize>) {
        if core::mem::replace(&mut self.description, text) == text {
            return;
        }
        let others = self.ports.iter_mut().enumerate();
        for (_, port) in others.filter(|(at, _)| by != Some(*at)) {
            let (lid, cap_mask) = (port.identity().lid, port.cap_mask());
            if port.infiniband() {
                port.sma.description_changed(lid, cap_mask);
            }
            port.lldp.changed();
        }
    }

    fn is_own_lid(&self, at: usize, lid: u16) -> bool {
        let port = &self.ports[at];
        lid != LID_PERMISSIVE && lid >> port.lmc() == port.identity().lid >> port.lmc()
    }
}

/// A port in the hands of its agent.
struct Hands<'a, 'b, B: Bus> {
    control: &'a mut Control,
    hal: &'a mut Hal<'b, B>,
    at: usize,
}

/// Bytes of NodeDescription.
pub(crate) const DESCRIPTION_BYTES: usize = 64;
/// What it is until somebody says something else.
pub(crate) const DESCRIPTION: [u8; DESCRIPTION_BYTES] = {
    let (mut text, name) = ([0; DESCRIPTION_BYTES], b"OpenHCA");
    let mut at = 0;
    while at < name.len() {
        text[at] = name[at];
        at += 1;
    }
    text
};

impl<B: Bus> hca_agents::Port for Hands<'_, '_, B> {
    fn node(&mut self) -> NodeFacts {
        let guid = |at: usize| u64::from_be_bytes(self.control.ports[at].identity().guid);
        NodeFacts {
            system_guid: guid(0),
            node_guid: guid(0),
            port_guid: guid(self.at),
            ports: self.control.num_ports,
            pkeys: NUM_PKEYS as u16,
            device: VENDOR_PART_ID as u16,
            revision: crate::HARDWARE_VERSION,
            vendor: vendor_of(&self.control.ports[0].identity().mac),
            description: self.control.description,
        }
    }

    fn set_description(&mut self, text: &[u8; DESCRIPTION_BYTES]) -> Result<(), Refused> {
        self.control.set_description(*text, Some(self.at));
        Ok(())
    }

    fn facts(&mut self) -> PortFacts {
        let port = &self.control.ports[self.at];
        let (state, phy_up) = port.link.status(self.hal);
        let (width, speed) = width_and_speed(port.identity().rate_mbps);
        let [pkey_violations, qkey_violations] = port.violations(self.hal);
        PortFacts {
            number: port.number(),
            lid: port.identity().lid,
            lmc: port.lmc(),
            cap_mask: port.cap_mask(),
            cap_mask2: port_cap2::SET_NODE_DESC as u16,
            state: match state {
                PortState::Init => State::Init,
                PortState::Armed => State::Armed,
                PortState::Active | PortState::ActiveDefer => State::Active,
                PortState::Down | PortState::Nop => State::Down,
            },
            phys_state: if phy_up { PHYS_LINK_UP } else { PHYS_POLLING },
            width,
            speed: speed.min(SPEED_10_GBPS),
            speed_ext: speed >> 4,
            mtu: port.mtu(),
            mtu_cap: Mtu::Bytes4096.into(),
            vl_cap: port.link.built().into(),
            op_vls: port.link.op_vls(true).into(),
            high_limit: port.link.limit(),
            // Not a channel adapter's: nothing that it sends is too old.
            hoq_life: HOQ_LIFE_NEVER as u8,
            phy_errors: PHY_ERRORS,
            arb_entries: USED_ENTRIES as u8,
            enforces_pkeys: [false; 2],
            pkey_violations,
            qkey_violations,
        }
    }

    fn set(&mut self, settings: &PortSettings) -> Result<(), Refused> {
        let vls = OpVls::try_from(settings.op_vls).map_err(|_| Refused)?;
        let (at, hal) = (self.at, &mut *self.hal);
        let port = &mut self.control.ports[at];
        let before = (port.identity().lid, port.lmc(), port.gids()[0]);
        port.set_address(settings.lid, settings.lmc, settings.mtu, settings.gid_prefix);
        port.apply_address(hal);
        let request = settings.state.map(|state| match state {
            State::Down => PortState::Down,
            State::Init => PortState::Init,
            State::Armed => PortState::Armed,
            State::Active => PortState::Active,
        });
        // HOQLife is of switches alone.
        let facts = port.facts();
        port.link.manage(hal, facts, vls, settings.high_limit, request);
        let now = (port.identity().lid, port.lmc(), port.gids()[0]);
        self.control.announce_link(hal);
        for (has_happened, event) in [
            ((before.0, before.1) != (now.0, now.1), EventKind::LidChange),
            (before.2 != now.2, EventKind::GidChange),
            (settings.has_new_sm, EventKind::SmChange),
            (settings.reregister, EventKind::ClientReregister),
        ] {
            if has_happened {
                self.control.post_port_event(hal, at, event);
            }
        }
        Ok(())
    }

    fn clear_violations(&mut self, pkey: bool, qkey: bool) {
        self.control.ports[self.at].clear_violations(self.hal, pkey, qkey);
    }

    fn pkeys(&mut self, block: u16) -> Option<[u16; PKEYS_PER_BLOCK]> {
        (block == 0).then(|| self.control.ports[self.at].pkeys().try_into().ok())?
    }

    fn set_pkeys(&mut self, _block: u16, pkeys: &[u16; PKEYS_PER_BLOCK]) -> Result<(), Refused> {
        if self.control.ports[self.at].pkeys() != pkeys {
            self.control.ports[self.at].set_pkeys(self.hal, pkeys);
            self.control
                .post_port_event(self.hal, self.at, EventKind::PkeyChange);
        }
        Ok(())
    }

    fn sl2vl(&mut self) -> [u8; 16] {
        let map = self.control.ports[self.at].link.sl2vl_now();
        core::array::from_fn(|sl| (map >> (4 * sl) & 15) as u8)
    }

    fn set_sl2vl(&mut self, vls: &[u8; 16]) -> Result<(), Refused> {
        let map = (0..)
            .zip(vls)
            .fold(0, |map, (sl, vl)| map | u64::from(*vl) << (4 * sl));
        let port = &mut self.control.ports[self.at];
        let facts = port.facts();
        let ok = port.link.manage_sl2vl(self.hal, facts, map);
        ok.then_some(()).ok_or(Refused)
    }

    fn vl_arb(&mut self, high: bool, block: u8) -> Option<[(u8, u8); ARB_PER_BLOCK]> {
        let table = self.control.ports[self.at].link.arbitration(high);
        let from = usize::from(block) * ARB_PER_BLOCK;
        table.get(from..from + ARB_PER_BLOCK)?.try_into().ok()
    }

    fn set_vl_arb(
        &mut self,
        high: bool,
        block: u8,
        entries: &[(u8, u8); ARB_PER_BLOCK],
    ) -> Result<(), Refused> {
        let port = &mut self.control.ports[self.at];
        let mut table = port.link.arbitration(high);
        let from = usize::from(block) * ARB_PER_BLOCK;
        table
            .get_mut(from..from + ARB_PER_BLOCK)
            .ok_or(Refused)?
            .copy_from_slice(entries);
        // What is behind VLArbitrationHighCap or LowCap is not there.
        table[USED_ENTRIES as usize..].fill((0, 0));
        let facts = port.facts();
        let ok = port.link.manage_arbitration(self.hal, facts, high, &table);
        ok.then_some(()).ok_or(Refused)
    }
}

/// What the counters of a port, from 0, say to performance management.
fn counts<B: Bus>(hal: &mut Hal<B>, port: u8) -> Counts {
    let mut of = |index| hal.counter(port, index);
    let (xmit_packets, xmit_bytes) = (
        of(const { counter_index("tx_packets") }),
        of(const { counter_index("tx_bytes") }),
    );
    let (rcv_packets, rcv_bytes) = (
        of(const { counter_index("rx_packets") }),
        of(const { counter_index("rx_bytes") }),
    );
    let pkey_violations = of(const { counter_index("pkey_violations") });
    let crc_errors = of(const { counter_index("rx_crc_errors") });
    let qp1_dropped = of(const { counter_index("qp1_drops") });
    // Ticks of every VL, as of a switch.
    let xmit_wait = (0..16)
        .map(|vl| u64::from(hal.link_word(port, hca_abi::LINK_WORD_TX_WAIT + vl)))
        .sum();
    let mut error = |index| u64::from(hal.link_word(port, hca_abi::LINK_WORD_ERRORS + index));
    Counts {
        symbol_errors: error(const { error_index("symbol_error") }),
        recoveries: error(const { error_index("link_error_recovery") }),
        downed: error(const { error_index("link_downed") }),
        rcv_errors: error(const { error_index("port_rcv_errors") }) + crc_errors,
        rcv_switch_relay_errors: 0,
        xmit_discards: error(const { error_index("port_xmit_discards") }),
        xmit_constraint_errors: error(const { error_index("port_xmit_constraint_errors") }),
        rcv_constraint_errors: pkey_violations,
        vl15_dropped: error(const { error_index("vl15_dropped") }),
        integrity: error(const { error_index("local_link_integrity_errors") }),
        overruns: error(const { error_index("excessive_buffer_overrun_errors") }),
        xmit_words: xmit_bytes / 4,
        rcv_words: rcv_bytes / 4,
        xmit_packets,
        rcv_packets,
        xmit_wait,
        qp1_dropped,
    }
}
