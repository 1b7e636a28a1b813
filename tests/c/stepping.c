/* Runs a first and a second call one instruction at a time, and unwinds the stack at each instruction of the trampoline
 * and of the code that it falls into. Unwinding must reach main from every one of them; otherwise debuggers, profilers
 * and exceptions lose their way there. Does not step into the function that loads the library. x86-64: uses the trap
 * flag. */
#define _GNU_SOURCE
#include "fake_cudnn.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

enum { TRAP_FLAG = 0x100 };

static uintptr_t low, high; /* libucudnn.so's code */
static long steps, lost, calls;
static uintptr_t first_lost, last;
static void *sought;
static unsigned char *breakpoint, below; /* where a call will return, and the byte that int3 replaces there */

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *found) {
    *(int *)found |= _Unwind_FindEnclosingFunction((void *)(_Unwind_GetIP(context) - 1)) == sought;
    return *(int *)found ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static void patch(unsigned char byte) {
    uintptr_t page = (uintptr_t)breakpoint & -4096;
    mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    *breakpoint = byte;
    mprotect((void *)page, 4096, PROT_READ | PROT_EXEC);
}

static void step(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (breakpoint && registers[REG_RIP] == (greg_t)breakpoint + 1) {
        patch(below);
        registers[REG_RIP]--;
        registers[REG_EFL] |= TRAP_FLAG;
        breakpoint = NULL;
    }
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    if (at < low || at >= high) return;
    uintptr_t top = *(uintptr_t *)registers[REG_RSP];
    if (last && top > last && top < last + 8) { /* only a call leaves such an address on the stack */
        breakpoint = (unsigned char *)top;
        below = *breakpoint;
        patch(0xcc);
        registers[REG_EFL] &= ~TRAP_FLAG;
        calls++;
    }
    last = at;
    int found = 0;
    _Unwind_Backtrace(visit, &found);
    steps++;
    if (!found && lost++ == 0) first_lost = at - low;
    (void)signal, (void)info;
}

static int note(struct dl_phdr_info *info, size_t size, void *unused) {
    if (strstr(info->dlpi_name, "libucudnn.so")) {
        for (int i = 0; i < info->dlpi_phnum; i++) {
            const ElfW(Phdr) *part = &info->dlpi_phdr[i];
            if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
                low = info->dlpi_addr + part->p_vaddr;
                high = low + part->p_memsz;
            }
        }
    }
    (void)size, (void)unused;
    return 0;
}

__attribute__((noinline)) static double stepped_call(void) {
    __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" ::"i"(TRAP_FLAG) : "memory", "cc");
    double sum = cudnnOpTensor(2, 10L, 0.5, 20L, 0.25);
    __asm__ volatile("pushfq; andq %0, (%%rsp); popfq" ::"i"(~TRAP_FLAG) : "memory", "cc");
    return sum;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    dl_iterate_phdr(note, NULL);
    sought = (void *)main;
    if (!low || sigaction(SIGTRAP, &action, NULL) != 0) return 1;
    for (int call = 1; call <= 2; call++) {
        steps = lost = calls = last = 0;
        if (stepped_call() != 52) return 1;
        printf("call %d: %ld instructions, %ld calls, lost at %ld, first at %#lx\n", call, steps, calls, lost,
               first_lost);
        if (lost > 0 || calls != (call == 1) || steps < (call == 1 ? 10 : 2)) return 1;
    }
    puts("passed");
    return 0;
}
