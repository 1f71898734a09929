//! Properties of getters and setters over random bytes.

use hca_abi::table::FieldValue;
use hca_abi::*;
use proptest::prelude::*;

/// Bytes with every bit cleared that no field of the table covers.
fn only_fields(def: &StructDef, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; bytes.len()];
    for field in def.fields {
        for bit in field.lsb()..field.lsb() + field.width {
            let (byte, mask) = (bit as usize / 8, 1 << (bit % 8));
            out[byte] |= bytes[byte] & mask;
        }
    }
    out
}

macro_rules! accessors_follow_their_table {
    ($bytes:expr, $($name:ident)*) => {$(
        let value = $name::read_from(&$bytes).expect("enough bytes");
        let clean = value.without_reserved();
        prop_assert_eq!(&clean.as_bytes()[..], only_fields(&$name::TABLE, value.as_bytes()), "{}", stringify!($name));
        prop_assert_eq!($name::TABLE.bytes as usize, $name::BYTES);
    )*};
}

proptest! {
    #[test]
    fn fields_copy_exactly_their_bits(bytes in proptest::collection::vec(any::<u8>(), 256)) {
        accessors_follow_their_table!(bytes,
            SqWqeCtrl SqWqeUdCtrl SqWqeAtomic Sge RqWqeCtrl Cqe Eqe HwEvent Qpc Mpt Mtt Cqc Eqc
            SqDoorbell RqDoorbell CqDoorbell EqDoorbell AdminDoorbell SrqDoorbell
            AdminCmd AdminCpl HandleCmd HandleResult ModifyPortCmd SetGidCmd SetPkeyCmd CreateEqCmd CreateCqCmd
            CreateQpCmd AhAttr QpAttr ModifyQpCmd RegMrCmd RegMrResult CreateAhCmd CreateSrqCmd ModifySrqCmd
            QueryDeviceResult QueryPortCmd QueryPortResult QueryEntryCmd QueryGidResult QueryPkeyResult
            QueryQpResult QueryMrResult QuerySrqResult QueryCountersResult
            LinkVlArb LinkSl2vl LinkCtrl LinkStatus SetLinkCmd VlArbCmd VlArbResult SetSl2vlCmd QueryVlCountersCmd
            VlCounters QueryVlCountersResult QueryLinkResult QueryLinkErrorsResult
        );
    }

    #[test]
    fn store_then_load(bytes in any::<[u8; 16]>(), lsb in 0usize..64, width in 1usize..=64, value in any::<u64>()) {
        let value = value >> (64 - width);
        let mut after = bytes;
        value.store(&mut after, lsb, width);
        prop_assert_eq!(u64::load(&after, lsb, width), value);
        let (before, after) = (u128::from_le_bytes(bytes), u128::from_le_bytes(after));
        let mask = ((1u128 << width) - 1) << lsb;
        prop_assert_eq!(before & !mask, after & !mask);
        prop_assert_eq!((after & mask) >> lsb, u128::from(value));
    }

    #[test]
    fn codes_convert_both_ways(code in any::<u8>()) {
        if let Ok(status) = WcStatus::try_from(code) {
            prop_assert_eq!(u8::from(status), code);
        }
        prop_assert_eq!(AdminOpcode::try_from(code).is_ok(), AdminOpcode::ALL.iter().any(|op| u8::from(*op) == code));
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = STRUCTS.iter().flat_map(|g| g.iter()).map(|s| s.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
