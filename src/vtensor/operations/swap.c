// swap.c - the swap: which slots are whose, and copies between memory and slots.
//
// A slot that is given back is stale: its room in the system is still taken. It is the first to be
// handed out again; otherwise the mapper returns its room, since that takes long.
//
//   free_slot   fresh .. fresh | stale .. stale |
//               0                n_free-n_stale n_free
//
// Rows are copied in steps of a slice: a job for growth waits for no more than that. Slice v of the
// chunk in slot i lies at i x slot_bytes + v x slice_bytes of the swap. The checksum of a chunk
// depends on each slice and on their order; it is compared when the chunk is read back. The device
// is done with what is copied, so nothing here waits for it.
#include "operations.h"

#include <stdlib.h>
#include <string.h>

// ---- Slots

vt_status vti_swap_init(vt_manager *m, const vt_config *cfg)
{
    vti_swap *sw = &m->swap;
    uint64_t slot_bytes = 0;
    for (uint32_t c = 0; c < m->pset.n_class; c++)
        if (m->pset.cls[c].chunk_bytes > slot_bytes) slot_bytes = m->pset.cls[c].chunk_bytes;
    uint64_t n_slot = cfg->swap_bytes / slot_bytes;
    *sw = (vti_swap){.n_slot = n_slot < UINT32_MAX ? (uint32_t)n_slot : UINT32_MAX};
    if (sw->n_slot == 0) return VT_OK;
    sw->slot_bytes = slot_bytes;
    sw->size_bytes = sw->n_slot * slot_bytes;
    sw->n_free = sw->n_slot;
    sw->free_slot = calloc(sw->n_slot, sizeof *sw->free_slot);
    if (cfg->swap_dir) sw->dir = strdup(cfg->swap_dir);
    if (!sw->free_slot || (cfg->swap_dir && !sw->dir)) {
        vti_swap_free(sw);
        return VT_ENOMEM;
    }
    for (uint32_t i = 0; i < sw->n_slot; i++) sw->free_slot[i] = sw->n_slot - 1 - i;
    return VT_OK;
}

void vti_swap_free(vti_swap *sw)
{
    free(sw->free_slot);
    free(sw->dir);
    *sw = (vti_swap){0};
}

uint32_t vti_slot_take(vt_manager *m, uint32_t group)
{
    vti_swap *sw = &m->swap;
    sw->used_bytes += m->geo.group[group].chunk_bytes;
    sw->n_stale -= sw->n_stale > 0;
    return sw->free_slot[--sw->n_free];
}

static void put_stale(vti_swap *sw, uint32_t slot)
{
    sw->free_slot[sw->n_free++] = slot;
    sw->n_stale++;
}

void vti_slot_put(vt_manager *m, const vti_swapped *c)
{
    put_stale(&m->swap, c->slot);
    m->swap.used_bytes -= m->geo.group[c->group].chunk_bytes;
}

bool vti_slots_pick_stale(vti_swap *sw)
{
    uint32_t n = 0;
    for (; n < VTI_DROP_SLOTS && sw->n_stale > 0; n++, sw->n_stale--)
        sw->dropping[n] = (vti_swapped){.slot = sw->free_slot[--sw->n_free]};
    sw->drop = (vti_copy){.job = {.kind = VTI_JOB_DROP, .n = n}, .list = sw->dropping};
    return n > 0;
}

void vti_slots_put_picked(vti_swap *sw)
{
    for (uint32_t i = 0; i < sw->drop.job.n; i++) {
        uint32_t first_stale = sw->n_free - sw->n_stale;
        put_stale(sw, sw->dropping[i].slot);
        if (i >= sw->drop.job.n_done) continue;
        sw->free_slot[sw->n_free - 1] = sw->free_slot[first_stale]; // it is fresh
        sw->free_slot[first_stale] = sw->dropping[i].slot;
        sw->n_stale--;
    }
    sw->drop.job.n = 0;
}

void vti_swap_forget(vt_seq *s)
{
    for (uint32_t i = 0; i < s->n_swapped; i++) vti_slot_put(s->m, &s->swapped[i]);
    free(s->swapped);
    s->swapped = NULL;
    s->n_swapped = 0;
}

vt_status vti_swap_open(vt_manager *m)
{
    vti_swap *sw = &m->swap;
    if (sw->n_slot == 0) return VT_EINVAL;
    if (sw->open) return VT_OK;
    VT_TRY(vti_tally_backend(m, m->vmm->ops->swap_open(m->vmm, sw->dir, sw->size_bytes)));
    sw->open = true;
    return VT_OK;
}

// ---- Copies

// Moves the next slice of the next chunk.
static vt_status slice_move(const vt_manager *m, const vti_copy *c, uint64_t *sum)
{
    const vti_swapped *e = &c->list[c->job.n_done];
    uint32_t view = c->job.n_view;
    size_t slice_bytes = m->geo.group[e->group].slice_bytes;
    uint64_t offset = e->slot * m->swap.slot_bytes + view * slice_bytes;
    uintptr_t addr = vti_lane_addr(&m->geo, c->span, e->group, view, e->position);
    if (c->job.kind == VTI_JOB_READ)
        return m->vmm->ops->swap_read(m->vmm, addr, offset, slice_bytes, sum);
    vt_status st = m->vmm->ops->swap_write(m->vmm, offset, addr, slice_bytes, sum);
    return st == VT_NOSPACE ? VT_NOSWAP : st;
}

static bool copy_failed(vti_copy *c, vt_status st)
{
    c->job.st = st;
    return false;
}

static bool copy_slice(const vt_manager *m, vti_copy *c)
{
    const bool reads = c->job.kind == VTI_JOB_READ;
    uint64_t one;
    // WRITE leaves out what is in the swap already, and READ what is still in memory.
    while (c->job.n_done < c->job.n && c->list[c->job.n_done].is_out != reads) c->job.n_done++;
    if (c->job.n_done == c->job.n) return false;
    vt_status st = vti_calls_count(&c->job.calls, slice_move(m, c, &one));
    if (st != VT_OK) return copy_failed(c, st);
    c->sum = vt_vmm_checksum(c->sum, &one, sizeof one);
    vti_swapped *e = &c->list[c->job.n_done];
    if (++c->job.n_view < m->geo.group[e->group].n_view) return true;
    if (!reads) e->sum = c->sum; // the chunk is done
    c->is_corrupt = e->sum != c->sum;
    if (c->is_corrupt) return copy_failed(c, VT_EDEVICE);
    c->sum = 0;
    c->job.n_view = 0;
    c->job.n_done++;
    atomic_store_explicit(&c->n_moved, c->job.n_done, memory_order_release);
    return c->job.n_done < c->job.n;
}

bool vti_copy_step(const vt_manager *m, vti_copy *c)
{
    if (c->job.kind != VTI_JOB_DROP) return copy_slice(m, c);
    uint64_t offset = c->list[c->job.n_done].slot * m->swap.slot_bytes;
    m->vmm->ops->swap_drop(m->vmm, offset, m->swap.slot_bytes);
    return ++c->job.n_done < c->job.n;
}
