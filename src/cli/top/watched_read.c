// watched_read.c - the lists of an event: what is new or different, and what is gone. Lists are
// sorted by their keys in the stream and here.
#include "cli/top/watched.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY

#define SWAP_NAME (UINT64_C(1) << 48) // names of swapped chunks begin here

static fx_status fail_list(fx_error *err, const char *name)
{
    return fxi_fail(err, FX_EFORMAT, "the server's event: '%s' is not as it should be", name);
}

static fx_status fail_room(fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

bool fxi_watched_natural(const json_t *v, uint64_t max, uint64_t *out)
{
    const double d = json_real_value(v);
    if (!json_is_real(v) || !(d >= 0) || d > (double)FXI_TOP_MAX_NUMBER || d != floor(d))
        return false;
    *out = (uint64_t)d;
    return *out <= max;
}

// A list of n numbers.
static bool take_naturals(const json_t *list, uint64_t *out, size_t n)
{
    if (json_array_size(list) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!fxi_watched_natural(json_array_get(list, i), FXI_TOP_MAX_NUMBER, &out[i]))
            return false;
    return true;
}

static uint32_t small_in(const json_t *o, const char *key)
{
    uint64_t v;
    return fxi_watched_natural(json_object_get(o, key), UINT32_MAX, &v) ? (uint32_t)v : 0;
}

// ---- chunks ------------------------------------------------------------------------------------

int fxi_watched_chunk(const fxi_watched *w, uint64_t name)
{
    const fxi_top_chunks *c = name >= SWAP_NAME ? &w->swapped : &w->here;
    const uint64_t i = name >= SWAP_NAME ? name - SWAP_NAME : name;
    return i < c->cap ? c->state[i] : FXI_TOP_absent;
}

static bool grow_chunks(fxi_top_chunks *c, uint64_t end)
{
    size_t cap = c->cap ? c->cap : 1024;
    if (end <= c->cap) return true;
    while (cap < end) cap *= 2;
    uint8_t *state = realloc(c->state, cap);
    if (!state) return false;
    memset(state + c->cap, FXI_TOP_absent, cap - c->cap);
    c->state = state;
    c->cap = cap;
    return true;
}

static void set_chunks(fxi_watched *w, fxi_top_chunks *c, uint64_t first, uint64_t n, uint8_t state)
{
    for (uint64_t i = first; i < first + n; i++) {
        w->n_chunk[c->state[i]]--;
        c->state[i] = state;
        w->n_chunk[state]++;
    }
}

// [first, n, state, group]; the end of the last run of absent ones is of no interest.
static fx_status read_chunk_run(fxi_watched *w, const json_t *item, fx_error *err)
{
    uint64_t v[4];
    if (!take_naturals(item, v, 4) || v[2] >= FXI_TOP_N_CHUNK) return fail_list(err, "chunks");
    fxi_top_chunks *c = v[0] >= SWAP_NAME ? &w->swapped : &w->here;
    const uint64_t first = v[0] >= SWAP_NAME ? v[0] - SWAP_NAME : v[0];
    uint64_t n = v[1];
    if (v[2] == FXI_TOP_absent && first >= c->cap) return FX_OK;
    if (v[2] == FXI_TOP_absent && n > c->cap - first) n = c->cap - first;
    if (first > FXI_TOP_MAX_CHUNK || n > FXI_TOP_MAX_CHUNK - first) return fail_list(err, "chunks");
    if (!grow_chunks(c, first + n)) return fail_room(err);
    set_chunks(w, c, first, n, (uint8_t)v[2]);
    return FX_OK;
}

fx_status fxi_watched_read_chunks(fxi_watched *w, const json_t *root, fx_error *err)
{
    size_t i;
    const json_t *item;
    json_array_foreach(json_object_get(root, "chunks"), i, item)
        FX_TRY(read_chunk_run(w, item, err));
    return FX_OK;
}

// ---- spans -------------------------------------------------------------------------------------

// The place of a span, or the one where it belongs.
static size_t find_top_span(const fxi_watched *w, uint64_t request, uint32_t choice, bool *found)
{
    size_t low = 0, high = w->n_span;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        const fxi_top_span *s = &w->span[mid];
        if (s->request < request || (s->request == request && s->choice < choice))
            low = mid + 1;
        else
            high = mid;
    }
    *found = low < w->n_span && w->span[low].request == request && w->span[low].choice == choice;
    return low;
}

// One more element of `bytes` bytes at place i of a list of n; NULL: no memory.
static void *open_place(void **list, size_t n, size_t i, size_t bytes)
{
    char *p = n < FXI_TOP_MAX_LIST ? realloc(*list, (n + 1) * bytes) : NULL;
    if (!p) return NULL;
    *list = p;
    memmove(p + (i + 1) * bytes, p + i * bytes, (n - i) * bytes);
    return memset(p + i * bytes, 0, bytes);
}

static fx_status place_span(fxi_watched *w, uint64_t request, uint32_t choice, fxi_top_span **out,
                            fx_error *err)
{
    bool found;
    const size_t i = find_top_span(w, request, choice, &found);
    if (!found) {
        void *list = w->span;
        const bool ok = open_place(&list, w->n_span, i, sizeof *w->span);
        w->span = list;
        if (!ok) return fail_room(err);
        w->n_span++;
        w->span[i].request = request;
        w->span[i].choice = choice;
    }
    *out = &w->span[i];
    return FX_OK;
}

// [group, at, chunk, n]
static bool take_segment(const json_t *item, fxi_top_segment *out)
{
    uint64_t v[4];
    if (!take_naturals(item, v, 4)) return false;
    if (v[0] > UINT32_MAX || v[1] > UINT32_MAX || v[3] > FXI_TOP_MAX_CHUNK) return false;
    *out = (fxi_top_segment){v[2], (uint32_t)v[1], (uint32_t)v[3], (uint32_t)v[0]};
    return v[1] + v[3] <= FXI_TOP_MAX_CHUNK;
}

static fx_status read_segments(fxi_top_span *s, const json_t *list, fx_error *err)
{
    const size_t n = json_array_size(list);
    if (!json_is_array(list)) return FX_OK; // as before
    if (n > FXI_TOP_MAX_LIST) return fail_list(err, "segments");
    fxi_top_segment *segment = calloc(n + 1, sizeof *segment);
    if (!segment) return fail_room(err);
    free(s->segment);
    s->segment = segment;
    s->n_segment = 0;
    for (uint64_t i = 0, sum = 0; i < n; i++) {
        if (!take_segment(json_array_get(list, i), &segment[i])) return fail_list(err, "segments");
        sum += segment[i].n;
        if (sum > FXI_TOP_MAX_CHUNK) return fail_list(err, "segments");
    }
    s->n_segment = (uint32_t)n;
    return FX_OK;
}

static fx_status read_span(fxi_watched *w, const json_t *item, fx_error *err)
{
    uint64_t request;
    fxi_top_span *s;
    if (!fxi_watched_natural(json_object_get(item, "request"), FXI_TOP_MAX_NUMBER, &request))
        return fail_list(err, "spans");
    FX_TRY(place_span(w, request, small_in(item, "choice"), &s, err));
    s->n_tok = small_in(item, "tokens");
    s->is_generating = small_in(item, "generating") != 0;
    return read_segments(s, json_object_get(item, "segments"), err);
}

static void remove_span(fxi_watched *w, uint64_t request, uint32_t choice)
{
    bool found;
    const size_t i = find_top_span(w, request, choice, &found);
    if (!found) return;
    free(w->span[i].segment);
    w->n_span--;
    memmove(&w->span[i], &w->span[i + 1], (w->n_span - i) * sizeof *w->span);
}

fx_status fxi_watched_read_spans(fxi_watched *w, const json_t *root, fx_error *err)
{
    size_t i;
    const json_t *item;
    uint64_t v[2];
    json_array_foreach(json_object_get(root, "gone_spans"), i,
                       item) if (take_naturals(item, v, 2) && v[1] <= UINT32_MAX)
        remove_span(w, v[0], (uint32_t)v[1]);
    json_array_foreach(json_object_get(root, "spans"), i, item) FX_TRY(read_span(w, item, err));
    return FX_OK;
}

// ---- requests ----------------------------------------------------------------------------------

static size_t find_request(const fxi_watched *w, uint64_t id, bool *found)
{
    size_t low = 0, high = w->n_request;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (w->request[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    *found = low < w->n_request && w->request[low].id == id;
    return low;
}

static void fill_request(fxi_top_request *r, const json_t *item)
{
    const char *state = json_string_value(json_object_get(item, "state"));
    const double p = json_real_value(json_object_get(item, "priority"));
    uint64_t submit_us;
    snprintf(r->state, sizeof r->state, "%.11s", state ? state : "?");
    r->submit_us =
        fxi_watched_natural(json_object_get(item, "submit_us"), FXI_TOP_MAX_NUMBER, &submit_us)
            ? submit_us
            : 0;
    r->place = small_in(item, "place");
    r->n_prompt = small_in(item, "prompt");
    r->n_cached = small_in(item, "cached");
    r->n_generated = small_in(item, "generated");
    r->max_tok = small_in(item, "max");
    r->n_seq = small_in(item, "sequences");
    r->priority = p > -1000 && p < 1000 ? (int)p : 0;
}

static fx_status read_request(fxi_watched *w, const json_t *item, fx_error *err)
{
    uint64_t id;
    bool found;
    if (!fxi_watched_natural(json_object_get(item, "id"), FXI_TOP_MAX_NUMBER, &id))
        return fail_list(err, "requests");
    const size_t i = find_request(w, id, &found);
    if (!found) {
        void *list = w->request;
        const bool ok = open_place(&list, w->n_request, i, sizeof *w->request);
        w->request = list;
        if (!ok) return fail_room(err);
        w->n_request++;
        w->request[i].id = id;
    }
    fill_request(&w->request[i], item);
    return FX_OK;
}

static void remove_request(fxi_watched *w, uint64_t id)
{
    bool found;
    const size_t i = find_request(w, id, &found);
    if (!found) return;
    w->n_request--;
    memmove(&w->request[i], &w->request[i + 1], (w->n_request - i) * sizeof *w->request);
}

fx_status fxi_watched_read_requests(fxi_watched *w, const json_t *root, fx_error *err)
{
    size_t i;
    const json_t *item;
    uint64_t id;
    json_array_foreach(json_object_get(root, "gone_requests"), i,
                       item) if (fxi_watched_natural(item, FXI_TOP_MAX_NUMBER, &id))
        remove_request(w, id);
    json_array_foreach(json_object_get(root, "requests"), i, item)
        FX_TRY(read_request(w, item, err));
    return FX_OK;
}

// ---- the end -----------------------------------------------------------------------------------

void fxi_watched_forget(fxi_watched *w)
{
    for (size_t i = 0; i < w->n_span; i++) free(w->span[i].segment);
    free(w->span);
    free(w->request);
    w->span = NULL;
    w->request = NULL;
    w->n_span = w->n_request = 0;
    if (w->here.cap) memset(w->here.state, FXI_TOP_absent, w->here.cap);
    if (w->swapped.cap) memset(w->swapped.state, FXI_TOP_absent, w->swapped.cap);
    memset(w->n_chunk, 0, sizeof w->n_chunk);
}
