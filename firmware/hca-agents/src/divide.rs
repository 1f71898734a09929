//! Division of 64 bits: Rust's own for a processor of 32 is a kilobyte of code.

/// `number / by`; without a divisor, of 1.
pub fn divide(number: u64, by: u32) -> u64 {
    let (by, high, low) = (by.max(1), (number >> 32) as u32, number as u32);
    let (mut left, mut quotient) = (high % by, 0u32);
    if by <= 1 << 16 {
        // In digits of 16 bits: what is left of one and the next digit fit into a word.
        for digit in [low >> 16, low & 0xffff] {
            let number = (left << 16) | digit;
            (left, quotient) = (number % by, (quotient << 16) | (number / by));
        }
        return u64::from(high / by) << 32 | u64::from(quotient);
    }
    for bit in (0..u32::BITS).rev() {
        let is_longer = left >> 31 == 1;
        left = left << 1 | low >> bit & 1;
        if is_longer || left >= by {
            left = left.wrapping_sub(by);
            quotient |= 1 << bit;
        }
    }
    u64::from(high / by) << 32 | u64::from(quotient)
}

#[cfg(test)]
mod tests {
    use super::divide;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_division(number: u64, by in 1u32.., shift in 0u32..64) {
            for number in [number, number >> shift, u64::MAX, u64::from(by) * u64::from(u32::MAX)] {
                for by in [by, by >> (shift / 2) | 1, u32::MAX, 1 << 31, 1 << 16, by >> 16 | 1] {
                    prop_assert_eq!(divide(number, by), number / u64::from(by));
                }
            }
        }
    }
}
