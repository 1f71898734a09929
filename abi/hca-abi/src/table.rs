//! What a table is, and the macros that make Rust types from one.

/// Who needs an item: decides which outputs print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Hardware reads or writes it: printed everywhere.
    Hardware,
    /// Only host software and firmware exchange it: not printed in SystemVerilog.
    Software,
}

/// One field of a memory structure.
#[derive(Clone, Copy, Debug)]
pub struct FieldDef {
    /// Name, equal in every language.
    pub name: &'static str,
    /// Byte of the structure that holds the lowest bit.
    pub byte: u32,
    /// Lowest bit inside that byte, 0..=7.
    pub bit: u32,
    /// Width in bits.
    pub width: u32,
    /// Meaning.
    pub doc: &'static str,
    /// Requirement or verb the field comes from; empty when it is ours.
    pub source: &'static str,
}

impl FieldDef {
    /// Bit position from the start of the structure.
    pub const fn lsb(&self) -> u32 {
        self.byte * 8 + self.bit
    }
}

/// One memory structure.
#[derive(Clone, Copy, Debug)]
pub struct StructDef {
    /// Name in snake case.
    pub name: &'static str,
    /// Meaning.
    pub doc: &'static str,
    /// Size.
    pub bytes: u32,
    /// Which outputs print it.
    pub scope: Scope,
    /// Fields by rising position; gaps are reserved.
    pub fields: &'static [FieldDef],
}

/// One value of an enumeration.
#[derive(Clone, Copy, Debug)]
pub struct EnumValue {
    /// Name in upper camel case.
    pub name: &'static str,
    /// Number.
    pub value: u8,
    /// Meaning.
    pub doc: &'static str,
}

/// One enumeration.
#[derive(Clone, Copy, Debug)]
pub struct EnumDef {
    /// Name in snake case.
    pub name: &'static str,
    /// Prefix of the values in SystemVerilog and C.
    pub prefix: &'static str,
    /// Width in bits.
    pub width: u32,
    /// Meaning.
    pub doc: &'static str,
    /// Which outputs print it.
    pub scope: Scope,
    /// Values.
    pub values: &'static [EnumValue],
}

/// One bit of a mask.
#[derive(Clone, Copy, Debug)]
pub struct FlagDef {
    /// Name in upper snake case.
    pub name: &'static str,
    /// Bit position.
    pub bit: u32,
    /// Meaning.
    pub doc: &'static str,
}

/// One mask type.
#[derive(Clone, Copy, Debug)]
pub struct FlagsDef {
    /// Name in snake case.
    pub name: &'static str,
    /// Meaning.
    pub doc: &'static str,
    /// Width of the mask in bits.
    pub width: u32,
    /// Which outputs print it.
    pub scope: Scope,
    /// Bits.
    pub flags: &'static [FlagDef],
}

/// One number.
#[derive(Clone, Copy, Debug)]
pub struct ConstDef {
    /// Name in upper snake case.
    pub name: &'static str,
    /// Number.
    pub value: u32,
    /// Meaning.
    pub doc: &'static str,
}

/// Numbers that belong together.
#[derive(Clone, Copy, Debug)]
pub struct ConstGroup {
    /// Heading.
    pub doc: &'static str,
    /// Numbers.
    pub consts: &'static [ConstDef],
}

/// A code that the table of its enumeration does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCode {
    /// Name of the enumeration.
    pub what: &'static str,
    /// The code.
    pub code: u8,
}

impl core::fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} has no code {}", self.what, self.code)
    }
}

impl core::error::Error for UnknownCode {}

/// A Rust type that can hold a field.
pub trait FieldValue: Sized {
    /// Bits the type can hold.
    const BITS: u32;
    /// Reads `width` bits from bit `lsb` of `bytes`.
    fn load(bytes: &[u8], lsb: usize, width: usize) -> Self;
    /// Writes the low `width` bits to bit `lsb` of `bytes`. Higher bits must be zero (checked in debug
    /// builds, cut off in release builds).
    fn store(self, bytes: &mut [u8], lsb: usize, width: usize);
}

/// The word of 32 bits that a field lies in, if it lies in one: byte where it begins, and the field's place in it.
#[inline(always)]
fn word_of(bytes: usize, lsb: usize, width: usize) -> Option<(usize, usize)> {
    let (byte, bit) = (lsb / 32 * 4, lsb % 32);
    (bit + width <= 32 && byte + 4 <= bytes).then_some((byte, bit))
}

#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
fn load_bits(bytes: &[u8], lsb: usize, width: usize) -> u64 {
    // Where it matters: a processor of 32 bits gets more than two bytes with one load.
    if let Some((byte, bit)) = word_of(bytes.len(), lsb, width).filter(|_| width > 16) {
        return u64::from(word_at(bytes, byte) >> bit & (u32::MAX >> (32 - width)));
    }
    if lsb.is_multiple_of(32) && width == 64 {
        let high = word_at(bytes, lsb / 8 + 4);
        return u64::from(high) << 32 | u64::from(word_at(bytes, lsb / 8));
    }
    // Without a loop, which a compiler that is to make small code would leave one.
    let (byte, bit) = (lsb / 8, lsb % 8);
    let short = match (bit + width).div_ceil(8) {
        1 => Some(bytes[byte].into()),
        2 => Some(u16::from_le_bytes([bytes[byte], bytes[byte + 1]])),
        _ => None,
    };
    if let Some(value) = short {
        return u64::from(value >> bit & (u16::MAX >> (16 - width)));
    }
    let mut value = 0u128;
    for i in 0..(lsb % 8 + width).div_ceil(8) {
        value |= u128::from(bytes[lsb / 8 + i]) << (8 * i);
    }
    ((value >> (lsb % 8)) & ((1u128 << width) - 1)) as u64
}

#[inline(always)]
fn store_bits(value: u64, bytes: &mut [u8], lsb: usize, width: usize) {
    let mask = (1u128 << width) - 1;
    debug_assert!(
        u128::from(value) <= mask,
        "value {value:#x} does not fit into {width} bits"
    );
    // By words: the fields of a word that are set one after the other become one store.
    if let Some((byte, bit)) = word_of(bytes.len(), lsb, width) {
        let mask = u32::MAX >> (32 - width);
        let word = word_at(bytes, byte) & !(mask << bit) | (value as u32 & mask) << bit;
        bytes[byte..byte + 4].copy_from_slice(&word.to_le_bytes());
        return;
    }
    if lsb.is_multiple_of(32) && width == 64 {
        bytes[lsb / 8..lsb / 8 + 8].copy_from_slice(&value.to_le_bytes());
        return;
    }
    let mask = mask << (lsb % 8);
    let value = (u128::from(value) << (lsb % 8)) & mask;
    for i in 0..(lsb % 8 + width).div_ceil(8) {
        let byte = &mut bytes[lsb / 8 + i];
        *byte = (*byte & !((mask >> (8 * i)) as u8)) | (value >> (8 * i)) as u8;
    }
}

macro_rules! field_value_int {
    ($($ty:ty),*) => {$(
        impl FieldValue for $ty {
            const BITS: u32 = <$ty>::BITS;
            #[inline(always)]
            fn load(bytes: &[u8], lsb: usize, width: usize) -> Self {
                load_bits(bytes, lsb, width) as $ty
            }
            #[inline(always)]
            fn store(self, bytes: &mut [u8], lsb: usize, width: usize) {
                store_bits(u64::from(self), bytes, lsb, width);
            }
        }
    )*};
}
field_value_int!(u8, u16, u32, u64);

impl FieldValue for bool {
    const BITS: u32 = 1;
    #[inline(always)]
    fn load(bytes: &[u8], lsb: usize, width: usize) -> Self {
        load_bits(bytes, lsb, width) != 0
    }
    #[inline(always)]
    fn store(self, bytes: &mut [u8], lsb: usize, width: usize) {
        store_bits(u64::from(self), bytes, lsb, width);
    }
}

impl<const N: usize> FieldValue for [u8; N] {
    const BITS: u32 = N as u32 * 8;
    #[inline(always)]
    fn load(bytes: &[u8], lsb: usize, _width: usize) -> Self {
        let mut value = [0; N];
        value.copy_from_slice(&bytes[lsb / 8..lsb / 8 + N]);
        value
    }
    #[inline(always)]
    fn store(self, bytes: &mut [u8], lsb: usize, _width: usize) {
        bytes[lsb / 8..lsb / 8 + N].copy_from_slice(&self);
    }
}

/// Compile-time check of one structure: fields rise, do not overlap and fit.
pub const fn check_struct(def: &StructDef) {
    let mut i = 0;
    let mut next = 0;
    while i < def.fields.len() {
        let f = &def.fields[i];
        assert!(f.bit < 8, "bit offset must be below 8");
        assert!(f.width > 0, "field of zero width");
        assert!(f.lsb() >= next, "fields overlap or are out of order");
        next = f.lsb() + f.width;
        assert!(next <= def.bytes * 8, "field reaches beyond the structure");
        i += 1;
    }
}

/// Bytes of the words of 32 bits that a structure's fields reach into, or all of one that does not end with a word.
pub const fn used_bytes(def: &StructDef) -> usize {
    let last = &def.fields[def.fields.len() - 1];
    let bytes = ((last.lsb() + last.width) as usize).div_ceil(32) * 4;
    if bytes < def.bytes as usize {
        bytes
    } else {
        def.bytes as usize
    }
}

/// Compile-time check of one field: the Rust type can hold it.
pub const fn check_field(type_bits: u32, bit: u32, width: u32) {
    assert!(width <= type_bits, "field is wider than its Rust type");
    assert!(
        type_bits <= 64 || (bit == 0 && width == type_bits),
        "byte array fields fill whole bytes"
    );
}

/// Makes a structure from its table: see the crate's documentation for what comes out.
macro_rules! layout {
    ($(#[doc = $doc:literal])* $name:ident($snake:literal, $bytes:literal, $scope:ident) {
        $($(#[doc = $fdoc:literal])* $get:ident $set:ident: $ty:ty
            [$byte:literal, $bit:literal, $width:literal] $($source:literal)?;)*
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub [u8; $bytes]);

        const _: () = {
            $crate::table::check_struct(&$name::TABLE);
            $($crate::table::check_field(<$ty as $crate::table::FieldValue>::BITS, $bit, $width);)*
        };

        impl $name {
            /// Size in bytes.
            pub const BYTES: usize = $bytes;
            /// The table this type was made from.
            pub const TABLE: $crate::table::StructDef = $crate::table::StructDef {
                name: $snake,
                doc: concat!($($doc),*),
                bytes: $bytes,
                scope: $crate::table::Scope::$scope,
                fields: &[$($crate::table::FieldDef {
                    name: stringify!($get),
                    byte: $byte,
                    bit: $bit,
                    width: $width,
                    doc: concat!($($fdoc),*),
                    source: concat!($($source)?),
                }),*],
            };

            /// Bytes of the words that its fields reach into: whatever is behind them means nothing.
            pub const USED: usize = $crate::table::used_bytes(&Self::TABLE);

            /// All zero.
            pub const fn new() -> Self {
                Self([0; $bytes])
            }

            /// The bytes that mean something.
            #[inline]
            pub fn used(&self) -> &[u8] {
                &self.0[..Self::USED]
            }

            /// The first bytes of `bytes`; `None` if there are too few.
            pub fn read_from(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|b| Self(*b))
            }

            /// The same fields with every reserved bit zero.
            pub fn without_reserved(&self) -> Self {
                let mut clean = Self::new();
                $(clean.$set(self.$get());)*
                clean
            }

            /// The bytes as they lie in memory.
            pub const fn as_bytes(&self) -> &[u8; $bytes] {
                &self.0
            }

            $(
                $(#[doc = $fdoc])*
                #[inline]
                pub fn $get(&self) -> $ty {
                    $crate::table::FieldValue::load(&self.0, $byte * 8 + $bit, $width)
                }
                #[doc = concat!("Sets `", stringify!($get), "`; the value must fit ", $width, " bits.")]
                #[inline]
                pub fn $set(&mut self, value: $ty) {
                    $crate::table::FieldValue::store(value, &mut self.0, $byte * 8 + $bit, $width)
                }
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($get), &self.$get()))*.finish()
            }
        }
    };
}
pub(crate) use layout;

/// Makes an enumeration of `u8` codes from its table.
macro_rules! abi_enum {
    ($(#[doc = $doc:literal])* $name:ident($snake:literal, $prefix:literal, $width:literal, $scope:ident) {
        $($(#[doc = $vdoc:literal])* $value:ident = $code:literal,)*
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[doc = $vdoc])* $value = $code,)*
        }

        const _: () = {
            $(assert!($code < (1u16 << $width), "code is wider than the enumeration");)*
        };

        impl $name {
            /// The table this type was made from.
            pub const TABLE: $crate::table::EnumDef = $crate::table::EnumDef {
                name: $snake,
                prefix: $prefix,
                width: $width,
                doc: concat!($($doc),*),
                scope: $crate::table::Scope::$scope,
                values: &[$($crate::table::EnumValue {
                    name: stringify!($value),
                    value: $code,
                    doc: concat!($($vdoc),*),
                }),*],
            };
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$value),*];
        }

        impl TryFrom<u8> for $name {
            type Error = $crate::table::UnknownCode;
            #[inline]
            fn try_from(code: u8) -> Result<Self, Self::Error> {
                match code {
                    $($code => Ok(Self::$value),)*
                    _ => Err($crate::table::UnknownCode { what: $snake, code }),
                }
            }
        }

        impl From<$name> for u8 {
            #[inline]
            fn from(value: $name) -> u8 {
                value as u8
            }
        }
    };
}
pub(crate) use abi_enum;

/// Makes a module of mask bits from its table.
macro_rules! abi_flags {
    ($(#[doc = $doc:literal])* $module:ident: $ty:ty, $scope:ident {
        $($(#[doc = $fdoc:literal])* $name:ident = $bit:literal,)*
    }) => {
        $(#[doc = $doc])*
        pub mod $module {
            $($(#[doc = $fdoc])* pub const $name: $ty = 1 << $bit;)*
            /// Every bit that has a meaning.
            pub const ALL: $ty = 0 $(| $name)*;
            /// The table this module was made from.
            pub const TABLE: $crate::table::FlagsDef = $crate::table::FlagsDef {
                name: stringify!($module),
                doc: concat!($($doc),*),
                width: <$ty>::BITS,
                scope: $crate::table::Scope::$scope,
                flags: &[$($crate::table::FlagDef {
                    name: stringify!($name),
                    bit: $bit,
                    doc: concat!($($fdoc),*),
                }),*],
            };
        }
    };
}
pub(crate) use abi_flags;

/// Makes constants and their table.
macro_rules! abi_consts {
    ($($heading:literal {
        $($(#[doc = $doc:literal])* $name:ident = $value:expr,)*
    })*) => {
        $($($(#[doc = $doc])* pub const $name: u32 = $value;)*)*
        /// Every number, by heading.
        pub const CONSTS: &[$crate::table::ConstGroup] = &[$($crate::table::ConstGroup {
            doc: $heading,
            consts: &[$($crate::table::ConstDef {
                name: stringify!($name),
                value: $name,
                doc: concat!($($doc),*),
            }),*],
        }),*];
    };
}
pub(crate) use abi_consts;
