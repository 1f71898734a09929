//! Rates of paths as numbers: IBA 13.6, annex A5 and the rates that came later.

use std::ffi::c_int;

use crate::abi::*;

/// ibv_rate, the multiple of 2.5 Gbit/s if the rate has one, Mbit/s.
const RATES: [(ibv_rate, Option<c_int>, c_int); 23] = [
    (IBV_RATE_2_5_GBPS, Some(1), 2_500),
    (IBV_RATE_5_GBPS, Some(2), 5_000),
    (IBV_RATE_10_GBPS, Some(4), 10_000),
    (IBV_RATE_20_GBPS, Some(8), 20_000),
    (IBV_RATE_30_GBPS, Some(12), 30_000),
    (IBV_RATE_40_GBPS, Some(16), 40_000),
    (IBV_RATE_60_GBPS, Some(24), 60_000),
    (IBV_RATE_80_GBPS, Some(32), 80_000),
    (IBV_RATE_120_GBPS, Some(48), 120_000),
    (IBV_RATE_14_GBPS, None, 14_062),
    (IBV_RATE_56_GBPS, None, 56_250),
    (IBV_RATE_112_GBPS, None, 112_500),
    (IBV_RATE_168_GBPS, None, 168_750),
    (IBV_RATE_25_GBPS, None, 25_781),
    (IBV_RATE_100_GBPS, None, 103_125),
    (IBV_RATE_200_GBPS, None, 206_250),
    (IBV_RATE_300_GBPS, None, 309_375),
    (IBV_RATE_28_GBPS, Some(11), 28_125),
    (IBV_RATE_50_GBPS, Some(20), 53_125),
    (IBV_RATE_400_GBPS, Some(160), 425_000),
    (IBV_RATE_600_GBPS, Some(240), 637_500),
    (IBV_RATE_800_GBPS, Some(320), 850_000),
    (IBV_RATE_1200_GBPS, Some(480), 1_275_000),
];

/// -1: no such rate, or not a multiple.
pub extern "C" fn rate_to_mult(rate: ibv_rate) -> c_int {
    let found = RATES.iter().find(|entry| entry.0 == rate);
    found.and_then(|entry| entry.1).unwrap_or(-1)
}

/// The port's own rate where no rate has that number.
pub extern "C" fn mult_to_rate(mult: c_int) -> ibv_rate {
    let found = RATES.iter().find(|entry| entry.1 == Some(mult));
    found.map_or(IBV_RATE_MAX, |entry| entry.0)
}

/// -1: no such rate.
pub extern "C" fn rate_to_mbps(rate: ibv_rate) -> c_int {
    let found = RATES.iter().find(|entry| entry.0 == rate);
    found.map_or(-1, |entry| entry.2)
}

/// The port's own rate where no rate has that number.
pub extern "C" fn mbps_to_rate(mbps: c_int) -> ibv_rate {
    let found = RATES.iter().find(|entry| entry.2 == mbps);
    found.map_or(IBV_RATE_MAX, |entry| entry.0)
}
