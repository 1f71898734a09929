//! The agent of performance management (IBA vol1 16.1): counters of a port.

use crate::mad::{self, Mad, class_of, method, method_of, put_u16, put_u32, put_u64, status};

/// Where the data begin.
const DATA: usize = 64;
/// Attributes.
mod attr {
    pub const CLASS_PORT_INFO: u16 = 0x01;
    pub const PORT_COUNTERS: u16 = 0x12;
    pub const PORT_COUNTERS_EXT: u16 = 0x1d;
}
/// ClassPortInfo.CapabilityMask: extended counters, those of unicast and multicast without a count of their own;
/// PortXmitWait; QP1Dropped.
const CAPABILITIES: u16 = EXTENDED_WIDTH_NO_IETF | XMIT_WAIT | QP1_DROPPED;
const EXTENDED_WIDTH_NO_IETF: u16 = 1 << 10;
const XMIT_WAIT: u16 = 1 << 12;
const QP1_DROPPED: u16 = 1 << 15;
const ALL_PORTS: u8 = 0xff;
/// Counters of a port.
const COUNTERS: usize = 17;
/// RespTimeValue.
const RESPONSE_TIME: u32 = 16;

/// What the counters of a port say, since it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Symbol errors.
    pub symbol_errors: u64,
    /// Times that the link recovered.
    pub recoveries: u64,
    /// Times that it did not.
    pub downed: u64,
    /// Packets that were malformed or damaged.
    pub rcv_errors: u64,
    /// Packets that a switch could not pass on.
    pub rcv_switch_relay_errors: u64,
    /// Packets that could not be sent.
    pub xmit_discards: u64,
    /// Packets that this port may not send.
    pub xmit_constraint_errors: u64,
    /// Packets that this port may not take, by their partition.
    pub rcv_constraint_errors: u64,
    /// Packets for VL15 that found no room.
    pub vl15_dropped: u64,
    /// Times that damage on the wire came too often.
    pub integrity: u64,
    /// Buffer overruns.
    pub overruns: u64,
    /// Words of four bytes that were sent.
    pub xmit_words: u64,
    /// And received.
    pub rcv_words: u64,
    /// Packets that were sent.
    pub xmit_packets: u64,
    /// And received.
    pub rcv_packets: u64,
    /// Ticks in which a packet waited for credits.
    pub xmit_wait: u64,
    /// Datagrams for QP1 that found no room there.
    pub qp1_dropped: u64,
}

impl Counts {
    fn each(&mut self) -> [&mut u64; COUNTERS] {
        [
            &mut self.symbol_errors,
            &mut self.recoveries,
            &mut self.downed,
            &mut self.rcv_errors,
            &mut self.rcv_switch_relay_errors,
            &mut self.xmit_discards,
            &mut self.xmit_constraint_errors,
            &mut self.rcv_constraint_errors,
            &mut self.vl15_dropped,
            &mut self.integrity,
            &mut self.overruns,
            &mut self.xmit_words,
            &mut self.rcv_words,
            &mut self.xmit_packets,
            &mut self.rcv_packets,
            &mut self.xmit_wait,
            &mut self.qp1_dropped,
        ]
    }
}

/// The agent of one port. The port's counters are everybody's and go on; what a manager has cleared is taken off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    cleared: Counts,
}

impl Agent {
    /// Of a port whose counters nobody has cleared.
    pub const fn new() -> Self {
        Self {
            cleared: Counts {
                symbol_errors: 0,
                recoveries: 0,
                downed: 0,
                rcv_errors: 0,
                rcv_switch_relay_errors: 0,
                xmit_discards: 0,
                xmit_constraint_errors: 0,
                rcv_constraint_errors: 0,
                vl15_dropped: 0,
                integrity: 0,
                overruns: 0,
                xmit_words: 0,
                rcv_words: 0,
                xmit_packets: 0,
                rcv_packets: 0,
                xmit_wait: 0,
                qp1_dropped: 0,
            },
        }
    }

    /// Takes a datagram that has come to QP1 of port `port`. True: it has become the answer to itself. Baseboard
    /// management is refused by name, whatever its B_Key (KEY-7, MGMT-8): nobody waits for what is not there.
    pub fn handle(&mut self, mad: &mut Mad, port: u8, counts: impl FnOnce() -> Counts) -> bool {
        let method = method_of(mad);
        let class = class_of(mad);
        let is_ours = matches!(class, mad::class::PERF | mad::class::BM);
        if !is_ours || !matches!(method, method::GET | method::SET) {
            return false;
        }
        if class == mad::class::BM {
            mad::answer(mad, status::NO_ATTRIBUTE);
            return true;
        }
        let result = if (mad[0], mad[2]) == (1, 1) {
            self.attribute(mad, port, counts)
        } else {
            Err(status::BAD_VERSION)
        };
        mad::answer(mad, result.err().unwrap_or(status::OK));
        true
    }

    fn attribute(&mut self, mad: &mut Mad, port: u8, counts: impl FnOnce() -> Counts) -> Result<(), u16> {
        let is_set = method_of(mad) == method::SET;
        let attribute = mad::attribute_of(mad);
        let data = &mut mad[DATA..];
        match (attribute, is_set) {
            (attr::CLASS_PORT_INFO, false) => {
                data.fill(0);
                (data[0], data[1]) = (1, 1);
                put_u16(data, 2, CAPABILITIES);
                put_u32(data, 4, RESPONSE_TIME);
            }
            (attr::PORT_COUNTERS | attr::PORT_COUNTERS_EXT, _) => {
                // All ports are the one port of a channel adapter; a switch does not offer it.
                if data[1] != port && (data[1] != ALL_PORTS || port == 0) {
                    return Err(status::BAD_VALUE);
                }
                let mut now = counts();
                if is_set {
                    let chosen = self.chosen(mad::u16_at(data, 2), data[18], attribute);
                    let fields = self.cleared.each().into_iter().zip(now.each());
                    for ((cleared, now), chosen) in fields.zip(chosen) {
                        if chosen {
                            *cleared = *now;
                        }
                    }
                }
                for (now, cleared) in now.each().into_iter().zip(self.cleared.each()) {
                    *now = now.saturating_sub(*cleared);
                }
                if attribute == attr::PORT_COUNTERS {
                    write_counters(data, port, &now);
                } else {
                    write_extended(data, port, &now);
                }
            }
            _ => return Err(status::NO_ATTRIBUTE),
        }
        Ok(())
    }

    /// Which counters a Set clears: CounterSelect, in the order of [`Counts::each`].
    fn chosen(&self, select: u16, select2: u8, attribute: u16) -> [bool; COUNTERS] {
        let bit = |n: u16| select & 1 << n != 0;
        if attribute == attr::PORT_COUNTERS_EXT {
            return core::array::from_fn(|at| match at {
                11 => bit(0),
                12 => bit(1),
                13 => bit(2),
                14 => bit(3),
                _ => false,
            });
        }
        [
            bit(0),
            bit(1),
            bit(2),
            bit(3),
            bit(5),
            bit(6),
            bit(7),
            bit(8),
            bit(11),
            bit(9),
            bit(10),
            bit(12),
            bit(13),
            bit(14),
            bit(15),
            select2 & 1 != 0,
            select2 & 2 != 0,
        ]
    }
}

/// PortCounters (IBA vol1 16.1.3.5): counters stop at their highest value.
fn write_counters(data: &mut [u8], port: u8, now: &Counts) {
    let select = mad::u16_at(data, 2);
    let select2 = data[18];
    let to16 = |count: u64| u16::try_from(count).unwrap_or(u16::MAX);
    let to8 = |count: u64| u8::try_from(count).unwrap_or(u8::MAX);
    let to32 = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    data.fill(0);
    data[1] = port;
    put_u16(data, 2, select);
    put_u16(data, 4, to16(now.symbol_errors));
    (data[6], data[7]) = (to8(now.recoveries), to8(now.downed));
    put_u16(data, 8, to16(now.rcv_errors));
    put_u16(data, 12, to16(now.rcv_switch_relay_errors));
    put_u16(data, 14, to16(now.xmit_discards));
    data[16] = to8(now.xmit_constraint_errors);
    data[17] = to8(now.rcv_constraint_errors);
    data[18] = select2;
    data[19] = to8(now.integrity).min(15) << 4 | to8(now.overruns).min(15);
    put_u16(data, 20, to16(now.qp1_dropped));
    put_u16(data, 22, to16(now.vl15_dropped));
    put_u32(data, 24, to32(now.xmit_words));
    put_u32(data, 28, to32(now.rcv_words));
    put_u32(data, 32, to32(now.xmit_packets));
    put_u32(data, 36, to32(now.rcv_packets));
    put_u32(data, 40, to32(now.xmit_wait));
}

/// PortCountersExtended (IBA vol1 16.1.4.11), without the counts of multicast.
fn write_extended(data: &mut [u8], port: u8, now: &Counts) {
    let select = mad::u16_at(data, 2);
    data.fill(0);
    data[1] = port;
    put_u16(data, 2, select);
    let counts = [now.xmit_words, now.rcv_words, now.xmit_packets, now.rcv_packets];
    for (index, count) in counts.into_iter().enumerate() {
        put_u64(data, 8 + 8 * index, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{MAD_BYTES, u32_at};

    fn request(method: u8, attribute: u16, port: u8, select: u16) -> Mad {
        let mut mad = [0; MAD_BYTES];
        (mad[0], mad[1], mad[2], mad[3]) = (1, mad::class::PERF, 1, method);
        put_u16(&mut mad, 16, attribute);
        mad[DATA + 1] = port;
        put_u16(&mut mad, DATA + 2, select);
        mad
    }

    const NOW: Counts = Counts {
        symbol_errors: 70_000,
        xmit_packets: 1 << 33,
        rcv_packets: 5,
        ..Agent::new().cleared
    };

    #[test]
    fn counters_stop_at_their_highest() {
        let mut mad = request(method::GET, 0x12, 1, 0xffff);
        assert!(Agent::new().handle(&mut mad, 1, || NOW));
        assert_eq!(mad::status_of(&mad), 0);
        assert_eq!(mad::u16_at(&mad, DATA + 4), u16::MAX);
        assert_eq!(u32_at(&mad, DATA + 32), u32::MAX);
        assert_eq!(u32_at(&mad, DATA + 36), 5);
    }

    /// STAT: a Set clears exactly what it selects.
    #[test]
    fn what_is_cleared_begins_again() {
        let mut agent = Agent::new();
        let mut clear = request(method::SET, 0x12, 1, 1 << 15);
        assert!(agent.handle(&mut clear, 1, || NOW));
        let mut mad = request(method::GET, 0x12, 1, 0xffff);
        let later = || Counts {
            rcv_packets: 12,
            ..NOW
        };
        assert!(agent.handle(&mut mad, 1, later));
        assert_eq!(u32_at(&mad, DATA + 36), 7);
        assert_eq!(u32_at(&mad, DATA + 32), u32::MAX);
        let mut mad = request(method::GET, 0x1d, 1, 0xffff);
        assert!(agent.handle(&mut mad, 1, later));
        assert_eq!(mad::u64_at(&mad, DATA + 24), 1 << 33);
    }

    /// KEY-7, MGMT-8: no baseboard agent: every request is refused, whatever its attribute and B_Key.
    #[test]
    fn baseboard_management_is_refused() {
        for (method, attribute, bkey) in [
            (method::GET, 1, 0),
            (method::SET, 0x10, 7),
            (method::GET, 0x20, u64::MAX),
        ] {
            let mut mad = request(method, attribute, 1, 0);
            mad[1] = mad::class::BM;
            put_u64(&mut mad, 24, bkey);
            assert!(Agent::new().handle(&mut mad, 1, || unreachable!()));
            assert_eq!(
                (mad[3], mad::status_of(&mad)),
                (method::GET_RESP, status::NO_ATTRIBUTE)
            );
            assert_eq!(mad::u64_at(&mad, 24), bkey);
        }
        let mut answer = request(method::GET_RESP, 1, 1, 0);
        answer[1] = mad::class::BM;
        assert!(!Agent::new().handle(&mut answer, 1, || NOW));
    }

    /// STAT: each counter of PortCounters stands at its place, and is cleared by its own bit of the selection, alone.
    #[test]
    fn each_counter_has_its_place_and_bit() {
        let mut all = Counts::default();
        for (at, count) in all.each().into_iter().enumerate() {
            *count = 1 + at as u64;
        }
        // Bytes and bits of each, in the order of Counts (IBA vol1 16.1.3.5).
        let places = [4, 6, 7, 8, 12, 14, 16, 17, 22, 19, 19, 24, 28, 32, 36, 40, 20];
        let bits = [0, 1, 2, 3, 5, 6, 7, 8, 11, 9, 10, 12, 13, 14, 15, 16, 17];
        let value = |mad: &Mad, at: usize| match (places[at], at) {
            (6 | 7 | 16 | 17, _) => mad[DATA + places[at]].into(),
            (19, 9) => (mad[DATA + 19] >> 4).into(),
            (19, _) => (mad[DATA + 19] & 15).into(),
            (24.., _) => u32_at(mad, DATA + places[at]),
            _ => mad::u16_at(mad, DATA + places[at]).into(),
        };
        for (cleared, bit) in bits.into_iter().enumerate() {
            let mut agent = Agent::new();
            let mut set = request(method::SET, 0x12, 1, if bit < 16 { 1 << bit } else { 0 });
            set[DATA + 18] = if bit >= 16 { 1 << (bit - 16) } else { 0 };
            assert!(agent.handle(&mut set, 1, || all));
            let mut mad = request(method::GET, 0x12, 1, 0);
            assert!(agent.handle(&mut mad, 1, || all));
            for at in 0..COUNTERS {
                let wanted = if at == cleared { 0 } else { 1 + at as u32 };
                assert_eq!(value(&mad, at), wanted, "counter {at}, cleared {cleared}");
            }
        }
    }

    /// Sampling is optional, and refused by its attributes; a switch has no "all ports".
    #[test]
    fn sampling_is_refused() {
        for attribute in [0x10, 0x11] {
            let mut mad = request(method::GET, attribute, 1, 0);
            assert!(Agent::new().handle(&mut mad, 1, || NOW));
            assert_eq!(mad::status_of(&mad), status::NO_ATTRIBUTE);
        }
        let mut mad = request(method::GET, 0x12, ALL_PORTS, 0);
        assert!(Agent::new().handle(&mut mad, 0, || NOW));
        assert_eq!(mad::status_of(&mad), status::BAD_VALUE);
    }

    #[test]
    fn other_ports_and_attributes_are_refused() {
        let mut mad = request(method::GET, 0x12, 2, 0);
        assert!(Agent::new().handle(&mut mad, 1, || NOW));
        assert_eq!(mad::status_of(&mad), status::BAD_VALUE);
        let mut mad = request(method::GET, 0x15, 1, 0);
        assert!(Agent::new().handle(&mut mad, 1, || NOW));
        assert_eq!(mad::status_of(&mad), status::NO_ATTRIBUTE);
        let mut mad = request(0x81, 0x12, 1, 0);
        assert!(!Agent::new().handle(&mut mad, 1, || NOW));
    }
}
