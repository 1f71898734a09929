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

/// The property of every type, and the names of their tables.
macro_rules! every_struct {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$($name::TABLE.name),*];

        fn accessors_follow_their_table(bytes: &[u8]) -> Result<(), TestCaseError> {
            $(
                let value = $name::read_from(bytes).expect("enough bytes");
                let clean = value.without_reserved();
                let fields = only_fields(&$name::TABLE, value.as_bytes());
                prop_assert_eq!(&clean.as_bytes()[..], fields, "{}", stringify!($name));
                prop_assert_eq!($name::TABLE.bytes as usize, $name::BYTES);
            )*
            Ok(())
        }
    };
}
every_struct! {
    SqWqeCtrl SqWqeUdCtrl SqWqeAtomic SqWqeMasks SqWqeFlush SqWqeBind Sge RqWqeCtrl Cqe Eqe HwEvent
    Qpc Mpt KeyTable Forget GidRow GroupRow RuleRow RuleKey Cqc Eqc Srqc
    McastCmd SqDoorbell RqDoorbell CqDoorbell EqDoorbell AdminDoorbell SrqDoorbell
    AdminCmd AdminCpl HandleCmd HandleResult ModifyPortCmd SetGidCmd SetPkeyCmd CreateEqCmd CreateCqCmd
    ResizeCqCmd ModifyCqCmd CreateQpCmd AhAttr QpAttr ModifyQpCmd SetKeyTableCmd RegMrCmd RegMrResult ModifyMrCmd
    CreateSrqCmd AllocMwCmd CreateRuleCmd CreateRssCmd RssRow RssQpRow QueryRuleResult
    DmRow AllocDmCmd CopyDmCmd SetContextMemoryCmd
    ModifySrqCmd
    QueryDeviceResult QueryPortCmd QueryPortResult QueryEntryCmd QueryGidResult ResolveGidCmd
    ResolveGidResult QueryPkeyResult
    QueryQpResult QueryMrResult QuerySrqResult QueryCountersResult
    LinkVlArb LinkSl2vl LinkCtrl LinkStatus SetLinkCmd VlArbCmd VlArbResult SetSl2vlCmd QueryVlCountersCmd
    LinkCongestion CongestionCmd CongestionResult LinkDscp PfcCounters QueryPfcCountersResult
    SetNodeDescCmd QueryNodeDescResult QueryFirmwareResult ImageHead
    VlCounters QueryVlCountersResult QueryLinkResult QueryLinkErrorsResult BoardHead BoardPort BoardNeighbour
    PortView
    QueryLldpCmd QueryLldpResult WriteFirmwareCmd ActivateFirmwareCmd BoardBoot BoardSlot
}

/// What `layout!` makes, by the sources: whoever adds a structure and forgets a list is told here.
fn layouts_of_the_sources() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the crate has sources") {
        let text = std::fs::read_to_string(entry.expect("readable").path()).expect("text");
        for layout in text.split("\nlayout! {").skip(1) {
            let mut lines = layout.lines().map(str::trim);
            let head = lines.find(|line| !line.is_empty() && !line.starts_with("///"));
            let name = head.and_then(|head| head.split('"').nth(1));
            names.push(name.expect("a layout begins with its name").to_owned());
        }
    }
    names.sort_unstable();
    names
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}

#[test]
fn no_structure_is_left_out() {
    let layouts = layouts_of_the_sources();
    let tables = STRUCTS.iter().flat_map(|group| group.iter()).map(|def| def.name);
    assert_eq!(sorted(tables.collect()), layouts, "the tables that are printed");
    assert_eq!(
        sorted(NAMES.to_vec()),
        layouts,
        "the structures whose property is tested"
    );
}

proptest! {
    #[test]
    fn fields_copy_exactly_their_bits(bytes in proptest::collection::vec(any::<u8>(), 256)) {
        accessors_follow_their_table(&bytes)?;
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
