// emu_fiber.cpp - a stack and a switch: saves what a call preserves, changes the stack, restores.
#include "emu_run.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { GUARD_BYTES = 4096, N_SAVED = 6 };

__asm__(".text\n"
        ".globl emu_fiber_switch\n"
        ".hidden emu_fiber_switch\n"
        ".type emu_fiber_switch, @function\n"
        "emu_fiber_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n"
        ".size emu_fiber_switch, . - emu_fiber_switch\n");

static char *make_stack(void)
{
    void *p = mmap(nullptr, EMU_STACK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort(); // in a test there is nobody to tell
    mprotect(p, GUARD_BYTES, PROT_NONE);
    return (char *)p;
}

void emu_fiber_begin(emu_fiber *f, void (*body)(void))
{
    if (!f->stack) f->stack = make_stack();
    void **sp = (void **)(f->stack + EMU_STACK_BYTES - 64);
    *--sp = nullptr; // the return address of body, which never returns
    *--sp = (void *)body;
    for (int i = 0; i < N_SAVED; i++) *--sp = nullptr;
    f->sp = sp;
}

bool emu_fiber_owns(const emu_fiber *f, uintptr_t at)
{
    return at - (uintptr_t)f->stack < EMU_STACK_BYTES;
}
