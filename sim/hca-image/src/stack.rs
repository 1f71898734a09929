//! How deep the firmware's stack can get: the frames of its functions and who calls whom, read from the machine code of
//! a linked program for RV32IMC with Zba. It is a bound, not a measurement: every path of calls counts, taken or not.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

/// Registers.
const ZERO: u32 = 0;
const RA: u32 = 1;
const SP: u32 = 2;
/// The return address of routines that save and restore registers.
const T0: u32 = 5;

/// How the names of these routines begin (`firmware/hca-fw/src/frames.rs`).
const SAVE: &str = "__riscv_save_";

/// What an instruction does to the stack and to the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// The stack pointer moves.
    Stack(i32),
    /// It gets a value that is not seen here.
    UnknownStack,
    /// Goes to an address, and comes back or not.
    Go(u32),
    /// Goes to where a register says.
    GoTo,
    /// A register gets a value.
    Value(u32, u32),
}

fn bits(word: u32, from: u32, count: u32) -> u32 {
    word >> from & ((1 << count) - 1)
}

fn signed(value: u32, width: u32) -> i32 {
    (value << (32 - width)).cast_signed() >> (32 - width)
}

/// An instruction of 16 bits at `pc`.
fn short(word: u32, pc: u32) -> Step {
    match (word & 3, bits(word, 13, 3)) {
        // c.addi, c.addi16sp
        (1, 0) if bits(word, 7, 5) == SP => Step::Stack(signed(bits(word, 12, 1) << 5 | bits(word, 2, 5), 6)),
        (1, 3) if bits(word, 7, 5) == SP => {
            let high = bits(word, 12, 1) << 9 | bits(word, 3, 2) << 7 | bits(word, 5, 1) << 6;
            Step::Stack(signed(high | bits(word, 2, 1) << 5 | bits(word, 6, 1) << 4, 10))
        }
        // c.li
        (1, 2) if bits(word, 7, 5) != SP => {
            let value = signed(bits(word, 12, 1) << 5 | bits(word, 2, 5), 6);
            Step::Value(bits(word, 7, 5), value.cast_unsigned())
        }
        // c.jal, c.j
        (1, 1 | 5) => {
            let high = bits(word, 12, 1) << 11 | bits(word, 8, 1) << 10 | bits(word, 9, 2) << 8;
            let middle = bits(word, 6, 1) << 7 | bits(word, 7, 1) << 6 | bits(word, 2, 1) << 5;
            let low = bits(word, 11, 1) << 4 | bits(word, 3, 3) << 1;
            Step::Go(pc.wrapping_add_signed(signed(high | middle | low, 12)))
        }
        // c.jr, c.jalr; c.mv and c.add to the stack pointer
        (2, 4) if bits(word, 2, 5) == ZERO => match bits(word, 7, 5) {
            RA | T0 if bits(word, 12, 1) == 0 => Step::Nothing,
            _ => Step::GoTo,
        },
        (2, 4) if bits(word, 7, 5) == SP => Step::UnknownStack,
        _ => Step::Nothing,
    }
}

/// An instruction of 32 bits. `values`: what registers are known to hold.
fn long(word: u32, pc: u32, values: &BTreeMap<u32, u32>) -> Step {
    let (opcode, rd, rs1) = (word & 0x7f, bits(word, 7, 5), bits(word, 15, 5));
    let immediate = signed(bits(word, 20, 12), 12);
    match opcode {
        0x13 if bits(word, 12, 3) == 0 && (rd, rs1) == (SP, SP) => Step::Stack(immediate),
        // li
        0x13 if bits(word, 12, 3) == 0 && rs1 == ZERO && rd != SP => {
            Step::Value(rd, immediate.cast_unsigned())
        }
        // sh1add, sh2add, sh3add: how a frame is made that one addi does not reach
        0x33 if bits(word, 25, 7) == 0x10 && (rd, bits(word, 20, 5)) == (SP, SP) => match values.get(&rs1) {
            Some(value) => Step::Stack((value << (bits(word, 12, 3) / 2)).cast_signed()),
            None => Step::UnknownStack,
        },
        // auipc
        0x17 => Step::Value(rd, pc.wrapping_add(word & 0xffff_f000)),
        // jal
        0x6f => {
            let high = bits(word, 31, 1) << 20 | bits(word, 12, 8) << 12;
            let low = bits(word, 20, 1) << 11 | bits(word, 21, 10) << 1;
            Step::Go(pc.wrapping_add_signed(signed(high | low, 21)))
        }
        // jalr
        0x67 => match values.get(&rs1) {
            Some(base) => Step::Go(base.wrapping_add_signed(immediate)),
            None if rd == ZERO && matches!(rs1, RA | T0) => Step::Nothing,
            None => Step::GoTo,
        },
        // Whatever else has a destination: stores and branches have none.
        0x23 | 0x63 | 0x73 | 0x0f => Step::Nothing,
        _ if rd == SP => Step::UnknownStack,
        _ => Step::Nothing,
    }
}

#[derive(Default)]
struct Function {
    name: String,
    end: u32,
    /// Bytes that it takes itself, at most.
    frame: u32,
    calls: BTreeSet<u32>,
    /// It goes to where a register says.
    goes_anywhere: bool,
}

/// The functions of a program by address.
struct Program {
    functions: BTreeMap<u32, Function>,
    /// Those whose address lies in the program's constants.
    named: BTreeSet<u32>,
}

impl Program {
    fn read(file: &object::File) -> Result<Self, String> {
        let mut functions = BTreeMap::new();
        for symbol in file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() != 0)
        {
            let at = symbol.address() as u32;
            let name = symbol.name().unwrap_or_default().to_owned();
            let end = at + symbol.size() as u32;
            functions.insert(
                at,
                Function {
                    name,
                    end,
                    ..Function::default()
                },
            );
        }
        let (mut named, mut text) = (BTreeSet::new(), None);
        for section in file.sections() {
            let data = section.data().map_err(|e| e.to_string())?;
            match section.kind() {
                SectionKind::Text => text = Some((section.address() as u32, data)),
                SectionKind::ReadOnlyData | SectionKind::Data => named.extend(
                    data.chunks_exact(4)
                        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                        .filter(|word| functions.contains_key(word)),
                ),
                _ => {}
            }
        }
        let (base, text) = text.ok_or("it has no code")?;
        for (at, function) in &mut functions {
            let from = at.checked_sub(base).map(|from| from as usize);
            let code = from.and_then(|from| text.get(from..from + (function.end - at) as usize));
            function.scan(*at, code.ok_or("a function lies outside of the code")?)?;
        }
        add_saved(&mut functions);
        Ok(Self { functions, named })
    }

    /// Bytes below a function, and the path to them. `open`: the functions on the way to it.
    fn depth(&self, at: u32, open: &mut Vec<u32>, known: &mut BTreeMap<u32, u32>) -> Result<u32, String> {
        if let Some(depth) = known.get(&at) {
            return Ok(*depth);
        }
        let Some(function) = self.functions.get(&at) else {
            return Ok(0); // assembly, which has no frame
        };
        if open.contains(&at) {
            return Err(format!("{} calls itself: its stack has no bound", function.name));
        }
        open.push(at);
        let anywhere = function.goes_anywhere.then_some(&self.named);
        let mut below = 0;
        for callee in function.calls.iter().chain(anywhere.into_iter().flatten()) {
            below = below.max(self.depth(*callee, open, known)?);
        }
        open.pop();
        known.insert(at, function.frame + below);
        Ok(function.frame + below)
    }
}

/// What a routine that saves registers puts on the stack is its caller's frame: it stays when the routine returns.
fn add_saved(functions: &mut BTreeMap<u32, Function>) {
    let saves = functions
        .iter()
        .filter(|(_, function)| function.name.starts_with(SAVE))
        .map(|(at, function)| (*at, function.frame));
    let saves: BTreeMap<u32, u32> = saves.collect();
    for function in functions.values_mut() {
        let saved = function.calls.iter().filter_map(|callee| saves.get(callee));
        function.frame += saved.sum::<u32>();
        function.calls.retain(|callee| !saves.contains_key(callee));
    }
}

impl Function {
    fn scan(&mut self, start: u32, code: &[u8]) -> Result<(), String> {
        let (mut at, mut values) = (0, BTreeMap::new());
        while let Some(half) = code.get(at..at + 2) {
            let pc = start + at as u32;
            let word = u32::from(u16::from_le_bytes([half[0], half[1]]));
            let step = match code.get(at + 2..at + 4) {
                Some(high) if word & 3 == 3 => {
                    at += 4;
                    long(
                        word | u32::from(u16::from_le_bytes([high[0], high[1]])) << 16,
                        pc,
                        &values,
                    )
                }
                _ => {
                    at += 2;
                    short(word, pc)
                }
            };
            // An address is used in the instruction behind the one that makes it.
            values.clear();
            match step {
                Step::Stack(bytes) if bytes < 0 => self.frame += bytes.unsigned_abs(),
                Step::UnknownStack => {
                    return Err(format!("{} moves its stack by what is not known", self.name));
                }
                Step::Go(to) if !(start..self.end).contains(&to) || to == start => {
                    self.calls.insert(to);
                }
                Step::GoTo => self.goes_anywhere = true,
                Step::Value(register, value) => {
                    values.insert(register, value);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Bytes that the function of this name and all that it calls take at most.
pub fn depth(file: &object::File, root: &str) -> Result<u32, String> {
    let program = Program::read(file)?;
    let found = program
        .functions
        .iter()
        .find(|(_, function)| function.name == root);
    let (at, _) = found.ok_or_else(|| format!("it has no function {root}"))?;
    program.depth(*at, &mut Vec::new(), &mut BTreeMap::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings as an assembler writes them.
    #[test]
    fn instructions_are_what_they_are() {
        let none = BTreeMap::new();
        assert_eq!(short(0x1101, 0), Step::Stack(-32), "c.addi sp, -32");
        assert_eq!(short(0x7139, 0), Step::Stack(-64), "c.addi16sp sp, -64");
        assert_eq!(short(0x6161, 0), Step::Stack(80), "c.addi16sp sp, 80");
        assert_eq!(short(0x8082, 0), Step::Nothing, "ret");
        assert_eq!(short(0x9782, 0), Step::GoTo, "c.jalr a5");
        assert_eq!(short(0x8782, 0), Step::GoTo, "c.jr a5");
        assert_eq!(short(0xa001, 64), Step::Go(64), "c.j .");
        assert_eq!(short(0xbfd5, 64), Step::Go(52), "c.j .-12");
        assert_eq!(
            long(0xef01_0113, 0, &none),
            Step::Stack(-272),
            "addi sp, sp, -272"
        );
        assert_eq!(long(0x4051_0133, 0, &none), Step::UnknownStack, "sub sp, sp, t0");
        let far = BTreeMap::from([(13, (-598_i32).cast_unsigned())]);
        assert_eq!(
            long(0xdaa0_0693, 0, &none),
            Step::Value(13, far[&13]),
            "li a3, -598"
        );
        assert_eq!(
            long(0x2026_e133, 0, &far),
            Step::Stack(-4784),
            "sh3add sp, a3, sp"
        );
        assert_eq!(
            long(0x2026_e133, 0, &none),
            Step::UnknownStack,
            "of what is not known"
        );
        assert_eq!(
            short(0x56fd, 0),
            Step::Value(13, (-1_i32).cast_unsigned()),
            "c.li a3, -1"
        );
        assert_eq!(long(0x0080_00ef, 64, &none), Step::Go(72), "jal ra, .+8");
        assert_eq!(
            long(0x0000_1097, 64, &none),
            Step::Value(RA, 0x1040),
            "auipc ra, 1"
        );
        assert_eq!(
            long(0x0040_80e7, 68, &BTreeMap::from([(RA, 0x1040)])),
            Step::Go(0x1044),
            "jalr ra, 4(ra)"
        );
        assert_eq!(long(0x0007_80e7, 0, &none), Step::GoTo, "jalr ra, 0(a5)");
    }

    /// A routine that saves registers leaves its frame to whoever calls it, and to nobody below.
    #[test]
    fn saved_registers_are_in_the_frame_of_the_caller() {
        let function = |name: &str, frame, calls: &[u32]| Function {
            name: name.to_owned(),
            frame,
            calls: calls.iter().copied().collect(),
            ..Function::default()
        };
        let mut functions = BTreeMap::from([
            (0, function("run", 16, &[8, 24])),
            (8, function("work", 32, &[16, 24])),
            (16, function("leaf", 48, &[])),
            (24, function("__riscv_save_3", 16, &[])),
        ]);
        add_saved(&mut functions);
        let frames: Vec<u32> = functions.values().map(|function| function.frame).collect();
        assert_eq!(frames, [32, 48, 48, 16]);
        let program = Program {
            functions,
            named: BTreeSet::new(),
        };
        assert_eq!(program.depth(0, &mut Vec::new(), &mut BTreeMap::new()), Ok(128));
    }
}
