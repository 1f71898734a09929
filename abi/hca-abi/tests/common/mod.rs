//! Golden bytes: typed from the contract by hand, never computed by the crate under test.

/// `size` zero bytes with the given hex strings laid over them.
pub fn golden(size: usize, parts: &[(usize, &str)]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for &(offset, hex) in parts {
        for (i, pair) in hex.split(' ').enumerate() {
            bytes[offset + i] = u8::from_str_radix(pair, 16).expect("two hex digits");
        }
    }
    bytes
}

/// Compares a structure with its golden bytes and names the first wrong byte.
pub fn expect(bytes: &[u8], size: usize, parts: &[(usize, &str)]) {
    let golden = golden(size, parts);
    assert_eq!(bytes.len(), size);
    let wrong = bytes.iter().zip(&golden).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "first wrong byte; got {bytes:02x?}");
}
