// count.c - figures that are counted, not timed: mappings, physical bytes, system calls.
#include <math.h>
#include <stdlib.h>

#include "bench_vtensor.h"

enum { N_SEQ = 8, N_TURN = 10, MAX_REQUEST = 64 };

static void open_or_end(world *w, const bench *b, world_size size)
{
    size.slice_bytes = b->slice_bytes;
    if (!world_open(w, b, size)) must(VT_EINVAL, "slices that the backend does not have");
}

static void release_all(vt_seq **s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) vt_seq_release(s[i]);
}

static vt_seq *match_prompt(world *w, const uint32_t *tok, uint32_t n_tok, uint32_t want)
{
    vt_seq *s;
    uint32_t n_hit;
    must(vt_seq_match(w->d, tok, n_tok, 0, &s, &n_hit), "match");
    if (n_hit != want) must(VT_EINVAL, "match found too little");
    return s;
}

static void extend_seq(vt_seq *s, uint32_t len_tok)
{
    must(vt_seq_extend(s, len_tok), "extend");
}

// ---- mappings. On a GPU the driver counts handles: one per chunk of a run.

typedef struct vmas {
    world w;
    vt_seq *s[N_SEQ];
    uint32_t unit; // tokens of a chunk
    uint32_t *tok; // [32 chunks]
} vmas;

// n: number of live sequences.
static void vma_row(bench *b, const vmas *v, const char *name, uint32_t n)
{
    vt_stats st = world_stats(&v->w);
    double views = (double)v->w.n_view * n;
    row_begin(b, v->w.slice_bytes, "%s", name);
    row_cell(b, "told", (double)st.mappings / views, "per view");
    row_cell(b, "system", (double)world_mappings(&v->w) / views, "per view");
    row_cell(b, "all", (double)world_mappings(&v->w), "mappings");
    row_end(b);
}

static void vma_end(vmas *v, uint32_t n)
{
    release_all(v->s, n);
    vt_domain_forget(v->w.d);
    world_empty(&v->w);
}

// They grow in turn, a chunk at a time, which mixes up free lists.
static void vmas_unshared(bench *b, vmas *v)
{
    for (int i = 0; i < N_SEQ; i++) v->s[i] = seq_new(&v->w, v->unit);
    for (uint32_t c = 2; c <= 16; c++)
        for (int i = 0; i < N_SEQ; i++) extend_seq(v->s[i], c * v->unit);
    vma_row(b, v, "unshared, 16 chunks grown in turn", N_SEQ);
    vma_end(v, N_SEQ);
}

static void vmas_forked(bench *b, vmas *v)
{
    uint32_t half = 8 * v->unit + v->unit / 2;
    v->s[0] = seq_new(&v->w, half);
    for (int i = 1; i < N_SEQ; i++) must(vt_seq_fork(v->s[0], half, &v->s[i]), "fork");
    for (uint32_t c = 1; c <= 4; c++)
        for (int i = 0; i < N_SEQ; i++) extend_seq(v->s[i], half + c * v->unit);
    vma_row(b, v, "forked in mid-chunk, then 4 more", N_SEQ);
    vma_end(v, N_SEQ);
}

static void vmas_matched(bench *b, vmas *v)
{
    uint32_t half = 8 * v->unit + v->unit / 2;
    vt_seq *first = seq_new(&v->w, half);
    must(vt_seq_record(first, v->w.d, v->tok, half, NULL), "record");
    vt_seq_release(first);
    world_settle(&v->w);
    for (int i = 0; i < N_SEQ; i++) v->s[i] = match_prompt(&v->w, v->tok, half, half);
    for (uint32_t c = 1; c <= 4; c++)
        for (int i = 0; i < N_SEQ; i++) extend_seq(v->s[i], half + c * v->unit);
    vma_row(b, v, "matched in mid-chunk, then 4 more", N_SEQ);
    vma_end(v, N_SEQ);
}

static void vmas_turns(bench *b, vmas *v)
{
    uint32_t len_tok = 0;
    for (uint32_t turn = 1; turn <= N_TURN; turn++) {
        v->s[0] = match_prompt(&v->w, v->tok, len_tok, len_tok);
        len_tok += v->unit + v->unit / 3;
        extend_seq(v->s[0], len_tok);
        must(vt_seq_record(v->s[0], v->w.d, v->tok, len_tok, NULL), "record");
        if (turn == N_TURN) break;
        vt_seq_release(v->s[0]);
        world_settle(&v->w);
    }
    vma_row(b, v, "conversation of 10 turns", 1);
    vma_end(v, 1);
}

void bench_vmas(bench *b)
{
    vmas v = {0};
    section(b, "vmas", "mappings of the system in each view, per sequence");
    open_or_end(&v.w, b, (world_size){.max_seq = 2 * N_SEQ});
    v.unit = v.w.chunk_tok;
    v.tok = random_tokens(3, 32 * v.unit);
    vmas_unshared(b, &v);
    vmas_forked(b, &v);
    vmas_matched(b, &v);
    vmas_turns(b, &v);
    world_close(&v.w);
    free(v.tok);
}

// ---- physical bytes of a shared prompt

static double off_by(uint64_t a, uint64_t b)
{
    return a > b ? (double)(a - b) : (double)(b - a);
}

// The prompt's whole chunks once, and for each request what follows them; if the prompt ends inside
// a chunk, the tree holds that part too.
static uint64_t expected_bytes(const world *w, uint32_t n_prompt, uint32_t n_tail, uint32_t n)
{
    uint64_t whole = vt_bytes_for(w->m, n_prompt / w->chunk_tok * w->chunk_tok);
    return vt_bytes_for(w->m, n_prompt) + n * (vt_bytes_for(w->m, n_prompt + n_tail) - whole);
}

static void physical_row(bench *b, world *w, uint32_t n_prompt, uint32_t n_tail, uint32_t n)
{
    uint64_t want = expected_bytes(w, n_prompt, n_tail, n), one = n_prompt + n_tail;
    uint64_t is = world_stats(w).mapped_bytes, resident = world_resident(w);
    row_begin(b, w->slice_bytes, "%u requests, prompt of %u", n, n_prompt);
    row_cell(b, "mapped", (double)is / (1 << 20), "MiB");
    row_cell(b, "resident", (double)resident / (1 << 20), "MiB");
    row_cell(b, "expected", (double)want / (1 << 20), "MiB");
    row_cell(b, "unshared", (double)n * (double)vt_bytes_for(w->m, (uint32_t)one) / (1 << 20),
             "MiB");
    row_end(b);
    double off = fmax(off_by(is, want), off_by(resident, want));
    b->found.prompt_miscount = fmax(b->found.prompt_miscount, off);
}

static void physical_of(bench *b, uint32_t n_prompt, uint32_t n_tail, uint32_t n)
{
    world w;
    vt_seq *s[MAX_REQUEST];
    uint32_t *tok = random_tokens(5, n_prompt);
    open_or_end(&w, b, (world_size){.max_seq = MAX_REQUEST + 1});
    vt_seq *first = seq_new(&w, n_prompt);
    must(vt_seq_record(first, w.d, tok, n_prompt, NULL), "record");
    vt_seq_release(first);
    world_settle(&w);
    world_empty(&w);
    for (uint32_t i = 0; i < n; i++) {
        s[i] = match_prompt(&w, tok, n_prompt, n_prompt);
        extend_seq(s[i], n_prompt + n_tail);
    }
    physical_row(b, &w, n_prompt, n_tail, n);
    release_all(s, n);
    world_close(&w);
    free(tok);
}

void bench_physical(bench *b)
{
    static const uint32_t n_request[] = {1, 4, 16, 64};
    uint32_t n_prompt = b->quick ? 128 : 4096, n_tail = 64;
    section(b, "physical", "memory of N requests that share a prompt, 64 tokens more each");
    for (int i = 0; i < (b->quick ? 2 : 4); i++) physical_of(b, n_prompt, n_tail, n_request[i]);
    for (int i = 0; i < (b->quick ? 2 : 4); i++) physical_of(b, n_prompt + 5, n_tail, n_request[i]);
}

// ---- memory returned to the system

static void given_back_row(bench *b, const world *w, const char *name, uint64_t freed_bytes,
                           uint64_t keep_bytes, double ns)
{
    row_begin(b, w->slice_bytes, "%s", name);
    row_cell(b, "freed", (double)freed_bytes / (1 << 20), "MiB");
    row_cell(b, "resident after", (double)world_resident(w) / (1 << 20), "MiB");
    row_cell(b, "to be kept", (double)keep_bytes / (1 << 20), "MiB");
    row_cell(b, "speed", (double)freed_bytes / ns, "GB/s");
    row_end(b);
}

static void leave_spare(world *w, uint32_t len_tok)
{
    vt_seq *s[N_SEQ];
    for (int i = 0; i < N_SEQ; i++) s[i] = seq_new(w, len_tok);
    release_all(s, N_SEQ);
    world_settle(w);
}

static void trim_to(bench *b, world *w, const char *name, uint64_t keep_bytes)
{
    uint64_t freed_bytes;
    double start = now_ns();
    must(vt_trim(w->m, keep_bytes, &freed_bytes), "trim");
    given_back_row(b, w, name, freed_bytes, keep_bytes, now_ns() - start);
}

static void evict_all(bench *b, world *w, uint32_t len_tok)
{
    for (uint64_t i = 0; i < N_SEQ; i++) {
        uint32_t *tok = random_tokens(100 + i, len_tok);
        vt_seq *s = seq_new(w, len_tok);
        must(vt_seq_record(s, w->d, tok, len_tok, NULL), "record");
        vt_seq_release(s);
        free(tok);
    }
    world_settle(w);
    uint64_t freed_bytes;
    double start = now_ns();
    must(vt_evict(w->m, UINT64_MAX, &freed_bytes), "evict");
    given_back_row(b, w, "evict all prefixes", freed_bytes, 0, now_ns() - start);
}

void bench_trim(bench *b)
{
    world w;
    section(b, "trim", "memory given back to the system");
    open_or_end(&w, b, (world_size){.max_seq = 2 * N_SEQ});
    uint32_t len_tok = b->quick ? 64 : 1024;
    uint64_t keep = vt_bytes_for(w.m, len_tok);
    leave_spare(&w, len_tok);
    trim_to(b, &w, "trim to a sequence's worth", keep);
    trim_to(b, &w, "trim to nothing", 0);
    evict_all(b, &w, len_tok);
    world_close(&w);
}

// ---- system calls of sharing

static void calls_row(bench *b, world *w, uint32_t n_chunk)
{
    vt_seq *child, *s = seq_new(w, n_chunk * w->chunk_tok);
    vt_stats before = world_stats(w);
    must(vt_seq_fork(s, n_chunk * w->chunk_tok, &child), "fork");
    vt_stats after = world_stats(w);
    row_begin(b, w->slice_bytes, "fork of %u chunks", n_chunk);
    row_cell(b, "map", (double)(after.map_calls - before.map_calls), "calls");
    row_cell(b, "runs", (double)(after.mappings - before.mappings), "runs");
    row_cell(b, "slices", (double)n_chunk * w->n_view, "slices");
    vt_seq_release(child);
    world_settle(w);
    row_cell(b, "unmap", (double)(world_stats(w).unmap_calls - after.unmap_calls), "calls");
    row_end(b);
    vt_seq_release(s);
    world_empty(w);
}

void bench_calls(bench *b)
{
    static const uint32_t n_chunk[] = {1, 4, 16, 64, 128};
    world w;
    section(b, "calls", "system calls of sharing go with runs, not with chunks");
    open_or_end(&w, b, (world_size){.max_tok = 1 << 16});
    for (int i = 0; i < (b->quick || b->gpu ? 3 : 5); i++) calls_row(b, &w, n_chunk[i]);
    world_close(&w);
}
