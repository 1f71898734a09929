//! C: enumerations, masks, and for each field its place, with two functions that use it.

use crate::model::{NOTICE, consts, enums, flags, structs, upper_snake, wrap};
use hca_abi::{EnumDef, FlagsDef, StructDef};
use std::fmt::Write;

const ACCESS: &str = r#"
/* A field is `NAME_LSB, NAME_BITS`: its lowest bit from the start of the structure, and its width. Fields of
   more than 64 bits are byte arrays at NAME_LSB / 8. */
static inline uint64_t hca_get(const void *bytes, unsigned lsb, unsigned bits)
{
    const uint8_t *p = (const uint8_t *)bytes;
    uint64_t value = 0;
    unsigned i;

    for (i = 0; i < bits; i++)
        value |= (uint64_t)((p[(lsb + i) / 8] >> ((lsb + i) % 8)) & 1) << i;
    return value;
}

static inline void hca_set(void *bytes, unsigned lsb, unsigned bits, uint64_t value)
{
    uint8_t *p = (uint8_t *)bytes;
    unsigned i;

    for (i = 0; i < bits; i++) {
        uint8_t bit = (uint8_t)(1u << ((lsb + i) % 8));

        p[(lsb + i) / 8] = (uint8_t)((p[(lsb + i) / 8] & ~bit) | (((value >> i) & 1) ? bit : 0));
    }
}
"#;

/// The whole file.
pub fn print() -> String {
    let mut out = format!("/* {NOTICE} */\n#ifndef HCA_ABI_H\n#define HCA_ABI_H\n\n#include <stdint.h>\n");
    out.push_str(ACCESS);
    out.push('\n');
    for c in consts() {
        comment(&mut out, c.doc);
        let _ = writeln!(out, "#define HCA_{} 0x{:x}u", define_name(c.name), c.value);
    }
    enums().for_each(|e| print_enum(&mut out, e));
    flags().for_each(|f| print_flags(&mut out, f));
    structs().for_each(|s| print_struct(&mut out, s));
    out.push_str("\n#endif\n");
    out
}

/// `HCA_ID` would become `HCA_HCA_ID`.
fn define_name(name: &str) -> &str {
    name.strip_prefix("HCA_").unwrap_or(name)
}

fn comment(out: &mut String, text: &str) {
    let lines = wrap(text, 100);
    let _ = writeln!(out, "/* {} */", lines.join("\n   "));
}

fn print_enum(out: &mut String, def: &EnumDef) {
    out.push('\n');
    comment(out, def.doc);
    let _ = writeln!(out, "enum hca_{} {{", def.name);
    for v in def.values {
        let name = format!("HCA_{}_{}", def.name.to_uppercase(), upper_snake(v.name));
        let _ = writeln!(out, "    {name} = {}, /* {} */", v.value, v.doc.trim());
    }
    out.push_str("};\n");
}

fn print_flags(out: &mut String, def: &FlagsDef) {
    out.push('\n');
    comment(out, def.doc);
    for f in def.flags {
        let name = format!("HCA_{}_{}", def.name.to_uppercase(), f.name);
        let _ = writeln!(out, "#define {name} (UINT64_C(1) << {})", f.bit);
    }
}

fn print_struct(out: &mut String, def: &StructDef) {
    let name = def.name.to_uppercase();
    out.push('\n');
    comment(out, def.doc);
    let _ = writeln!(
        out,
        "struct hca_{} {{\n    uint8_t bytes[{}];\n}};",
        def.name, def.bytes
    );
    let _ = writeln!(out, "#define HCA_{name}_BYTES {}u", def.bytes);
    for f in def.fields {
        let field = format!("HCA_{name}_{}", f.name.to_uppercase());
        let _ = writeln!(out, "#define {field}_LSB {}u", f.lsb());
        let _ = writeln!(out, "#define {field}_BITS {}u", f.width);
    }
}
