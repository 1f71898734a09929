//! SystemVerilog: bare declarations, to be included inside a package.
//!
//! Memory structures are printed last field first, so bit 0 of the packed structure is bit 0 of byte 0 in
//! host memory. Wire headers are printed first field first: the most significant bit is the first on the
//! wire.

use crate::model::{
    NOTICE, WIRE_CONSTS, camel, consts, enums, flags, header_name, headers, slots, structs, wrap,
};
use hca_abi::{EnumDef, FlagsDef, Scope, StructDef};
use hca_wire::{HeaderDef, NakCode, Opcode, RnrTimer, Syndrome};
use std::fmt::Write;

/// The whole file.
pub fn print() -> String {
    let mut out = format!("// {NOTICE}\n");
    out.push_str(
        "// Included inside package hca_pkg. Memory structures: bit 0 = bit 0 of byte 0 in host memory.\n",
    );
    out.push_str("// Wire headers: most significant bit = first bit on the wire.\n");
    out.push_str("// verilator lint_off UNUSEDPARAM\n"); // A contract is larger than any one of its users.
    out.push_str(
        "// Fields \"as on the wire\" of memory structures: bits 7:0 are the first byte on the wire.\n",
    );
    heading(&mut out, "Numbers");
    for c in consts().chain(WIRE_CONSTS) {
        number(
            &mut out,
            "int unsigned",
            &camel(c.name),
            &format!("32'h{:x}", c.value),
            c.doc,
        );
    }
    print_rnr_times(&mut out);
    heading(&mut out, "Enumerations");
    enums()
        .filter(|e| e.scope == Scope::Hardware)
        .for_each(|e| print_enum(&mut out, e));
    print_opcodes(&mut out);
    print_nak_codes(&mut out);
    heading(&mut out, "Mask bits");
    flags()
        .filter(|f| f.scope == Scope::Hardware)
        .for_each(|f| print_flags(&mut out, f));
    heading(&mut out, "Memory structures");
    structs()
        .filter(|s| s.scope == Scope::Hardware)
        .for_each(|s| print_struct(&mut out, s));
    heading(&mut out, "Wire headers");
    headers().for_each(|h| print_header(&mut out, h));
    out.push_str("// verilator lint_on UNUSEDPARAM\n");
    out
}

fn heading(out: &mut String, text: &str) {
    let _ = writeln!(out, "\n// ---- {text} {}", "-".repeat(90 - text.len()));
}

fn number(out: &mut String, kind: &str, name: &str, value: &str, doc: &str) {
    let line = format!("localparam {kind} {name} = {value};");
    if line.len() + doc.trim().len() + 5 <= 110 {
        let _ = writeln!(out, "{line}  // {}", doc.trim());
    } else {
        comment(out, doc);
        let _ = writeln!(out, "{line}");
    }
}

fn print_rnr_times(out: &mut String) {
    out.push_str(
        "// Wait of each RNR timer code in microseconds.\nlocalparam int unsigned RnrTimeUs [32] = '{\n",
    );
    let rows: Vec<String> = RnrTimer::TIME_US
        .chunks(8)
        .map(|row| {
            format!(
                "  {}",
                row.iter()
                    .map(|t| format!("32'd{t}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        })
        .collect();
    let _ = writeln!(out, "{}\n}};", rows.join(",\n"));
}

fn comment(out: &mut String, text: &str) {
    for line in wrap(text, 105) {
        let _ = writeln!(out, "// {line}");
    }
}

fn print_enum(out: &mut String, def: &EnumDef) {
    out.push('\n');
    comment(out, def.doc);
    let _ = writeln!(out, "typedef enum logic [{}:0] {{", def.width - 1);
    for (i, v) in def.values.iter().enumerate() {
        let comma = if i + 1 < def.values.len() { "," } else { "" };
        let _ = writeln!(
            out,
            "  {}{} = {}'d{}{comma}  // {}",
            def.prefix,
            v.name,
            def.width,
            v.value,
            v.doc.trim()
        );
    }
    let _ = writeln!(out, "}} {}_e;", def.name);
}

fn print_opcodes(out: &mut String) {
    out.push('\n');
    comment(out, "BTH opcodes.");
    out.push_str("typedef enum logic [7:0] {\n");
    for (i, op) in Opcode::ALL.iter().enumerate() {
        let comma = if i + 1 < Opcode::ALL.len() { "," } else { "" };
        let _ = writeln!(out, "  Bth{} = 8'h{:02x}{comma}", op.variant_name(), *op as u8);
    }
    out.push_str("} bth_opcode_e;\n");
}

fn print_nak_codes(out: &mut String) {
    let codes = [
        NakCode::PsnSequence,
        NakCode::InvalidRequest,
        NakCode::RemoteAccess,
        NakCode::RemoteOperational,
        NakCode::InvalidRdRequest,
    ];
    out.push('\n');
    comment(
        out,
        "AETH syndrome bytes of the NAK codes. ACK is 8'h00 | credit code, RNR NAK 8'h20 | timer code.",
    );
    out.push_str("typedef enum logic [7:0] {\n");
    for (i, code) in codes.iter().enumerate() {
        let comma = if i + 1 < codes.len() { "," } else { "" };
        let _ = writeln!(
            out,
            "  Nak{code:?} = 8'h{:02x}{comma}",
            Syndrome::Nak(*code).to_byte()
        );
    }
    out.push_str("} nak_syndrome_e;\n");
}

fn print_flags(out: &mut String, def: &FlagsDef) {
    out.push('\n');
    comment(out, def.doc);
    for f in def.flags {
        let name = format!("{}{}", camel(def.name), camel(f.name));
        let kind = format!("logic [{}:0]", def.width - 1);
        number(
            out,
            &kind,
            &name,
            &format!("{}'h{:x}", def.width, 1u64 << f.bit),
            f.doc,
        );
    }
}

fn field(out: &mut String, name: &str, width: u32, doc: &str) {
    let kind = if width == 1 {
        "logic".to_string()
    } else {
        format!("logic [{}:0]", width - 1)
    };
    let line = format!("  {kind:<15} {name};");
    let doc = doc.trim();
    if doc.is_empty() {
        let _ = writeln!(out, "{line}");
    } else if line.len() + doc.len() + 5 <= 110 {
        let _ = writeln!(out, "{line}  // {doc}");
    } else {
        for part in wrap(doc, 103) {
            let _ = writeln!(out, "  // {part}");
        }
        let _ = writeln!(out, "{line}");
    }
}

fn print_struct(out: &mut String, def: &StructDef) {
    out.push('\n');
    comment(out, def.doc);
    let _ = writeln!(
        out,
        "localparam int unsigned {}Bytes = {};",
        camel(def.name),
        def.bytes
    );
    out.push_str("typedef struct packed {\n");
    for slot in slots(def).iter().rev() {
        field(out, &slot.name, slot.width, slot.doc);
    }
    let _ = writeln!(out, "}} {}_t;", def.name);
}

fn print_header(out: &mut String, def: &HeaderDef) {
    out.push('\n');
    comment(
        out,
        &format!(
            "{}. First bit on the wire is the most significant.",
            def.doc.trim_end_matches('.')
        ),
    );
    let name = header_name(def);
    let _ = writeln!(
        out,
        "localparam int unsigned {}Bytes = {};",
        camel(&name),
        def.bytes
    );
    out.push_str("typedef struct packed {\n");
    for f in def.fields {
        field(out, f.name, f.width as u32, f.doc);
    }
    let _ = writeln!(out, "}} {name}_t;");
}
