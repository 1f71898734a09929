//! Fields of messages: where each is, once, for reading and writing.

/// A value that a field can have.
pub trait Value: Copy + Default {
    /// From the low bits.
    fn from_bits(bits: u128) -> Self;
    /// To the low bits.
    fn to_bits(self) -> u128;
}

macro_rules! unsigned {
    ($($ty:ty),*) => {$(
        impl Value for $ty {
            fn from_bits(bits: u128) -> Self {
                bits as Self
            }
            fn to_bits(self) -> u128 {
                self.into()
            }
        }
    )*};
}
unsigned!(u8, u16, u32, u64);

impl Value for bool {
    fn from_bits(bits: u128) -> Self {
        bits != 0
    }
    fn to_bits(self) -> u128 {
        self.into()
    }
}

/// A GID, first byte on the wire first.
impl Value for [u8; 16] {
    fn from_bits(bits: u128) -> Self {
        bits.to_be_bytes()
    }
    fn to_bits(self) -> u128 {
        u128::from_be_bytes(self)
    }
}

/// A field of a message: first byte, first bit of that byte (0: the most significant), bits.
#[derive(Clone, Copy, Debug)]
pub struct Place(pub usize, pub usize, pub usize);

impl Place {
    fn range(self) -> (std::ops::Range<usize>, u32) {
        let Self(byte, bit, width) = self;
        let end = (bit + width).div_ceil(8);
        (byte..byte + end, (8 * end - bit - width) as u32)
    }

    fn mask(self) -> u128 {
        u128::MAX >> (128 - self.2)
    }

    /// The field of a message that has it.
    pub fn get<T: Value>(self, bytes: &[u8]) -> T {
        let (range, shift) = self.range();
        let bits = bytes[range]
            .iter()
            .fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
        T::from_bits(bits >> shift & self.mask())
    }

    /// Sets the field; bits that it has no room for are cut off.
    pub fn set<T: Value>(self, bytes: &mut [u8], value: T) {
        let (range, shift) = self.range();
        let (mut mask, mut bits) = (self.mask() << shift, (value.to_bits() & self.mask()) << shift);
        for byte in bytes[range].iter_mut().rev() {
            *byte = *byte & !(mask as u8) | bits as u8;
            (mask, bits) = (mask >> 8, bits >> 8);
        }
    }
}

/// Defines a message: its fields, and where its private data is.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $ty:ty [$byte:expr, $bit:expr, $width:expr],)*
    } private [$at:expr, $len:expr]) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
            /// Private data: as long as there is room for when it was received, zeros behind what was sent.
            pub private_data: Vec<u8>,
        }

        impl $name {
            /// Bytes of private data that there is room for.
            pub const PRIVATE_BYTES: usize = $len;

            pub(crate) fn read(bytes: &[u8]) -> Self {
                Self {
                    $($field: Place($byte, $bit, $width).get(bytes),)*
                    private_data: bytes[$at..$at + $len].to_vec(),
                }
            }

            pub(crate) fn write(&self, bytes: &mut [u8]) {
                $(Place($byte, $bit, $width).set(bytes, self.$field);)*
                let len = self.private_data.len().min($len);
                bytes[$at..$at + len].copy_from_slice(&self.private_data[..len]);
            }
        }
    };
}
pub(crate) use message;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_widths_at_all_bits() {
        for (place, value) in [
            (Place(0, 0, 64), 0x0123_4567_89ab_cdef_u64),
            (Place(3, 0, 24), 0x00ab_cdef),
            (Place(2, 0, 20), 0xf_edcb),
            (Place(5, 2, 6), 0x2a),
            (Place(1, 5, 3), 5),
            (Place(1, 0, 5), 0x11),
            (Place(7, 4, 1), 1),
        ] {
            for fill in [0, 0xff] {
                let mut bytes = [fill; 16];
                place.set(&mut bytes, value);
                assert_eq!(place.get::<u64>(&bytes), value, "{place:?}");
                place.set(&mut bytes, if fill == 0 { 0 } else { u64::MAX });
                assert_eq!(bytes, [fill; 16], "{place:?} has touched its neighbours");
            }
        }
        let mut bytes = [0; 24];
        let gid: [u8; 16] = std::array::from_fn(|i| i as u8 + 1);
        Place(4, 0, 128).set(&mut bytes, gid);
        assert_eq!(bytes[4..20], gid);
        assert_eq!(Place(4, 0, 128).get::<[u8; 16]>(&bytes), gid);
    }
}
