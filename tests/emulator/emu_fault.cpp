// emu_fault.cpp - faults of kernels as lines of text, with their places in the source. Nothing is
// printed unless EMU_PRINT is set.
#include "emu_run.h"

#include <dlfcn.h>
#include <map>
#include <mutex>
#include <set>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <ucontext.h>

static std::mutex mu; // guards what follows
static std::string text;
static std::set<std::string> told; // of this launch: place and kind of what was found
static int n_fault, worst_kind;
static const char *kernel_name = "?";

void emu_fault_begin(const emu_launch *l)
{
    std::lock_guard<std::mutex> lock(mu);
    told.clear();
    n_fault = 0;
    worst_kind = EMU_FAULT_NONE;
    kernel_name = l->kernel->name;
}

bool emu_fault_is_full(void)
{
    std::lock_guard<std::mutex> lock(mu);
    return n_fault >= EMU_MAX_FAULT;
}

int emu_fault_kind(void)
{
    std::lock_guard<std::mutex> lock(mu);
    return worst_kind;
}

const char *emu_fault_text(void)
{
    return text.c_str();
}

void emu_fault_clear(void)
{
    std::lock_guard<std::mutex> lock(mu);
    text.clear();
}

static std::string where_text(void)
{
    if (!emu_now) return "";
    char where[128];
    const uint3 b = emu_now->block, t = emu_now->thread;
    snprintf(where, sizeof where, " (block %u,%u,%u thread %u,%u,%u)", b.x, b.y, b.z, t.x, t.y,
             t.z);
    return where;
}

// One line for each place and kind of fault: what differs between them are addresses and numbers.
void emu_fault_note(int kind, const char *file, int line, const char *what)
{
    std::lock_guard<std::mutex> lock(mu);
    const char *slash = file ? strrchr(file, '/') : nullptr;
    std::string place = slash ? slash + 1 : file ? file : "?";
    place += ":" + std::to_string(line) + ": ";
    if (kind > worst_kind) worst_kind = kind;
    if (!told.insert(place + std::string(what).substr(0, 16)).second) return;
    n_fault++;
    std::string row = std::string(kernel_name) + ": " + place + what + where_text() + "\n";
    text += row;
    if (getenv("EMU_PRINT")) fputs(row.c_str(), stderr);
}

void emu_fail_at(const char *file, int line, const char *format, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    emu_fault_note(EMU_FAULT_LAUNCH, file, line, what);
}

// ---- the line of an instruction, asked of addr2line, which every toolchain has

struct emu_place {
    std::string file;
    int line;
};

// Headers whose functions stand for one instruction: the line that counts is that of the caller.
static bool is_helper(const std::string &file)
{
    size_t slash = file.rfind('/');
    std::string name = slash == std::string::npos ? file : file.substr(slash + 1);
    return name == "ptx.h" || name.compare(0, 4, "emu_") == 0 || name.compare(0, 5, "cuda_") == 0;
}

static emu_place ask_tool(uintptr_t pc)
{
    Dl_info info;
    emu_place found = {"?", 0};
    if (!dladdr((void *)pc, &info)) return found;
    char command[4400], row[4400];
    snprintf(command, sizeof command, "addr2line -i -e '%s' %#lx 2>/dev/null", info.dli_fname,
             (unsigned long)(pc - (uintptr_t)info.dli_fbase));
    FILE *p = popen(command, "r");
    if (!p) return found;
    for (bool done = false; fgets(row, sizeof row, p);) { // the innermost function comes first
        char *colon = strrchr(row, ':');
        if (done || !colon) continue;
        *colon = 0;
        found = {row, atoi(colon + 1)};
        done = !is_helper(found.file);
    }
    pclose(p);
    return found;
}

void emu_line_of(uintptr_t pc, const char **file, int *line)
{
    static std::mutex line_mu;
    static std::map<uintptr_t, emu_place> known;
    std::lock_guard<std::mutex> lock(line_mu);
    auto at = known.find(pc);
    if (at == known.end()) at = known.emplace(pc, ask_tool(pc)).first;
    *file = at->second.file.c_str();
    *line = at->second.line;
}

// ---- an address that is not there ends the launch, not the program: the signal's handler lets the
// fiber go on in a function that notes the fault and leaves the block.

static std::mutex signal_mu;
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
    std::lock_guard<std::mutex> lock(signal_mu);
    if (n_user++ > 0) return;
    struct sigaction a = {};
    a.sa_sigaction = handle;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &a, &old_segv);
    sigaction(SIGBUS, &a, &old_bus);
}

void emu_signal_end(void)
{
    std::lock_guard<std::mutex> lock(signal_mu);
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
