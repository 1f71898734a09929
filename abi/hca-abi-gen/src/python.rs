//! Python: tables and pack/unpack functions for block tests. No dependencies.

use crate::model::{NOTICE, WIRE_CONSTS, consts, enums, flags, header_name, headers, structs, upper_snake};
use hca_wire::Opcode;
use std::fmt::Write;

const FUNCTIONS: &str = r#"

def _size(table, name):
    if name not in table:
        raise KeyError(f"{name}: not in the contract")
    return table[name]["bytes"]


def _number(value, width, name):
    """Integers as they are; bytes in memory order, so the first byte is the lowest."""
    number = int.from_bytes(value, "little") if isinstance(value, (bytes, bytearray)) else int(value)
    if not 0 <= number < 1 << width:
        raise ValueError(f"{name}: {number:#x} does not fit into {width} bits")
    return number


def struct_to_int(struct, **fields):
    """Memory structure as the integer that its packed SystemVerilog structure is."""
    bits = 8 * _size(STRUCTS, struct)
    table = STRUCTS[struct]["fields"]
    word = 0
    for name, value in fields.items():
        lsb, width = table[name]
        word |= _number(value, width, f"{struct}.{name}") << lsb
    assert word < 1 << bits
    return word


def struct_from_int(struct, word):
    """All fields of a memory structure; reserved bits are dropped."""
    return {name: word >> lsb & (1 << width) - 1 for name, (lsb, width) in STRUCTS[struct]["fields"].items()}


def pack(struct, **fields):
    """Memory structure as its bytes in host memory."""
    return struct_to_int(struct, **fields).to_bytes(_size(STRUCTS, struct), "little")


def unpack(struct, data):
    """All fields of the memory structure that `data` starts with."""
    size = _size(STRUCTS, struct)
    if len(data) < size:
        raise ValueError(f"{struct}: needs {size} bytes, got {len(data)}")
    return struct_from_int(struct, int.from_bytes(data[:size], "little"))


def header_to_int(header, **fields):
    """Wire header as the integer that its packed SystemVerilog structure is: first bit most significant."""
    bits = 8 * _size(HEADERS, header)
    table = HEADERS[header]["fields"]
    word = 0
    for name, value in fields.items():
        msb, width = table[name]
        number = int.from_bytes(value, "big") if isinstance(value, (bytes, bytearray)) else value
        word |= _number(number, width, f"{header}.{name}") << bits - msb - width
    return word


def header_from_int(header, word):
    """All fields of a wire header."""
    bits = 8 * _size(HEADERS, header)
    fields = HEADERS[header]["fields"].items()
    return {name: word >> bits - msb - width & (1 << width) - 1 for name, (msb, width) in fields}


def pack_header(header, **fields):
    """Wire header as bytes in the order of the wire."""
    return header_to_int(header, **fields).to_bytes(_size(HEADERS, header), "big")


def unpack_header(header, data):
    """All fields of the wire header that `data` starts with."""
    size = _size(HEADERS, header)
    if len(data) < size:
        raise ValueError(f"{header}: needs {size} bytes, got {len(data)}")
    return header_from_int(header, int.from_bytes(data[:size], "big"))
"#;

/// The whole file.
pub fn print() -> String {
    let mut out = format!("# {NOTICE}\n");
    out.push_str("\"\"\"The contract: numbers, enumerations, memory structures, wire headers.\"\"\"\n\n");
    out.push_str("import enum\n\n");
    for c in consts().chain(WIRE_CONSTS) {
        let _ = writeln!(out, "{} = 0x{:x}", c.name, c.value);
    }
    print_enums(&mut out);
    out.push_str(
        "\n\n# name: bytes, and per field (lowest bit from the start of the structure, width)\nSTRUCTS = {\n",
    );
    for s in structs() {
        let fields = s
            .fields
            .iter()
            .map(|f| (f.name, f.lsb() as usize, f.width as usize));
        print_table(&mut out, s.name, s.bytes as usize, fields);
    }
    out.push_str("}\n\n# name: bytes, and per field (bits of the header before it, width)\nHEADERS = {\n");
    for h in headers() {
        let fields = h.fields.iter().map(|f| (f.name, f.bit_offset(), f.width));
        print_table(&mut out, &header_name(h), h.bytes, fields);
    }
    out.push_str("}\n");
    out.push_str(FUNCTIONS);
    out
}

fn print_enums(out: &mut String) {
    for e in enums() {
        let values = e.values.iter().map(|v| (upper_snake(v.name), u64::from(v.value)));
        print_enum(out, &crate::model::camel(e.name), "IntEnum", e.doc, values);
    }
    let opcodes = Opcode::ALL
        .iter()
        .map(|op| (upper_snake(op.variant_name()), *op as u64));
    print_enum(out, "BthOpcode", "IntEnum", "BTH opcodes.", opcodes);
    for f in flags() {
        let values = f.flags.iter().map(|b| (b.name.to_string(), 1u64 << b.bit));
        print_enum(out, &crate::model::camel(f.name), "IntFlag", f.doc, values);
    }
}

fn print_enum(
    out: &mut String,
    name: &str,
    base: &str,
    doc: &str,
    values: impl Iterator<Item = (String, u64)>,
) {
    let _ = writeln!(
        out,
        "\n\nclass {name}(enum.{base}):\n    \"\"\"{}\"\"\"\n",
        doc.trim()
    );
    for (value, number) in values {
        let _ = writeln!(out, "    {value} = 0x{number:x}");
    }
}

fn print_table<'a>(
    out: &mut String,
    name: &str,
    bytes: usize,
    fields: impl Iterator<Item = (&'a str, usize, usize)>,
) {
    let _ = writeln!(
        out,
        "    \"{name}\": {{\n        \"bytes\": {bytes},\n        \"fields\": {{"
    );
    for (field, at, width) in fields {
        let _ = writeln!(out, "            \"{field}\": ({at}, {width}),");
    }
    out.push_str("        },\n    },\n");
}
