//! Names of numbers, for people.

use std::ffi::CStr;

use crate::abi::*;

/// umad_class_str.
pub fn class(class: u8) -> &'static CStr {
    match class {
        0x01 => c"Subn",
        0x81 => c"SubnDirectedRoute",
        0x03 => c"SubnAdm",
        0x04 => c"Perf",
        0x05 => c"BM",
        0x06 => c"DevMgt",
        0x07 => c"ComMgt",
        0x08 => c"SNMP",
        0x09..=0x0f | 0x30..=0x4f => c"Vendor",
        0x10..=0x2f => c"Application",
        _ => c"<unknown>",
    }
}

/// umad_method_str.
pub fn method(class: u8, method: u8) -> &'static CStr {
    match (class, method) {
        (_, 0x01) => c"Get",
        (_, 0x02) => c"Set",
        (_, 0x81) => c"GetResp",
        (_, 0x03) => c"Send",
        (_, 0x05) => c"Trap",
        (_, 0x06) => c"Report",
        (_, 0x86) => c"ReportResp",
        (_, 0x07) => c"TrapRepress",
        (0x03, 0x12) => c"GetTable",
        (0x03, 0x92) => c"GetTableResp",
        (0x03, 0x15) => c"Delete",
        (0x03, 0x95) => c"DeleteResp",
        _ => c"<unknown>",
    }
}

/// umad_common_mad_status_str; in host order.
pub fn status(status: u16) -> &'static CStr {
    match status >> 2 & 7 {
        _ if status & 1 != 0 => c"Busy",
        _ if status & 2 != 0 => c"Redirection required",
        0 => c"Success",
        1 => c"Bad class or version",
        2 => c"Method not supported",
        3 => c"Method or attribute not supported",
        7 => c"Invalid attribute or modifier value",
        _ => c"<unknown>",
    }
}

/// umad_sa_mad_status_str; in host order.
pub fn sa_status(status: u16) -> &'static CStr {
    match status >> 8 {
        0 => c"Success",
        1 => c"No resources",
        2 => c"Request invalid",
        3 => c"No records",
        4 => c"Too many records",
        5 => c"Invalid GID",
        6 => c"Insufficient components",
        7 => c"Request denied",
        8 => c"Priority suggested",
        _ => c"<unknown>",
    }
}

/// umad_attribute_str; in host order.
pub fn attribute(class: u8, attribute: u16) -> &'static CStr {
    match (class, attribute) {
        (_, 0x01) => c"Class Port Info",
        (_, 0x02) => c"Notice",
        (_, 0x03) => c"Inform Info",
        (0x01 | 0x81, 0x10) => c"Node Description",
        (0x01 | 0x81, 0x11) => c"Node Info",
        (0x01 | 0x81, 0x12) => c"Switch Info",
        (0x01 | 0x81, 0x14) => c"GUID Info",
        (0x01 | 0x81, 0x15) => c"Port Info",
        (0x01 | 0x81, 0x16) => c"P_Key Table",
        (0x01 | 0x81, 0x17) => c"SL to VL Table",
        (0x01 | 0x81, 0x18) => c"VL Arb Table",
        (0x01 | 0x81, 0x20) => c"SM Info",
        (0x03, 0x11) => c"Node Record",
        (0x03, 0x12) => c"Port Info Record",
        (0x03, 0x35) => c"Path Record",
        (0x03, 0x38) => c"MCMember Record",
        (0x04, 0x12) => c"Port Counters",
        (0x04, 0x1d) => c"Port Counters Extended",
        _ => c"<unknown>",
    }
}

/// umad_addr_dump.
pub fn address(addr: &ib_mad_addr_t) -> String {
    let route = crate::buffer::route_of(addr);
    let qkey = route.qkey;
    format!(
        "qpn {} qkey 0x{qkey:x} lid {} sl {}\ngrh_present {} gid_index {} hop_limit {} traffic_class {}\n",
        route.qpn, route.lid, route.sl, addr.grh_present, addr.gid_index, addr.hop_limit, addr.traffic_class
    )
}
