//! The fields of a management datagram (IBA vol1 13.4.2, 14.2.1).

/// Bytes of a management datagram.
pub const MAD_BYTES: usize = 256;
/// A management datagram.
pub type Mad = [u8; MAD_BYTES];

/// Management classes (IBA vol1 13.4.4).
pub mod class {
    /// Subnet management, to a LID.
    pub const SM_LID: u8 = 0x01;
    /// Subnet management, along a directed route.
    pub const SM_DIRECTED: u8 = 0x81;
    /// Performance management.
    pub const PERF: u8 = hca_wire::MAD_CLASS_PERF;
    /// Baseboard management.
    pub const BM: u8 = hca_wire::MAD_CLASS_BM;
}

/// Methods (IBA vol1 13.4.5).
pub mod method {
    /// Read an attribute.
    pub const GET: u8 = hca_wire::MAD_GET;
    /// Change one.
    pub const SET: u8 = hca_wire::MAD_SET;
    /// Something has happened.
    pub const TRAP: u8 = 0x05;
    /// A trap was heard, and need not come again.
    pub const TRAP_REPRESS: u8 = hca_wire::MAD_TRAP_REPRESS;
    /// The answer to both of the first.
    pub const GET_RESP: u8 = 0x81;
    /// This bit says that it is an answer.
    pub const RESPONSE: u8 = 0x80;
}

/// Status of an answer (IBA vol1 13.4.7).
pub mod status {
    /// Done.
    pub const OK: u16 = 0;
    /// Base or class version is not ours.
    pub const BAD_VERSION: u16 = 1 << 2;
    /// The class has no such method.
    pub const NO_METHOD: u16 = 2 << 2;
    /// No such attribute, or not with this method.
    pub const NO_ATTRIBUTE: u16 = 3 << 2;
    /// A value that cannot be.
    pub const BAD_VALUE: u16 = 7 << 2;
    /// Of a directed route: this datagram is on its way back.
    pub const DIRECTION: u16 = 1 << 15;
}

/// Where the data of a datagram of subnet management begin.
pub const SMP_DATA: usize = 64;
/// How many bytes that is.
pub const SMP_DATA_BYTES: usize = 64;

/// Bytes from a place on; zeros where there are none.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found.copied().unwrap_or([0; N])
}

/// Writes bytes to a place; nothing where there is none.
fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = value;
    }
}

/// Reads a number of two bytes.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes_at(bytes, at))
}

/// Reads a number of four bytes.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes_at(bytes, at))
}

/// Reads a number of eight bytes.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes_at(bytes, at))
}

/// Writes a number of two bytes.
#[inline(never)]
pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, value.to_be_bytes());
}

/// Writes a number of four bytes.
#[inline(never)]
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, value.to_be_bytes());
}

/// Writes a number of eight bytes.
#[inline(never)]
pub fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, value.to_be_bytes());
}

/// Management class.
pub fn class_of(mad: &Mad) -> u8 {
    mad[1]
}

/// Method.
pub fn method_of(mad: &Mad) -> u8 {
    mad[3]
}

/// Status, with the direction bit of a directed route.
pub fn status_of(mad: &Mad) -> u16 {
    u16_at(mad, 4)
}

/// Transaction.
pub fn transaction_of(mad: &Mad) -> u64 {
    u64_at(mad, 8)
}

/// Attribute.
pub fn attribute_of(mad: &Mad) -> u16 {
    u16_at(mad, 16)
}

/// Attribute modifier.
pub fn modifier_of(mad: &Mad) -> u32 {
    u32_at(mad, 20)
}

/// M_Key of a datagram of subnet management.
pub fn mkey_of(mad: &Mad) -> u64 {
    u64_at(mad, 24)
}

/// Makes a request the answer to itself: everything stays but method and status.
pub fn answer(mad: &mut Mad, status: u16) {
    mad[3] = method::GET_RESP;
    let way_back = if mad[1] == class::SM_DIRECTED {
        status::DIRECTION
    } else {
        0
    };
    put_u16(mad, 4, status | way_back);
}
