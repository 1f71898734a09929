//! LLDPDUs (IEEE 802.1AB-2016): a sequence of TLVs, and the DCBX TLVs of IEEE 802.1Q annex D.
//!
//! ```
//! use hca_wire::lldp;
//! let lldpdu = [2, 2, 7, b'a', 4, 2, 7, b'b', 6, 2, 0, 120, 10, 3, b's', b'w', b'0', 0, 0];
//! let head = lldp::check(&lldpdu).unwrap();
//! assert_eq!((head.port_id, head.ttl_s), (&[7, b'b'][..], 120));
//! let name = lldp::Tlvs::of(&lldpdu).flatten().find(|tlv| tlv.kind == lldp::SYSTEM_NAME);
//! assert_eq!(name.unwrap().value, b"sw0");
//! ```

/// Where LLDPDUs go: the other end of the cable, and no further.
pub const MAC: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/// Type of the TLV behind which nothing counts.
pub const END: u8 = 0;
/// Who sends: a subtype and its value.
pub const CHASSIS_ID: u8 = 1;
/// From which of its ports: a subtype and its value.
pub const PORT_ID: u8 = 2;
/// For how many seconds this is true; 0: no longer.
pub const TTL: u8 = 3;
/// Text.
pub const PORT_DESCRIPTION: u8 = 4;
/// Text.
pub const SYSTEM_NAME: u8 = 5;
/// Text.
pub const SYSTEM_DESCRIPTION: u8 = 6;
/// Two masks of [`capability`]: what it could be, what it is.
pub const CAPABILITIES: u8 = 7;
/// Where it can be managed.
pub const MANAGEMENT_ADDRESS: u8 = 8;
/// An OUI, a subtype, and what they say.
pub const ORGANIZATION: u8 = 127;
/// Chassis ID subtype: a MAC address.
pub const CHASSIS_MAC: u8 = 4;
/// Port ID subtype: a MAC address.
pub const PORT_MAC: u8 = 3;
/// Port ID subtype: the name of an interface.
pub const PORT_NAME: u8 = 5;
/// OUI of IEEE 802.1.
pub const OUI_8021: [u8; 3] = [0x00, 0x80, 0xc2];
/// Subtype of 802.1: ETS Configuration.
pub const ETS_CONFIGURATION: u8 = 9;
/// Subtype of 802.1: ETS Recommendation.
pub const ETS_RECOMMENDATION: u8 = 10;
/// Subtype of 802.1: Priority-based Flow Control Configuration.
pub const PFC_CONFIGURATION: u8 = 11;
/// Address family (IANA): IPv4.
pub const FAMILY_IPV4: u8 = 1;
/// Address family (IANA): IPv6.
pub const FAMILY_IPV6: u8 = 2;
/// Interface numbers that are port numbers.
pub const NUMBERS_PORTS: u8 = 3;
/// Longest value of a TLV.
pub const VALUE_MAX: usize = 511;
/// Bytes of a Chassis ID or Port ID, with its subtype.
const ID_BYTES: core::ops::RangeInclusive<usize> = 2..=256;

/// System capabilities.
pub mod capability {
    /// Bridge.
    pub const BRIDGE: u16 = 1 << 2;
    /// Station only.
    pub const STATION: u16 = 1 << 7;
}

/// Transmission selection of a traffic class (IEEE 802.1Q table 8-5).
pub mod selection {
    /// Strict priority.
    pub const STRICT: u8 = 0;
    /// By its share.
    pub const ETS: u8 = 2;
}

/// A TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Its type, 0 to 127.
    pub kind: u8,
    /// At most [`VALUE_MAX`] bytes.
    pub value: &'a [u8],
}

impl<'a> Tlv<'a> {
    /// What a TLV of IEEE 802.1 says: its subtype, and what is behind.
    pub fn of_8021(&self) -> Option<(u8, &'a [u8])> {
        let rest = self.value.strip_prefix(&OUI_8021)?;
        (self.kind == ORGANIZATION).then(|| rest.split_first().map(|(kind, rest)| (*kind, rest)))?
    }
}

/// Why an LLDPDU counts nothing (IEEE 802.1AB 9.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends within a TLV.
    Truncated,
    /// Chassis ID, Port ID and TTL are not the first three, or are there twice.
    Order,
    /// One of these has a length that it cannot have.
    Length,
}

/// The TLVs up to the end. Behind an error comes nothing.
#[derive(Clone, Debug)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    /// Of an LLDPDU.
    pub fn of(lldpdu: &'a [u8]) -> Self {
        Self(lldpdu)
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = core::mem::take(&mut self.0);
        if rest.is_empty() {
            return None;
        }
        let Some((head, rest)) = rest.split_first_chunk::<2>() else {
            return Some(Err(Malformed::Truncated));
        };
        let (kind, length) = (head[0] >> 1, usize::from(head[0] & 1) << 8 | usize::from(head[1]));
        if kind == END {
            return None;
        }
        let Some((value, rest)) = rest.split_at_checked(length) else {
            return Some(Err(Malformed::Truncated));
        };
        self.0 = rest;
        Some(Ok(Tlv { kind, value }))
    }
}

/// What every LLDPDU says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// Subtype and value.
    pub chassis_id: &'a [u8],
    /// Subtype and value.
    pub port_id: &'a [u8],
    /// Seconds.
    pub ttl_s: u16,
    /// Bytes of all TLVs, without the end.
    pub bytes: usize,
}

/// The first three TLVs of an LLDPDU that is whole. What follows is any TLVs, in any order.
pub fn check(lldpdu: &[u8]) -> Result<Head<'_>, Malformed> {
    let mut first: [&[u8]; 3] = [&[]; 3];
    let (mut bytes, mut count) = (0, 0);
    for (place, tlv) in Tlvs::of(lldpdu).enumerate() {
        let tlv = tlv?;
        bytes += 2 + tlv.value.len();
        count += 1;
        match first.get_mut(place) {
            Some(value) if usize::from(tlv.kind) == place + 1 => *value = tlv.value,
            None if !(CHASSIS_ID..=TTL).contains(&tlv.kind) => {}
            _ => return Err(Malformed::Order),
        }
    }
    let [chassis_id, port_id, ttl] = first;
    if count < first.len() {
        return Err(Malformed::Order);
    }
    match ttl.first_chunk() {
        Some(ttl)
            if [chassis_id, port_id]
                .iter()
                .all(|id| ID_BYTES.contains(&id.len())) =>
        {
            Ok(Head {
                chassis_id,
                port_id,
                ttl_s: u16::from_be_bytes(*ttl),
                bytes,
            })
        }
        _ => Err(Malformed::Length),
    }
}

/// ETS Configuration or Recommendation (IEEE 802.1Q D.2.8, D.2.9): how traffic classes share a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ets {
    /// It takes what the other end recommends.
    pub willing: bool,
    /// Traffic classes that there can be, 1 to 8.
    pub classes: u8,
    /// Class of each priority.
    pub prio_tc: [u8; 8],
    /// Share of each class.
    pub percent: [u8; 8],
    /// [`selection`] of each class.
    pub selection: [u8; 8],
}

/// Bytes of an ETS TLV behind its subtype.
pub const ETS_BYTES: usize = 21;
/// Bytes of a PFC TLV behind its subtype.
pub const PFC_BYTES: usize = 2;

impl Ets {
    /// From what is behind the subtype. A recommendation has no first byte: its `willing` and `classes` say nothing.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        let (map, rest) = rest.split_first_chunk::<4>()?;
        let (percent, rest) = rest.split_first_chunk()?;
        let class = |at: usize| map[at / 2] >> (4 - 4 * (at % 2)) & 15;
        Some(Self {
            willing: first & 0x80 != 0,
            classes: if first & 7 == 0 { 8 } else { first & 7 },
            prio_tc: core::array::from_fn(class),
            percent: *percent,
            selection: *rest.first_chunk()?,
        })
    }

    /// The same bytes.
    pub fn write(&self) -> [u8; ETS_BYTES] {
        let mut bytes = [0; ETS_BYTES];
        bytes[0] = u8::from(self.willing) << 7 | self.classes & 7;
        for (at, class) in self.prio_tc.iter().enumerate() {
            bytes[1 + at / 2] |= (class & 15) << (4 - 4 * (at % 2));
        }
        bytes[5..13].copy_from_slice(&self.percent);
        bytes[13..].copy_from_slice(&self.selection);
        bytes
    }
}

/// PFC Configuration (IEEE 802.1Q D.2.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// It takes what the other end has.
    pub willing: bool,
    /// Priorities that may have it at a time.
    pub capability: u8,
    /// Priorities that have it, a bit each.
    pub enabled: u8,
}

impl Pfc {
    /// From what is behind the subtype.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [first, enabled, ..] = *bytes else {
            return None;
        };
        Some(Self {
            willing: first & 0x80 != 0,
            capability: first & 15,
            enabled,
        })
    }

    /// The same bytes.
    pub fn write(&self) -> [u8; PFC_BYTES] {
        [u8::from(self.willing) << 7 | self.capability & 15, self.enabled]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; 15] = [2, 3, 7, b'c', b'h', 4, 2, 7, b'p', 6, 2, 0, 121, 0, 0];

    #[test]
    fn the_first_three_are_demanded() {
        let head = check(&HEAD).unwrap();
        assert_eq!((head.chassis_id, head.port_id), (&b"\x07ch"[..], &b"\x07p"[..]));
        assert_eq!((head.ttl_s, head.bytes), (121, 13));
        // Without an end, and with what pads a frame.
        assert_eq!(check(&HEAD[..13]).unwrap().bytes, 13);
        for cut in 1..13 {
            let found = check(&HEAD[..cut]);
            assert!(
                matches!(
                    found,
                    Err(Malformed::Truncated | Malformed::Length | Malformed::Order)
                ),
                "{cut}"
            );
        }
        for wrong in [
            &[][..],
            &[0, 0],
            &[2, 2, 7, b'c', 6, 2, 0, 1],
            &[4, 2, 7, b'p', 2, 2, 7, b'c', 6, 2, 0, 1],
            &[2, 2, 7, b'c', 4, 2, 7, b'p', 6, 2, 0, 1, 6, 2, 0, 1],
        ] {
            assert_eq!(check(wrong), Err(Malformed::Order), "{wrong:?}");
        }
        for wrong in [
            [2, 1, 7, 4, 3, 7, b'p', b'q', 6, 2, 0, 1],
            [2, 2, 7, b'c', 4, 3, 7, b'p', b'q', 6, 1, 0],
        ] {
            assert_eq!(check(&wrong), Err(Malformed::Length), "{wrong:?}");
        }
    }

    #[test]
    fn dcbx_comes_back() {
        let ets = Ets {
            willing: true,
            classes: 3,
            prio_tc: [0, 1, 2, 3, 4, 5, 6, 7],
            percent: [40, 60, 0, 0, 0, 0, 0, 0],
            selection: [2, 2, 0, 255, 0, 0, 0, 0],
        };
        assert_eq!(ets.write()[..5], [0x83, 0x01, 0x23, 0x45, 0x67]);
        assert_eq!(Ets::read(&ets.write()), Some(ets));
        assert_eq!(Ets::read(&ets.write()[..20]), None);
        let pfc = Pfc {
            willing: false,
            capability: 8,
            enabled: 0x48,
        };
        assert_eq!(Pfc::read(&pfc.write()), Some(pfc));
        assert_eq!(Pfc::read(&[1]), None);
    }
}
