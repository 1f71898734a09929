//! Copies to and from memory that the other side of a DMA may touch at the same time. Every access is atomic
//! (relaxed, up to eight bytes), so a race gives mixed data, as on real hardware, and never undefined
//! behaviour.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// Bytes of one line, the unit of the card's DMA writes.
pub const LINE_BYTES: usize = 64;

const WORD: usize = 8;

/// Copies as many whole lines as there are, and says how many bytes that were; where the processor is one that we know
/// no way for, none. The loads and stores are the machine's own: the compiler sees no access that a race could make
/// undefined, and eight bytes that are aligned in what is shared move at once, as they do a word at a time.
///
/// # Safety
/// `src` must be readable and `dst` writable for `len_bytes`, and all concurrent accesses to either must be atomic.
#[inline]
unsafe fn copy_lines(src: *const u8, dst: *mut u8, len_bytes: usize) -> usize {
    let len = len_bytes / LINE_BYTES * LINE_BYTES;
    if len == 0 || cfg!(not(target_arch = "x86_64")) || cfg!(miri) {
        return 0;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller vouches for both ranges; `len` is a multiple of what one turn moves, and not 0. SSE2 is part
    // of every x86-64.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{src} + {at}]",
            "movups {b}, [{src} + {at} + 16]",
            "movups {c}, [{src} + {at} + 32]",
            "movups {d}, [{src} + {at} + 48]",
            "movups [{dst} + {at}], {a}",
            "movups [{dst} + {at} + 16], {b}",
            "movups [{dst} + {at} + 32], {c}",
            "movups [{dst} + {at} + 48], {d}",
            "add {at}, 64",
            "jnz 2b",
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            src = in(reg) src.wrapping_add(len),
            dst = in(reg) dst.wrapping_add(len),
            at = inout(reg) len.wrapping_neg() => _,
            options(nostack),
        );
    }
    let _ = (src, dst);
    len
}

/// Copies out of memory that others may write meanwhile.
///
/// # Safety
/// `src` must be readable for `dst.len()` bytes and not behind a shared reference, and all concurrent accesses to it
/// must be atomic.
pub unsafe fn load_bytes(src: *const u8, dst: &mut [u8]) {
    let head = src.align_offset(WORD).min(dst.len());
    let (head_dst, rest) = dst.split_at_mut(head);
    for (i, byte) in head_dst.iter_mut().enumerate() {
        // SAFETY: i < dst.len(), the caller vouches for the range.
        *byte = unsafe { AtomicU8::from_ptr(src.add(i).cast_mut()).load(Ordering::Relaxed) };
    }
    // SAFETY: as many bytes as `rest` has are behind the head.
    let lines = unsafe { copy_lines(src.wrapping_add(head), rest.as_mut_ptr(), rest.len()) };
    let mut at = head + lines;
    let mut words = rest[lines..].chunks_exact_mut(WORD);
    for word in &mut words {
        // SAFETY: src + at is 8-byte aligned after the head, and inside the caller's range.
        let value = unsafe { AtomicU64::from_ptr(src.add(at).cast_mut().cast()).load(Ordering::Relaxed) };
        word.copy_from_slice(&value.to_ne_bytes());
        at += WORD;
    }
    for byte in words.into_remainder() {
        // SAFETY: inside the caller's range.
        *byte = unsafe { AtomicU8::from_ptr(src.add(at).cast_mut()).load(Ordering::Relaxed) };
        at += 1;
    }
}

/// Copies into memory that others may read meanwhile.
///
/// # Safety
/// `dst` must be writable for `src.len()` bytes, and all concurrent accesses to it must be atomic.
pub unsafe fn store_bytes(dst: *mut u8, src: &[u8]) {
    let head = dst.align_offset(WORD).min(src.len());
    let (head_src, rest) = src.split_at(head);
    for (i, byte) in head_src.iter().enumerate() {
        // SAFETY: i < src.len(), the caller vouches for the range.
        unsafe { AtomicU8::from_ptr(dst.add(i)).store(*byte, Ordering::Relaxed) };
    }
    // SAFETY: as many bytes as `rest` has are behind the head.
    let lines = unsafe { copy_lines(rest.as_ptr(), dst.wrapping_add(head), rest.len()) };
    let mut at = head + lines;
    let words = rest[lines..].chunks_exact(WORD);
    let tail = words.remainder();
    for word in words {
        let value = u64::from_ne_bytes(word.try_into().unwrap_or_default());
        // SAFETY: dst + at is 8-byte aligned after the head, and inside the caller's range.
        unsafe { AtomicU64::from_ptr(dst.add(at).cast()).store(value, Ordering::Relaxed) };
        at += WORD;
    }
    for byte in tail {
        // SAFETY: inside the caller's range.
        unsafe { AtomicU8::from_ptr(dst.add(at)).store(*byte, Ordering::Relaxed) };
        at += 1;
    }
}

/// Stores the bytes of a 64-byte line whose bit in `strb` is set. The last eight bytes go last and with
/// release order: a reader that sees the owner word of a CQE there (acquire) sees the rest of it, and every
/// earlier line.
///
/// # Safety
/// `dst` must be writable where `strb` is set, and all concurrent accesses to it must be atomic.
pub unsafe fn store_line(dst: *mut u8, line: &[u8; LINE_BYTES], strb: u64) {
    let whole_words = dst.align_offset(WORD) == 0;
    for index in 0..LINE_BYTES / WORD {
        let enables = (strb >> (index * WORD)) as u8;
        let order = if index == LINE_BYTES / WORD - 1 {
            Ordering::Release
        } else {
            Ordering::Relaxed
        };
        let bytes = &line[index * WORD..][..WORD];
        if enables == 0xff && whole_words {
            let value = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            // SAFETY: aligned, and enabled by strb.
            unsafe { AtomicU64::from_ptr(dst.add(index * WORD).cast()).store(value, order) };
            continue;
        }
        if order == Ordering::Release {
            fence(Ordering::Release);
        }
        for (i, byte) in bytes.iter().enumerate().filter(|(i, _)| enables >> i & 1 == 1) {
            // SAFETY: enabled by strb.
            unsafe { AtomicU8::from_ptr(dst.add(index * WORD + i)).store(*byte, Ordering::Relaxed) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_at_every_alignment() {
        for offset in 0..16 {
            for len in (0..40).chain(60..80).chain(190..200) {
                let source: Vec<u8> = (0..len as u8).map(|b| b + 1).collect();
                let mut memory = [0u8; 256];
                // SAFETY: offset + len <= 256, and nobody else has the array.
                unsafe { store_bytes(memory.as_mut_ptr().add(offset), &source) };
                assert_eq!(&memory[offset..offset + len], &source[..]);
                assert!(
                    memory[..offset]
                        .iter()
                        .chain(&memory[offset + len..])
                        .all(|b| *b == 0)
                );
                let mut back = vec![0; len];
                // SAFETY: as above.
                unsafe { load_bytes(memory.as_mut_ptr().add(offset), &mut back) };
                assert_eq!(back, source);
            }
        }
    }

    #[test]
    fn line_honours_byte_enables() {
        let line: [u8; 64] = std::array::from_fn(|i| i as u8 + 1);
        for (offset, strb) in [
            (0, u64::MAX),
            (0, 0xff),
            (8, 0x7f00_0000_0000_ff01),
            (3, u64::MAX - 1),
            (0, 1 << 63),
        ] {
            let mut memory = [0u64; 10];
            // SAFETY: 80 bytes, offset <= 8; nobody else has the array.
            unsafe { store_line(memory.as_mut_ptr().cast::<u8>().add(offset), &line, strb) };
            let bytes: Vec<u8> = memory.iter().flat_map(|w| w.to_ne_bytes()).collect();
            for i in 0..64 {
                let want = if strb >> i & 1 == 1 { line[i] } else { 0 };
                assert_eq!(
                    bytes[offset + i],
                    want,
                    "offset {offset} strobes {strb:#x} byte {i}"
                );
            }
        }
    }
}
