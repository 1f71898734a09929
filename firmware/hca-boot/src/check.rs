//! Is it an image that may run?

use ed25519_compact::{PublicKey, Signature};
use hca_abi::{IMAGE_HEAD_OFFSET, IMAGE_MAGIC, ImageHead, SOC_IMAGE_BYTES};
use sha2::{Digest, Sha256};

const SIGNATURE_BYTES: usize = 64;
const HEAD: usize = IMAGE_HEAD_OFFSET as usize;
/// The digest is that of the image with this field zero.
const DIGEST: core::ops::Range<usize> = HEAD + 16..HEAD + 48;

/// Head, digest and signature of the image in memory, which is as large as the soft core's.
pub fn may_run(memory: &[u8], public_key: [u8; 32]) -> bool {
    let Some(head) = memory.get(HEAD..).and_then(ImageHead::read_from) else {
        return false;
    };
    let end = head.bytes() as usize;
    let fits = end >= DIGEST.end && end <= SOC_IMAGE_BYTES as usize - SIGNATURE_BYTES;
    if head.magic() != IMAGE_MAGIC || !fits || !end.is_multiple_of(4) {
        return false;
    }
    let (Some(before), Some(behind)) = (memory.get(..DIGEST.start), memory.get(DIGEST.end..end)) else {
        return false;
    };
    let mut hash = Sha256::new();
    hash.update(before);
    hash.update([0; 32]);
    hash.update(behind);
    if hash.finalize()[..] != head.digest() {
        return false;
    }
    let signature = memory
        .get(end..)
        .and_then(|rest| rest.first_chunk::<SIGNATURE_BYTES>());
    signature.is_some_and(|signature| {
        PublicKey::new(public_key)
            .verify(head.as_bytes(), &Signature::new(*signature))
            .is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_compact::{KeyPair, Seed};

    fn signed(keys: &KeyPair) -> Vec<u8> {
        let mut image: Vec<u8> = (0..1000u32).map(|at| at as u8).collect();
        let mut head = ImageHead::new();
        head.set_magic(IMAGE_MAGIC);
        head.set_bytes(1000);
        image[HEAD..HEAD + 48].copy_from_slice(head.as_bytes());
        head.set_digest(Sha256::digest(&image).into());
        image[HEAD..HEAD + 48].copy_from_slice(head.as_bytes());
        image.extend(*keys.sk.sign(head.as_bytes(), None));
        image.resize(SOC_IMAGE_BYTES as usize, 0);
        image
    }

    #[test]
    fn only_what_is_signed_whole_may_run() {
        let [mine, other] = [1, 2].map(|seed| KeyPair::from_seed(Seed::new([seed; 32])));
        let image = signed(&mine);
        assert!(may_run(&image, *mine.pk));
        assert!(!may_run(&image, *other.pk), "another one's key");
        // A bit anywhere: code, magic, length, version, digest, the last byte, the signature.
        for at in [
            0,
            0x83,
            HEAD,
            HEAD + 8,
            HEAD + 9,
            HEAD + 12,
            HEAD + 20,
            999,
            1000,
            1063,
        ] {
            let mut image = image.clone();
            image[at] ^= 4;
            assert!(!may_run(&image, *mine.pk), "byte {at}");
        }
        for bytes in [0u32, 131, 179, u32::MAX, SOC_IMAGE_BYTES, SOC_IMAGE_BYTES - 60] {
            let mut image = image.clone();
            image[HEAD + 8..HEAD + 12].copy_from_slice(&bytes.to_le_bytes());
            assert!(!may_run(&image, *mine.pk), "{bytes} bytes");
        }
        assert!(!may_run(&[], *mine.pk) && !may_run(&image[..HEAD + 40], *mine.pk));
    }
}
