#include "fiber.h"

#include <stdint.h>
#include <string.h>

// A suspended fiber is its stack pointer, which points to the callee-saved registers and the address where the fiber
// goes on. Fibers share the rounding mode.
#if defined(__x86_64__)

#define REGISTERS 6
#define RETURN 6
asm(R"(
    .text
    .globl emulator_switch
    .hidden emulator_switch
    .type emulator_switch, @function
    .balign 16
emulator_switch:
    endbr64
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emulator_switch, . - emulator_switch
)");
// Above the registers: the return address, and the return address that `entry` finds above its frame.
#define FRAME (REGISTERS + 2)

#elif defined(__aarch64__)

#define RETURN 11
asm(R"(
    .text
    .globl emulator_switch
    .hidden emulator_switch
    .type emulator_switch, %function
    .balign 16
emulator_switch:
    hint #34
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size emulator_switch, . - emulator_switch
)");
#define FRAME 20

#else
#error "fibers are written for x86-64 and AArch64"
#endif

namespace emulator {

void *Stacks::begin(size_t number, void (*entry)()) {
    // Each stack's frames begin in a different set of the cache than its neighbours'.
    unsigned char *const top = memory + (number + 1) * stride - number % 61 * 64;
    memset(top - poisoned, 0xff, poisoned);
    void **const frame = reinterpret_cast<void **>(top) - FRAME;
    memset(frame, 0, FRAME * sizeof *frame);
    frame[RETURN] = reinterpret_cast<void *>(entry);
    return frame;
}

} // namespace emulator
