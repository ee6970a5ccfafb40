// emu_look.cpp - looks at every access of a kernel: may it be there, has anybody written what it
// reads, and is it ordered with what others did to the same bytes.
//
// The compiler calls __tsan_read4 and the like for every access of a kernel (-fsanitize=thread; no
// sanitizer's library is linked). Each byte of memory that kernels may touch has a
// cell: the last write and the last read, and when they were made. Two accesses of one byte, one of
// them a write, that nothing orders are a race. Order is that of CUDA: barriers and __syncwarp
// order threads of a block; blocks of a launch are not ordered; launches follow each other.
#include "emu_shadow.h"

#include <algorithm>
#include <stdarg.h>
#include <stdio.h>

// Where an access stands in the source: an instruction, or a place that the caller knows.
struct emu_site {
    uintptr_t pc; // 0: file and line count
    const char *file;
    int line;
};

// ---- vector clocks, as far as a block needs them. Each thread's clock counts the
// synchronisations that it took part in.
//
//   floors     of each thread, the clock at the last barrier of the whole block: all know it
//   lanes      of each thread, what it knows of the lanes of its warp, by __syncwarp

static uint32_t serial = 1, first_of_launch = 2; // 1: the host
static unsigned n_thread;                        // of the block
static uint32_t clocks[EMU_MAX_THREAD], floors[EMU_MAX_THREAD], warp_floors[EMU_MAX_THREAD];
static uint32_t lanes[EMU_MAX_THREAD][32];

void emu_look_launch(void)
{
    first_of_launch = serial + 1;
}

static void begin_clocks(unsigned n)
{
    serial++;
    n_thread = n;
    for (unsigned i = 0; i < n; i++) clocks[i] = 1, floors[i] = warp_floors[i] = 0;
    memset(lanes, 0, n * sizeof lanes[0]);
}

static void tick(unsigned thread)
{
    if (clocks[thread] < EMU_MAX_CLOCK) clocks[thread]++;
}

void emu_look_barrier(void)
{
    for (unsigned t = 0; t < n_thread; t++) {
        floors[t] = clocks[t];
        tick(t);
    }
}

// The lanes of a warp learn what any of them knows.
static void join_lanes(unsigned warp, unsigned mask, unsigned all_lanes)
{
    uint32_t joined[32] = {0};
    for (unsigned i = 0; i < 32; i++)
        for (unsigned l = 0; mask >> i & 1 && l < 32; l++)
            joined[l] = std::max(joined[l], lanes[32 * warp + i][l]);
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1) joined[i] = clocks[32 * warp + i];
    for (unsigned i = 0; i < 32; i++) {
        const unsigned t = 32 * warp + i;
        if (!(mask >> i & 1)) continue;
        memcpy(lanes[t], joined, sizeof joined);
        if (mask == all_lanes) warp_floors[t] = clocks[t];
        tick(t);
    }
}

static bool came_before(emu_stamp s, unsigned thread)
{
    if (s.serial < first_of_launch) return true;
    if (s.serial != serial) return false;
    const unsigned t = emu_stamp_thread(s);
    const uint32_t then = emu_stamp_clock(s);
    if (t == thread || then <= floors[t]) return true;
    return t / 32 == thread / 32 && then <= lanes[thread][t & 31];
}

// Of several readers only the last is known by name. The others read before it did, so what orders
// all of the warp, or of the block, since then orders them.
static bool reads_came_before(emu_stamp s, unsigned thread)
{
    const unsigned kind = emu_stamp_flags(s), t = emu_stamp_thread(s);
    if (s.serial < first_of_launch) return true;
    if (s.serial != serial || kind == EMU_ONE) return came_before(s, thread);
    if (kind == EMU_BLOCKS) return false;
    if (emu_stamp_clock(s) <= floors[t]) return true;
    return kind == EMU_LANES && t / 32 == thread / 32 && emu_stamp_clock(s) <= warp_floors[t];
}

// ---- faults

bool emu_look_checked(void)
{
    return true;
}

static void look_fault(const emu_site &site, int kind, const char *format, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    const char *file = site.file;
    int line = site.line;
    if (site.pc) emu_line_of(site.pc, &file, &line);
    emu_fault_note(kind, file, line, what);
}

// ---- one byte

struct emu_access {
    uintptr_t at;
    unsigned n_byte, me;
    bool writes;
    const emu_site *site;
    const emu_region *region;
};

static void tell_race(const emu_access &a, const char *what, emu_stamp other)
{
    const char *where = a.region->name ? a.region->name : "device memory";
    if (other.serial == serial)
        look_fault(*a.site, EMU_FAULT_LAUNCH, "race in %s: %s by thread %u", where, what,
                   emu_stamp_thread(other));
    else
        look_fault(*a.site, EMU_FAULT_LAUNCH, "race in %s: %s by thread %u of another block", where,
                   what, emu_stamp_thread(other));
}

// Shared memory is the block's own.
static void forget_other_blocks(const emu_access &a, emu_cell *c)
{
    if (!emu_shadow_is_shared(a.region)) return;
    if (c->write.serial != serial) c->write = {};
    if (c->read.serial != serial) c->read = {};
}

static void write_cell(const emu_access &a, emu_cell *c)
{
    forget_other_blocks(a, c);
    if (c->write.serial && !came_before(c->write, a.me))
        tell_race(a, "a write of what was written", c->write);
    if (c->read.serial && !reads_came_before(c->read, a.me))
        tell_race(a, "a write of what was read", c->read);
    c->write = emu_stamp_make(serial, a.me, 0, clocks[a.me]);
}

// How the readers are to be remembered, now that `me` is the last of them.
static unsigned reader_kind(const emu_access &a, emu_stamp last)
{
    if (!last.serial || last.serial < first_of_launch) return EMU_ONE;
    if (last.serial != serial || emu_stamp_flags(last) == EMU_BLOCKS) return EMU_BLOCKS;
    if (emu_stamp_flags(last) == EMU_ONE && emu_stamp_thread(last) == a.me) return EMU_ONE;
    if (reads_came_before(last, a.me)) return EMU_ONE;
    const bool same_warp = emu_stamp_thread(last) / 32 == a.me / 32;
    return same_warp && emu_stamp_flags(last) != EMU_WARPS ? EMU_LANES : EMU_WARPS;
}

static void read_cell(const emu_access &a, emu_cell *c)
{
    forget_other_blocks(a, c);
    if (c->write.serial && !came_before(c->write, a.me))
        tell_race(a, "a read of what was written", c->write);
    c->read = emu_stamp_make(serial, a.me, reader_kind(a, c->read), clocks[a.me]);
}

// ---- one access

static bool is_written(const emu_region *r, size_t i)
{
    if (emu_shadow_is_shared(r)) return r->cells[i].write.serial == serial;
    return r->cells[i].write.serial != 0 || (r->written[i / 8] >> i % 8 & 1);
}

static void check_written(const emu_access &a, size_t first)
{
    const emu_region *r = a.region;
    for (size_t i = first; i < first + a.n_byte; i++) {
        if (is_written(r, i)) continue;
        look_fault(*a.site, EMU_FAULT_LAUNCH,
                   "a read of %s that nobody has written, at byte %zu of %zu",
                   r->name ? r->name : "device memory", i, r->n_byte);
        return;
    }
}

// A write that is not made yet: the cells stay as they are.
static void try_cells(const emu_access &a, const emu_cell *c)
{
    emu_cell past = {};
    for (unsigned i = 0; i < a.n_byte; i++, c++) {
        if (i > 0 && memcmp(c, &past, sizeof past) == 0) continue;
        past = *c;
        emu_cell trial = *c;
        write_cell(a, &trial);
    }
}

// The bytes of a number mostly have the same past; what becomes of the first becomes of them.
static void look_at_cells(const emu_access &a, emu_cell *c)
{
    emu_cell past = {}, present = {};
    for (unsigned i = 0; i < a.n_byte; i++, c++) {
        if (i > 0 && memcmp(c, &past, sizeof past) == 0) {
            *c = present;
            continue;
        }
        past = *c;
        if (a.writes)
            write_cell(a, c);
        else
            read_cell(a, c);
        present = *c;
    }
}

static void tell_outside(const emu_access &a, const emu_region *near)
{
    const char *does = a.writes ? "a write" : "a read";
    if (!near)
        look_fault(*a.site, EMU_FAULT_ADDRESS, "%s of %u bytes at %#lx, outside of all memory",
                   does, a.n_byte, (unsigned long)a.at);
    else
        look_fault(*a.site, EMU_FAULT_ADDRESS, "%s of %u bytes at byte %lu of %s, which has %zu",
                   does, a.n_byte, (unsigned long)(a.at - near->at),
                   near->name ? near->name : "an allocation", near->n_byte);
}

// The kernel's own: its stack, and threadIdx and the like.
static bool is_private(uintptr_t at)
{
    return emu_fiber_owns((emu_fiber *)emu_now, at) ||
           at - (uintptr_t)emu_now < sizeof(emu_where) || at == (uintptr_t)&emu_now;
}

static void look_at(uintptr_t at, unsigned n_byte, int flags, const emu_site &site)
{
    if (!emu_now || is_private(at)) return;
    const bool writes = (flags & EMU_WRITE) != 0;
    if (emu_shadow_in_image(at)) {
        if (writes)
            look_fault(site, EMU_FAULT_LAUNCH, "a write of a variable that is not shared memory");
        return;
    }
    const emu_region *near;
    emu_region *r = emu_shadow_find(at, n_byte, &near);
    emu_access a = {at, n_byte, emu_now->i_thread, writes, &site, r};
    if (!r) {
        tell_outside(a, near);
        return;
    }
    const size_t first = at - r->at;
    if (a.n_byte > r->n_byte - first) a.n_byte = (unsigned)(r->n_byte - first); // of a piece
    if (!writes) check_written(a, first);
    if (flags & EMU_AHEAD) {
        try_cells(a, r->cells + first);
        return;
    }
    look_at_cells(a, r->cells + first);
}

// ---- what the runtime tells

void emu_look_access(const void *at, unsigned n_byte, int flags, const char *file, int line)
{
    look_at((uintptr_t)at, n_byte, flags, emu_site{0, file, line});
}

void emu_look_sync(unsigned mask)
{
    join_lanes(emu_now->i_thread / 32, mask, emu_warp_active());
}

void emu_look_block(const emu_worker *w)
{
    emu_shadow_block(w);
    begin_clocks(w->n);
}

// ---- the functions that the compiler calls where a kernel touches memory: those of
// -fsanitize=thread, and the one of -fsanitize=alignment

// The instruction before the one that the call returns to.
#define CALLER (emu_site{(uintptr_t)__builtin_return_address(0) - 1, nullptr, 0})

extern "C" {

#define EMU_LOOK(name, n, flags)                  \
    EMU_API void name(void *at);                  \
    void name(void *at)                           \
    {                                             \
        look_at((uintptr_t)at, n, flags, CALLER); \
    }
#define EMU_SIZE(n)                                          \
    EMU_LOOK(__tsan_read##n, n, EMU_READ)                    \
    EMU_LOOK(__tsan_unaligned_read##n, n, EMU_READ)          \
    EMU_LOOK(__tsan_volatile_read##n, n, EMU_READ)           \
    EMU_LOOK(__tsan_unaligned_volatile_read##n, n, EMU_READ) \
    EMU_LOOK(__tsan_write##n, n, EMU_WRITE)                  \
    EMU_LOOK(__tsan_unaligned_write##n, n, EMU_WRITE)        \
    EMU_LOOK(__tsan_volatile_write##n, n, EMU_WRITE)         \
    EMU_LOOK(__tsan_unaligned_volatile_write##n, n, EMU_WRITE)
EMU_SIZE(1)
EMU_SIZE(2)
EMU_SIZE(4)
EMU_SIZE(8)
EMU_SIZE(16)

EMU_API void __tsan_init(void);
void __tsan_init(void)
{
}
EMU_API void __tsan_func_entry(void *);
void __tsan_func_entry(void *)
{
}
EMU_API void __tsan_func_exit(void *);
void __tsan_func_exit(void *)
{
}

EMU_API void __tsan_read_range(void *at, unsigned long n);
void __tsan_read_range(void *at, unsigned long n)
{
    look_at((uintptr_t)at, (unsigned)n, EMU_READ, CALLER);
}

EMU_API void __tsan_write_range(void *at, unsigned long n);
void __tsan_write_range(void *at, unsigned long n)
{
    look_at((uintptr_t)at, (unsigned)n, EMU_WRITE, CALLER);
}

EMU_API void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    look_at((uintptr_t)from, (unsigned)n, EMU_READ, CALLER);
    look_at((uintptr_t)to, (unsigned)n, EMU_WRITE, CALLER);
    return memcpy(to, from, n);
}

EMU_API void *__tsan_memset(void *at, int value, size_t n);
void *__tsan_memset(void *at, int value, size_t n)
{
    look_at((uintptr_t)at, (unsigned)n, EMU_WRITE, CALLER);
    return memset(at, value, n);
}

// What the compiler says of a check: the place, the type, the alignment.
struct emu_mismatch {
    const char *file;
    uint32_t line, column;
    const void *type;
    unsigned char log_align, kind;
};

EMU_API void __ubsan_handle_type_mismatch_v1(const emu_mismatch *m, uintptr_t at);
void __ubsan_handle_type_mismatch_v1(const emu_mismatch *m, uintptr_t at)
{
    const unsigned align = 1u << m->log_align;
    if (at % align != 0)
        look_fault(CALLER, EMU_FAULT_ADDRESS, "an access at %#lx, which is not a multiple of %u",
                   (unsigned long)at, align);
}
}
