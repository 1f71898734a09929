//! Congestion control of an Ethernet port: off, or an algorithm with its parameters, in the units of people.

use hca_abi::{CC_RATE_UNIT, CC_TICK_CYCLES, CcAlgorithm, LinkCongestion};
use hca_driver::DevicePtr;

use crate::objects::context::Context;
use crate::values::error::{Error, Result};

/// What controls the rates of a port's connections (RC, UC and XRC), and how. What the card keeps is rounded to its
/// units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congestion {
    /// Who decides.
    pub algorithm: CcAlgorithm,
    /// DSCP of CNPs; its upper three bits are their priority.
    pub cnp_dscp: u8,
    /// Between two CNPs for a QP, at least.
    pub cnp_interval_ns: u64,
    /// DCQCN: without CNP for so long, alpha falls.
    pub alpha_period_ns: u64,
    /// DCQCN: from one increase to the next; delay: from one decrease to the next, at least.
    pub rate_period_ns: u64,
    /// DCQCN: bytes from one increase to the next.
    pub rate_bytes: u32,
    /// DCQCN: alpha moves by 1/2^n of its distance.
    pub alpha_shift: u8,
    /// DCQCN: increases of fast recovery.
    pub recovery_steps: u8,
    /// Least rate.
    pub min_rate_mbps: u32,
    /// DCQCN: additive increase; delay: increase for each round trip that was short enough.
    pub additive_mbps: u32,
    /// DCQCN: hyper increase.
    pub hyper_mbps: u32,
    /// Delay: a round trip that is short enough.
    pub delay_target_ns: u64,
    /// Delay: a round trip of 2^n cycles too many costs the whole decrease, a shorter one its part.
    pub delay_scale: u8,
    /// Delay: the whole decrease is 1/2^n of the rate.
    pub delay_shift: u8,
}

impl Default for Congestion {
    /// DCQCN as published (Zhu et al., SIGCOMM 2015), CNPs with DSCP 48.
    fn default() -> Self {
        Self {
            algorithm: CcAlgorithm::Dcqcn,
            cnp_dscp: 48,
            cnp_interval_ns: 50_000,
            alpha_period_ns: 55_000,
            rate_period_ns: 55_000,
            rate_bytes: 10_000_000,
            alpha_shift: 8,
            recovery_steps: 5,
            min_rate_mbps: 40,
            additive_mbps: 40,
            hyper_mbps: 200,
            delay_target_ns: 10_000,
            delay_scale: 11,
            delay_shift: 1,
        }
    }
}

/// `value` if it fits `bits`.
fn fitted(what: &str, value: u64, bits: u32) -> Result<u64> {
    if value >> bits == 0 {
        return Ok(value);
    }
    let max = (1u64 << bits) - 1;
    Err(Error::Invalid(format!(
        "{what}: {value} in the card's units, which has room for {max}"
    )))
}

/// The card's clock, and what it makes of times and rates.
struct Units {
    khz: u64,
}

impl Units {
    fn cycles(&self, ns: u64) -> u64 {
        ns.saturating_mul(self.khz).div_ceil(1_000_000)
    }

    fn ns(&self, cycles: u64) -> u64 {
        cycles * 1_000_000 / self.khz
    }

    fn ticks(&self, ns: u64) -> u64 {
        self.cycles(ns).div_ceil(CC_TICK_CYCLES.into())
    }

    /// A megabit per second is 125 bytes in a thousandth of a second.
    fn rate(&self, mbps: u32) -> u64 {
        (u64::from(mbps) * 125 * u64::from(CC_RATE_UNIT)).div_ceil(self.khz)
    }

    fn mbps(&self, rate: u16) -> u32 {
        (u64::from(rate) * self.khz / (125 * u64::from(CC_RATE_UNIT))) as u32
    }
}

impl Congestion {
    fn to_row(self, units: &Units) -> Result<LinkCongestion> {
        let mut row = LinkCongestion::new();
        row.set_enable(true);
        row.set_algorithm(self.algorithm.into());
        row.set_cnp_dscp(fitted("cnp_dscp", self.cnp_dscp.into(), 6)? as u8);
        row.set_cnp_interval(fitted("cnp_interval_ns", units.ticks(self.cnp_interval_ns), 16)? as u16);
        row.set_alpha_period(fitted("alpha_period_ns", units.ticks(self.alpha_period_ns), 16)? as u16);
        row.set_rate_period(fitted("rate_period_ns", units.ticks(self.rate_period_ns), 16)? as u16);
        row.set_rate_bytes(fitted("rate_bytes", self.rate_bytes.into(), 24)? as u32);
        row.set_alpha_shift(fitted("alpha_shift", self.alpha_shift.into(), 4)? as u8);
        row.set_recovery_steps(fitted("recovery_steps", self.recovery_steps.into(), 5)? as u8);
        row.set_min_rate(fitted("min_rate_mbps", units.rate(self.min_rate_mbps), 16)? as u16);
        row.set_additive(fitted("additive_mbps", units.rate(self.additive_mbps), 16)? as u16);
        row.set_hyper(fitted("hyper_mbps", units.rate(self.hyper_mbps), 16)? as u16);
        row.set_delay_target(fitted("delay_target_ns", units.cycles(self.delay_target_ns), 20)? as u32);
        row.set_delay_scale(fitted("delay_scale", self.delay_scale.into(), 5)? as u8);
        row.set_delay_shift(fitted("delay_shift", self.delay_shift.into(), 4)? as u8);
        Ok(row)
    }

    fn of_row(row: &LinkCongestion, units: &Units) -> Result<Self> {
        let tick = u64::from(CC_TICK_CYCLES);
        let code = row.algorithm();
        Ok(Self {
            algorithm: CcAlgorithm::try_from(code)
                .map_err(|_| Error::Invalid(format!("the card says algorithm {code}, which is none")))?,
            cnp_dscp: row.cnp_dscp(),
            cnp_interval_ns: units.ns(tick * u64::from(row.cnp_interval())),
            alpha_period_ns: units.ns(tick * u64::from(row.alpha_period())),
            rate_period_ns: units.ns(tick * u64::from(row.rate_period())),
            rate_bytes: row.rate_bytes(),
            alpha_shift: row.alpha_shift(),
            recovery_steps: row.recovery_steps(),
            min_rate_mbps: units.mbps(row.min_rate()),
            additive_mbps: units.mbps(row.additive()),
            hyper_mbps: units.mbps(row.hyper()),
            delay_target_ns: units.ns(row.delay_target().into()),
            delay_scale: row.delay_scale(),
            delay_shift: row.delay_shift(),
        })
    }
}

impl<P: DevicePtr> Context<P> {
    fn units(&self) -> Result<Units> {
        let khz = self.query_device()?.hca_core_clock_khz();
        if khz == 0 {
            return Err(Error::Invalid(
                "the card does not say how fast its clock is".to_owned(),
            ));
        }
        Ok(Units { khz: khz.into() })
    }

    /// Switches congestion control of an Ethernet port on with these parameters, or off. Function 0 alone may. A
    /// refusal names the byte of `link_congestion` that was wrong.
    pub fn set_congestion(&self, port_num: u8, congestion: Option<&Congestion>) -> Result<()> {
        let row = match congestion {
            Some(congestion) => congestion.to_row(&self.units()?)?,
            None => LinkCongestion::new(),
        };
        Ok(self.function().set_congestion(port_num, &row)?)
    }

    /// What congestion control of a port does; `None`: it is off.
    pub fn congestion(&self, port_num: u8) -> Result<Option<Congestion>> {
        let row = self.function().query_congestion(port_num)?;
        if !row.enable() {
            return Ok(None);
        }
        Congestion::of_row(&row, &self.units()?).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_back() {
        let units = Units { khz: 250_000 };
        let row = Congestion::default().to_row(&units).unwrap();
        assert_eq!((row.cnp_interval(), row.alpha_period()), (196, 215));
        assert_eq!(
            (row.min_rate(), row.hyper(), row.delay_target()),
            (328, 1639, 2500)
        );
        let back = Congestion::of_row(&row, &units).unwrap();
        assert_eq!(back.to_row(&units).unwrap(), row);
        assert_eq!((back.min_rate_mbps, back.delay_target_ns), (40, 10_000));
        // Times are rounded up to whole ticks of 256 ns.
        assert_eq!((back.cnp_interval_ns, back.alpha_period_ns), (50_176, 55_040));
    }

    #[test]
    fn what_has_no_room_is_named() {
        let long = Congestion {
            cnp_interval_ns: 17_000_000,
            ..Congestion::default()
        };
        let error = long.to_row(&Units { khz: 250_000 }).unwrap_err().to_string();
        assert!(
            error.contains("cnp_interval_ns") && error.contains("65535"),
            "{error}"
        );
    }
}
