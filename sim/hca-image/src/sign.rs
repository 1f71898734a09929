// Heads, digests and signatures of images; the build script uses it, too.

use ed25519_compact::{KeyPair, PublicKey, Seed, Signature};
use hca_abi::{IMAGE_HEAD_OFFSET, IMAGE_MAGIC, ImageHead, SOC_IMAGE_BYTES};
use sha2::{Digest, Sha256};

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;
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
        return Err("it is no image of the card's firmware".to_owned());
    }
    let (bytes, most) = (head.bytes() as usize, SOC_IMAGE_BYTES as usize - SIGNATURE_BYTES);
    if bytes > most {
        return Err(format!(
            "the image has {bytes} bytes, and the card's memory holds {most}"
        ));
    }
    if bytes < HEAD.end || !bytes.is_multiple_of(4) || bytes > image.len() {
        return Err(format!(
            "its head tells of {bytes} bytes, and there are {}",
            image.len()
        ));
    }
    Ok(head)
}

/// SHA-256 of an image with its own field zero.
fn digest(image: &[u8]) -> [u8; 32] {
    let mut image = image.to_vec();
    let mut head = ImageHead(std::array::from_fn(|at| image[HEAD.start + at]));
    head.set_digest([0; 32]);
    image[HEAD].copy_from_slice(head.as_bytes());
    Sha256::digest(&image).into()
}

/// The image, of this version if one is given, with digest and signature.
pub fn sign(image: &[u8], seed: [u8; 32], version: Option<u32>) -> Result<Vec<u8>, String> {
    let mut head = head(image)?;
    let mut image = image[..head.bytes() as usize].to_vec();
    head.set_version(version.unwrap_or(head.version()));
    image[HEAD].copy_from_slice(head.as_bytes());
    head.set_digest(digest(&image));
    image[HEAD].copy_from_slice(head.as_bytes());
    let keys = KeyPair::from_seed(Seed::new(seed));
    image.extend_from_slice(&keys.sk.sign(head.as_bytes(), None)[..]);
    Ok(image)
}

/// Does the card start it, if this is the board's key?
pub fn verify(image: &[u8], key: [u8; 32]) -> Result<ImageHead, String> {
    let head = head(image)?;
    let (code, signature) = image.split_at(head.bytes() as usize);
    if digest(code) != head.digest() {
        return Err("its digest is wrong".to_owned());
    }
    let signature =
        Signature::from_slice(signature).map_err(|_| "it has no signature: hca firmware sign".to_owned())?;
    let verified = PublicKey::new(key).verify(head.as_bytes(), &signature);
    verified.map_err(|_| "its signature is of another key than the board's".to_owned())?;
    Ok(head)
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
