// gram_stacks.c - makes and joins sets of stacks.
#include "grammar/automaton/gram_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"

enum { N_JOINED = 1 << 12, FRAMES_PER_SET = 8, MANY_FRAMES = 24 };

static uint32_t hash_frames(const fxi_gram_stacks *s, const fxi_gram_frame *f, size_t n,
                            bool has_empty)
{
    uint64_t h = fxi_secret_mix(s->secret, n, has_empty);
    for (size_t i = 0; i < n; i++) {
        h = fxi_secret_mix(s->secret, h, (uint64_t)f[i].node << 32 | f[i].at);
        h = fxi_secret_mix(s->secret, h, f[i].rest);
    }
    return (uint32_t)(h >> 32);
}

static uint32_t find_set(const fxi_gram_stacks *s, const fxi_gram_frame *f, size_t n,
                         bool has_empty, uint32_t hash)
{
    size_t probe = 0;
    uint32_t id;
    while ((id = fxi_hash_index_next(&s->index, hash, &probe))) {
        const fxi_gram_stack_set *x = &s->set[id];
        if (x->n == n && x->has_empty == has_empty &&
            (!n || !memcmp(s->frame + x->first, f, n * sizeof *f)))
            break;
    }
    return id;
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
    if (!fxi_grow(&s->set, sizeof *s->set, s->n_set, &s->cap_set)) return fxi_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (!fxi_grow(&s->frame, sizeof *s->frame, first + i, &s->cap_frame))
            return fxi_fail_memory(err);
        s->frame[first + i] = f[i];
    }
    s->n_frame = first + n;
    s->set[s->n_set++] = (fxi_gram_stack_set){(uint32_t)first, (uint32_t)n, depth, has_empty};
    return FX_OK;
}

// Finds or adds the set of frames that are sorted and at different places.
static fx_status put_sorted(fxi_gram_stacks *s, const fxi_gram_frame *f, size_t n, bool has_empty,
                            uint32_t *out, fx_error *err)
{
    if (!n && !has_empty) {
        *out = FXI_STACKS_NONE;
        return FX_OK;
    }
    const uint32_t hash = hash_frames(s, f, n, has_empty);
    *out = find_set(s, f, n, has_empty, hash);
    if (*out) return FX_OK;
    FX_TRY(append_set(s, f, n, has_empty, err));
    *out = (uint32_t)s->n_set - 1;
    if (fxi_hash_index_add(&s->index, *out, hash)) return FX_OK;
    s->n_set--;
    s->n_frame -= n;
    return fxi_fail_memory(err);
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

// Insertion sort while there are few frames, as in most states: they are almost sorted.
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
                           fx_error *err); // its frames are joined recursively

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

// Merges the frames of both sets into f; joins frames at the same place.
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
    if (!f) return fxi_fail_memory(err);
    fx_status st = merge_frames(s, a, b, f, &n, err);
    if (!st) st = put_sorted(s, f, n, has_empty, out, err);
    free(f);
    return st;
}

// Finds or makes the union of two sets.
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
    *s = (fxi_gram_stacks){.max_set = max_set,
                           .max_frame = max_set * FRAMES_PER_SET,
                           .secret = fxi_secret_make(),
                           .joined = calloc(N_JOINED, sizeof *s->joined)};
    if (s->joined && fxi_grow(&s->set, sizeof *s->set, 0, &s->cap_set) &&
        fxi_hash_index_add(&s->index, FXI_STACKS_EMPTY, hash_frames(s, NULL, 0, true))) {
        s->set[s->n_set++] = none;
        s->set[s->n_set++] = empty;
        return FX_OK;
    }
    fxi_gram_stacks_free(s);
    return fxi_fail_memory(err);
}

void fxi_gram_stacks_free(fxi_gram_stacks *s)
{
    free(s->set);
    free(s->frame);
    fxi_hash_index_free(&s->index);
    free(s->joined);
    *s = (fxi_gram_stacks){0};
}

size_t fxi_gram_stacks_n_bytes(const fxi_gram_stacks *s)
{
    return s->cap_set * sizeof *s->set + s->cap_frame * sizeof *s->frame +
           fxi_hash_index_n_bytes(&s->index) + N_JOINED * sizeof *s->joined;
}
