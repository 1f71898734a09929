//! Counting two flows on a wire until their ratio is known well enough.
//!
//! The arbiter sends whole packets, so where a window begins and ends moves the quotient of its bytes by up to a
//! packet of each flow. Therefore the counts are noted at every turn of the arbiter, and the ratio is that of the sums
//! over all windows of half the length, as in a frequency counter that averages: the packets at the ends are averaged
//! away, and half as many are enough.

use super::formula::Setting;

/// The window ends when a packet more or less of either flow could move the plain quotient by no more than this. That
/// of the averaged windows was then within 0.6 % in 3000 random settings of a model of the arbiter.
const PRECISION: f64 = 0.006;
/// Rounds before the window: what was queued under the last setting leaves, deficits settle.
const WARM_UP_ROUNDS: u32 = 3;
const WARM_UP_PACKETS: u32 = 200;
/// Packets of the low flow before the window: no account of the last setting is worth more.
const WARM_UP_LOW_PACKETS: u32 = 9;
/// Unit of a weight.
const WEIGHT_BYTES: f64 = 64.0;

/// Which flow a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The VL in the high table.
    High,
    /// The VL in the low table.
    Low,
}

/// A window that begins and ends where the arbiter turns from the high flow to the low one, so that it holds whole
/// rounds.
#[derive(Debug)]
pub struct Tally {
    quantum_low_bytes: f64,
    last: Option<Flow>,
    warm_up_packets: u32,
    warm_up_low: u32,
    warm_up_rounds: u32,
    window: Option<Window>,
    done: bool,
}

/// Bytes of both flows so far, LRH to VCRC.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    high: u64,
    low: u64,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    count: Count,
    /// Counts at each turn, the window's ends included.
    turns: Vec<Count>,
    /// Packets of both.
    pub packets: u64,
    start_ps: u64,
    end_ps: u64,
    largest: u64,
}

impl Window {
    /// Bytes of the high flow for each byte of the low one.
    pub fn ratio(&self) -> f64 {
        let half = self.turns.len() / 2;
        let windows = self.turns.iter().zip(&self.turns[half..]);
        let sum = windows.fold(Count::default(), |sum, (from, to)| Count {
            high: sum.high + (to.high - from.high),
            low: sum.low + (to.low - from.low),
        });
        sum.high as f64 / sum.low as f64
    }

    /// Bytes per second of both flows together.
    pub fn total_bytes_per_s(&self) -> f64 {
        (self.count.high + self.count.low) as f64 * 1e12 / (self.end_ps - self.start_ps).max(1) as f64
    }

    /// By how much one packet more or less of either flow would move the quotient of the whole window. A low flow whose
    /// quantum is below a packet is known to the quantum, for the window's ends are where its packets begin.
    fn error_bound(&self, quantum_low_bytes: f64) -> f64 {
        let packet = self.largest as f64;
        if self.count.high == 0 || self.count.low == 0 {
            return f64::INFINITY;
        }
        packet / self.count.high as f64 + packet.min(quantum_low_bytes) / self.count.low as f64
    }
}

impl Tally {
    /// Counts under `setting`.
    pub fn new(setting: Setting) -> Self {
        Self {
            quantum_low_bytes: f64::from(setting.l) * WEIGHT_BYTES,
            last: None,
            warm_up_packets: WARM_UP_PACKETS,
            warm_up_low: WARM_UP_LOW_PACKETS,
            warm_up_rounds: WARM_UP_ROUNDS,
            window: None,
            done: false,
        }
    }

    /// A packet was sent.
    pub fn add(&mut self, flow: Flow, bytes: u64, sent_ps: u64) {
        if self.done {
            return;
        }
        let turns = self.last == Some(Flow::High) && flow == Flow::Low;
        self.last = Some(flow);
        if self.window.is_none() && self.warm(flow, turns) {
            self.window = Some(Window {
                start_ps: sent_ps,
                ..Window::default()
            });
        }
        let Some(window) = &mut self.window else { return };
        if turns {
            window.end_ps = sent_ps;
            window.turns.push(window.count);
            if window.error_bound(self.quantum_low_bytes) < PRECISION {
                self.done = true;
                return;
            }
        }
        match flow {
            Flow::High => window.count.high += bytes,
            Flow::Low => window.count.low += bytes,
        }
        window.packets += 1;
        window.largest = window.largest.max(bytes);
    }

    /// Counts a packet of the warm-up; true when the window begins with it.
    fn warm(&mut self, flow: Flow, turns: bool) -> bool {
        self.warm_up_rounds = self.warm_up_rounds.saturating_sub(turns.into());
        let left = self.warm_up_rounds + self.warm_up_low + self.warm_up_packets;
        self.warm_up_low = self.warm_up_low.saturating_sub((flow == Flow::Low).into());
        self.warm_up_packets = self.warm_up_packets.saturating_sub(1);
        turns && left == 0
    }

    /// The window, once it is long enough.
    pub fn done(self) -> Option<Window> {
        self.window.filter(|_| self.done)
    }

    /// The window is long enough.
    pub fn is_done(&self) -> bool {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `high` packets of the one flow, then `low` of the other, again and again.
    fn feed(tally: &mut Tally, high: u32, low: u32, rounds: u32) {
        let mut now = 0;
        for _ in 0..rounds {
            for (flow, count) in [(Flow::High, high), (Flow::Low, low)] {
                for _ in 0..count {
                    tally.add(flow, 2074, now);
                    now += 1000;
                }
            }
        }
    }

    #[test]
    fn whole_rounds_give_the_exact_ratio() {
        for (high, low) in [(12, 1), (3, 2), (1, 5), (30, 7)] {
            let mut tally = Tally::new(Setting { q: 1, h: 255, l: 255 });
            feed(&mut tally, high, low, 2000);
            let window = tally.done().unwrap();
            assert_eq!(window.ratio(), f64::from(high) / f64::from(low));
            let total = window.total_bytes_per_s();
            assert!(
                (total / 2074e9 - 1.0).abs() < 1e-9,
                "one packet each nanosecond: {total}"
            );
        }
    }

    #[test]
    fn one_flow_alone_never_ends_a_window() {
        let mut tally = Tally::new(Setting { q: 1, h: 1, l: 1 });
        for at in 0..10_000 {
            tally.add(Flow::High, 2074, at);
        }
        assert!(!tally.is_done());
        assert_eq!(tally.done(), None);
    }

    /// A low flow of five packets in two rounds, three and two: the plain quotient would depend on where it is cut.
    #[test]
    fn ends_are_averaged_away() {
        let mut tally = Tally::new(Setting { q: 1, h: 255, l: 255 });
        for round in 0..2000 {
            feed(&mut tally, 4, 2 + round % 2, 1);
        }
        let window = tally.done().unwrap();
        assert!((window.ratio() / 1.6 - 1.0).abs() < 1e-4, "{}", window.ratio());
        assert!(window.packets < 900, "{}", window.packets);
    }
}
