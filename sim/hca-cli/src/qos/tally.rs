//! Counting two flows on a wire until their ratio is known well enough.

use super::formula::Setting;

/// The window ends when the arbiter's granularity can move the ratio by no more than this.
const PRECISION: f64 = 0.003;
/// Rounds before the window: what was queued under the last setting leaves, deficits settle.
const WARM_UP_ROUNDS: u32 = 3;
const WARM_UP_PACKETS: u32 = 200;

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
    warm_up_rounds: u32,
    window: Option<Window>,
    done: Option<Window>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Bytes of the high flow, LRH to VCRC.
    pub high_bytes: u64,
    /// Bytes of the low flow.
    pub low_bytes: u64,
    /// Packets of both.
    pub packets: u64,
    /// Begin.
    pub start_ps: u64,
    /// End.
    pub end_ps: u64,
    largest: u64,
}

impl Window {
    /// Bytes of the high flow for each byte of the low one.
    pub fn ratio(&self) -> f64 {
        self.high_bytes as f64 / self.low_bytes as f64
    }

    /// Bytes per second.
    pub fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 * 1e12 / (self.end_ps - self.start_ps).max(1) as f64
    }
}

impl Tally {
    /// Counts under `setting`.
    pub fn new(setting: Setting) -> Self {
        Self {
            quantum_low_bytes: f64::from(setting.l) * 64.0,
            last: None,
            warm_up_packets: WARM_UP_PACKETS,
            warm_up_rounds: WARM_UP_ROUNDS,
            window: None,
            done: None,
        }
    }

    /// A packet was sent.
    pub fn add(&mut self, flow: Flow, bytes: u64, sent_ps: u64) {
        if self.done.is_some() {
            return;
        }
        let turns = self.last == Some(Flow::High) && flow == Flow::Low;
        self.last = Some(flow);
        if turns && self.window.is_none() {
            self.warm_up_rounds = self.warm_up_rounds.saturating_sub(1);
            if self.warm_up_rounds == 0 && self.warm_up_packets == 0 {
                self.window = Some(Window {
                    start_ps: sent_ps,
                    ..Window::default()
                });
            }
        }
        self.warm_up_packets = self.warm_up_packets.saturating_sub(1);
        let Some(window) = &mut self.window else { return };
        if turns {
            window.end_ps = sent_ps;
            if error_bound(window, self.quantum_low_bytes) < PRECISION {
                self.done = Some(*window);
                return;
            }
        }
        match flow {
            Flow::High => window.high_bytes += bytes,
            Flow::Low => window.low_bytes += bytes,
        }
        window.packets += 1;
        window.largest = window.largest.max(bytes);
    }

    /// The window, once it is long enough.
    pub fn done(&self) -> Option<Window> {
        self.done
    }
}

/// By how much one packet more or less of either flow would move the ratio. A low flow whose quantum is below a packet
/// is known to the quantum, for the window's ends are where its packets begin.
fn error_bound(window: &Window, quantum_low_bytes: f64) -> f64 {
    let packet = window.largest as f64;
    if window.high_bytes == 0 || window.low_bytes == 0 {
        return f64::INFINITY;
    }
    packet / window.high_bytes as f64 + packet.min(quantum_low_bytes) / window.low_bytes as f64
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
            let total = window.rate(window.high_bytes + window.low_bytes);
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
        assert_eq!(tally.done(), None);
    }
}
