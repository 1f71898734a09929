//! Copies and fills of memory for a processor that reaches words at any address: Rust's own go by bytes where two
//! places are not aligned alike, as rows and commands mostly are not.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.memcpy,"ax"
    .globl memcpy
    .type memcpy,@function
memcpy:
    mv t0, a0
    li t1, 16
1:  bltu a2, t1, 2f
    lw a3, 0(a1)
    lw a4, 4(a1)
    lw a5, 8(a1)
    lw a6, 12(a1)
    sw a3, 0(t0)
    sw a4, 4(t0)
    sw a5, 8(t0)
    sw a6, 12(t0)
    addi a1, a1, 16
    addi t0, t0, 16
    addi a2, a2, -16
    j 1b
2:  li t1, 4
3:  bltu a2, t1, 4f
    lw a3, 0(a1)
    sw a3, 0(t0)
    addi a1, a1, 4
    addi t0, t0, 4
    addi a2, a2, -4
    j 3b
4:  beqz a2, 5f
    lbu a3, 0(a1)
    sb a3, 0(t0)
    addi a1, a1, 1
    addi t0, t0, 1
    addi a2, a2, -1
    j 4b
5:  ret
    .size memcpy, . - memcpy

    .section .text.memset,"ax"
    .globl memset
    .type memset,@function
memset:
    # Mostly it is zeros.
    beqz a1, 1f
    andi a1, a1, 0xff
    slli a3, a1, 8
    or a1, a1, a3
    slli a3, a1, 16
    or a1, a1, a3
1:  mv t0, a0
    add a2, a2, a0
    # Behind the last place at which so many bytes fit.
    addi a3, a2, -63
    bgeu t0, a3, 3f
2:  sw a1, 0(t0)
    sw a1, 4(t0)
    sw a1, 8(t0)
    sw a1, 12(t0)
    sw a1, 16(t0)
    sw a1, 20(t0)
    sw a1, 24(t0)
    sw a1, 28(t0)
    sw a1, 32(t0)
    sw a1, 36(t0)
    sw a1, 40(t0)
    sw a1, 44(t0)
    sw a1, 48(t0)
    sw a1, 52(t0)
    sw a1, 56(t0)
    sw a1, 60(t0)
    addi t0, t0, 64
    bltu t0, a3, 2b
3:  addi a3, a2, -7
    bgeu t0, a3, 5f
4:  sw a1, 0(t0)
    sw a1, 4(t0)
    addi t0, t0, 8
    bltu t0, a3, 4b
5:  addi a3, a2, -3
    bgeu t0, a3, 7f
    sw a1, 0(t0)
    addi t0, t0, 4
7:  bgeu t0, a2, 9f
8:  sb a1, 0(t0)
    addi t0, t0, 1
    bltu t0, a2, 8b
9:  ret
    .size memset, . - memset
"#
);
