// pset.c - pSet: the physical chunks, numbered and reference-counted. It only records facts; the
// operations make them true.
//
// Names cost nothing until their chunk is created: the host's memfd is sparse. There are more of
// them than could be recorded, in regions as long as the longest sequence:
//
//   class 0                                   class 1
//   | region 0     | region 1     | ...      | region 0     | ...
//   | OOSSccc..... | oo.......... |          | ............ |    O owned, S shared, c cached,
//                                                                o spare, . absent
//
// A lane takes new chunks from a region of its own, its preferred region, where they are neighbours
// and merge into one mapping. That is a preference only: any chunk of a class may be mapped
// anywhere.
//
// Only what exists has a record. Records lie in pages of four neighbours; a region knows where its
// pages are, and a page which names it stands for. So a chunk costs 20 bytes, a chunk that is alone
// in its region less than 100, however long the regions are.
//
// The pool of a class is a list of the free chunks that are mapped nowhere, last in, first out.
//
// Every change of a chunk's state goes through chunk_set, which maintains the sums and the pool.
#include "pset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

// ---- Blocks

static void *record_at(const vti_blocks *b, uint32_t i)
{
    return b->block[i / VTI_BLOCK_RECORDS] + i % VTI_BLOCK_RECORDS * b->record_bytes;
}

// One more record, of zeros: the last.
static vt_status blocks_add(vti_blocks *b)
{
    uint32_t i = b->n / VTI_BLOCK_RECORDS;
    if (i == b->cap_block) {
        uint32_t cap = i > 0 ? 2 * i : 8;
        char **more = calloc(cap, sizeof *more);
        if (!more) return VT_ENOMEM;
        if (i > 0) memcpy(more, b->block, i * sizeof *more);
        free(b->block);
        b->block = more;
        b->cap_block = cap;
    }
    if (!b->block[i]) b->block[i] = calloc(VTI_BLOCK_RECORDS, b->record_bytes);
    if (!b->block[i]) return VT_ENOMEM;
    b->n++;
    return VT_OK;
}

static void blocks_free(vti_blocks *b)
{
    for (uint32_t i = 0; i < b->cap_block; i++) free(b->block[i]);
    free(b->block);
}

// ---- The set

void vti_pset_init(vti_pset *ps, const vti_geo *g)
{
    uint64_t first = 0;
    *ps = (vti_pset){.n_class = g->vmm.n_class,
                     .pages.record_bytes = sizeof(vti_page),
                     .free_page = VTI_NO_CHUNK};
    for (uint32_t i = 0; i < ps->n_class; i++) {
        const vt_vmm_class *from = &g->vmm.cls[i];
        ps->cls[i] = (vti_class){.first = first,
                                 .len = g->region_len[i],
                                 .max_region = (uint32_t)(from->n_index / g->region_len[i]),
                                 .regions.record_bytes = sizeof(vti_region),
                                 .chunk_bytes = from->n_slice * from->slice_bytes,
                                 .pool = VTI_NO_CHUNK,
                                 .unused = VTI_NO_CHUNK};
        first += from->n_index;
    }
}

static vti_region *region_at(const vti_class *c, uint32_t region)
{
    return record_at(&c->regions, region);
}

void vti_pset_free(vti_pset *ps)
{
    for (uint32_t k = 0; k < ps->n_class; k++) {
        vti_class *c = &ps->cls[k];
        for (uint32_t i = 0; i < c->regions.n; i++)
            if (region_at(c, i)->n_room > 1) free(region_at(c, i)->page.many);
        blocks_free(&c->regions);
    }
    blocks_free(&ps->pages);
    *ps = (vti_pset){0};
}

// ---- Records

static vti_page *page_of(const vti_pset *ps, uint32_t chunk)
{
    return record_at(&ps->pages, chunk / VTI_PAGE_CHUNKS);
}

static vti_chunk *chunk_at(const vti_pset *ps, uint32_t chunk)
{
    return &page_of(ps, chunk)->chunk[chunk % VTI_PAGE_CHUNKS];
}

uint32_t vti_pset_end(const vti_pset *ps)
{
    return ps->pages.n * VTI_PAGE_CHUNKS;
}

uint32_t vti_pset_class(const vti_pset *ps, uint32_t chunk)
{
    return page_of(ps, chunk)->cls;
}

vti_chunk vti_pset_chunk(const vti_pset *ps, uint32_t chunk)
{
    return *chunk_at(ps, chunk);
}

vt_chunk_state vti_chunk_state(const vti_chunk *c)
{
    if (!c->is_created) return VT_CHUNK_ABSENT;
    if (c->n_user == 0) return c->n_node == 0 ? VT_CHUNK_SPARE : VT_CHUNK_CACHED;
    return c->n_user == 1 && c->n_node == 0 ? VT_CHUNK_OWNED : VT_CHUNK_SHARED;
}

VTI_HOT vt_chunk_state vti_pset_state(const vti_pset *ps, uint32_t chunk)
{
    return vti_chunk_state(chunk_at(ps, chunk));
}

uint64_t vti_class_created(const vti_class *c)
{
    return c->n_in[VT_CHUNK_SPARE] + c->n_in[VT_CHUNK_CACHED] + c->n_in[VT_CHUNK_OWNED] +
           c->n_in[VT_CHUNK_SHARED];
}

uint64_t vti_pset_bytes(const vti_pset *ps, int count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ps->n_class; i++)
        bytes += ps->cls[i].n_in[count] * ps->cls[i].chunk_bytes;
    return bytes;
}

uint64_t vti_pset_created_bytes(const vti_pset *ps)
{
    uint64_t bytes = 0;
    for (int state = VT_CHUNK_SPARE; state < VT_N_CHUNK_STATE; state++)
        bytes += vti_pset_bytes(ps, state);
    return bytes;
}

// ---- Names

vti_name vti_pset_name(const vti_pset *ps, uint32_t chunk)
{
    const vti_page *p = page_of(ps, chunk);
    return (vti_name){p->region, p->index * VTI_PAGE_CHUNKS + chunk % VTI_PAGE_CHUNKS};
}

uint64_t vti_pset_index(const vti_pset *ps, uint32_t chunk)
{
    const vti_class *c = &ps->cls[vti_pset_class(ps, chunk)];
    vti_name name = vti_pset_name(ps, chunk);
    return c->first + (uint64_t)name.region * c->len + name.offset;
}

VTI_HOT bool vti_pset_continues(const vti_pset *ps, uint32_t before, uint32_t chunk)
{
    if (before == VTI_NO_CHUNK || chunk == VTI_NO_CHUNK) return false;
    if (chunk % VTI_PAGE_CHUNKS != 0) return chunk == before + 1;
    return vti_pset_class(ps, before) == vti_pset_class(ps, chunk) &&
           vti_pset_index(ps, before) + 1 == vti_pset_index(ps, chunk);
}

// Where the region keeps the number of a page; NULL: beyond what it has had.
static uint32_t *page_slot(vti_region *r, uint32_t index)
{
    if (index >= r->n_room) return NULL;
    return r->n_room == 1 ? &r->page.one : &r->page.many[index];
}

uint32_t vti_pset_find(const vti_pset *ps, uint32_t cls, vti_name name)
{
    const uint32_t *slot =
        page_slot(region_at(&ps->cls[cls], name.region), name.offset / VTI_PAGE_CHUNKS);
    if (!slot || *slot == VTI_NO_CHUNK) return VTI_NO_CHUNK;
    return *slot * VTI_PAGE_CHUNKS + name.offset % VTI_PAGE_CHUNKS;
}

// ---- Regions

bool vti_pset_is_preferred(const vti_pset *ps, uint32_t cls, uint32_t region)
{
    return region_at(&ps->cls[cls], region)->is_preferred;
}

uint32_t vti_pset_region_used(const vti_pset *ps, uint32_t cls, uint32_t region)
{
    return region_at(&ps->cls[cls], region)->n_used;
}

static void note_unused(vti_class *c, uint32_t region)
{
    vti_region *r = region_at(c, region);
    if (r->is_preferred || r->n_used > 0 || r->is_listed) return;
    r->is_listed = true;
    r->next_unused = c->unused;
    c->unused = region;
}

// The region that fell out of use last, or a new one. One that came into use while it was listed is
// passed over, once.
vt_status vti_pset_region_open(vti_pset *ps, uint32_t cls, uint32_t *region)
{
    vti_class *c = &ps->cls[cls];
    uint32_t found = VTI_NO_CHUNK;
    while (found == VTI_NO_CHUNK && c->unused != VTI_NO_CHUNK) {
        vti_region *r = region_at(c, c->unused);
        if (!r->is_preferred && r->n_used == 0) found = c->unused;
        c->unused = r->next_unused;
        r->is_listed = false;
    }
    if (found == VTI_NO_CHUNK) {
        if (c->regions.n == c->max_region) return VT_NOSPACE;
        VT_TRY(blocks_add(&c->regions));
        found = c->regions.n - 1;
    }
    region_at(c, found)->is_preferred = true;
    *region = found;
    return VT_OK;
}

void vti_pset_region_close(vti_pset *ps, uint32_t cls, uint32_t region)
{
    vti_region *r = region_at(&ps->cls[cls], region);
    assert(r->is_preferred);
    r->is_preferred = false;
    note_unused(&ps->cls[cls], region);
}

// ---- Pages

// By a quarter more, so that growing page by page costs few copies.
static vt_status region_widen(vti_region *r, uint32_t index)
{
    uint32_t n = index == 0 ? 1 : r->n_room + r->n_room / 4 + 4;
    if (n <= index) n = index + 1;
    if (n == 1) {
        r->page.one = VTI_NO_CHUNK;
    } else {
        uint32_t *many = realloc(r->n_room > 1 ? r->page.many : NULL, n * sizeof *many);
        if (!many) return VT_ENOMEM;
        if (r->n_room == 1) many[0] = r->page.one;
        for (uint32_t i = r->n_room; i < n; i++) many[i] = VTI_NO_CHUNK;
        r->page.many = many;
    }
    r->n_room = n;
    return VT_OK;
}

static vt_status page_make(vti_pset *ps, uint32_t cls, vti_name name)
{
    vti_region *r = region_at(&ps->cls[cls], name.region);
    uint32_t index = name.offset / VTI_PAGE_CHUNKS, page = ps->free_page;
    if (index >= r->n_room) VT_TRY(region_widen(r, index));
    if (*page_slot(r, index) != VTI_NO_CHUNK) return VT_OK;
    if (page == VTI_NO_CHUNK) {
        VT_TRY(blocks_add(&ps->pages));
        page = ps->pages.n - 1;
    } else {
        ps->free_page = ((vti_page *)record_at(&ps->pages, page))->region;
    }
    *(vti_page *)record_at(&ps->pages, page) =
        (vti_page){.region = name.region, .index = index & 0xfffffff, .cls = cls & 15};
    *page_slot(r, index) = page;
    return VT_OK;
}

// The chunk has become absent. A region that falls out of use gives back a long table.
static void name_return(vti_pset *ps, uint32_t chunk)
{
    vti_page *p = page_of(ps, chunk);
    vti_class *c = &ps->cls[p->cls];
    vti_region *r = region_at(c, p->region);
    uint32_t region = p->region;
    bool is_used = false;
    for (uint32_t i = 0; i < VTI_PAGE_CHUNKS; i++)
        is_used |= p->chunk[i].is_created || p->chunk[i].place == VTI_WITH_JOB;
    r->n_used--;
    if (!is_used) {
        *page_slot(r, p->index) = VTI_NO_CHUNK;
        p->region = ps->free_page;
        ps->free_page = chunk / VTI_PAGE_CHUNKS;
    }
    if (r->n_used == 0 && r->n_room > 1) {
        free(r->page.many);
        r->n_room = 0;
    }
    note_unused(c, region);
}

vt_status vti_pset_reserve(vti_pset *ps, uint32_t cls, vti_name name, uint32_t *chunk)
{
    VT_TRY(page_make(ps, cls, name));
    *chunk = vti_pset_find(ps, cls, name);
    assert(!chunk_at(ps, *chunk)->is_created && chunk_at(ps, *chunk)->place == 0);
    chunk_at(ps, *chunk)->place = VTI_WITH_JOB;
    region_at(&ps->cls[cls], name.region)->n_used++;
    return VT_OK;
}

void vti_pset_unreserve(vti_pset *ps, uint32_t chunk)
{
    assert(!chunk_at(ps, chunk)->is_created && chunk_at(ps, chunk)->place == VTI_WITH_JOB);
    *chunk_at(ps, chunk) = (vti_chunk){.n_user = 0};
    name_return(ps, chunk);
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

static bool is_leaving(const vti_chunk *c)
{
    return c->n_user > 0 && c->n_gone == c->n_user;
}

static VTI_COLD void pool_enter(vti_pset *ps, vti_class *c, uint32_t chunk)
{
    vti_chunk *r = chunk_at(ps, chunk);
    r->prev = VTI_NO_CHUNK;
    r->next = c->pool;
    if (c->pool != VTI_NO_CHUNK) chunk_at(ps, c->pool)->prev = chunk;
    c->pool = chunk;
    c->n_in[VTI_POOLED]++;
}

static VTI_COLD void pool_leave(vti_pset *ps, vti_class *c, uint32_t chunk)
{
    const vti_chunk *r = chunk_at(ps, chunk);
    if (r->prev != VTI_NO_CHUNK)
        chunk_at(ps, r->prev)->next = r->next;
    else
        c->pool = r->next;
    if (r->next != VTI_NO_CHUNK) chunk_at(ps, r->next)->prev = r->prev;
    c->n_in[VTI_POOLED]--;
}

// A chunk's record, with counts in place of the links of the pool.
static VTI_HOT vti_chunk counts_of(const vti_pset *ps, uint32_t chunk)
{
    vti_chunk c = vti_pset_chunk(ps, chunk);
    if (VTI_RARE(in_pool(&c))) c.n_gone = c.n_kept = 0;
    return c;
}

static VTI_HOT void chunk_set(vti_pset *ps, uint32_t chunk, vti_chunk to)
{
    vti_chunk *at = chunk_at(ps, chunk);
    vti_class *c = &ps->cls[vti_pset_class(ps, chunk)];
    vt_chunk_state was = vti_chunk_state(at), is = vti_chunk_state(&to);
    assert(to.is_created || (to.n_user == 0 && to.n_node == 0));
    assert(to.n_gone <= to.n_user && to.n_kept <= to.n_node);
    if (was != VT_CHUNK_ABSENT) c->n_in[was]--;
    if (is != VT_CHUNK_ABSENT) c->n_in[is]++;
    c->n_in[VTI_EVICTABLE] = c->n_in[VTI_EVICTABLE] - is_evictable(at) + is_evictable(&to);
    c->n_in[VTI_LEAVING] = c->n_in[VTI_LEAVING] - is_leaving(at) + is_leaving(&to);
    if (VTI_RARE(in_pool(at))) pool_leave(ps, c, chunk);
    *at = to;
    if (VTI_RARE(in_pool(at))) pool_enter(ps, c, chunk);
}

void vti_pset_create(vti_pset *ps, uint32_t chunk, bool is_dirty)
{
    vti_chunk to = vti_pset_chunk(ps, chunk);
    assert(!to.is_created && to.place == VTI_WITH_JOB);
    to.is_created = true;
    to.is_dirty = is_dirty;
    chunk_set(ps, chunk, to);
}

void vti_pset_destroy(vti_pset *ps, uint32_t chunk)
{
    assert(vti_pset_state(ps, chunk) == VT_CHUNK_SPARE);
    chunk_set(ps, chunk, (vti_chunk){.n_user = 0});
    name_return(ps, chunk);
}

void vti_pset_place(vti_pset *ps, uint32_t chunk, vti_place place)
{
    vti_chunk to = counts_of(ps, chunk);
    assert(vti_chunk_state(&to) == VT_CHUNK_SPARE);
    to.place = place & 3;
    chunk_set(ps, chunk, to);
}

void vti_pset_set_dirty(vti_pset *ps, uint32_t chunk, bool is_dirty)
{
    chunk_at(ps, chunk)->is_dirty = is_dirty;
}

// ---- Holders

VTI_HOT void vti_pset_user_hold(vti_pset *ps, uint32_t chunk)
{
    vti_chunk to = counts_of(ps, chunk);
    assert(to.is_created);
    to.n_user = (to.n_user + 1) & 0xfffffff;
    chunk_set(ps, chunk, to);
}

void vti_pset_user_leave(vti_pset *ps, uint32_t chunk)
{
    vti_chunk *at = chunk_at(ps, chunk);
    assert(at->n_gone < at->n_user);
    if (++at->n_gone == at->n_user) ps->cls[vti_pset_class(ps, chunk)].n_in[VTI_LEAVING]++;
}

void vti_pset_user_stay(vti_pset *ps, uint32_t chunk)
{
    vti_chunk *at = chunk_at(ps, chunk);
    assert(at->n_gone > 0);
    if (at->n_gone-- == at->n_user) ps->cls[vti_pset_class(ps, chunk)].n_in[VTI_LEAVING]--;
}

void vti_pset_user_drop(vti_pset *ps, uint32_t chunk, vti_place place, bool had_left)
{
    vti_chunk to = counts_of(ps, chunk);
    assert(to.n_user > 0 && to.n_gone >= had_left);
    to.n_user = (to.n_user - 1) & 0xfffffff;
    to.n_gone -= had_left;
    to.is_dirty = true;
    to.place = place & 3;
    chunk_set(ps, chunk, to);
}

void vti_pset_node_hold(vti_pset *ps, uint32_t chunk, bool is_kept)
{
    vti_chunk to = counts_of(ps, chunk);
    assert(to.is_created);
    to.n_node++;
    to.n_kept += is_kept;
    chunk_set(ps, chunk, to);
}

void vti_pset_node_drop(vti_pset *ps, uint32_t chunk, bool was_kept)
{
    vti_chunk to = counts_of(ps, chunk);
    assert(to.n_node > 0);
    to.n_node--;
    to.n_kept -= was_kept;
    to.is_dirty = true;
    to.place = VTI_IN_POOL;
    chunk_set(ps, chunk, to);
}

void vti_pset_node_keep(vti_pset *ps, uint32_t chunk, bool is_kept)
{
    vti_chunk to = counts_of(ps, chunk);
    assert(to.n_node > 0);
    to.n_kept = is_kept ? to.n_kept + 1 : to.n_kept - 1;
    chunk_set(ps, chunk, to);
}
