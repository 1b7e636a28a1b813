//! AArch64, AAPCS64.

use std::arch::naked_asm;

use super::resolve;

/// Exports `$name`, which jumps through slot `$index`.
macro_rules! trampoline {
    ($name:ident, $index:expr) => {
        // SAFETY: a tail call that leaves the stack and all registers but x16 and x17 as the caller set them. The load
        // acquires: after a plain load the callee could read memory as it was before the library was loaded.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "adrp x17, {slots} + 8 * {index}",
                "add x17, x17, :lo12:{slots} + 8 * {index}",
                "ldar x17, [x17]",
                "mov w16, #{index}",
                "br x17",
                ".cfi_endproc",
                index = const $index,
                slots = sym SLOTS,
            )
        }
    };
}
pub(super) use trampoline;

/// Resolves the function of row x16 and jumps to it. Keeps every register that may hold an argument: x0-x7, x8 (address
/// of a returned struct), q0-q7; also the return address in x30.
// SAFETY: restores every register that it changes except x16 and x17, then makes a tail call.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn first_call() {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-224]!",
        ".cfi_def_cfa_offset 224",
        ".cfi_offset x29, -224",
        ".cfi_offset x30, -216",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "str x8, [sp, #80]",
        "stp q0, q1, [sp, #96]",
        "stp q2, q3, [sp, #128]",
        "stp q4, q5, [sp, #160]",
        "stp q6, q7, [sp, #192]",
        "mov w0, w16",
        "bl {resolve}",
        "mov x17, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x2, x3, [sp, #32]",
        "ldp x4, x5, [sp, #48]",
        "ldp x6, x7, [sp, #64]",
        "ldr x8, [sp, #80]",
        "ldp q0, q1, [sp, #96]",
        "ldp q2, q3, [sp, #128]",
        "ldp q4, q5, [sp, #160]",
        "ldp q6, q7, [sp, #192]",
        "ldp x29, x30, [sp], #224",
        ".cfi_def_cfa sp, 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "br x17",
        ".cfi_endproc",
        resolve = sym resolve,
    )
}
