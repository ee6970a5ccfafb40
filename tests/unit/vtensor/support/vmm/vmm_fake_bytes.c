// vmm_fake_bytes.c - see vmm_fake.h: what reads and writes bytes, work beside the caller, and swap.
#include "vmm_fake_state.h"

enum { PAGE = VT_FAKE_PAGE_BYTES };

// Mapped bytes: where they are mapped and the pages they lie on.
typedef struct span {
    uintptr_t addr;
    size_t size_bytes;
    const vt_fake_entry *e; // [n_page]
    size_t n_page;
} span;

static bool span_at(vt_fake *f, uintptr_t addr, size_t size_bytes, span *out)
{
    size_t n_page = (addr % PAGE + size_bytes + PAGE - 1) / PAGE;
    const vt_fake_res *r = size_bytes > 0 ? vt_fake_space_at(&f->space, addr, size_bytes) : NULL;
    const vt_fake_entry *e = r ? vt_fake_entry_at(r, addr) : NULL;
    for (size_t k = 0; e && k < n_page; k++)
        if (!e[k].chunk) e = NULL;
    *out = (span){addr, size_bytes, e, n_page};
    if (!e) (void)vt_fake_breach(f, "access to what is not mapped");
    return e != NULL;
}

// Mapped bytes that are to be written.
static bool span_to_write(vt_fake *f, uintptr_t addr, size_t size_bytes, span *out)
{
    if (!span_at(f, addr, size_bytes, out)) return false;
    for (size_t k = 0; k < out->n_page; k++)
        if (out->e[k].read_only) {
            (void)vt_fake_breach(f, "writing what is mapped for reading");
            return false;
        }
    return true;
}

static vt_extent *dirt_of_entry(const void *entries, size_t k)
{
    const vt_fake_entry *e = (const vt_fake_entry *)entries + k;
    return &e->chunk->dirty[e->page];
}

static vt_place place_of(const span *s)
{
    return (vt_place){.page = dirt_of_entry, .pages = s->e, .offset = s->addr % PAGE};
}

// From byte `at` of the span on: the bytes of one chunk that follow each other in it as well.
static vt_fake_bytes piece_of(const span *s, size_t at)
{
    size_t k = (s->addr % PAGE + at) / PAGE, in_page = (s->addr + at) % PAGE;
    const vt_fake_entry *e = &s->e[k];
    size_t n = 1;
    while (k + n < s->n_page && e[n].chunk == e->chunk && e[n].page == e->page + n) n++;
    size_t size_bytes = n * PAGE - in_page, left = s->size_bytes - at;
    return (vt_fake_bytes){
        e->chunk->index,
        (uint64_t)e->page * PAGE + in_page,
        size_bytes < left ? size_bytes : left,
    };
}

// ---- work

static bool span_is_used(const vt_fake *f, const span *s, bool writing)
{
    vt_fake_bytes piece;
    for (size_t at = 0; at < s->size_bytes; at += piece.size_bytes) {
        piece = piece_of(s, at);
        if (vt_fake_work_uses(&f->work, piece, writing)) return true;
    }
    return false;
}

static void add_work(vt_fake *f, vt_fake_bytes bytes, uintptr_t addr, bool writes)
{
    vt_fake_work w = {bytes, addr, writes, f->last_ticket + 1};
    if (f->async && !vt_fake_work_add(&f->work, w)) (void)vt_fake_breach(f, "no memory to test");
}

static void add_span(vt_fake *f, const span *s, bool writes)
{
    vt_fake_bytes piece;
    for (size_t at = 0; at < s->size_bytes; at += piece.size_bytes) {
        piece = piece_of(s, at);
        add_work(f, piece, s->addr + at, writes);
    }
}

void vt_fake_run(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    vt_fake *f = vt_fake_enter(vmm);
    span s;
    if (span_at(f, addr, size_bytes, &s)) add_span(f, &s, false);
    (void)vt_fake_leave(f, VT_OK);
}

void vt_fake_run_writing(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    vt_fake *f = vt_fake_enter(vmm);
    span s;
    if (span_to_write(f, addr, size_bytes, &s)) {
        vt_place p = place_of(&s);
        vt_place_add(&p, size_bytes);
        add_span(f, &s, true);
    }
    (void)vt_fake_leave(f, VT_OK);
}

// What a call with that order writes: work, or a breach where work uses it.
static vt_status begin_write(vt_fake *f, const span *s, vt_vmm_order order)
{
    if (order == VT_VMM_QUEUED) {
        if (!pthread_equal(f->owner, pthread_self()))
            return vt_fake_breach(f, "a queued call of another thread than the owner");
        add_span(f, s, true);
        return VT_OK;
    }
    return span_is_used(f, s, false) ? vt_fake_breach(f, "writing what work uses") : VT_OK;
}

vt_status vt_fake_fence(vt_vmm *vmm, uint64_t *ticket)
{
    vt_fake *f = vt_fake_enter_at_cost(vmm, 0);
    if (!pthread_equal(f->owner, pthread_self()))
        return vt_fake_leave(f, vt_fake_breach(f, "a fence of another thread than the owner"));
    *ticket = f->async ? ++f->last_ticket : 0;
    return vt_fake_leave(f, VT_OK);
}

static vt_status finish(vt_fake *f, uint64_t ticket)
{
    if (ticket > f->last_ticket) return vt_fake_breach(f, "a ticket that no fence gave");
    if (ticket > f->work.passed_ticket) f->work.passed_ticket = ticket;
    return VT_OK;
}

static void count_wait(vt_fake *f)
{
    f->now.n_wait++;
    f->now.clock_us += VT_COST_WAIT;
}

static vt_status passed(vt_fake *f, uint64_t ticket, bool wait, bool *is_passed)
{
    if (ticket > f->last_ticket) return vt_fake_breach(f, "a ticket that no fence gave");
    if (wait && ticket > 0) {
        count_wait(f);
        (void)finish(f, ticket);
    }
    *is_passed = ticket <= f->work.passed_ticket;
    return VT_OK;
}

VT_FAKE_CALL(vt_fake_passed, 0, passed(f, ticket, wait, is_passed), uint64_t ticket, bool wait,
             bool *is_passed)

void vt_fake_finish(vt_vmm *vmm, uint64_t ticket)
{
    vt_fake *f = vt_fake_enter(vmm);
    (void)vt_fake_leave(f, finish(f, ticket));
}

// ---- bytes

static vt_status zero(vt_fake *f, uintptr_t addr, size_t size_bytes, vt_vmm_order order)
{
    span s;
    if (!span_to_write(f, addr, size_bytes, &s)) return VT_EINVAL;
    vt_status st = begin_write(f, &s, order);
    vt_place p = place_of(&s);
    if (st == VT_OK) vt_place_cut(&p, size_bytes);
    return st;
}

VT_FAKE_CALL(vt_fake_zero, VT_COST_BYTES, zero(f, addr, size_bytes, order), uintptr_t addr,
             size_t size_bytes, vt_vmm_order order)

// Bytes of a slice that are to be copied to or from mapped bytes of other chunks.
typedef struct stored {
    vt_fake_bytes bytes;
    vt_place place;
} stored;

static vt_status find_stored(vt_fake *f, uint32_t slice, uint64_t index, size_t offset,
                             size_t size_bytes, stored *out)
{
    const vt_fake_class *cls = vt_fake_class_of(&f->chunks, index, 1);
    size_t slice_bytes = cls ? (size_t)cls->pages_per_slice * PAGE : 0;
    if (!cls || slice >= cls->n_slice || size_bytes == 0 || offset > slice_bytes ||
        size_bytes > slice_bytes - offset)
        return vt_fake_breach(f, "a copy of bytes out of range");
    vt_fake_chunk *c = vt_fake_chunk_find(&f->chunks, index);
    if (!c) return vt_fake_breach(f, "a copy with a chunk that is not created");
    uint64_t at = slice * (uint64_t)slice_bytes + offset;
    *out = (stored){{index, at, size_bytes}, vt_place_in_list(c->dirty, at)};
    return VT_OK;
}

static vt_status differ(vt_fake *f, const span *s, uint64_t index)
{
    for (size_t k = 0; k < s->n_page; k++)
        if (s->e[k].chunk->index == index)
            return vt_fake_breach(f, "a copy from a chunk into itself");
    return VT_OK;
}

static vt_status fetch(vt_fake *f, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                       size_t size_bytes, vt_vmm_order order)
{
    stored from;
    span to;
    vt_status st = find_stored(f, slice, index, offset, size_bytes, &from);
    if (st != VT_OK || !span_to_write(f, dst, size_bytes, &to)) return VT_EINVAL;
    if (differ(f, &to, index) != VT_OK) return VT_EINVAL;
    if (order == VT_VMM_NOW && vt_fake_work_uses(&f->work, from.bytes, true))
        return vt_fake_breach(f, "reading what work writes");
    if (begin_write(f, &to, order) != VT_OK) return VT_EINVAL;
    if (order == VT_VMM_QUEUED) add_work(f, from.bytes, 0, false);
    vt_place p = place_of(&to);
    vt_place_copy(&p, &from.place, size_bytes);
    return VT_OK;
}

VT_FAKE_CALL(vt_fake_fetch, VT_COST_BYTES, fetch(f, dst, slice, index, offset, size_bytes, order),
             uintptr_t dst, uint32_t slice, uint64_t index, size_t offset, size_t size_bytes,
             vt_vmm_order order)

static vt_status copy_each(vt_fake *f, const vt_vmm_copy *copy, uint64_t n, vt_vmm_order order)
{
    for (uint64_t i = 0; i < n; i++) {
        span from, to;
        if (copy[i].size_bytes == 0) continue;
        if (!span_at(f, copy[i].src, copy[i].size_bytes, &from) ||
            !span_to_write(f, copy[i].dst, copy[i].size_bytes, &to))
            return VT_EINVAL;
        if (order == VT_VMM_NOW && span_is_used(f, &from, true))
            return vt_fake_breach(f, "reading what work writes");
        if (begin_write(f, &to, order) != VT_OK) return VT_EINVAL;
        if (order == VT_VMM_QUEUED) add_span(f, &from, false);
        vt_place p = place_of(&to), q = place_of(&from);
        vt_place_copy(&p, &q, copy[i].size_bytes);
    }
    return VT_OK;
}

VT_FAKE_CALL(vt_fake_copy_each, VT_COST_BYTES, copy_each(f, copy, n, order),
             const vt_vmm_copy *copy, uint64_t n, vt_vmm_order order)

static vt_status store(vt_fake *f, uint32_t slice, uint64_t index, size_t offset, uintptr_t src,
                       size_t size_bytes)
{
    stored to;
    span from;
    if (f->max_runs == UINT64_MAX) return vt_fake_breach(f, "store where runs have no limit");
    vt_status st = find_stored(f, slice, index, offset, size_bytes, &to);
    if (st != VT_OK || !span_at(f, src, size_bytes, &from)) return VT_EINVAL;
    if (differ(f, &from, index) != VT_OK) return VT_EINVAL;
    if (span_is_used(f, &from, true)) return vt_fake_breach(f, "reading what work writes");
    if (vt_fake_work_uses(&f->work, to.bytes, false))
        return vt_fake_breach(f, "writing what work uses");
    vt_place p = place_of(&from);
    vt_place_copy(&to.place, &p, size_bytes);
    return VT_OK;
}

VT_FAKE_CALL(vt_fake_store, VT_COST_BYTES, store(f, slice, index, offset, src, size_bytes),
             uint32_t slice, uint64_t index, size_t offset, uintptr_t src, size_t size_bytes)

void vt_fake_touch(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    vt_fake *f = vt_fake_enter(vmm);
    span s;
    if (span_to_write(f, addr, size_bytes, &s)) {
        vt_place p = place_of(&s);
        vt_place_add(&p, size_bytes);
    }
    (void)vt_fake_leave(f, VT_OK);
}

bool vt_fake_is_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    vt_fake *f = vt_fake_enter(vmm);
    span s;
    bool clean = span_at(f, addr, size_bytes, &s);
    vt_place p = place_of(&s);
    clean = clean && vt_place_is_clean(&p, size_bytes);
    (void)vt_fake_leave(f, VT_OK);
    return clean;
}

// ---- swap

static vt_status open_swap(vt_fake *f, uint64_t size_bytes)
{
    if (f->swap.size_bytes > 0) return vt_fake_breach(f, "swap opened twice");
    if (size_bytes == 0) return vt_fake_breach(f, "swap of no bytes");
    return vt_fake_swap_open(&f->swap, size_bytes) ? VT_OK : VT_ENOMEM;
}

vt_status vt_fake_open_swap(vt_vmm *vmm, const char *dir, uint64_t size_bytes)
{
    (void)dir;
    vt_fake *f = vt_fake_enter_at_cost(vmm, 0);
    return vt_fake_leave(f, open_swap(f, size_bytes));
}

static vt_status write_swap(vt_fake *f, uint64_t offset, uintptr_t src, size_t size_bytes,
                            uint64_t *sum)
{
    const char *wrong = vt_fake_swap_check(&f->swap, offset, size_bytes);
    if (wrong) return vt_fake_breach(f, wrong);
    span from;
    if (!span_at(f, src, size_bytes, &from)) return VT_EINVAL;
    if (span_is_used(f, &from, true)) return vt_fake_breach(f, "swap of bytes that work writes");
    vt_place p = place_of(&from);
    *sum = vt_fake_swap_write(&f->swap, offset, &p, size_bytes);
    return VT_OK;
}

VT_FAKE_CALL(vt_fake_write_swap, VT_COST_SWAP, write_swap(f, offset, src, size_bytes, sum),
             uint64_t offset, uintptr_t src, size_t size_bytes, uint64_t *sum)

static vt_status read_swap(vt_fake *f, uintptr_t dst, uint64_t offset, size_t size_bytes,
                           uint64_t *sum)
{
    const char *wrong = vt_fake_swap_check(&f->swap, offset, size_bytes);
    if (wrong) return vt_fake_breach(f, wrong);
    span to;
    if (!span_to_write(f, dst, size_bytes, &to)) return VT_EINVAL;
    if (begin_write(f, &to, VT_VMM_NOW) != VT_OK) return VT_EINVAL;
    vt_place p = place_of(&to);
    wrong = vt_fake_swap_read(&f->swap, &p, offset, size_bytes, sum);
    return wrong ? vt_fake_breach(f, wrong) : VT_OK;
}

VT_FAKE_CALL(vt_fake_read_swap, VT_COST_SWAP, read_swap(f, dst, offset, size_bytes, sum),
             uintptr_t dst, uint64_t offset, size_t size_bytes, uint64_t *sum)

void vt_fake_drop_swap(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    vt_fake *f = vt_fake_enter_at_cost(vmm, VT_COST_DESTROY);
    const char *wrong = vt_fake_swap_check(&f->swap, offset, size_bytes);
    if (!wrong) vt_fake_swap_drop(&f->swap, offset, size_bytes);
    (void)vt_fake_leave(f, wrong ? vt_fake_breach(f, wrong) : VT_OK);
}

void vt_fake_corrupt(vt_vmm *vmm, uint64_t offset)
{
    vt_fake *f = vt_fake_enter(vmm);
    vt_fake_swap_corrupt(&f->swap, offset);
    (void)vt_fake_leave(f, VT_OK);
}
