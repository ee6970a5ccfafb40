// swap_slots.c - the swap as slots: its size, and who has which slot.
//
// A slot that is given back is stale: its room in the system is still taken. It is the first to be
// handed out again; otherwise the mapper returns its room, since that takes long.
//
//   free_slot   fresh .. fresh | stale .. stale |
//               0                n_free-n_stale n_free
#include "verbs.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/core/common.h"

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
    size_t dir_bytes = cfg->swap_dir ? strlen(cfg->swap_dir) + 1 : 0;
    if (dir_bytes > 0) sw->dir = calloc(dir_bytes, 1);
    if (!sw->free_slot || (dir_bytes > 0 && !sw->dir)) {
        vti_swap_free(sw);
        return VT_ENOMEM;
    }
    if (sw->dir) memcpy(sw->dir, cfg->swap_dir, dir_bytes);
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

static void put_fresh(vti_swap *sw, uint32_t slot)
{
    uint32_t first_stale = sw->n_free - sw->n_stale;
    sw->free_slot[sw->n_free++] = sw->free_slot[first_stale];
    sw->free_slot[first_stale] = slot;
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
    for (uint32_t i = 0; i < sw->drop.job.n; i++)
        if (i < sw->drop.job.n_done)
            put_fresh(sw, sw->dropping[i].slot);
        else
            put_stale(sw, sw->dropping[i].slot);
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
