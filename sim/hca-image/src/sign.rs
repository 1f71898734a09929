// Heads and signatures of images; the build script uses it, too.

use ed25519_compact::{KeyPair, Seed};
use hca_abi::{IMAGE_HEAD_OFFSET, IMAGE_MAGIC, ImageHead, SOC_IMAGE_BYTES};
use hca_boot::SIGNATURE_BYTES;

/// The key of builds that are told of no other: everybody knows it.
pub const DEVELOPMENT_SEED: [u8; 32] = *b"OpenHCA development key, public.";

const HEAD: std::ops::Range<usize> =
    IMAGE_HEAD_OFFSET as usize..IMAGE_HEAD_OFFSET as usize + ImageHead::BYTES;

/// The key that verifies what this seed signs.
pub fn public_key(seed: [u8; 32]) -> [u8; 32] {
    *KeyPair::from_seed(Seed::new(seed)).pk
}

/// The head of an image, with a signature or without. Says what is wrong with the image.
pub fn head(image: &[u8]) -> Result<ImageHead, String> {
    let head = image.get(HEAD).and_then(ImageHead::read_from);
    let head = head.ok_or_else(|| format!("{} bytes are too few for an image", image.len()))?;
    if head.magic() != IMAGE_MAGIC {
        return Err(format!(
            "it is no image of the card's firmware: {:08x} instead of {IMAGE_MAGIC:08x} at byte {IMAGE_HEAD_OFFSET}",
            head.magic()
        ));
    }
    let (bytes, most) = (head.bytes() as usize, SOC_IMAGE_BYTES as usize - SIGNATURE_BYTES);
    if bytes > most {
        return Err(format!(
            "the image has {bytes} bytes, and the card's memory holds {most}"
        ));
    }
    if bytes < HEAD.end || !bytes.is_multiple_of(4) || bytes > image.len() {
        return Err(format!(
            "its head tells of {bytes} bytes, and there are {}: it has been cut, or is damaged",
            image.len()
        ));
    }
    Ok(head)
}

/// The image with digest and signature, after a change of its head.
pub fn sign(image: &[u8], seed: [u8; 32], change: impl FnOnce(&mut ImageHead)) -> Result<Vec<u8>, String> {
    let mut head = head(image)?;
    let mut image = image[..head.bytes() as usize].to_vec();
    change(&mut head);
    image[HEAD].copy_from_slice(head.as_bytes());
    head.set_digest(hca_boot::digest(&image).ok_or("it is too short for an image")?);
    image[HEAD].copy_from_slice(head.as_bytes());
    let keys = KeyPair::from_seed(Seed::new(seed));
    image.extend_from_slice(&keys.sk.sign(head.as_bytes(), None)[..]);
    Ok(image)
}

/// A seed from its 64 hexadecimal digits.
pub fn seed_from(text: &str) -> Result<[u8; 32], String> {
    let text = text.trim();
    let mut seed = [0; 32];
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex {
        return Err("a key is 64 hexadecimal digits: hca firmware key makes one".to_owned());
    }
    for (at, byte) in seed.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|e| e.to_string())?;
    }
    Ok(seed)
}
