// emu_look.cpp - looks at every access of a kernel: may it be there, has anybody written what it
// reads, and is it ordered with what others did to the same bytes.
#include "emu_check.h"

#include <stdarg.h>
#include <stdio.h>

bool emu_look_checked(void)
{
    return true;
}

void emu_look_fault(const emu_site &site, int kind, const char *format, ...)
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
    bool writes, atomic;
    const emu_site *site;
    const emu_region *region;
};

static void tell_race(const emu_access &a, const char *what, emu_stamp other)
{
    const char *where = a.region->name ? a.region->name : "device memory";
    if (other.serial == emu_clock_serial())
        emu_look_fault(*a.site, EMU_FAULT_LAUNCH, "race in %s: %s by thread %u", where, what,
                       emu_stamp_thread(other));
    else
        emu_look_fault(*a.site, EMU_FAULT_LAUNCH, "race in %s: %s by thread %u of another block",
                       where, what, emu_stamp_thread(other));
}

// Shared memory is the block's own.
static void forget_other_blocks(const emu_access &a, emu_cell *c)
{
    if (!emu_shadow_is_shared(a.region)) return;
    if (c->write.serial != emu_clock_serial()) c->write = {};
    if (c->read.serial != emu_clock_serial()) c->read = {};
}

static void write_cell(const emu_access &a, emu_cell *c)
{
    forget_other_blocks(a, c);
    const bool both_atomic = a.atomic && (emu_stamp_flags(c->write) & EMU_BY_ATOMIC);
    if (c->write.serial && !both_atomic && !emu_clock_before(c->write, a.me))
        tell_race(a, "a write of what was written", c->write);
    if (c->read.serial && !emu_clock_reads_before(c->read, a.me))
        tell_race(a, "a write of what was read", c->read);
    c->write =
        emu_stamp_make(emu_clock_serial(), a.me, a.atomic ? EMU_BY_ATOMIC : 0, emu_clock_now(a.me));
}

// How the readers are to be remembered, now that `me` is the last of them.
static unsigned reader_kind(const emu_access &a, emu_stamp last)
{
    if (!last.serial || !emu_clock_same_launch(last)) return EMU_ONE;
    if (last.serial != emu_clock_serial() || emu_stamp_flags(last) == EMU_BLOCKS) return EMU_BLOCKS;
    if (emu_stamp_flags(last) == EMU_ONE && emu_stamp_thread(last) == a.me) return EMU_ONE;
    if (emu_clock_reads_before(last, a.me)) return EMU_ONE;
    const bool same_warp = emu_stamp_thread(last) / 32 == a.me / 32;
    return same_warp && emu_stamp_flags(last) != EMU_WARPS ? EMU_LANES : EMU_WARPS;
}

static void read_cell(const emu_access &a, emu_cell *c)
{
    forget_other_blocks(a, c);
    if (c->write.serial && !emu_clock_before(c->write, a.me))
        tell_race(a, "a read of what was written", c->write);
    c->read =
        emu_stamp_make(emu_clock_serial(), a.me, reader_kind(a, c->read), emu_clock_now(a.me));
}

// ---- one access

static bool is_written(const emu_region *r, size_t i)
{
    if (emu_shadow_is_shared(r)) return r->cells[i].write.serial == emu_clock_serial();
    return r->cells[i].write.serial != 0 || (r->written[i / 8] >> i % 8 & 1);
}

static void check_written(const emu_access &a, size_t first)
{
    const emu_region *r = a.region;
    for (size_t i = first; i < first + a.n_byte; i++) {
        if (is_written(r, i)) continue;
        emu_look_fault(*a.site, EMU_FAULT_LAUNCH,
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
        emu_look_fault(*a.site, EMU_FAULT_ADDRESS, "%s of %u bytes at %#lx, outside of all memory",
                       does, a.n_byte, (unsigned long)a.at);
    else
        emu_look_fault(*a.site, EMU_FAULT_ADDRESS,
                       "%s of %u bytes at byte %lu of %s, which has %zu", does, a.n_byte,
                       (unsigned long)(a.at - near->at), near->name ? near->name : "an allocation",
                       near->n_byte);
}

// The kernel's own: its stack, and threadIdx and the like.
static bool is_private(uintptr_t at)
{
    return emu_fiber_owns((emu_fiber *)emu_now, at) ||
           at - (uintptr_t)emu_now < sizeof(emu_where) || at == (uintptr_t)&emu_now;
}

void emu_look_at(uintptr_t at, unsigned n_byte, int flags, const emu_site &site)
{
    if (!emu_now || is_private(at)) return;
    const bool writes = (flags & EMU_WRITE) != 0;
    if (emu_shadow_in_image(at)) {
        if (writes)
            emu_look_fault(site, EMU_FAULT_LAUNCH,
                           "a write of a variable that is not shared memory");
        return;
    }
    const emu_region *near;
    emu_region *r = emu_shadow_find(at, n_byte, &near);
    emu_access a = {at, n_byte, emu_now->i_thread, writes, (flags & EMU_ATOMIC) != 0, &site, r};
    if (!r) {
        tell_outside(a, near);
        return;
    }
    const size_t first = at - r->at;
    if (a.n_byte > r->n_byte - first) a.n_byte = (unsigned)(r->n_byte - first); // of a piece
    if (!writes || a.atomic) check_written(a, first);
    if (flags & EMU_AHEAD) {
        try_cells(a, r->cells + first);
        return;
    }
    if (a.atomic) emu_clock_atomic(at, a.me);
    look_at_cells(a, r->cells + first);
    emu_profile_note(at, n_byte, writes, emu_shadow_is_shared(r), site);
}

// ---- what the runtime tells

void emu_look_access(const void *at, unsigned n_byte, int flags, const char *file, int line)
{
    emu_look_at((uintptr_t)at, n_byte, flags, emu_site{0, file, line});
}

void emu_look_sync(unsigned mask)
{
    emu_clock_warp(emu_now->i_thread / 32, mask, emu_warp_active());
}

void emu_look_fence(void)
{
    emu_clock_fence(emu_now->i_thread);
}

void emu_look_launch(const emu_launch *l)
{
    emu_clock_launch();
    emu_profile_launch(l->kernel->name);
}

void emu_look_launch_end(void)
{
    emu_profile_end();
}

void emu_look_block(const emu_worker *w, unsigned)
{
    emu_shadow_block(w);
    emu_clock_block(w->n);
}

void emu_look_barrier(const std::vector<unsigned> &joined, bool all)
{
    emu_clock_barrier(joined, all);
}

void emu_look_memory(uintptr_t at, size_t n_byte, int state)
{
    emu_shadow_memory(at, n_byte, state);
}
