//! OP-8, OP-9: what masked atomics leave of a word, against the rules said in another way.

use hca_model::Atomic;
use proptest::prelude::*;

/// Words that are all of one kind, and any.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        (0..64u32).prop_map(|bit| 1 << bit),
        (0..64u32).prop_map(|bit| u64::MAX << bit),
        Just(0x8080_8080_8080_8080),
        any::<u64>(),
    ]
}

/// From the lowest field to the highest: first bit, bits.
fn fields(boundaries: u64) -> Vec<(u32, u32)> {
    let mut first = 0;
    let ends = (0..64).filter(|bit| *bit == 63 || boundaries >> bit & 1 == 1);
    ends.map(|end| (std::mem::replace(&mut first, end + 1), end))
        .map(|(first, end)| (first, end + 1 - first))
        .collect()
}

proptest! {
    #[test]
    fn a_field_is_a_number_of_its_own(found in word(), add in word(), boundaries in word()) {
        let left = Atomic::MaskedFetchAdd { add, boundaries }.apply(found);
        for (first, bits) in fields(boundaries) {
            let of = |word: u64| u128::from(word >> first) % (1 << bits);
            prop_assert_eq!(of(left), (of(found) + of(add)) % (1 << bits), "{} bits at {}", bits, first);
        }
    }

    #[test]
    fn without_boundaries_it_is_fetch_and_add(found in word(), add in word(), top in 0..2u64) {
        let masked = Atomic::MaskedFetchAdd { add, boundaries: top << 63 };
        prop_assert_eq!(masked.apply(found), Atomic::FetchAdd { add }.apply(found));
    }

    #[test]
    fn bits_are_compared_and_swapped_one_by_one(
        found in word(),
        compare in word(),
        swap in word(),
        compare_mask in word(),
        swap_mask in word(),
    ) {
        for compare in [compare, found, found ^ !compare_mask] {
            let left = Atomic::MaskedCompareSwap { compare, swap, compare_mask, swap_mask }.apply(found);
            let bit = |word: u64, at: u32| word >> at & 1 == 1;
            let hits = (0..64).all(|at| !bit(compare_mask, at) || bit(found, at) == bit(compare, at));
            for at in 0..64 {
                let wanted = if hits && bit(swap_mask, at) { swap } else { found };
                prop_assert_eq!(bit(left, at), bit(wanted, at), "bit {}, hits: {}", at, hits);
            }
        }
    }

    #[test]
    fn with_all_bits_it_is_compare_and_swap(found in word(), compare in word(), swap in word()) {
        let masks = (u64::MAX, u64::MAX);
        for compare in [compare, found] {
            let masked = Atomic::MaskedCompareSwap { compare, swap, compare_mask: masks.0, swap_mask: masks.1 };
            prop_assert_eq!(masked.apply(found), Atomic::CompareSwap { compare, swap }.apply(found));
        }
    }
}
