//! Is it an image that may run?

use ed25519_compact::{PublicKey, Signature};
use hca_abi::{BoardBoot, IMAGE_HEAD_OFFSET, IMAGE_MAGIC, ImageHead, SOC_IMAGE_BYTES, SlotState};
use sha2::{Digest, Sha256};

/// Bytes of a signature, which is behind the image.
pub const SIGNATURE_BYTES: usize = 64;

const HEAD: usize = IMAGE_HEAD_OFFSET as usize;
const HEAD_END: usize = HEAD + ImageHead::BYTES;
/// The digest's own field.
const DIGEST: core::ops::Range<usize> = HEAD + 16..HEAD + 48;

/// Why an image does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no head, or it names a length that cannot be.
    NoImage,
    /// It is not what was signed.
    Digest,
    /// It is not signed, or with another key than the board's.
    Signature,
    /// It is for hardware of another kind.
    OtherCard,
    /// Its epoch is over.
    TooOld,
}

impl Refusal {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoImage => "it has no head of an image",
            Self::Digest => "its digest is wrong",
            Self::Signature => "it is not signed with the board's key",
            Self::OtherCard => "it is for hardware of another kind",
            Self::TooOld => "its epoch is over",
        }
    }

    /// What the board keeps of it.
    pub fn state(self) -> SlotState {
        match self {
            Self::NoImage | Self::Digest | Self::Signature => SlotState::Refused,
            Self::OtherCard => SlotState::OtherCard,
            Self::TooOld => SlotState::TooOld,
        }
    }
}

/// SHA-256 of an image, without its signature, with the digest's own field zero; `None`: it is too short for a head.
pub fn digest(image: &[u8]) -> Option<[u8; 32]> {
    let mut hash = Sha256::new();
    hash.update(image.get(..DIGEST.start)?);
    hash.update([0; 32]);
    hash.update(image.get(DIGEST.end..)?);
    Some(hash.finalize().into())
}

/// May the image at the start of this memory run on this board?
pub fn check(memory: &[u8], board: &BoardBoot) -> Result<ImageHead, Refusal> {
    let head = memory.get(HEAD..).and_then(ImageHead::read_from);
    let head = head.ok_or(Refusal::NoImage)?;
    let end = head.bytes() as usize;
    let fits = end >= HEAD_END && end <= SOC_IMAGE_BYTES as usize - SIGNATURE_BYTES;
    if head.magic() != IMAGE_MAGIC || !fits || !end.is_multiple_of(4) {
        return Err(Refusal::NoImage);
    }
    let (code, rest) = memory.split_at_checked(end).ok_or(Refusal::NoImage)?;
    if digest(code) != Some(head.digest()) {
        return Err(Refusal::Digest);
    }
    let signature = rest.first_chunk::<SIGNATURE_BYTES>().ok_or(Refusal::Signature)?;
    PublicKey::new(board.public_key())
        .verify(head.as_bytes(), &Signature::new(*signature))
        .map_err(|_| Refusal::Signature)?;
    if head.hardware() != board.hardware() {
        return Err(Refusal::OtherCard);
    }
    if head.epoch() < board.epoch() {
        return Err(Refusal::TooOld);
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_compact::{KeyPair, Seed};
    use std::vec::Vec;

    const HARDWARE: u32 = 0x0001_000a;
    const EPOCH: u32 = 3;

    fn board(keys: &KeyPair) -> BoardBoot {
        let mut board = BoardBoot::new();
        board.set_public_key(*keys.pk);
        board.set_hardware(HARDWARE);
        board.set_epoch(EPOCH);
        board
    }

    fn signed(keys: &KeyPair, hardware: u32, epoch: u32) -> Vec<u8> {
        let mut image: Vec<u8> = (0..1000u32).map(|at| at as u8).collect();
        let mut head = ImageHead::new();
        head.set_magic(IMAGE_MAGIC);
        head.set_bytes(1000);
        head.set_hardware(hardware);
        head.set_epoch(epoch);
        image[HEAD..HEAD_END].copy_from_slice(head.as_bytes());
        head.set_digest(digest(&image).unwrap());
        image[HEAD..HEAD_END].copy_from_slice(head.as_bytes());
        image.extend(*keys.sk.sign(head.as_bytes(), None));
        image.resize(SOC_IMAGE_BYTES as usize, 0);
        image
    }

    fn keys() -> [KeyPair; 2] {
        [1, 2].map(|seed| KeyPair::from_seed(Seed::new([seed; 32])))
    }

    #[test]
    fn only_what_is_signed_whole_may_run() {
        let [mine, other] = keys();
        let image = signed(&mine, HARDWARE, EPOCH);
        assert!(check(&image, &board(&mine)).is_ok());
        assert_eq!(check(&image, &board(&other)), Err(Refusal::Signature));
        assert_eq!(
            check(&image[..1064], &board(&mine)).map(|head| head.bytes()),
            Ok(1000)
        );
        assert_eq!(check(&image[..1063], &board(&mine)), Err(Refusal::Signature));
        assert_eq!(check(&image[..999], &board(&mine)), Err(Refusal::NoImage));
        for bytes in [0u32, 131, 196, u32::MAX, SOC_IMAGE_BYTES, SOC_IMAGE_BYTES - 60] {
            let mut image = image.clone();
            image[HEAD + 8..HEAD + 12].copy_from_slice(&bytes.to_le_bytes());
            let refusal = if bytes == 196 {
                Refusal::Digest
            } else {
                Refusal::NoImage
            };
            assert_eq!(check(&image, &board(&mine)), Err(refusal), "{bytes} bytes");
        }
        assert_eq!(check(&[], &board(&mine)), Err(Refusal::NoImage));
        assert_eq!(check(&image[..HEAD + 40], &board(&mine)), Err(Refusal::NoImage));
    }

    /// A bit anywhere: code, magic, length, version, digest, epoch, hardware, signature.
    #[test]
    fn every_byte_counts() {
        let [mine, _] = keys();
        let image = signed(&mine, HARDWARE, EPOCH);
        for at in 0..1064 {
            let mut image = image.clone();
            image[at] ^= 4;
            assert!(check(&image, &board(&mine)).is_err(), "byte {at}");
        }
    }

    #[test]
    fn another_kind_of_card_and_an_epoch_that_is_over_are_refused() {
        let [mine, other] = keys();
        for (hardware, epoch, wanted) in [
            (HARDWARE, EPOCH, None),
            (HARDWARE, EPOCH + 1, None),
            (HARDWARE, EPOCH - 1, Some(Refusal::TooOld)),
            (HARDWARE + 1, EPOCH, Some(Refusal::OtherCard)),
        ] {
            let image = signed(&mine, hardware, epoch);
            assert_eq!(check(&image, &board(&mine)).err(), wanted, "{hardware} {epoch}");
        }
        // Who it is for is told only of what is signed.
        let foreign = signed(&other, HARDWARE + 1, EPOCH);
        assert_eq!(check(&foreign, &board(&mine)), Err(Refusal::Signature));
    }

    /// Power that went away in an update: whatever has been written of the new image, behind it what was there before.
    #[test]
    fn a_part_of_an_image_never_runs() {
        let [mine, _] = keys();
        let image = signed(&mine, HARDWARE, EPOCH);
        let mut old = signed(&mine, HARDWARE, EPOCH);
        old[300] ^= 1;
        for written in (0..1064).step_by(8) {
            let mut mixed = old.clone();
            mixed[..written].copy_from_slice(&image[..written]);
            // From the byte on that differs it is the new image: all the rest is the same.
            assert_eq!(check(&mixed, &board(&mine)).is_ok(), written > 300, "{written}");
            mixed[written..].fill(0xff);
            assert!(check(&mixed, &board(&mine)).is_err(), "{written}, erased behind");
        }
    }
}
