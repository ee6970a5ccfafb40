// vset.c - vSet: the spans of addresses, all of one size, what each maps, and which are idle. It
// only records facts; the operations make them true.
//
// Spans are made one by one as sequences need them, and recycled until the manager is destroyed.
// The list of each state is ordered by the time of entry:
//
//   newest <-> ... <-> oldest
//     |                  |
//     |                  of the retired: the first that the device is done with; of the idle with
//     |                  mapped-free chunks, which have a second list: the first that gives them up
//     among idle spans that fit equally well, the next sequence gets the newest: its memory is most
//     likely in a cache
#include "vset.h"
#include "common.h"

#include <assert.h>
#include <stdlib.h>

vt_status vti_vset_init(vti_vset *vs, const vti_geo *geo, const vti_pset *pset, uint32_t n_max)
{
    *vs = (vti_vset){.geo = geo, .pset = pset, .n_max = n_max};
    vs->span = calloc(2 * (size_t)n_max, sizeof *vs->span);
    vs->due = vs->span + n_max;
    return vs->span ? VT_OK : VT_ENOMEM;
}

void vti_vset_free(vti_vset *vs)
{
    assert(vs->n_span == 0);
    free(vs->span);
    *vs = (vti_vset){0};
}

// ---- Lists

// After `older`; NULL: it becomes the oldest.
static void list_insert(vti_span_list *l, vti_span *older, vti_span *sp)
{
    assert(!sp->newer && !sp->older && l->newest != sp);
    sp->older = older;
    sp->newer = older ? older->newer : l->oldest;
    *(sp->older ? &sp->older->newer : &l->oldest) = sp;
    *(sp->newer ? &sp->newer->older : &l->newest) = sp;
    l->n++;
}

static void list_remove(vti_span_list *l, vti_span *sp)
{
    *(sp->newer ? &sp->newer->older : &l->newest) = sp->older;
    *(sp->older ? &sp->older->newer : &l->oldest) = sp->newer;
    sp->newer = sp->older = NULL;
    l->n--;
}

static void mapped_list_add(vti_span_list *l, vti_span *sp)
{
    sp->mapped_older = l->newest;
    *(l->newest ? &l->newest->mapped_newer : &l->oldest) = sp;
    l->newest = sp;
    l->n++;
}

static void mapped_list_remove(vti_span_list *l, vti_span *sp)
{
    *(sp->mapped_newer ? &sp->mapped_newer->mapped_older : &l->newest) = sp->mapped_older;
    *(sp->mapped_older ? &sp->mapped_older->mapped_newer : &l->oldest) = sp->mapped_newer;
    sp->mapped_newer = sp->mapped_older = NULL;
    l->n--;
}

uint64_t vti_span_mapped_free_bytes(const vti_vset *vs, const vti_span *sp)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < vs->geo->n_group; g++)
        n += sp->lane[g].n_mapped_free * (uint64_t)vs->geo->group[g].chunk_bytes;
    return n;
}

// After a change of a span's state, or of the mapped-free chunks of an idle one.
static void list_if_mapped(vti_vset *vs, vti_span *sp)
{
    const bool belongs = sp->state == VTI_SPAN_IDLE && vti_span_mapped_free_bytes(vs, sp) > 0;
    if (belongs == sp->is_listed_mapped) return;
    (belongs ? mapped_list_add : mapped_list_remove)(&vs->idle_mapped, sp);
    sp->is_listed_mapped = belongs;
}

void vti_vset_move(vti_vset *vs, vti_span *sp, vti_span_state to)
{
    uint64_t warm = vti_span_mapped_free_bytes(vs, sp);
    vs->mapped_free_bytes[sp->state] -= warm;
    vs->mapped_free_bytes[to] += warm;
    const bool is_back = sp->state == VTI_SPAN_CLEARING && to == VTI_SPAN_RETIRED;
    list_remove(&vs->in[sp->state], sp);
    sp->state = to;
    list_insert(&vs->in[to], is_back ? NULL : vs->in[to].newest, sp);
    list_if_mapped(vs, sp);
    if (to == VTI_SPAN_LIVE || to == VTI_SPAN_IDLE) vti_span_set_due(vs, sp);
}

// ---- Due spans

static inline vti_span **due_place(const vti_vset *vs, uint32_t i)
{
    const uint32_t left = vs->n_max - vs->first_due;
    return &vs->due[i < left ? vs->first_due + i : i - left];
}

vti_span *vti_vset_due(const vti_vset *vs, uint32_t i)
{
    return *due_place(vs, i);
}

VTI_HOT void vti_span_set_due(vti_vset *vs, vti_span *sp)
{
    if (sp->is_due) return;
    *due_place(vs, vs->n_due++) = sp;
    sp->is_due = true;
}

vti_span *vti_vset_take_due(vti_vset *vs)
{
    vti_span *sp = vti_vset_due(vs, 0);
    vs->first_due = vs->first_due + 1 < vs->n_max ? vs->first_due + 1 : 0;
    vs->n_due--;
    sp->is_due = false;
    return sp;
}

// ---- Making spans

vt_status vti_vset_push(vti_vset *vs, vti_span **out)
{
    if (vs->n_span == vs->n_max) return VT_NOSPANS;
    vti_span *sp = calloc(1, sizeof *sp + vs->geo->n_group * sizeof(vti_lane));
    if (!sp) return VT_ENOMEM;
    for (uint32_t i = 0; i < vs->geo->n_group; i++) {
        vti_lane *l = &sp->lane[i];
        l->region = VTI_NO_CHUNK;
        l->plan = l->short_plan;
        l->n_plan = VTI_SHORT_PLAN;
    }
    sp->id = vs->n_span;
    vs->span[vs->n_span++] = sp;
    list_insert(&vs->in[VTI_SPAN_IDLE], vs->in[VTI_SPAN_IDLE].newest, sp);
    *out = sp;
    return VT_OK;
}

void vti_vset_pop(vti_vset *vs)
{
    assert(vs->n_span > 0);
    vti_span *sp = vs->span[--vs->n_span];
    vs->mapped_free_bytes[sp->state] -= vti_span_mapped_free_bytes(vs, sp);
    list_remove(&vs->in[sp->state], sp);
    if (sp->is_listed_mapped) mapped_list_remove(&vs->idle_mapped, sp);
    for (uint32_t g = 0; g < vs->geo->n_group; g++) {
        vs->n_run -= (uint64_t)sp->lane[g].n_run * vs->geo->group[g].n_view;
        vti_lane_end_plan(&sp->lane[g]);
        free(sp->lane[g].at);
    }
    vs->span[vs->n_span] = NULL;
    free(sp);
}

// ---- Room

static bool room_resize(vti_lane *l, uint32_t n)
{
    uint32_t *at = realloc(l->at, n * sizeof *at);
    if (!at) return false;
    for (uint32_t p = l->n_room; p < n; p++) at[p] = VTI_NO_CHUNK;
    l->at = at;
    l->n_room = n;
    return true;
}

// By half as much again, so that growing step by step costs a copy of three entries for each.
vt_status vti_lane_make_room(vti_lane *l, uint32_t end)
{
    if (end <= l->n_room) return VT_OK;
    uint32_t n = l->n_room + l->n_room / 2 + 8;
    return room_resize(l, end > n ? end : n) ? VT_OK : VT_ENOMEM;
}

vt_status vti_lane_make_plan(vti_lane *l, uint32_t n)
{
    if (n <= l->n_plan) return VT_OK;
    vti_plan *plan = calloc(n, sizeof *plan);
    if (!plan) return VT_ENOMEM;
    vti_lane_end_plan(l);
    l->plan = plan;
    l->n_plan = n;
    return VT_OK;
}

void vti_lane_end_plan(vti_lane *l)
{
    if (l->plan == l->short_plan) return;
    free(l->plan);
    l->plan = l->short_plan;
    l->n_plan = VTI_SHORT_PLAN;
}

vt_status vti_lane_make_job_room(vti_lane *l, uint32_t first, uint32_t n)
{
    VT_TRY(vti_lane_make_room(l, first + n));
    return vti_lane_make_plan(l, n);
}

void vti_span_shrink(const vti_vset *vs, vti_span *sp)
{
    for (uint32_t i = 0; i < vs->geo->n_group; i++) {
        vti_lane *l = &sp->lane[i];
        if (l->n_room > 64 && l->n_room / 4 > l->n_end) (void)room_resize(l, l->n_end + 32);
    }
}

// ---- What is mapped

bool vti_lane_run_begins(const vti_vset *vs, const vti_lane *l, uint32_t position)
{
    if (vti_lane_at(l, position) == VTI_NO_CHUNK) return false;
    return position == 0 || position == l->n_ro ||
           !vti_pset_continues(vs->pset, l->at[position - 1], l->at[position]);
}

// How many runs begin at a position and the next.
static uint32_t runs_around(const vti_vset *vs, const vti_lane *l, uint32_t position)
{
    return vti_lane_run_begins(vs, l, position) + vti_lane_run_begins(vs, l, position + 1);
}

static void count_runs(vti_vset *vs, vti_lane *l, uint32_t group, uint32_t was, uint32_t is)
{
    l->n_run = l->n_run - was + is;
    vs->n_run += is * (uint64_t)vs->geo->group[group].n_view;
    vs->n_run -= was * (uint64_t)vs->geo->group[group].n_view;
}

// Keeps [solid0, solid1), a stretch without a gap, so that it need not be walked by position.
static void note_solid(vti_lane *l, uint32_t position, bool is_mapped)
{
    const bool is_empty = l->solid0 == l->solid1;
    const bool is_inside = position >= l->solid0 && position < l->solid1;
    if (is_mapped && is_empty) l->solid0 = l->solid1 = position;
    if (is_mapped && position == l->solid1) l->solid1++;
    if (is_mapped && position + 1 == l->solid0) l->solid0--;
    if (is_mapped || !is_inside) return;
    if (position == l->solid0)
        l->solid0++;
    else
        l->solid1 = position;
}

void vti_lane_set(vti_vset *vs, vti_span *sp, uint32_t group, uint32_t position, uint32_t chunk)
{
    vti_lane *l = &sp->lane[group];
    assert(position < l->n_room);
    uint32_t was = runs_around(vs, l, position);
    l->at[position] = chunk;
    note_solid(l, position, chunk != VTI_NO_CHUNK);
    if (chunk != VTI_NO_CHUNK && position >= l->n_end) l->n_end = position + 1;
    while (l->n_end > 0 && l->at[l->n_end - 1] == VTI_NO_CHUNK) l->n_end--;
    count_runs(vs, l, group, was, runs_around(vs, l, position));
    size_t end = l->n_end * vs->geo->group[group].slice_bytes;
    if (l->dirty_end > end) l->dirty_end = end;
}

// Changing n_ro can split or join runs only at the old and the new boundary.
void vti_lane_set_ro(vti_vset *vs, vti_span *sp, uint32_t group, uint32_t n_ro)
{
    vti_lane *l = &sp->lane[group];
    uint32_t old = l->n_ro;
    if (old == n_ro) return;
    uint32_t was = (uint32_t)vti_lane_run_begins(vs, l, old) + vti_lane_run_begins(vs, l, n_ro);
    l->n_ro = n_ro;
    uint32_t is = (uint32_t)vti_lane_run_begins(vs, l, old) + vti_lane_run_begins(vs, l, n_ro);
    count_runs(vs, l, group, was, is);
}

VTI_HOT void vti_lane_count_mapped_free(vti_vset *vs, vti_span *sp, uint32_t group, int32_t more)
{
    int64_t bytes = more * (int64_t)vs->geo->group[group].chunk_bytes;
    sp->lane[group].n_mapped_free = (uint32_t)((int64_t)sp->lane[group].n_mapped_free + more);
    vs->mapped_free_bytes[sp->state] =
        (uint64_t)((int64_t)vs->mapped_free_bytes[sp->state] + bytes);
    if (VTI_RARE(sp->state == VTI_SPAN_IDLE)) list_if_mapped(vs, sp);
}

uintptr_t vti_lane_addr(const vti_geo *g, const vti_span *sp, uint32_t group, uint32_t view,
                        uint32_t position)
{
    const vti_lane_geo *gr = &g->group[group];
    assert(view < gr->n_view && position <= gr->n_position);
    return sp->addr + gr->lane_offset + view * gr->view_stride + position * gr->slice_bytes;
}

// Where the stretch without a gap that holds a position ends; the position itself if none is known.
static inline uint32_t solid_end(const vti_lane *l, uint32_t position)
{
    return position >= l->solid0 && position < l->solid1 ? l->solid1 : position;
}

uint32_t vti_lane_first_unmapped(const vti_lane *l, uint32_t first, uint32_t end)
{
    first = solid_end(l, first);
    while (first < end && vti_lane_at(l, first) != VTI_NO_CHUNK) first = solid_end(l, first + 1);
    return first < end ? first : end;
}

VTI_HOT uint32_t vti_lane_count_unmapped(const vti_lane *l, uint32_t first, uint32_t end)
{
    uint32_t mapped_end = end < l->n_end ? end : l->n_end, n = 0;
    if (first >= mapped_end) return first < end ? end - first : 0;
    for (uint32_t p = solid_end(l, first); p < mapped_end; p = solid_end(l, p + 1))
        n += l->at[p] == VTI_NO_CHUNK;
    return n + (end - mapped_end);
}

bool vti_span_in_flight(const vti_vset *vs, const vti_span *sp)
{
    for (uint32_t g = 0; g < vs->geo->n_group; g++)
        if (sp->lane[g].job.in_flight) return true;
    return false;
}
