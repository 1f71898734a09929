//! Markdown: the contract as a document.

use crate::model::{NOTICE, enums, flags, structs, upper_snake};
use hca_abi::{AdminStatus, FieldDef, StructDef};
use std::fmt::Write;

const INTRODUCTION: &str = "
What host software, firmware and RTL agree on. Registers are in `abi/regs` (SystemRDL), wire headers in
`abi/hca-wire`.

* Integers are little endian. A field at byte 3, bit 4 of width 2 is bits 5:4 of byte 3.
* Bits that no table names are reserved: writers store 0, readers ignore them.
* Fields \"as on the wire\" keep the wire's byte order: the first byte on the wire has the lowest address.
* SystemVerilog structures have bit 0 of byte 0 as bit 0, so `cqe_t'(data[511:0])` works. Wire headers have
  the first bit on the wire as their most significant bit.
* Ring indices are free-running and masked on use. A consumer finds a new entry by its phase bit, which the
  producer writes last: 1 on the first pass over the zeroed ring, toggling with each pass.
* IDs in the last column (`V-30`, `QPS-18`) name the requirement a field comes from.
";

/// The whole file.
pub fn print() -> String {
    let mut out = format!("<!-- {NOTICE} -->\n# The contract\n{INTRODUCTION}");
    out.push_str("\n## Numbers\n");
    for group in hca_abi::CONSTS {
        let _ = writeln!(
            out,
            "\n### {}\n\n| Name | Value | Meaning |\n|---|---|---|",
            group.doc
        );
        for c in group.consts {
            let _ = writeln!(out, "| {} | {:#x} | {} |", c.name, c.value, cell(c.doc));
        }
    }
    print_structs(&mut out);
    print_enums(&mut out);
    out.push_str("\n## Masks\n");
    for f in flags() {
        let _ = writeln!(
            out,
            "\n### {}\n\n{}\n\n| Bit | Name | Meaning |\n|---|---|---|",
            f.name,
            cell(f.doc)
        );
        for b in f.flags {
            let _ = writeln!(out, "| {} | {} | {} |", b.bit, b.name, cell(b.doc));
        }
    }
    out
}

fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|")
}

fn print_structs(out: &mut String) {
    out.push_str("\n## Memory structures\n");
    for s in structs() {
        print_struct(out, s);
    }
}

fn print_struct(out: &mut String, s: &StructDef) {
    let _ = writeln!(out, "\n### {}\n\n{} {} bytes.\n", s.name, cell(s.doc), s.bytes);
    out.push_str("| Byte | Bits | Field | Meaning | From |\n|---|---|---|---|---|\n");
    for f in s.fields {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            f.byte,
            bits(f),
            f.name,
            cell(f.doc),
            f.source
        );
    }
}

fn bits(f: &FieldDef) -> String {
    match f.width {
        1 => f.bit.to_string(),
        width if width > 64 => format!("{} bytes", width / 8),
        width => format!("{}:{}", f.bit + width - 1, f.bit),
    }
}

fn print_enums(out: &mut String) {
    out.push_str("\n## Enumerations\n");
    for e in enums() {
        let _ = writeln!(
            out,
            "\n### {}\n\n{}\n\n| Code | Name | Meaning |\n|---|---|---|",
            e.name,
            cell(e.doc)
        );
        for v in e.values {
            let _ = writeln!(out, "| {} | {} | {} |", v.value, upper_snake(v.name), cell(v.doc));
        }
    }
    out.push_str("\n## errno of admin statuses\n\n| Status | errno |\n|---|---|\n");
    for status in AdminStatus::ALL {
        let _ = writeln!(out, "| {status:?} | {} |", status.errno());
    }
}
