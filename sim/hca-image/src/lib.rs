//! The firmware's image for the card's own processor, as the build made it, and the program that checks and starts
//! images. Empty where Rust's library for riscv32imc-unknown-none-elf is not installed.

mod sign;
#[cfg(test)]
#[allow(dead_code, reason = "the build script uses it; here are its tests")]
mod stack;

use hca_abi::{BoardBoot, ImageHead};

pub use hca_boot::SIGNATURE_BYTES;
pub use sign::{DEVELOPMENT_SEED, head, public_key, seed_from, sign};

/// What goes into the core's memory, from address 0 on, and its signature.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image.bin"));

/// The boot program, from SOC_ROM_BASE on.
pub static ROM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rom.bin"));

include!(concat!(env!("OUT_DIR"), "/facts.rs"));

/// Does a board start it? Says why not.
pub fn verify(image: &[u8], board: &BoardBoot) -> Result<ImageHead, String> {
    head(image)?;
    hca_boot::check(image, board).map_err(|refusal| refusal.text().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hca_abi::{IMAGE_HEAD_OFFSET, IMAGE_MAGIC, SOC_IMAGE_BYTES};
    use proptest::prelude::*;

    const HEAD: usize = IMAGE_HEAD_OFFSET as usize;

    fn board(key: [u8; 32], hardware: u32) -> BoardBoot {
        let mut board = BoardBoot::new();
        board.set_public_key(key);
        board.set_hardware(hardware);
        board
    }

    #[test]
    fn the_image_is_signed_and_can_be_signed_anew() {
        if IMAGE.is_empty() {
            return;
        }
        let hardware = head(IMAGE).unwrap().hardware();
        let ours = verify(IMAGE, &board(PUBLIC_KEY, hardware)).unwrap();
        assert_eq!(ours.digest(), DIGEST);
        assert!(verify(IMAGE, &board(PUBLIC_KEY, hardware + 1)).is_err());
        let seed = [7; 32];
        let other = sign(IMAGE, seed, |head| head.set_version(0x0002_0304)).unwrap();
        let theirs = board(public_key(seed), hardware);
        assert_eq!(verify(&other, &theirs).unwrap().version(), 0x0002_0304);
        let refused = verify(&other, &board(PUBLIC_KEY, hardware)).unwrap_err();
        assert!(refused.contains("the board's key"), "{refused}");
        let unsigned = &other[..other.len() - SIGNATURE_BYTES];
        assert!(verify(unsigned, &theirs).is_err());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let mut image = vec![0; 1000];
        for (magic, bytes, said) in [
            (0, 1000, "no image of the card's firmware"),
            (IMAGE_MAGIC, SOC_IMAGE_BYTES, "memory holds"),
            (IMAGE_MAGIC, 1004, "it has been cut"),
            (IMAGE_MAGIC, 998, "damaged"),
            (IMAGE_MAGIC, 100, "damaged"),
        ] {
            image[HEAD..HEAD + 4].copy_from_slice(&magic.to_le_bytes());
            image[HEAD + 8..HEAD + 12].copy_from_slice(&bytes.to_le_bytes());
            let refused = head(&image).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
        assert!(head(&image[..100]).unwrap_err().contains("too few"));
        assert!(sign(&image, [1; 32], |_| ()).is_err());
        assert_eq!(seed_from(&"0a".repeat(32)), Ok([10; 32]));
        assert!(seed_from("0a").is_err() && seed_from(&"x".repeat(64)).is_err());
    }

    proptest! {
        /// Hostile bytes, with a right magic or any: never a panic, and never an image.
        #[test]
        fn no_bytes_are_an_image_by_chance(
            mut bytes in prop::collection::vec(any::<u8>(), 0..2000),
            length in prop_oneof![any::<u32>(), (190u32..2000).prop_map(|words| words & !3)],
            has_magic: bool,
        ) {
            if has_magic && bytes.len() > HEAD + 12 {
                bytes[HEAD..HEAD + 4].copy_from_slice(&IMAGE_MAGIC.to_le_bytes());
                bytes[HEAD + 8..HEAD + 12].copy_from_slice(&length.to_le_bytes());
            }
            prop_assert!(verify(&bytes, &board(PUBLIC_KEY, 0)).is_err());
            prop_assert!(hca_boot::check(&bytes, &board(PUBLIC_KEY, 0)).is_err());
        }
    }
}
