//! Which queue pair has a line: the card's trace names lines, everybody else QPNs.

use hca_cosim::{QPN_LINE_BITS, line_of};

/// QPNs by line.
pub struct Lines(Vec<u32>);

impl Default for Lines {
    /// As after the card's reset.
    fn default() -> Self {
        Self((0..1 << QPN_LINE_BITS).collect())
    }
}

impl Lines {
    /// A context was written; the QPN that had its line before.
    pub fn bind(&mut self, qpn: u32) -> u32 {
        std::mem::replace(&mut self.0[line_of(qpn) as usize], qpn)
    }

    /// The QPN that has a line.
    pub fn qpn(&self, line: impl Into<u32>) -> u32 {
        self.0[line_of(line.into()) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_qpn_that_it_got_last() {
        let mut lines = Lines::default();
        assert_eq!(lines.qpn(7u16), 7);
        let next = 7 | 3 << QPN_LINE_BITS;
        assert_eq!((lines.bind(next), lines.qpn(7u16), lines.qpn(8u16)), (7, next, 8));
        assert_eq!(lines.bind(next), next);
    }
}
