// emu_signal.cpp - an address that is not there ends the launch, not the program: the signal's
// handler lets the fiber go on in a function that notes the fault and leaves the block.
#include "emu_run.h"

#include <mutex>
#include <stdio.h>
#include <ucontext.h>

static std::mutex mu;
static int n_user; // of the handlers
static struct sigaction old_segv, old_bus;
static __thread uintptr_t emu_bad_at, emu_bad_pc;

static void leave_block(void)
{
    const char *file;
    int line;
    char what[128];
    emu_line_of(emu_bad_pc, &file, &line);
    if (emu_fiber_owns((emu_fiber *)emu_now, emu_bad_at))
        snprintf(what, sizeof what, "the thread's stack of %d KB is full", EMU_STACK_BYTES >> 10);
    else if (emu_bad_at == 0)
        snprintf(what, sizeof what, "access at address 0, or at one that is not aligned");
    else
        snprintf(what, sizeof what, "access at %#lx, where there is no memory",
                 (unsigned long)emu_bad_at);
    emu_fault_note(EMU_FAULT_ADDRESS, file, line, what);
    emu_block_abandon();
}

static void handle(int number, siginfo_t *info, void *context)
{
    ucontext_t *u = (ucontext_t *)context;
    if (!emu_now) { // not a kernel's: as if we were not here
        sigaction(number, number == SIGBUS ? &old_bus : &old_segv, nullptr);
        return;
    }
    emu_bad_at = (uintptr_t)info->si_addr;
    emu_bad_pc = (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
    // The fiber's stack is not needed any more; as after a call, it is 8 off a multiple of 16.
    emu_fiber *f = (emu_fiber *)emu_now;
    u->uc_mcontext.gregs[REG_RSP] = (greg_t)((uintptr_t)f->stack + EMU_STACK_BYTES - 128 - 8);
    u->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)leave_block;
}

void emu_signal_begin(void)
{
    std::lock_guard<std::mutex> lock(mu);
    if (n_user++ > 0) return;
    struct sigaction a = {};
    a.sa_sigaction = handle;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &a, &old_segv);
    sigaction(SIGBUS, &a, &old_bus);
}

void emu_signal_end(void)
{
    std::lock_guard<std::mutex> lock(mu);
    if (--n_user > 0) return;
    sigaction(SIGSEGV, &old_segv, nullptr);
    sigaction(SIGBUS, &old_bus, nullptr);
}

// The handler has a stack of its own: a fiber's may be full.
void emu_signal_stack(emu_worker *w, bool on)
{
    stack_t s = {};
    s.ss_sp = w->signal_stack;
    s.ss_size = sizeof w->signal_stack;
    sigaltstack(on ? &s : &w->old_stack, on ? &w->old_stack : nullptr);
}
