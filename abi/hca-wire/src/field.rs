//! What a header table is made of, and the macro that turns a table into Rust.

/// One field of a header: where it lies and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldDef {
    /// Name in snake case.
    pub name: &'static str,
    /// Byte, counted from the start of the header, that holds the field's most significant bit.
    pub byte: usize,
    /// Place of the most significant bit inside that byte; 7 is the byte's most significant bit.
    pub bit_hi: usize,
    /// Width in bits.
    pub width: usize,
    /// Meaning, with the section of the specification.
    pub doc: &'static str,
}

impl FieldDef {
    /// Bits before this field in network order; bit 0 is the most significant bit of byte 0.
    pub const fn bit_offset(&self) -> usize {
        self.byte * 8 + 7 - self.bit_hi
    }
}

/// One header: its size and its fields in wire order, without gap or overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderDef {
    /// Name as the specification spells it.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: usize,
    /// Fields in wire order.
    pub fields: &'static [FieldDef],
    /// Meaning, with the section of the specification.
    pub doc: &'static str,
}

/// Compile-time check of a table: fields follow each other and fill the header exactly.
pub(crate) const fn check_table(def: &HeaderDef) {
    let mut bits = 0;
    let mut index = 0;
    while index < def.fields.len() {
        let field = &def.fields[index];
        assert!(field.bit_hi < 8, "bit_hi is a place inside one byte");
        assert!(
            field.bit_offset() == bits,
            "fields must follow each other without gap"
        );
        assert!(field.width > 0, "a field has at least one bit");
        bits += field.width;
        index += 1;
    }
    assert!(bits == def.bytes * 8, "fields must fill the header");
}

/// A Rust type that can stand for a field.
pub(crate) trait FieldValue: Sized {
    /// Reads the field of `width` bits that starts `bit_offset` bits into `bytes`.
    fn load(bytes: &[u8], bit_offset: usize, width: usize) -> Self;
    /// Writes the low `width` bits of the value into the same place.
    fn store(self, bytes: &mut [u8], bit_offset: usize, width: usize);
}

const fn mask(width: usize) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

impl FieldValue for u64 {
    #[inline]
    fn load(bytes: &[u8], bit_offset: usize, width: usize) -> Self {
        let end = bit_offset + width;
        let span = &bytes[bit_offset / 8..end.div_ceil(8)];
        let raw = span
            .iter()
            .fold(0, |acc: u64, &byte| (acc << 8) | u64::from(byte));
        (raw >> (end.div_ceil(8) * 8 - end)) & mask(width)
    }

    #[inline]
    fn store(self, bytes: &mut [u8], bit_offset: usize, width: usize) {
        let end = bit_offset + width;
        let shift = end.div_ceil(8) * 8 - end;
        let mut keep = !(mask(width) << shift);
        let mut value = (self & mask(width)) << shift;
        for byte in bytes[bit_offset / 8..end.div_ceil(8)].iter_mut().rev() {
            *byte = (*byte & keep as u8) | value as u8;
            keep = (keep >> 8) | (0xff << 56);
            value >>= 8;
        }
    }
}

macro_rules! small_field_value {
    ($($ty:ty)+) => { $(
        impl FieldValue for $ty {
            #[inline]
            fn load(bytes: &[u8], bit_offset: usize, width: usize) -> Self {
                u64::load(bytes, bit_offset, width) as $ty
            }
            #[inline]
            fn store(self, bytes: &mut [u8], bit_offset: usize, width: usize) {
                u64::from(self).store(bytes, bit_offset, width);
            }
        }
    )+ };
}
small_field_value!(u8 u16 u32);

impl FieldValue for bool {
    #[inline]
    fn load(bytes: &[u8], bit_offset: usize, width: usize) -> Self {
        u64::load(bytes, bit_offset, width) != 0
    }

    #[inline]
    fn store(self, bytes: &mut [u8], bit_offset: usize, width: usize) {
        u64::from(self).store(bytes, bit_offset, width);
    }
}

impl<const N: usize> FieldValue for [u8; N] {
    #[inline]
    fn load(bytes: &[u8], bit_offset: usize, _width: usize) -> Self {
        let mut value = [0; N];
        value.copy_from_slice(&bytes[bit_offset / 8..bit_offset / 8 + N]);
        value
    }

    #[inline]
    fn store(self, bytes: &mut [u8], bit_offset: usize, _width: usize) {
        bytes[bit_offset / 8..bit_offset / 8 + N].copy_from_slice(&self);
    }
}

/// Makes the module of one header from its table.
///
/// A row reads `getter / setter: type = (byte, most significant bit, width), "meaning";`.
macro_rules! header {
    (
        $module:ident, $label:literal, $len:literal bytes, $doc:literal;
        $( $name:ident / $setter:ident : $ty:ty = ($byte:literal, $hi:literal, $width:literal),
           $fdoc:literal; )+
    ) => {
        #[doc = $doc]
        pub mod $module {
            use crate::WireError;
            use crate::field::{FieldDef, FieldValue, HeaderDef, check_table};

            /// Size of the header in bytes.
            pub const LEN: usize = $len;

            /// The table this module is made from.
            pub const DEF: HeaderDef = HeaderDef {
                name: $label,
                bytes: LEN,
                fields: &[ $( FieldDef {
                    name: stringify!($name), byte: $byte, bit_hi: $hi, width: $width, doc: $fdoc,
                }, )+ ],
                doc: $doc,
            };
            const _: () = check_table(&DEF);

            #[doc = concat!("View of bytes as a ", $label, " header; never panics.")]
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct Packet<T: AsRef<[u8]>> {
                bytes: T,
            }

            impl<T: AsRef<[u8]>> Packet<T> {
                /// Takes bytes that begin with the header; fails where they are too few.
                pub fn new_checked(bytes: T) -> Result<Self, WireError> {
                    let have_bytes = bytes.as_ref().len();
                    if have_bytes < LEN {
                        let need_bytes = LEN;
                        return Err(WireError::Truncated { header: $label, need_bytes, have_bytes });
                    }
                    Ok(Self { bytes })
                }

                /// Gives the bytes back.
                pub fn into_inner(self) -> T {
                    self.bytes
                }

                /// Bytes behind the header.
                pub fn payload(&self) -> &[u8] {
                    &self.bytes.as_ref()[LEN..]
                }

                $(
                    #[doc = $fdoc]
                    #[inline]
                    pub fn $name(&self) -> $ty {
                        <$ty>::load(self.bytes.as_ref(), $byte * 8 + 7 - $hi, $width)
                    }
                )+
            }

            impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
                $(
                    #[doc = concat!("Sets the field; bits over its width of ", $width, " are cut off. ")]
                    #[doc = $fdoc]
                    #[inline]
                    pub fn $setter(&mut self, value: $ty) {
                        value.store(self.bytes.as_mut(), $byte * 8 + 7 - $hi, $width);
                    }
                )+
            }

            #[doc = concat!("The values of a ", $label, " header.")]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
            pub struct Repr {
                $( #[doc = $fdoc] pub $name: $ty, )+
            }

            impl Repr {
                /// Reads every field of the view.
                pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
                    Self { $( $name: packet.$name(), )+ }
                }

                /// Writes every field into the view.
                pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
                    $( packet.$setter(self.$name); )+
                }

                /// Reads the header at the start of `bytes`.
                pub fn read(bytes: &[u8]) -> Result<Self, WireError> {
                    Ok(Self::parse(&Packet::new_checked(bytes)?))
                }

                /// The header as bytes.
                pub fn to_bytes(&self) -> [u8; LEN] {
                    let mut packet = Packet { bytes: [0; LEN] };
                    self.emit(&mut packet);
                    packet.bytes
                }
            }
        }
    };
}
pub(crate) use header;
