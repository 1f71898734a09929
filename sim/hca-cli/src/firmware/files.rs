//! Files of images and keys.

use anyhow::{Context as _, Result, anyhow};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::digits;

/// A version as people write it.
pub fn parse_version(text: &str) -> Result<u32, String> {
    let parts: Vec<_> = text.split('.').collect();
    let wrong = || {
        format!(
            "'{text}' is no version: three numbers as in 0.2.0, the first up to 65535, the others up to 255"
        )
    };
    let [major, minor, patch] = parts[..] else {
        return Err(wrong());
    };
    let major: u16 = major.parse().map_err(|_| wrong())?;
    let [minor, patch]: [u8; 2] = [
        minor.parse().map_err(|_| wrong())?,
        patch.parse().map_err(|_| wrong())?,
    ];
    Ok(u32::from(major) << 16 | u32::from(minor) << 8 | u32::from(patch))
}

/// A whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Makes a file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The key in a file.
pub fn read_key(path: &Path) -> Result<[u8; 32]> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    hca_image::seed_from(&text).map_err(|e| anyhow!("{}: {e}", path.display()))
}

/// Makes a file with a new key.
pub fn make_key(path: &Path) -> Result<()> {
    let mut seed = [0; 32];
    let mut random = fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    random.read_exact(&mut seed).context("cannot read /dev/urandom")?;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.with_context(|| format!("cannot make {}", path.display()))?;
    writeln!(file, "{}", digits(&seed)).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firmware::version_text;

    #[test]
    fn versions_are_three_numbers() {
        assert_eq!(parse_version("1.2.3"), Ok(0x0001_0203));
        assert_eq!(version_text(0x0001_0203), "1.2.3");
        for wrong in ["", "1.2", "1.2.3.4", "1.2.256", "65536.0.0", "a.b.c"] {
            assert!(parse_version(wrong).unwrap_err().contains("0.2.0"), "{wrong}");
        }
    }
}
