//! x86-64, System V calling convention.

use std::arch::naked_asm;

use super::resolve;

/// Exports `$name`, which jumps through slot `$index`.
macro_rules! trampoline {
    ($name:ident, $index:expr) => {
        // SAFETY: a tail call that leaves the stack and all registers but r11 as the caller set them.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "mov r11d, {index}",
                "jmp qword ptr [rip + {slots} + 8 * {index}]",
                ".cfi_endproc",
                // A jump across a 32-byte boundary costs a cycle or more, so trampolines start at multiples of 16.
                ".p2align 4",
                index = const $index,
                slots = sym SLOTS,
            )
        }
    };
}
pub(super) use trampoline;

/// Resolves the function of row r11 and jumps to it. Keeps every register that may hold an argument: rdi, rsi, rdx,
/// rcx, r8, r9, xmm0-7, rax (al counts a variadic call's vector registers), r10 (static chain). No cuDNN function takes
/// vectors wider than xmm.
// SAFETY: restores every register that it changes except r11, then makes a tail call.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn first_call() {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 192",
        "movaps [rsp], xmm0",
        "movaps [rsp + 16], xmm1",
        "movaps [rsp + 32], xmm2",
        "movaps [rsp + 48], xmm3",
        "movaps [rsp + 64], xmm4",
        "movaps [rsp + 80], xmm5",
        "movaps [rsp + 96], xmm6",
        "movaps [rsp + 112], xmm7",
        "mov [rsp + 128], rdi",
        "mov [rsp + 136], rsi",
        "mov [rsp + 144], rdx",
        "mov [rsp + 152], rcx",
        "mov [rsp + 160], r8",
        "mov [rsp + 168], r9",
        "mov [rsp + 176], rax",
        "mov [rsp + 184], r10",
        "mov edi, r11d",
        "call {resolve}",
        "mov r11, rax",
        "movaps xmm0, [rsp]",
        "movaps xmm1, [rsp + 16]",
        "movaps xmm2, [rsp + 32]",
        "movaps xmm3, [rsp + 48]",
        "movaps xmm4, [rsp + 64]",
        "movaps xmm5, [rsp + 80]",
        "movaps xmm6, [rsp + 96]",
        "movaps xmm7, [rsp + 112]",
        "mov rdi, [rsp + 128]",
        "mov rsi, [rsp + 136]",
        "mov rdx, [rsp + 144]",
        "mov rcx, [rsp + 152]",
        "mov r8, [rsp + 160]",
        "mov r9, [rsp + 168]",
        "mov rax, [rsp + 176]",
        "mov r10, [rsp + 184]",
        "leave",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "jmp r11",
        ".cfi_endproc",
        resolve = sym resolve,
    )
}
