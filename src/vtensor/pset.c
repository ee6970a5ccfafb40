// pset.c - pSet: the physical chunks, ordered by index, each in one state. Structure alone: it says
// what is so, the verbs of ops.c make it so.
//
//   index  0                  C                  2C                 3C
//          | region 0         | region 1         | region 2         |    C = chunks_per_region
//          | OOOOSSS......... | OO.............. | (never opened)   |    O owned, S spare, . free
//
// Indices cost nothing until their chunk is created: the host's memfd is sparse. So each span has
// a region to itself, and what one sequence takes is never between the chunks of another. The table
// of a region's states is made when the region is first opened and kept.
#include "internal.h"

#include <stdlib.h>

vt_status vti_pset_init(vti_pset *ps, uint32_t n_region, uint32_t chunks_per_region)
{
    *ps = (vti_pset){.n_region = n_region, .chunks_per_region = chunks_per_region};
    ps->region = calloc(n_region, sizeof *ps->region);
    return ps->region ? VT_OK : VT_ENOMEM;
}

void vti_pset_free(vti_pset *ps)
{
    for (uint32_t r = 0; ps->region && r < ps->n_region; r++) free(ps->region[r].state);
    free(ps->region);
    *ps = (vti_pset){0};
}

static vti_region *pset_unused(vti_pset *ps)
{
    while (ps->n_full < ps->n_region && ps->region[ps->n_full].open) ps->n_full++;
    return ps->n_full < ps->n_region ? &ps->region[ps->n_full] : NULL;
}

vt_status vti_pset_open(vti_pset *ps, uint32_t span, uint32_t *region)
{
    vti_region *r = pset_unused(ps);
    if (!r) return VT_NOSPACE;
    if (!r->state) r->state = calloc(ps->chunks_per_region, sizeof *r->state); // all FREE
    if (!r->state) return VT_ENOMEM;
    r->open = true;
    r->span = span;
    r->n_in[VTI_CHUNK_FREE] = ps->chunks_per_region;
    ps->n_in[VTI_CHUNK_FREE] += ps->chunks_per_region;
    *region = (uint32_t)(r - ps->region);
    return VT_OK;
}

void vti_pset_close(vti_pset *ps, uint32_t region)
{
    vti_region *r = &ps->region[region];
    assert(r->open && r->n_in[VTI_CHUNK_FREE] == ps->chunks_per_region);
    r->open = false;
    r->n_in[VTI_CHUNK_FREE] = 0;
    ps->n_in[VTI_CHUNK_FREE] -= ps->chunks_per_region;
    if (region < ps->n_full) ps->n_full = region;
}

void vti_pset_move(vti_pset *ps, uint32_t region, uint32_t first, uint32_t n, vti_chunk_state from,
                   vti_chunk_state to)
{
    vti_region *r = &ps->region[region];
    assert(r->open && first <= ps->chunks_per_region && n <= ps->chunks_per_region - first);
    for (uint32_t i = first; i < first + n; i++) {
        assert(r->state[i] == from);
        r->state[i] = (uint8_t)to;
    }
    r->n_in[from] -= n;
    r->n_in[to] += n;
    ps->n_in[from] -= n;
    ps->n_in[to] += n;
}

uint64_t vti_pset_index(const vti_pset *ps, uint32_t region, uint32_t position)
{
    assert(region < ps->n_region && position < ps->chunks_per_region);
    return (uint64_t)region * ps->chunks_per_region + position;
}

uint32_t vti_pset_region_created(const vti_pset *ps, uint32_t region)
{
    const vti_region *r = &ps->region[region];
    return r->n_in[VTI_CHUNK_SPARE] + r->n_in[VTI_CHUNK_OWNED];
}

uint64_t vti_pset_created(const vti_pset *ps)
{
    return ps->n_in[VTI_CHUNK_SPARE] + ps->n_in[VTI_CHUNK_OWNED];
}
