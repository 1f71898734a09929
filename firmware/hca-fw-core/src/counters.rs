//! Places of counters by their names, worked out when this is compiled.

use hca_abi::{FieldDef, QueryCountersResult, QueryLinkErrorsResult};

/// Position of a counter in `query_counters_result`, as `Hal::counter` wants it.
pub const fn counter_index(name: &str) -> u32 {
    index_of(name, QueryCountersResult::TABLE.fields)
}

/// Position of an error counter of a link behind LINK_WORD_ERRORS.
pub const fn error_index(name: &str) -> u32 {
    index_of(name, QueryLinkErrorsResult::TABLE.fields)
}

const fn index_of(name: &str, fields: &[FieldDef]) -> u32 {
    let mut index = 0;
    while !same(fields[index].name, name) {
        index += 1;
    }
    index as u32
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}
