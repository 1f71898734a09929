//! What the compiler calls at the beginning and the end of functions to keep the registers that are their callers' own
//! (`+save-restore`): one copy instead of one in each function. Registers and places are those of the RISC-V ABI: the
//! number in a name counts the s registers, which lie below the return address, and frames are multiples of 16 bytes.

use core::arch::global_asm;

global_asm!(
    r#"
    .macro frame_label what, number
    .globl __riscv_\what\()_\number
    .type __riscv_\what\()_\number, @function
    .size __riscv_\what\()_\number, 1f - __riscv_\what\()_\number
__riscv_\what\()_\number:
    .endm

    # Called with t0 for the return address. Of registers that a caller does not need kept nothing is lost but a cycle.
    .section .text.frames,"ax"
1:
    frame_label save, 0
    frame_label save, 1
    frame_label save, 2
    frame_label save, 3
    addi sp, sp, -16
    sw s2, 0(sp)
    sw s1, 4(sp)
    sw s0, 8(sp)
    sw ra, 12(sp)
    jr t0
1:
    frame_label save, 4
    frame_label save, 5
    frame_label save, 6
    frame_label save, 7
    addi sp, sp, -32
    sw s6, 0(sp)
    sw s5, 4(sp)
    sw s4, 8(sp)
    sw s3, 12(sp)
    sw s2, 16(sp)
    sw s1, 20(sp)
    sw s0, 24(sp)
    sw ra, 28(sp)
    jr t0
1:
    frame_label save, 8
    frame_label save, 9
    frame_label save, 10
    frame_label save, 11
    addi sp, sp, -48
    sw s10, 0(sp)
    sw s9, 4(sp)
    sw s8, 8(sp)
    sw s7, 12(sp)
    sw s6, 16(sp)
    sw s5, 20(sp)
    sw s4, 24(sp)
    sw s3, 28(sp)
    sw s2, 32(sp)
    sw s1, 36(sp)
    sw s0, 40(sp)
    sw ra, 44(sp)
    jr t0
1:
    frame_label save, 12
    addi sp, sp, -64
    sw s11, 12(sp)
    sw s10, 16(sp)
    sw s9, 20(sp)
    sw s8, 24(sp)
    sw s7, 28(sp)
    sw s6, 32(sp)
    sw s5, 36(sp)
    sw s4, 40(sp)
    sw s3, 44(sp)
    sw s2, 48(sp)
    sw s1, 52(sp)
    sw s0, 56(sp)
    sw ra, 60(sp)
    jr t0
1:
    # Each goes on to the next one, and returns to whom the frame belongs.
    frame_label restore, 3
    lw s2, 0(sp)
    frame_label restore, 2
    lw s1, 4(sp)
    frame_label restore, 1
    lw s0, 8(sp)
    frame_label restore, 0
    lw ra, 12(sp)
    addi sp, sp, 16
    ret
1:
    frame_label restore, 7
    lw s6, 0(sp)
    frame_label restore, 6
    lw s5, 4(sp)
    frame_label restore, 5
    lw s4, 8(sp)
    frame_label restore, 4
    lw s3, 12(sp)
    lw s2, 16(sp)
    lw s1, 20(sp)
    lw s0, 24(sp)
    lw ra, 28(sp)
    addi sp, sp, 32
    ret
1:
    frame_label restore, 11
    lw s10, 0(sp)
    frame_label restore, 10
    lw s9, 4(sp)
    frame_label restore, 9
    lw s8, 8(sp)
    frame_label restore, 8
    lw s7, 12(sp)
    lw s6, 16(sp)
    lw s5, 20(sp)
    lw s4, 24(sp)
    lw s3, 28(sp)
    lw s2, 32(sp)
    lw s1, 36(sp)
    lw s0, 40(sp)
    lw ra, 44(sp)
    addi sp, sp, 48
    ret
1:
    frame_label restore, 12
    lw s11, 12(sp)
    lw s10, 16(sp)
    lw s9, 20(sp)
    lw s8, 24(sp)
    lw s7, 28(sp)
    lw s6, 32(sp)
    lw s5, 36(sp)
    lw s4, 40(sp)
    lw s3, 44(sp)
    lw s2, 48(sp)
    lw s1, 52(sp)
    lw s0, 56(sp)
    lw ra, 60(sp)
    addi sp, sp, 64
    ret
1:
"#
);
