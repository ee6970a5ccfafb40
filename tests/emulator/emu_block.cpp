// emu_block.cpp - a block: its fibers take turns. One that waits gives its turn to the next that can
// run, of its own warp first, so that operations of a warp complete soon.
#include "emu_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>

__thread emu_where *emu_now;
__thread emu_worker *emu_mine;

static emu_fiber *running(void)
{
    return (emu_fiber *)emu_now;
}

// ---- fibers: a stack, and a switch that saves what a call preserves

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

extern "C" EMU_API void emu_fiber_switch(void **from, void *to);

static char *make_stack(void)
{
    void *p = mmap(nullptr, EMU_STACK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    mprotect(p, GUARD_BYTES, PROT_NONE);
    return (char *)p;
}

static void begin_fiber(emu_fiber *f, void (*body)(void))
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

// ---- whose turn it is

static uint32_t random_u32(emu_order *o)
{
    o->random = o->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(o->random >> 33);
}

static unsigned pick_lane(emu_worker *w, uint32_t ready, unsigned last)
{
    if (w->order.kind == 0) {
        uint32_t higher = last < 31 ? ready & ~0u << (last + 1) : 0;
        return (unsigned)__builtin_ctz(higher ? higher : ready);
    }
    if (w->order.kind == 1) {
        uint32_t lower = ready & ((1u << last) - 1);
        return 31 - (unsigned)__builtin_clz(lower ? lower : ready);
    }
    for (unsigned k = random_u32(&w->order) % (unsigned)__builtin_popcount(ready); k > 0; k--)
        ready &= ready - 1;
    return (unsigned)__builtin_ctz(ready);
}

static emu_fiber *pick_next(emu_worker *w)
{
    const unsigned n_warp = (w->n + 31) / 32;
    const unsigned here = emu_now ? emu_now->i_thread / 32 : w->order.kind == 1 ? n_warp - 1 : 0;
    const unsigned start = w->order.kind == 2 ? random_u32(&w->order) % n_warp : here;
    for (unsigned i = 0; i < n_warp; i++) {
        unsigned warp = (w->order.kind == 1 ? start + n_warp - i : start + i) % n_warp;
        if (!w->ready[warp]) continue;
        unsigned none = w->order.kind == 1 ? 0 : 31;
        unsigned last = emu_now && warp == here ? emu_now->i_thread & 31 : none;
        return &w->fiber[32 * warp + pick_lane(w, w->ready[warp], last)];
    }
    return nullptr;
}

static void set_ready(emu_worker *w, emu_fiber *f)
{
    f->state = EMU_READY;
    w->ready[f->where.i_thread / 32] |= 1u << (f->where.i_thread & 31);
}

static void set_waiting(emu_worker *w, emu_fiber *f, emu_state state)
{
    f->state = state;
    w->ready[f->where.i_thread / 32] &= ~(1u << (f->where.i_thread & 31));
}

// ---- a block that is stuck

static bool waits_alike(const emu_fiber *a, const emu_fiber *b)
{
    return a->state == b->state && a->file == b->file && a->line == b->line && a->mask == b->mask;
}

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : nullptr;
    return slash ? slash + 1 : path ? path : "?";
}

static std::string waiters_text(const emu_worker *w)
{
    std::string text = "threads wait for each other:";
    for (unsigned i = 0, end; i < w->n; i = end) {
        const emu_fiber *f = &w->fiber[i];
        for (end = i + 1; end < w->n && waits_alike(f, &w->fiber[end]);) end++;
        char row[160];
        if (f->state == EMU_ENDED)
            snprintf(row, sizeof row, " %u to %u have ended;", i, end - 1);
        else if (f->state == EMU_AT_BARRIER)
            snprintf(row, sizeof row, " %u to %u are at the barrier of %s:%d;", i, end - 1,
                     base_name(f->file), f->line);
        else
            snprintf(row, sizeof row, " %u to %u are in a warp operation at %s:%d, mask %08x;", i,
                     end - 1, base_name(f->file), f->line, f->mask);
        text += row;
        if (text.size() > 800) break;
    }
    text.pop_back();
    return text;
}

static void report_stuck(emu_worker *w)
{
    for (unsigned i = 0; i < w->n; i++) {
        emu_fiber *f = &w->fiber[i];
        if (f->state == EMU_ENDED) continue;
        emu_now = &f->where;
        emu_fault_note(EMU_FAULT_LAUNCH, f->file, f->line, waiters_text(w).c_str());
        return;
    }
}

// Gives the turn to the next, or leaves the block when there is none.
static void give_turn(emu_worker *w, emu_fiber *f)
{
    emu_fiber *to = w->abandoned ? nullptr : pick_next(w);
    if (to == f) return;
    if (!to && w->n_live > 0 && !w->abandoned) report_stuck(w);
    emu_now = to ? &to->where : nullptr;
    emu_fiber_switch(&f->sp, to ? to->sp : w->main_sp);
}

void emu_block_abandon(void)
{
    emu_fiber *f = running();
    emu_mine->abandoned = true;
    give_turn(emu_mine, f);
    abort(); // nobody switches back
}

// ---- barriers

static void compare_places(const emu_fiber *a, const emu_fiber *b)
{
    if (a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0)) return;
    emu_fail_at(b->file, b->line, "thread %u is at this barrier, thread %u at that of %s:%d",
                b->where.i_thread, a->where.i_thread, base_name(a->file), a->line);
}

void emu_barrier(const char *file, int line)
{
    emu_worker *w = emu_mine;
    emu_fiber *f = running();
    f->file = file, f->line = line, f->mask = 0;
    set_waiting(w, f, EMU_AT_BARRIER);
    if (w->n_live < w->n) {
        emu_fail_at(file, line, "a barrier of the whole block, of which %u threads have ended",
                    w->n - w->n_live);
        emu_block_abandon();
    }
    if (++w->n_arrived == w->n) {
        for (unsigned i = 0; i < w->n; i++) {
            compare_places(&w->fiber[0], &w->fiber[i]);
            set_ready(w, &w->fiber[i]);
        }
        w->n_arrived = 0;
        emu_look_barrier();
    }
    give_turn(w, f);
}

// ---- operations of a warp

static unsigned lanes_of(const emu_worker *w, unsigned warp)
{
    unsigned n = w->n - 32 * warp;
    return n < 32 ? (1u << n) - 1 : ~0u;
}

unsigned emu_warp_active(void)
{
    unsigned warp = emu_now->i_thread / 32, active = 0;
    for (unsigned i = 32 * warp; i < emu_mine->n && i < 32 * warp + 32; i++)
        if (emu_mine->fiber[i].state != EMU_ENDED) active |= 1u << (i & 31);
    return active;
}

// Whether every lane of the mask is there, with the same operation.
static bool have_met(emu_worker *w, const emu_fiber *me, void **args)
{
    const unsigned mine = 1u << (me->where.i_thread & 31);
    if (me->mask & ~mine & w->ready[me->where.i_thread / 32]) return false;
    emu_fiber *lanes = &w->fiber[me->where.i_thread & ~31u];
    for (unsigned i = 0; i < 32; i++) {
        if (!(me->mask >> i & 1)) continue;
        const emu_fiber *f = &lanes[i];
        if (f->state == EMU_ENDED) {
            emu_fail_at(me->file, me->line, "the mask %08x names lane %u, which has ended",
                        me->mask, i);
            emu_block_abandon();
        }
        if (f->state != EMU_IN_WARP || f->mask != me->mask || f->run != me->run) return false;
        args[i] = f->arg;
    }
    return true;
}

void emu_warp_meet(unsigned mask, emu_warp_run *run, void *arg, const char *file, int line)
{
    emu_worker *w = emu_mine;
    emu_fiber *f = running();
    const unsigned warp = f->where.i_thread / 32, lane = f->where.i_thread & 31;
    if (mask == ~0u) mask = lanes_of(w, warp); // of a block whose last warp is not full
    if (!(mask >> lane & 1) || (mask & ~lanes_of(w, warp)) != 0) {
        emu_fail_at(file, line,
                    "the mask %08x of lane %u does not name it, or names lanes that are not there",
                    mask, lane);
        emu_block_abandon();
    }
    f->file = file, f->line = line, f->mask = mask, f->run = run, f->arg = arg;
    f->state = EMU_IN_WARP;
    void *args[32] = {nullptr};
    if (!have_met(w, f, args)) {
        set_waiting(w, f, EMU_IN_WARP);
        give_turn(w, f);
        return;
    }
    run(args, mask);
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1) set_ready(w, &w->fiber[32 * warp + i]);
}

// ---- cp.async: copies are remembered, and done by the wait that asks for them. So a kernel that
// does not wait reads what was there before. They may also be done at once: what they overwrite
// must not be read any more.

void emu_async_copy16(void *dst, const void *src, const char *file, int line)
{
    emu_fiber *f = running();
    if ((uintptr_t)dst % 16 != 0 || (uintptr_t)src % 16 != 0)
        emu_fail_at(file, line, "cp.async from %p to %p, which is not aligned", src, dst);
    f->copies.push_back({(unsigned char *)dst, (const unsigned char *)src, f->n_group, file, line});
    emu_look_access(dst, 16, EMU_WRITE | EMU_AHEAD, file, line);
}

void emu_async_commit(void)
{
    running()->n_group++;
}

void emu_async_wait(int n_left)
{
    emu_fiber *f = running();
    size_t n = 0;
    for (; n < f->copies.size() && f->copies[n].group < f->n_group - n_left; n++) {
        const emu_copy *c = &f->copies[n];
        emu_look_access(c->src, 16, EMU_READ, c->file, c->line);
        emu_look_access(c->dst, 16, EMU_WRITE, c->file, c->line);
        memcpy(c->dst, c->src, 16);
    }
    f->copies.erase(f->copies.begin(), f->copies.begin() + (long)n);
}

// ---- the life of a block

static void fiber_body(void)
{
    emu_worker *w = emu_mine;
    emu_fiber *f = running();
    w->launch->kernel->call(w->launch->arg);
    if (!f->copies.empty())
        emu_fail_at(f->copies[0].file, f->copies[0].line,
                    "the thread ended before this cp.async was waited for");
    set_waiting(w, f, EMU_ENDED);
    w->n_live--;
    give_turn(w, f);
    abort();
}

static uint3 coordinates(unsigned i, const unsigned *n)
{
    return uint3{i % n[0], i / n[0] % n[1], i / n[0] / n[1]};
}

static void start_fibers(emu_worker *w, unsigned i_block)
{
    const unsigned *grid = w->launch->grid, *block = w->launch->block;
    for (unsigned i = 0; i < w->n; i++) {
        emu_fiber *f = &w->fiber[i];
        f->where.thread = coordinates(i, block);
        f->where.block = coordinates(i_block, grid);
        f->where.block_dim = dim3(block[0], block[1], block[2]);
        f->where.grid_dim = dim3(grid[0], grid[1], grid[2]);
        f->where.i_thread = i;
        f->where.i_block = i_block;
        f->file = nullptr, f->line = 0, f->mask = 0;
        f->copies.clear();
        f->n_group = 0;
        begin_fiber(f, fiber_body);
        set_ready(w, f);
    }
}

void emu_block_run(emu_worker *w, unsigned i_block)
{
    for (const emu_range &r : w->shared) memset((void *)r.at, 0xFF, r.n_byte);
    memset(w->dynamic, 0xFF, w->launch->dynamic_bytes);
    memset(w->ready, 0, sizeof w->ready);
    w->n_arrived = 0;
    w->abandoned = false;
    w->n_live = w->n;
    start_fibers(w, i_block);
    emu_look_block(w);
    emu_now = nullptr;
    emu_fiber *first = pick_next(w);
    emu_now = &first->where;
    emu_fiber_switch(&w->main_sp, first->sp);
    emu_now = nullptr;
}
