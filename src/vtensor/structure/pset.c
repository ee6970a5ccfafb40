// pset.c - pSet: the physical chunks, ordered by index and reference-counted. It only records
// facts; the verbs make them true.
//
//   class 0                                   class 1
//   | region 0     | region 1     | ...      | region 0     | ...
//   | OOSSccc..... | oo.......... |          | ............ |    O owned, S shared, c cached,
//                                                                o spare, . absent
//
// Indices cost nothing until their chunk is created: the host's memfd is sparse. So a lane has a
// region of its own for new chunks, its home, where they are neighbours and merge into one mapping.
// That is a preference only: any chunk of a class may be mapped anywhere.
//
// The pool of a class is a list of the spare chunks that are mapped nowhere, last in, first out.
//
// Every change of a chunk goes through chunk_set, which maintains the sums and the pool.
#include "pset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "vtensor/common/try.h"

void vti_pset_init(vti_pset *ps, const vti_geo *g)
{
    uint64_t first = 0;
    *ps = (vti_pset){.n_class = g->vmm.n_class};
    for (uint32_t i = 0; i < ps->n_class; i++) {
        const vt_vmm_class *from = &g->vmm.cls[i];
        ps->cls[i] = (vti_class){.first = (uint32_t)first,
                                 .len = g->region_len[i],
                                 .max_region = (uint32_t)(from->n_index / g->region_len[i]),
                                 .chunk_bytes = from->n_slice * from->slice_bytes,
                                 .pool = VTI_NO_CHUNK,
                                 .unused = VTI_NO_CHUNK};
        first += from->n_index;
    }
}

void vti_pset_free(vti_pset *ps)
{
    for (vti_class *c = ps->cls; c < ps->cls + ps->n_class; c++) {
        for (uint32_t r = 0; r < c->n_region; r++) free(c->region[r].chunk);
        free(c->region);
    }
    *ps = (vti_pset){0};
}

// ---- Records

uint32_t vti_pset_class(const vti_pset *ps, uint32_t chunk)
{
    uint32_t i = ps->n_class - 1;
    while (ps->cls[i].first > chunk) i--;
    return i;
}

static vti_class *class_naming(const vti_pset *ps, uint32_t chunk)
{
    return (vti_class *)&ps->cls[vti_pset_class(ps, chunk)];
}

static vti_region *region_of(const vti_class *c, uint32_t chunk)
{
    uint32_t r = (chunk - c->first) / c->len;
    return r < c->n_region ? &c->region[r] : NULL;
}

// NULL: never used.
static vti_chunk *record_of(const vti_class *c, uint32_t chunk)
{
    vti_region *r = region_of(c, chunk);
    return r && r->chunk ? &r->chunk[(chunk - c->first) % c->len] : NULL;
}

vti_chunk vti_pset_chunk(const vti_pset *ps, uint32_t chunk)
{
    const vti_chunk *c = record_of(class_naming(ps, chunk), chunk);
    return c ? *c : (vti_chunk){0};
}

vt_chunk_state vti_chunk_state(const vti_chunk *c)
{
    if (!c->is_created) return VT_CHUNK_ABSENT;
    if (c->n_user == 0) return c->n_node == 0 ? VT_CHUNK_SPARE : VT_CHUNK_CACHED;
    return c->n_user == 1 && c->n_node == 0 ? VT_CHUNK_OWNED : VT_CHUNK_SHARED;
}

VTI_HOT vt_chunk_state vti_pset_state(const vti_pset *ps, uint32_t chunk)
{
    vti_chunk c = vti_pset_chunk(ps, chunk);
    return vti_chunk_state(&c);
}

bool vti_pset_continues(const vti_pset *ps, uint32_t before, uint32_t chunk)
{
    if (before == VTI_NO_CHUNK || chunk != before + 1) return false;
    const vti_class *c = class_naming(ps, chunk);
    return chunk > c->first;
}

uint64_t vti_class_created(const vti_class *c)
{
    return c->n_in[VT_CHUNK_SPARE] + c->n_in[VT_CHUNK_CACHED] + c->n_in[VT_CHUNK_OWNED] +
           c->n_in[VT_CHUNK_SHARED];
}

uint64_t vti_pset_bytes(const vti_pset *ps, vt_chunk_state state)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < ps->n_class; i++) n += ps->cls[i].n_in[state] * ps->cls[i].chunk_bytes;
    return n;
}

uint64_t vti_pset_created_bytes(const vti_pset *ps)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < ps->n_class; i++)
        n += vti_class_created(&ps->cls[i]) * ps->cls[i].chunk_bytes;
    return n;
}

// ---- Regions

uint32_t vti_pset_region_first(const vti_pset *ps, uint32_t chunk)
{
    const vti_class *c = class_naming(ps, chunk);
    return chunk - (chunk - c->first) % c->len;
}

bool vti_pset_is_home(const vti_pset *ps, uint32_t chunk)
{
    const vti_region *r = region_of(class_naming(ps, chunk), chunk);
    return r && r->is_home;
}

uint32_t vti_pset_region_created(const vti_pset *ps, uint32_t chunk)
{
    const vti_region *r = region_of(class_naming(ps, chunk), chunk);
    return r ? r->n_created : 0;
}

static vt_status regions_grow(vti_class *c, uint32_t n)
{
    if (n <= c->cap_region) return VT_OK;
    uint64_t cap = c->cap_region ? 2 * (uint64_t)c->cap_region : 16;
    if (cap < n) cap = n;
    if (cap > c->max_region) cap = c->max_region;
    vti_region *more = calloc(cap, sizeof *more);
    if (!more) return VT_ENOMEM;
    if (c->region) memcpy(more, c->region, c->n_region * sizeof *more);
    free(c->region);
    c->region = more;
    c->cap_region = (uint32_t)cap;
    return VT_OK;
}

static bool in_use(const vti_region *r)
{
    return r->is_home || r->n_created > 0 || r->n_reserved > 0;
}

static void note_unused(vti_class *c, vti_region *r)
{
    if (in_use(r) || r->is_listed) return;
    r->is_listed = true;
    r->next_unused = c->unused;
    c->unused = (uint32_t)(r - c->region);
}

// The region that fell out of use last, or the first that was never made. One that came into use
// while it was listed is passed over, once.
static uint32_t take_unused(vti_class *c)
{
    while (c->unused != VTI_NO_CHUNK) {
        uint32_t i = c->unused;
        vti_region *r = &c->region[i];
        c->unused = r->next_unused;
        r->is_listed = false;
        if (!in_use(r)) return i;
    }
    return c->n_region;
}

static vt_status region_make(vti_class *c, uint32_t r)
{
    VT_TRY(regions_grow(c, r + 1));
    while (c->n_region <= r) note_unused(c, &c->region[c->n_region++]);
    if (!c->region[r].chunk) c->region[r].chunk = calloc(c->len, sizeof(vti_chunk));
    return c->region[r].chunk ? VT_OK : VT_ENOMEM;
}

vt_status vti_pset_reserve(vti_pset *ps, uint32_t chunk)
{
    vti_class *c = class_naming(ps, chunk);
    VT_TRY(region_make(c, (chunk - c->first) / c->len));
    record_of(c, chunk)->place = VTI_WITH_JOB;
    region_of(c, chunk)->n_reserved++;
    return VT_OK;
}

void vti_pset_unreserve(vti_pset *ps, uint32_t chunk)
{
    vti_class *c = class_naming(ps, chunk);
    record_of(c, chunk)->place = VTI_IN_POOL;
    region_of(c, chunk)->n_reserved--;
    note_unused(c, region_of(c, chunk));
}

vt_status vti_pset_home_open(vti_pset *ps, uint32_t cls, uint32_t *first)
{
    vti_class *c = &ps->cls[cls];
    uint32_t r = take_unused(c);
    if (r == c->max_region) return VT_NOSPACE;
    vt_status st = region_make(c, r);
    if (r < c->n_region) {
        c->region[r].is_home = st == VT_OK;
        note_unused(c, &c->region[r]);
    }
    if (st == VT_OK) *first = c->first + r * c->len;
    return st;
}

void vti_pset_home_close(vti_pset *ps, uint32_t first)
{
    vti_class *c = class_naming(ps, first);
    vti_region *r = region_of(c, first);
    assert(r && r->is_home);
    r->is_home = false;
    note_unused(c, r);
}

// ---- Transitions

static bool is_evictable(const vti_chunk *c)
{
    return vti_chunk_state(c) == VT_CHUNK_CACHED && c->n_kept == 0;
}

static bool in_pool(const vti_chunk *c)
{
    return vti_chunk_state(c) == VT_CHUNK_SPARE && c->place == VTI_IN_POOL;
}

static VTI_COLD void pool_enter(vti_class *c, uint32_t chunk)
{
    vti_chunk *r = record_of(c, chunk);
    r->prev = VTI_NO_CHUNK;
    r->next = c->pool;
    if (c->pool != VTI_NO_CHUNK) record_of(c, c->pool)->prev = chunk;
    c->pool = chunk;
    c->n_pool++;
}

static VTI_COLD void pool_leave(vti_class *c, uint32_t chunk)
{
    const vti_chunk *r = record_of(c, chunk);
    if (r->prev != VTI_NO_CHUNK)
        record_of(c, r->prev)->next = r->next;
    else
        c->pool = r->next;
    if (r->next != VTI_NO_CHUNK) record_of(c, r->next)->prev = r->prev;
    c->n_pool--;
}

static VTI_HOT void chunk_set(vti_pset *ps, uint32_t chunk, vti_chunk to)
{
    vti_class *c = class_naming(ps, chunk);
    vti_chunk *at = record_of(c, chunk);
    vt_chunk_state was = vti_chunk_state(at), is = vti_chunk_state(&to);
    assert(to.is_created || (to.n_user == 0 && to.n_node == 0));
    assert(to.n_kept <= to.n_node);
    if (was != VT_CHUNK_ABSENT) c->n_in[was]--;
    if (is != VT_CHUNK_ABSENT) c->n_in[is]++;
    c->n_evictable = c->n_evictable - is_evictable(at) + is_evictable(&to);
    bool was_pooled = in_pool(at);
    if (VTI_RARE(was_pooled && !in_pool(&to))) pool_leave(c, chunk);
    *at = to;
    if (VTI_RARE(!was_pooled && in_pool(&to))) pool_enter(c, chunk);
}

void vti_pset_create(vti_pset *ps, uint32_t chunk, bool is_dirty)
{
    vti_class *c = class_naming(ps, chunk);
    assert(vti_pset_state(ps, chunk) == VT_CHUNK_ABSENT);
    region_of(c, chunk)->n_reserved -= record_of(c, chunk)->place == VTI_WITH_JOB;
    chunk_set(ps, chunk,
              (vti_chunk){.is_created = true, .is_dirty = is_dirty, .place = VTI_WITH_JOB});
    region_of(c, chunk)->n_created++;
}

void vti_pset_destroy(vti_pset *ps, uint32_t chunk)
{
    vti_class *c = class_naming(ps, chunk);
    assert(vti_pset_state(ps, chunk) == VT_CHUNK_SPARE);
    chunk_set(ps, chunk, (vti_chunk){0});
    region_of(c, chunk)->n_created--;
    note_unused(c, region_of(c, chunk));
}

void vti_pset_place(vti_pset *ps, uint32_t chunk, vti_place place)
{
    vti_chunk to = vti_pset_chunk(ps, chunk);
    assert(vti_chunk_state(&to) == VT_CHUNK_SPARE);
    to.place = (uint8_t)place;
    chunk_set(ps, chunk, to);
}

void vti_pset_take(vti_pset *ps, uint32_t chunk)
{
    vti_pset_place(ps, chunk, VTI_WITH_JOB);
}

void vti_pset_set_clean(vti_pset *ps, uint32_t chunk)
{
    record_of(class_naming(ps, chunk), chunk)->is_dirty = false;
}

void vti_pset_soil(vti_pset *ps, uint32_t chunk)
{
    record_of(class_naming(ps, chunk), chunk)->is_dirty = true;
}

// ---- Holders

VTI_HOT void vti_pset_user_hold(vti_pset *ps, uint32_t chunk)
{
    vti_chunk to = vti_pset_chunk(ps, chunk);
    assert(to.is_created);
    to.n_user++;
    chunk_set(ps, chunk, to);
}

void vti_pset_user_drop(vti_pset *ps, uint32_t chunk, vti_place place)
{
    vti_chunk to = vti_pset_chunk(ps, chunk);
    assert(to.n_user > 0);
    to.n_user--;
    to.is_dirty = true;
    to.place = (uint8_t)place;
    chunk_set(ps, chunk, to);
}

void vti_pset_node_hold(vti_pset *ps, uint32_t chunk, bool is_kept)
{
    vti_chunk to = vti_pset_chunk(ps, chunk);
    assert(to.is_created);
    to.n_node++;
    to.n_kept += is_kept;
    chunk_set(ps, chunk, to);
}

void vti_pset_node_drop(vti_pset *ps, uint32_t chunk, bool was_kept)
{
    vti_chunk to = vti_pset_chunk(ps, chunk);
    assert(to.n_node > 0);
    to.n_node--;
    to.n_kept -= was_kept;
    to.is_dirty = true;
    to.place = VTI_IN_POOL;
    chunk_set(ps, chunk, to);
}

void vti_pset_node_keep(vti_pset *ps, uint32_t chunk, bool is_kept)
{
    vti_chunk to = vti_pset_chunk(ps, chunk);
    assert(to.n_node > 0);
    to.n_kept = is_kept ? to.n_kept + 1 : to.n_kept - 1;
    chunk_set(ps, chunk, to);
}
