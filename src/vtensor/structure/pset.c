// pset.c - pSet: the physical chunks, ordered by index and reference-counted. Structure alone: it
// says what is so, the verbs make it so.
//
//   index  0                  C                  2C                 3C
//          | region 0         | region 1         | region 2         |    C = chunks_per_region
//          | OOSSccc......... | oo.............. | (never used)     |    O owned, S shared,
//                                                                     c cached, o spare, . absent
//
// Indices cost nothing until their chunk is created: the host's memfd is sparse. So each span has a
// region of its own for what it takes, and nobody else's chunks come between. A region outlives the
// sequence that filled it for as long as others hold chunks of it.
//
// Every change of a chunk passes through chunk_set, which keeps the sums.
#include "pset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "vtensor/common/try.h"

void vti_pset_init(vti_pset *ps, uint32_t max_region, uint32_t chunks_per_region)
{
    *ps = (vti_pset){.max_region = max_region, .chunks_per_region = chunks_per_region};
}

void vti_pset_free(vti_pset *ps)
{
    for (uint32_t r = 0; r < ps->n_region; r++) free(ps->region[r].chunk);
    free(ps->region);
    *ps = (vti_pset){0};
}

static vt_chunk_state state_of(vti_chunk c)
{
    if (!c.created) return VT_CHUNK_ABSENT;
    if (c.n_user == 0) return c.n_node == 0 ? VT_CHUNK_SPARE : VT_CHUNK_CACHED;
    return c.n_user == 1 && c.n_node == 0 ? VT_CHUNK_OWNED : VT_CHUNK_SHARED;
}

static void chunk_set(vti_pset *ps, uint32_t region, uint32_t position, vti_chunk to)
{
    vti_region *r = &ps->region[region];
    assert(region < ps->n_region && position < ps->chunks_per_region);
    vt_chunk_state was = state_of(r->chunk[position]), is = state_of(to);
    assert(to.created || (to.n_user == 0 && to.n_node == 0));
    r->chunk[position] = to;
    r->n_in[was]--;
    r->n_in[is]++;
    ps->n_in[was]--;
    ps->n_in[is]++;
}

vti_chunk vti_pset_chunk(const vti_pset *ps, uint32_t region, uint32_t position)
{
    assert(region < ps->n_region && position < ps->chunks_per_region);
    return ps->region[region].chunk[position];
}

vt_chunk_state vti_pset_state(const vti_pset *ps, uint32_t region, uint32_t position)
{
    return state_of(vti_pset_chunk(ps, region, position));
}

uint32_t vti_pset_region_created(const vti_pset *ps, uint32_t region)
{
    const vti_region *r = &ps->region[region];
    return r->chunk ? ps->chunks_per_region - r->n_in[VT_CHUNK_ABSENT] : 0;
}

bool vti_pset_is_home(const vti_pset *ps, uint32_t region)
{
    return ps->region[region].home_of < VTI_TREE_REGION;
}

static bool in_use(const vti_pset *ps, uint32_t region)
{
    return vti_pset_is_home(ps, region) || vti_pset_region_created(ps, region) > 0;
}

static void note_unused(vti_pset *ps, uint32_t region)
{
    if (!in_use(ps, region)) ps->region[region].home_of = VTI_NO_SPAN;
    if (region < ps->n_full && !in_use(ps, region)) ps->n_full = region;
}

// Room for one region more.
static vt_status regions_grow(vti_pset *ps)
{
    if (ps->n_region == ps->max_region) return VT_NOSPACE;
    if (ps->n_region < ps->cap_region) return VT_OK;
    uint64_t cap = ps->cap_region ? 2 * (uint64_t)ps->cap_region : 16;
    if (cap > ps->max_region) cap = ps->max_region;
    vti_region *more = calloc(cap, sizeof *more);
    if (!more) return VT_ENOMEM;
    if (ps->region) memcpy(more, ps->region, ps->n_region * sizeof *more);
    free(ps->region);
    ps->region = more;
    ps->cap_region = (uint32_t)cap;
    return VT_OK;
}

// The lowest region that is not in use, made if there is none.
static vt_status region_find(vti_pset *ps, uint32_t *region)
{
    while (ps->n_full < ps->n_region && in_use(ps, ps->n_full)) ps->n_full++;
    *region = ps->n_full;
    if (ps->n_full < ps->n_region) return VT_OK;
    VT_TRY(regions_grow(ps));
    vti_chunk *chunk = calloc(ps->chunks_per_region, sizeof *chunk); // all ABSENT
    if (!chunk) return VT_ENOMEM;
    ps->region[ps->n_region++] = (vti_region){
        .chunk = chunk,
        .n_in = {[VT_CHUNK_ABSENT] = ps->chunks_per_region},
        .home_of = VTI_NO_SPAN,
    };
    ps->n_in[VT_CHUNK_ABSENT] += ps->chunks_per_region;
    return VT_OK;
}

vt_status vti_pset_open(vti_pset *ps, uint32_t span, uint32_t *region)
{
    VT_TRY(region_find(ps, region));
    ps->region[*region].home_of = span;
    return VT_OK;
}

// Attics are filled from the lowest on.
vt_status vti_pset_tree_region(vti_pset *ps, uint32_t position, uint32_t *region)
{
    for (*region = 0; *region < ps->n_region; (*region)++)
        if (ps->region[*region].home_of == VTI_TREE_REGION &&
            vti_pset_state(ps, *region, position) == VT_CHUNK_ABSENT)
            return VT_OK;
    return vti_pset_open(ps, VTI_TREE_REGION, region);
}

void vti_pset_adopt(vti_pset *ps, uint32_t region, uint32_t span)
{
    assert(region < ps->n_region && ps->region[region].home_of == VTI_NO_SPAN);
    ps->region[region].home_of = span;
}

void vti_pset_leave(vti_pset *ps, uint32_t region)
{
    assert(region < ps->n_region && vti_pset_is_home(ps, region));
    ps->region[region].home_of = VTI_NO_SPAN;
    note_unused(ps, region);
}

void vti_pset_create(vti_pset *ps, uint32_t region, uint32_t first, uint32_t n)
{
    for (uint32_t p = first; p < first + n; p++) {
        assert(vti_pset_state(ps, region, p) == VT_CHUNK_ABSENT);
        chunk_set(ps, region, p, (vti_chunk){.created = 1});
    }
}

void vti_pset_destroy(vti_pset *ps, uint32_t region, uint32_t first, uint32_t n)
{
    for (uint32_t p = first; p < first + n; p++) {
        assert(vti_pset_state(ps, region, p) == VT_CHUNK_SPARE);
        chunk_set(ps, region, p, (vti_chunk){0});
    }
    note_unused(ps, region);
}

// One holder more, or one less.
static void holders_change(vti_pset *ps, uint32_t region, uint32_t position, int n_user, int n_node)
{
    vti_chunk c = vti_pset_chunk(ps, region, position);
    assert(c.created && (n_user >= 0 || c.n_user > 0) && (n_node >= 0 || c.n_node > 0));
    c.n_user += (uint32_t)n_user;
    c.n_node = (c.n_node + (uint32_t)n_node) & INT32_MAX;
    chunk_set(ps, region, position, c);
}

void vti_pset_user_hold(vti_pset *ps, uint32_t region, uint32_t position)
{
    holders_change(ps, region, position, 1, 0);
}

void vti_pset_user_drop(vti_pset *ps, uint32_t region, uint32_t position)
{
    holders_change(ps, region, position, -1, 0);
}

void vti_pset_node_hold(vti_pset *ps, uint32_t region, uint32_t position)
{
    holders_change(ps, region, position, 0, 1);
}

void vti_pset_node_drop(vti_pset *ps, uint32_t region, uint32_t position)
{
    holders_change(ps, region, position, 0, -1);
}

uint64_t vti_pset_index(const vti_pset *ps, uint32_t region, uint32_t position)
{
    assert(region < ps->max_region && position < ps->chunks_per_region);
    return (uint64_t)region * ps->chunks_per_region + position;
}

uint64_t vti_pset_created(const vti_pset *ps)
{
    return ps->n_in[VT_CHUNK_SPARE] + ps->n_in[VT_CHUNK_CACHED] + ps->n_in[VT_CHUNK_OWNED] +
           ps->n_in[VT_CHUNK_SHARED];
}
