//! Message sizes on the command line: `64`, `4k`, `64,4k,1M`, `64:1M`.

use std::str::FromStr;

/// Largest message that a measurement uses.
pub const SIZE_BYTES_MAX: u32 = 16 << 20;

/// Sizes in the order asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<u32>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut sizes = Vec::new();
        for part in text.split(',').map(str::trim) {
            let Some((from, to)) = part.split_once(':') else {
                sizes.push(size(part)?);
                continue;
            };
            let (from, to) = (size(from)?, size(to)?);
            if from == 0 || from > to {
                return Err(format!(
                    "sweep '{part}' must go from at least 1 to a size not smaller"
                ));
            }
            let mut at = from;
            while at <= to {
                sizes.push(at);
                at = at.saturating_mul(2);
            }
        }
        Ok(Self(sizes))
    }
}

fn size(text: &str) -> Result<u32, String> {
    match bytes(text)? {
        bytes if bytes > u64::from(SIZE_BYTES_MAX) => Err(format!(
            "size {text} is over the limit of {}M",
            SIZE_BYTES_MAX >> 20
        )),
        bytes => Ok(bytes as u32),
    }
}

/// A number of bytes: `64`, `4k`, `16M`, `64G`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("'{text}' is not a size; write bytes, or with k, M or G, as in 64k"))
}

/// Bytes as a person writes them: exact, with the largest unit that divides them.
pub fn human(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 && b.is_multiple_of(1 << 30) => format!("{} GiB", b >> 30),
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_sweeps() {
        assert_eq!("64,4k".parse(), Ok(Sizes(vec![64, 4096])));
        assert_eq!("256:1k".parse(), Ok(Sizes(vec![256, 512, 1024])));
        assert_eq!("100:1000".parse(), Ok(Sizes(vec![100, 200, 400, 800])));
        assert_eq!("0,1M".parse(), Ok(Sizes(vec![0, 1 << 20])));
    }

    #[test]
    fn nonsense_is_refused_in_a_sentence() {
        for text in [
            "",
            "x",
            "-1",
            "8:4",
            "0:4",
            "17M",
            "99999999999999999999",
            "k",
            "1:",
            "é",
        ] {
            let error = text.parse::<Sizes>().unwrap_err();
            assert!(error.len() > 20, "{text}: {error}");
        }
    }

    #[test]
    fn human_sizes_are_exact() {
        assert_eq!(
            [
                human(0),
                human(1023),
                human(65536),
                human(3 << 20),
                human(64 << 30)
            ],
            ["0 B", "1023 B", "64 KiB", "3 MiB", "64 GiB"]
        );
    }
}
