/* Both ends of a call that looks at every register. With CALLEE: cudnnSoftmaxForward, which stores the registers, and
 * cudnnSoftmaxBackward, which returns their address. Without: call_with(in, function), which loads all of `in` and
 * calls `function`. Layout: struct registers of fake_cudnn.h. */
    .section .note.GNU-stack, "", %progbits
    .text

#if defined(__x86_64__) && defined(CALLEE)
    .globl cudnnSoftmaxForward
    .type cudnnSoftmaxForward, @function
cudnnSoftmaxForward:
    lea seen(%rip), %r11
    mov %rdi, 0(%r11)
    mov %rsi, 8(%r11)
    mov %rdx, 16(%r11)
    mov %rcx, 24(%r11)
    mov %r8, 32(%r11)
    mov %r9, 40(%r11)
    mov %rax, 48(%r11)
    mov %r10, 56(%r11)
    mov %rbx, 64(%r11)
    mov %rbp, 72(%r11)
    mov %r12, 80(%r11)
    mov %r13, 88(%r11)
    mov %r14, 96(%r11)
    mov %r15, 104(%r11)
    mov 8(%rsp), %rax
    mov %rax, 112(%r11)
    mov 16(%rsp), %rax
    mov %rax, 120(%r11)
    movups %xmm0, 128(%r11)
    movups %xmm1, 144(%r11)
    movups %xmm2, 160(%r11)
    movups %xmm3, 176(%r11)
    movups %xmm4, 192(%r11)
    movups %xmm5, 208(%r11)
    movups %xmm6, 224(%r11)
    movups %xmm7, 240(%r11)
    ret

    .globl cudnnSoftmaxBackward
    .type cudnnSoftmaxBackward, @function
cudnnSoftmaxBackward:
    lea seen(%rip), %rax
    ret
    .local seen
    .comm seen, 256, 16

#elif defined(__x86_64__)
    .globl call_with
    .type call_with, @function
call_with:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    sub $8, %rsp
    push 120(%rdi)
    push 112(%rdi)
    mov %rsi, %r11
    mov 8(%rdi), %rsi
    mov 16(%rdi), %rdx
    mov 24(%rdi), %rcx
    mov 32(%rdi), %r8
    mov 40(%rdi), %r9
    mov 48(%rdi), %rax
    mov 56(%rdi), %r10
    mov 64(%rdi), %rbx
    mov 72(%rdi), %rbp
    mov 80(%rdi), %r12
    mov 88(%rdi), %r13
    mov 96(%rdi), %r14
    mov 104(%rdi), %r15
    movups 128(%rdi), %xmm0
    movups 144(%rdi), %xmm1
    movups 160(%rdi), %xmm2
    movups 176(%rdi), %xmm3
    movups 192(%rdi), %xmm4
    movups 208(%rdi), %xmm5
    movups 224(%rdi), %xmm6
    movups 240(%rdi), %xmm7
    mov 0(%rdi), %rdi
    call *%r11
    add $24, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret

#elif defined(__aarch64__) && defined(CALLEE)
    .globl cudnnSoftmaxForward
    .type cudnnSoftmaxForward, @function
cudnnSoftmaxForward:
    adrp x9, seen
    add x9, x9, :lo12:seen
    stp x0, x1, [x9]
    stp x2, x3, [x9, #16]
    stp x4, x5, [x9, #32]
    stp x6, x7, [x9, #48]
    stp x8, x19, [x9, #64]
    stp x20, x21, [x9, #80]
    stp x22, x23, [x9, #96]
    stp x24, x25, [x9, #112]
    stp x26, x27, [x9, #128]
    stp x28, x29, [x9, #144]
    ldp x10, x11, [sp]
    stp x10, x11, [x9, #160]
    stp q0, q1, [x9, #176]
    stp q2, q3, [x9, #208]
    stp q4, q5, [x9, #240]
    stp q6, q7, [x9, #272]
    ret

    .globl cudnnSoftmaxBackward
    .type cudnnSoftmaxBackward, @function
cudnnSoftmaxBackward:
    adrp x0, seen
    add x0, x0, :lo12:seen
    ret
    .local seen
    .comm seen, 304, 16

#elif defined(__aarch64__)
    .globl call_with
    .type call_with, @function
call_with:
    stp x29, x30, [sp, #-112]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    mov x9, x0
    mov x10, x1
    ldp x11, x12, [x9, #160]
    stp x11, x12, [sp, #-16]!
    ldp x0, x1, [x9]
    ldp x2, x3, [x9, #16]
    ldp x4, x5, [x9, #32]
    ldp x6, x7, [x9, #48]
    ldp x8, x19, [x9, #64]
    ldp x20, x21, [x9, #80]
    ldp x22, x23, [x9, #96]
    ldp x24, x25, [x9, #112]
    ldp x26, x27, [x9, #128]
    ldp x28, x29, [x9, #144]
    ldp q0, q1, [x9, #176]
    ldp q2, q3, [x9, #208]
    ldp q4, q5, [x9, #240]
    ldp q6, q7, [x9, #272]
    blr x10
    add sp, sp, #16
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp x29, x30, [sp], #112
    ret
#endif
