//! The two tables of times.

use hca_wire::RnrTimer;

/// REL-6: the acknowledge timeout of a code, in nanoseconds; `None`: for ever.
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    match code & 31 {
        0 => None,
        code => Some(4_096 << code),
    }
}

/// REL-11: how long a requester waits after an RNR NAK with this code, in nanoseconds.
pub const fn rnr_wait_ns(timer: RnrTimer) -> u64 {
    timer.time_us() as u64 * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// REL-6, REL-11, DEFECT-1: values typed from the tables.
    #[test]
    fn times_are_those_of_the_tables() {
        assert_eq!(ack_timeout_ns(0), None);
        assert_eq!(ack_timeout_ns(1), Some(8_192));
        assert_eq!(ack_timeout_ns(14), Some(67_108_864));
        assert_eq!(ack_timeout_ns(31), Some(8_796_093_022_208));
        for (code, us) in [
            (0, 655_360),
            (1, 10),
            (6, 80),
            (12, 640),
            (21, 15_360),
            (31, 491_520),
        ] {
            assert_eq!(rnr_wait_ns(RnrTimer::new(code)), us * 1_000);
        }
    }
}
