// gram_stacks.c - makes and joins sets of stacks.
#include "grammar/run/gram_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"

enum { N_JOINED = 1 << 12, FRAMES_PER_SET = 8, MANY_FRAMES = 24 };

static fx_status fail_memory(fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

static uint64_t hash_frames(const fxi_gram_stacks *s, const fxi_gram_frame *f, size_t n,
                            bool has_empty)
{
    uint64_t h = fxi_secret_mix(s->secret, n, has_empty);
    for (size_t i = 0; i < n; i++) {
        h = fxi_secret_mix(s->secret, h, (uint64_t)f[i].node << 32 | f[i].at);
        h = fxi_secret_mix(s->secret, h, f[i].rest);
    }
    return h;
}

static bool equals_frames(const fxi_gram_stacks *s, uint32_t id, const fxi_gram_frame *f, size_t n,
                          bool has_empty)
{
    const fxi_gram_stack_set *x = &s->set[id];
    return x->n == n && x->has_empty == has_empty &&
           (!n || !memcmp(s->frame + x->first, f, n * sizeof *f));
}

// Where this set is, or would be. Most sets that lie there by chance are told by their tag, without
// a look at their frames.
static struct fxi_gram_slot *slot_of_set(const fxi_gram_stacks *s, const fxi_gram_frame *f,
                                         size_t n, bool has_empty, uint64_t hash)
{
    const uint32_t tag = (uint32_t)(hash >> 32);
    struct fxi_gram_slot *x = &s->slot[hash & s->mask];
    while (x->set && (x->tag != tag || !equals_frames(s, x->set, f, n, has_empty)))
        x = x < s->slot + s->mask ? x + 1 : s->slot;
    return x;
}

static void fill_slot(fxi_gram_stacks *s, uint32_t set, uint64_t hash)
{
    struct fxi_gram_slot *x = &s->slot[hash & s->mask];
    while (x->set) x = x < s->slot + s->mask ? x + 1 : s->slot;
    *x = (struct fxi_gram_slot){set, (uint32_t)(hash >> 32)};
}

static bool widen_slots(fxi_gram_stacks *s)
{
    const size_t n = 2 * (s->mask + 1);
    struct fxi_gram_slot *slot = calloc(n, sizeof *slot);
    if (!slot) return false;
    free(s->slot);
    s->slot = slot;
    s->mask = n - 1;
    for (uint32_t id = 1; id < s->n_set; id++) {
        const fxi_gram_stack_set *x = &s->set[id];
        fill_slot(s, id, hash_frames(s, s->frame + x->first, x->n, x->has_empty));
    }
    return true;
}

static bool append_frames(fxi_gram_stacks *s, const fxi_gram_frame *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!fxi_grow(&s->frame, sizeof *s->frame, s->n_frame, &s->cap_frame)) return false;
        s->frame[s->n_frame++] = f[i];
    }
    return true;
}

static fx_status append_set(fxi_gram_stacks *s, const fxi_gram_frame *f, size_t n, bool has_empty,
                            fx_error *err)
{
    uint32_t depth = 0;
    for (size_t i = 0; i < n; i++)
        if (s->set[f[i].rest].depth >= depth) depth = s->set[f[i].rest].depth + 1;
    if (depth > FXI_STACKS_MAX_DEPTH)
        return fxi_fail(err, FX_EINVAL, "the text is nested deeper than %d of the grammar's parts",
                        FXI_STACKS_MAX_DEPTH);
    if (s->n_set >= s->max_set || s->n_frame + n > s->max_frame)
        return fxi_fail(err, FX_EINVAL, "the grammar needs more than %zu states", s->max_set);
    const size_t first = s->n_frame;
    if (!fxi_grow(&s->set, sizeof *s->set, s->n_set, &s->cap_set) || !append_frames(s, f, n)) {
        s->n_frame = first;
        return fail_memory(err);
    }
    s->set[s->n_set++] = (fxi_gram_stack_set){(uint32_t)first, (uint32_t)n, depth, has_empty};
    return FX_OK;
}

// The set of frames that are sorted and differ in place.
static fx_status put_sorted(fxi_gram_stacks *s, const fxi_gram_frame *f, size_t n, bool has_empty,
                            uint32_t *out, fx_error *err)
{
    if (!n && !has_empty) {
        *out = FXI_STACKS_NONE;
        return FX_OK;
    }
    const uint64_t hash = hash_frames(s, f, n, has_empty);
    *out = slot_of_set(s, f, n, has_empty, hash)->set;
    if (*out) return FX_OK;
    if (2 * s->n_set > s->mask && !widen_slots(s)) return fail_memory(err);
    FX_TRY(append_set(s, f, n, has_empty, err));
    *out = (uint32_t)s->n_set - 1;
    fill_slot(s, *out, hash);
    return FX_OK;
}

static int compare_places(const fxi_gram_frame *a, const fxi_gram_frame *b)
{
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static int compare_frames(const void *a, const void *b)
{
    return compare_places(a, b);
}

// A state has few frames, mostly in order.
static void sort_frames(fxi_gram_frame *f, size_t n)
{
    if (n > MANY_FRAMES) qsort(f, n, sizeof *f, compare_frames);
    for (size_t i = 1; n <= MANY_FRAMES && i < n; i++) {
        const fxi_gram_frame x = f[i];
        size_t at = i;
        for (; at && compare_places(&f[at - 1], &x) > 0; at--) f[at] = f[at - 1];
        f[at] = x;
    }
}

static fx_status join_sets(fxi_gram_stacks *s, uint32_t a, uint32_t b, uint32_t *out,
                           fx_error *err);

fx_status fxi_gram_stacks_put(fxi_gram_stacks *s, fxi_gram_frame *frame, size_t n, bool has_empty,
                              uint32_t *out, fx_error *err)
{
    size_t m = 0;
    sort_frames(frame, n);
    for (size_t i = 0; i < n; i++) {
        if (m && !compare_places(&frame[m - 1], &frame[i]))
            FX_TRY(join_sets(s, frame[m - 1].rest, frame[i].rest, &frame[m - 1].rest, err));
        else
            frame[m++] = frame[i];
    }
    return put_sorted(s, frame, m, has_empty, out, err);
}

// Both sets' frames, merged into f; frames at the same place are joined.
static fx_status merge_frames(fxi_gram_stacks *s, uint32_t a, uint32_t b, fxi_gram_frame *f,
                              size_t *n, fx_error *err)
{
    const fxi_gram_stack_set x = s->set[a], y = s->set[b];
    uint32_t i = 0, j = 0;
    while (i < x.n && j < y.n) { // the arrays may move while frames are joined
        const fxi_gram_frame p = s->frame[x.first + i], q = s->frame[y.first + j];
        const int order = compare_places(&p, &q);
        f[*n] = order <= 0 ? p : q;
        if (order == 0) FX_TRY(join_sets(s, p.rest, q.rest, &f[*n].rest, err));
        i += order <= 0;
        j += order >= 0;
        ++*n;
    }
    for (; i < x.n; i++) f[(*n)++] = s->frame[x.first + i];
    for (; j < y.n; j++) f[(*n)++] = s->frame[y.first + j];
    return FX_OK;
}

static fx_status join_frames(fxi_gram_stacks *s, uint32_t a, uint32_t b, uint32_t *out,
                             fx_error *err)
{
    size_t n = 0;
    const bool has_empty = s->set[a].has_empty || s->set[b].has_empty;
    fxi_gram_frame *f = calloc((size_t)s->set[a].n + s->set[b].n + 1, sizeof *f);
    if (!f) return fail_memory(err);
    fx_status st = merge_frames(s, a, b, f, &n, err);
    if (!st) st = put_sorted(s, f, n, has_empty, out, err);
    free(f);
    return st;
}

// The number of the union of two sets.
static fx_status join_sets(fxi_gram_stacks *s, uint32_t a, uint32_t b, uint32_t *out, fx_error *err)
{
    if (a > b) return join_sets(s, b, a, out, err);
    if (a == b || a == FXI_STACKS_NONE) {
        *out = b;
        return FX_OK;
    }
    struct fxi_gram_join *j =
        &s->joined[fxi_secret_mix(s->secret, a, (uint64_t)b << 32) & (N_JOINED - 1)];
    if (j->a != a || j->b != b) {
        uint32_t both = 0;
        FX_TRY(join_frames(s, a, b, &both, err));
        *j = (struct fxi_gram_join){a, b, both};
    }
    *out = j->both;
    return FX_OK;
}

fx_status fxi_gram_stacks_make(fxi_gram_stacks *s, size_t max_set, fx_error *err)
{
    const fxi_gram_stack_set none = {0}, empty = {.has_empty = true};
    *s = (fxi_gram_stacks){.mask = 255, .max_set = max_set, .max_frame = max_set * FRAMES_PER_SET};
    s->secret = fxi_secret_make();
    s->slot = calloc(s->mask + 1, sizeof *s->slot);
    s->joined = calloc(N_JOINED, sizeof *s->joined);
    if (!s->slot || !s->joined || !fxi_grow(&s->set, sizeof *s->set, 0, &s->cap_set)) {
        fxi_gram_stacks_free(s);
        return fail_memory(err);
    }
    s->set[s->n_set++] = none;
    s->set[s->n_set++] = empty;
    fill_slot(s, FXI_STACKS_EMPTY, hash_frames(s, NULL, 0, true));
    return FX_OK;
}

void fxi_gram_stacks_free(fxi_gram_stacks *s)
{
    free(s->set);
    free(s->frame);
    free(s->slot);
    free(s->joined);
    *s = (fxi_gram_stacks){0};
}

size_t fxi_gram_stacks_n_bytes(const fxi_gram_stacks *s)
{
    return s->cap_set * sizeof *s->set + s->cap_frame * sizeof *s->frame +
           (s->mask + 1) * sizeof *s->slot + N_JOINED * sizeof *s->joined;
}
