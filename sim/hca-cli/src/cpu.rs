//! Whether this processor has what the models were compiled for. A model built on the machine that runs it always fits;
//! one that came in a package may not.

/// The first part of the level that is missing, if any. The levels are those of the x86-64 psABI; what its tables name
/// besides, all processors with these have.
#[cfg(target_arch = "x86_64")]
fn missing(level: u8) -> Option<&'static str> {
    macro_rules! lacks {
        ($($name:tt),*) => {
            [$((!std::arch::is_x86_feature_detected!($name)).then_some($name)),*]
        };
    }
    let second = lacks!("cmpxchg16b", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2");
    let third = lacks!("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe");
    let fourth = lacks!("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl");
    let levels = [(2, &second[..]), (3, &third[..]), (4, &fourth[..])];
    let wanted = levels.into_iter().filter(|(number, _)| *number <= level);
    wanted.flat_map(|(_, lacking)| lacking).copied().flatten().next()
}

/// There is one level.
#[cfg(not(target_arch = "x86_64"))]
fn missing(_level: u8) -> Option<&'static str> {
    None
}

/// Fails with what is to be done.
pub fn check() -> Result<(), String> {
    let level = hca_vsim::CPU_LEVEL;
    match missing(level) {
        None => Ok(()),
        Some(feature) => Err(format!(
            "this build of hca needs a processor of level x86-64-v{level} (Intel Haswell, AMD Excavator or newer), and \
             this one has no {feature}: build hca from its sources on this machine (make hca)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_processor_has_the_first_level() {
        assert_eq!(missing(1), None);
        assert_eq!(check(), Ok(()));
    }
}
