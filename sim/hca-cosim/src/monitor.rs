//! The handshake law: valid stays and the payload is stable until ready.

/// Watches one stream of the card. `T` is the payload.
#[derive(Default)]
pub(crate) struct Monitor<T> {
    stalled: Option<T>,
}

impl<T: PartialEq> Monitor<T> {
    /// Call every cycle; the payload is only built while it matters. False: the law is broken.
    #[inline]
    pub fn check(&mut self, valid: bool, ready: bool, payload: impl FnOnce() -> T) -> bool {
        if !valid {
            return self.stalled.take().is_none();
        }
        if ready && self.stalled.is_none() {
            return true;
        }
        let payload = payload();
        let lawful = self.stalled.take().is_none_or(|before| before == payload);
        if !ready {
            self.stalled = Some(payload);
        }
        lawful
    }
}

#[cfg(test)]
mod tests {
    use super::Monitor;

    #[test]
    fn payload_must_not_change_and_valid_must_not_drop() {
        let mut monitor = Monitor::default();
        assert!(monitor.check(true, false, || 1));
        assert!(monitor.check(true, false, || 1));
        assert!(monitor.check(true, true, || 1));
        assert!(monitor.check(true, false, || 2));
        assert!(!monitor.check(true, true, || 3));
        assert!(monitor.check(true, false, || 4));
        assert!(!monitor.check(false, true, || 4));
        assert!(monitor.check(false, true, || 4));
    }
}
