//! The firmware's image for the card's own processor, as the build made it, and the program that checks and starts
//! images. Empty where Rust's library for riscv32imc-unknown-none-elf is not installed.

mod sign;

pub use sign::{DEVELOPMENT_SEED, SIGNATURE_BYTES, head, public_key, seed_from, sign, verify};

/// What goes into the core's memory, from address 0 on, and its signature.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image.bin"));

/// The boot program, from SOC_ROM_BASE on.
pub static ROM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rom.bin"));

include!(concat!(env!("OUT_DIR"), "/facts.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_signed_and_can_be_signed_anew() {
        if IMAGE.is_empty() {
            return;
        }
        let head = verify(IMAGE, PUBLIC_KEY).unwrap();
        assert_eq!(head.digest(), DIGEST);
        let seed = [7; 32];
        let other = sign(IMAGE, seed, Some(0x0002_0304)).unwrap();
        assert_eq!(verify(&other, public_key(seed)).unwrap().version(), 0x0002_0304);
        assert!(verify(&other, PUBLIC_KEY).unwrap_err().contains("another key"));
        for at in [0, 300, head.bytes() as usize - 1] {
            let mut wrong = other.clone();
            wrong[at] ^= 1;
            assert!(
                verify(&wrong, public_key(seed)).unwrap_err().contains("digest"),
                "{at}"
            );
        }
        assert!(verify(&other[..other.len() - 64], public_key(seed)).is_err());
        assert!(sign(&[0; 1000], seed, None).is_err() && sign(&[], seed, None).is_err());
        assert!(seed_from(&"0a".repeat(32)).is_ok_and(|seed| seed == [10; 32]));
        assert!(seed_from("0a").is_err() && seed_from(&"x".repeat(64)).is_err());
    }
}
