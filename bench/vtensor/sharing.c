// sharing.c - what sharing a prompt costs compared with copying it, and what is counted, not timed:
// mappings, physical bytes, system calls.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_vtensor.h"

// ---- fork and match
//
// Sharing a prompt compared with copying it: fork and match.
//
// The whole cost of a shared prompt is the call plus the first read of its rows through new
// mappings: rows are read once and once again, and the difference is the cost of the first read.
// Copying means into the existing memory of another sequence. All run in turn, many times.

enum { PROMPT_TOK = 4096, BRANCH_TOK = 64, BRANCH_EVERY = 16 };

typedef struct share {
    world w;
    uint32_t len_tok;
    uint32_t *tok;  // [len_tok]
    vt_seq *target; // of copies
    samples call, release, match, first, again, copy, extra;
} share;

static volatile uint64_t read_sum; // keeps the reads from being optimised away

static double mean_chunks(const share *f)
{
    return (double)vt_bytes_for(f->w.m, f->len_tok) / (double)world_stats(&f->w).chunk_bytes;
}

// Not measured on a GPU, where the host cannot see the cost of a first read.
static void time_bytes(share *f, vt_seq *s, double call_ns)
{
    if (f->w.b->gpu) return;
    const double start = now_ns();
    read_sum = seq_read(&f->w, s, f->len_tok);
    const double read = now_ns();
    read_sum = seq_read(&f->w, s, f->len_tok);
    const double read_again = now_ns();
    seq_copy(&f->w, f->target, s, f->len_tok);
    const double copy = now_ns() - read_again, first = read - start, again = read_again - read;
    samples_add(&f->first, first);
    samples_add(&f->again, again);
    samples_add(&f->copy, copy);
    samples_add(&f->extra, (call_ns + first - again) / copy);
}

static void time_release(share *f, vt_seq *s)
{
    double start = now_ns();
    vt_seq_release(s);
    samples_add(&f->release, now_ns() - start);
    world_settle(&f->w);
}

static void call_row(bench *b, share *f, const char *name, samples *ns)
{
    slice_row(b, f->w.slice_bytes, "%s", name);
    row_times(b, ns, false);
    row_end(&b->out);
}

static void byte_rows(bench *b, share *f, const char *what)
{
    if (b->gpu) return;
    slice_row(b, f->w.slice_bytes, "%s: rows read", what);
    row_cell(&b->out, "first", samples_at(&f->first, 0.5) / 1e3, "us");
    row_cell(&b->out, "again", samples_at(&f->again, 0.5) / 1e3, "us");
    row_end(&b->out);
    double n_byte = (double)f->len_tok * (double)f->w.token_bytes;
    slice_row(b, f->w.slice_bytes, "%s: memcpy of the rows", what);
    row_cell(&b->out, "p50", samples_at(&f->copy, 0.5) / 1e3, "us");
    row_cell(&b->out, "speed", n_byte / samples_at(&f->copy, 0.5), "GB/s");
    row_end(&b->out);
    slice_row(b, f->w.slice_bytes, "%s: extra cost over memcpy", what);
    row_cell(&b->out, "call", 100 * samples_at(&f->call, 0.5) / samples_at(&f->copy, 0.5), "%");
    row_cell(&b->out, "with first read", 100 * samples_at(&f->extra, 0.5), "%");
    row_end(&b->out);
}

static void share_close(share *f)
{
    samples *all[] = {&f->call, &f->release, &f->match, &f->first, &f->again, &f->copy, &f->extra};
    world_close(&f->w);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) samples_free(all[i]);
    free(f->tok);
}

static bool share_open(share *f, const bench *b, size_t slice_bytes, size_t huge_bytes)
{
    *f = (share){.len_tok = huge_bytes > 0 || !b->quick ? PROMPT_TOK : 256};
    world_size size = {.slice_bytes = slice_bytes,
                       .huge_bytes = huge_bytes,
                       .max_tok = 2 * f->len_tok,
                       .max_seq = 16};
    if (!world_open(&f->w, b, size)) return false;
    f->tok = random_tokens(7, f->len_tok);
    return true;
}

// A sequence filled with `value`; NULL: too few huge pages are reserved.
static vt_seq *new_filled_seq(share *f, int value)
{
    vt_seq *s;
    must(vt_seq_create(f->w.m, f->len_tok, &s), "create");
    if (vt_seq_extend(s, f->len_tok) != VT_OK) return NULL;
    seq_fill(&f->w, s, f->len_tok, value);
    return s;
}

// ---- fork

void bench_fork(bench *b)
{
    share f;
    section(&b->out, "fork", "a prompt forked, and the same bytes copied");
    if (!share_open(&f, b, b->slice_bytes, 0)) return;
    vt_seq *parent = new_filled_seq(&f, 1);
    f.target = new_filled_seq(&f, 2);
    if (!parent || !f.target) must(VT_NOSPACE, "extend");
    for (uint32_t r = 0; r < b->n_repeat; r++) {
        vt_seq *child;
        const double start = now_ns();
        must(vt_seq_fork(parent, f.len_tok, &child), "fork");
        const double ns = now_ns() - start;
        samples_add(&f.call, ns);
        time_bytes(&f, child, ns);
        time_release(&f, child);
    }
    char name[48];
    snprintf(name, sizeof name, "fork %u tokens, %.0f chunks", f.len_tok, mean_chunks(&f));
    call_row(b, &f, name, &f.call);
    call_row(b, &f, "release the child", &f.release);
    byte_rows(b, &f, "fork");
    share_close(&f);
}

// ---- match

// Half of the entries branch off the prompt at many places; the others have nothing in common with
// it. All entries name the chunks of one sequence, so they cost no memory: only lookup and sharing
// are measured.
static void record_entries(share *f, vt_seq *s, uint32_t n_entry)
{
    uint32_t n_place = f->len_tok / BRANCH_EVERY - BRANCH_TOK / BRANCH_EVERY;
    uint32_t *tok = need(malloc(f->len_tok * sizeof *tok));
    for (uint32_t i = 0; i < n_entry; i++) {
        uint32_t keep = i % 2 ? i / 2 % n_place * BRANCH_EVERY : 0;
        uint32_t *branch = random_tokens(1000 + i, BRANCH_TOK);
        memcpy(tok, f->tok, keep * sizeof *tok);
        memcpy(tok + keep, branch, BRANCH_TOK * sizeof *tok);
        must(vt_seq_record(s, f->w.d, tok, keep + BRANCH_TOK, NULL), "record");
        free(branch);
    }
    must(vt_seq_record(s, f->w.d, f->tok, f->len_tok, NULL), "record");
    free(tok);
}

static void match_once(share *f, uint32_t n_tok)
{
    vt_seq *s;
    uint32_t n_hit;
    double start = now_ns();
    n_hit = vt_match(f->w.d, f->tok, n_tok);
    samples_add(&f->match, now_ns() - start);
    start = now_ns();
    must(vt_seq_match(f->w.d, f->tok, n_tok, 0, &s, &n_hit), "match");
    double ns = now_ns() - start;
    if (n_hit != n_tok) must(VT_EINVAL, "match found too little");
    samples_add(&f->call, ns);
    if (n_tok == f->len_tok) time_bytes(f, s, ns);
    time_release(f, s);
}

static void match_rows(bench *b, share *f, const char *pages)
{
    slice_row(b, f->w.slice_bytes, "%s: the tree", pages);
    row_cell(&b->out, "nodes", (double)world_stats(&f->w).prefix_nodes, "nodes");
    row_end(&b->out);
    slice_row(b, f->w.slice_bytes, "%s: vt_match, %u tokens", pages, f->len_tok);
    row_cell(&b->out, "p50", samples_at(&f->match, 0.5), "ns");
    row_cell(&b->out, "max", samples_at(&f->match, 1), "ns");
    row_end(&b->out);
    char name[48];
    snprintf(name, sizeof name, "%s: vt_seq_match, %.0f chunks", pages, mean_chunks(f));
    call_row(b, f, name, &f->call);
    snprintf(name, sizeof name, "%s: release", pages);
    call_row(b, f, name, &f->release);
    byte_rows(b, f, pages);
}

static void match_on(bench *b, share *f, const char *pages, double *extra)
{
    vt_seq *s = new_filled_seq(f, 1);
    f->target = s ? new_filled_seq(f, 2) : NULL;
    if (!f->target) {
        fprintf(stderr, "bench_vtensor: too few %s pages are set aside: left out\n", pages);
        return;
    }
    record_entries(f, s, b->quick ? 200 : 10000);
    vt_seq_release(s);
    world_settle(&f->w);
    for (uint32_t r = 0; r < b->n_repeat; r++) match_once(f, f->len_tok);
    match_rows(b, f, pages);
    if (!b->gpu) *extra = samples_at(&f->extra, 0.5);
    if (isnan(b->found.match_ns)) b->found.match_ns = samples_at(&f->call, 0.5);
    char name[48];
    samples_free(&f->call);
    for (uint32_t r = 0; r < b->n_repeat; r++) match_once(f, f->len_tok - f->w.chunk_tok / 2);
    snprintf(name, sizeof name, "%s: vt_seq_match, part of a chunk", pages);
    call_row(b, f, name, &f->call);
}

void bench_match(bench *b)
{
    const size_t huge_bytes = (size_t)2 << 20;
    share f;
    section(&b->out, "match", "a prompt found among many entries and shared, and its bytes copied");
    if (share_open(&f, b, b->slice_bytes, 0)) {
        match_on(b, &f, b->gpu ? "cuda" : "4 KiB", &b->found.extra_small);
        share_close(&f);
    }
    if (!b->gpu && share_open(&f, b, huge_bytes, huge_bytes)) {
        match_on(b, &f, "2 MiB", &b->found.extra_huge);
        share_close(&f);
    }
}

// ---- counts
//
// Figures that are counted, not timed: mappings, physical bytes, system calls.

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
    slice_row(b, v->w.slice_bytes, "%s", name);
    row_cell(&b->out, "told", (double)st.mappings / views, "per view");
    row_cell(&b->out, "system", (double)world_mappings(&v->w) / views, "per view");
    row_cell(&b->out, "all", (double)world_mappings(&v->w), "mappings");
    row_end(&b->out);
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
        for (int i = 0; i < N_SEQ; i++) must(vt_seq_extend(v->s[i], c * v->unit), "extend");
    vma_row(b, v, "unshared, 16 chunks grown in turn", N_SEQ);
    vma_end(v, N_SEQ);
}

static void vmas_forked(bench *b, vmas *v)
{
    uint32_t half = 8 * v->unit + v->unit / 2;
    v->s[0] = seq_new(&v->w, half);
    for (int i = 1; i < N_SEQ; i++) must(vt_seq_fork(v->s[0], half, &v->s[i]), "fork");
    for (uint32_t c = 1; c <= 4; c++)
        for (int i = 0; i < N_SEQ; i++) must(vt_seq_extend(v->s[i], half + c * v->unit), "extend");
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
        for (int i = 0; i < N_SEQ; i++) must(vt_seq_extend(v->s[i], half + c * v->unit), "extend");
    vma_row(b, v, "matched in mid-chunk, then 4 more", N_SEQ);
    vma_end(v, N_SEQ);
}

static void vmas_turns(bench *b, vmas *v)
{
    uint32_t len_tok = 0;
    for (uint32_t turn = 1; turn <= N_TURN; turn++) {
        v->s[0] = match_prompt(&v->w, v->tok, len_tok, len_tok);
        len_tok += v->unit + v->unit / 3;
        must(vt_seq_extend(v->s[0], len_tok), "extend");
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
    section(&b->out, "vmas", "mappings of the system in each view, per sequence");
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

static void physical_row(bench *b, world *w, uint32_t n_prompt, uint32_t n_tail, uint32_t n)
{
    // The prompt's whole chunks once, and for each request what follows them; if the prompt ends
    // inside a chunk, the tree holds that part too.
    const uint64_t whole = vt_bytes_for(w->m, n_prompt / w->chunk_tok * w->chunk_tok);
    const uint64_t one = vt_bytes_for(w->m, n_prompt + n_tail);
    const uint64_t want = vt_bytes_for(w->m, n_prompt) + n * (one - whole);
    uint64_t is = world_stats(w).mapped_bytes, resident = world_resident(w);
    slice_row(b, w->slice_bytes, "%u requests, prompt of %u", n, n_prompt);
    row_cell(&b->out, "mapped", (double)is / (1 << 20), "MiB");
    row_cell(&b->out, "resident", (double)resident / (1 << 20), "MiB");
    row_cell(&b->out, "expected", (double)want / (1 << 20), "MiB");
    row_cell(&b->out, "unshared", (double)n * (double)one / (1 << 20), "MiB");
    row_end(&b->out);
    const double off = fmax(fabs((double)is - (double)want), fabs((double)resident - (double)want));
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
        must(vt_seq_extend(s[i], n_prompt + n_tail), "extend");
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
    section(&b->out, "physical", "memory of N requests that share a prompt, 64 tokens more each");
    for (int i = 0; i < (b->quick ? 2 : 4); i++) physical_of(b, n_prompt, n_tail, n_request[i]);
    for (int i = 0; i < (b->quick ? 2 : 4); i++) physical_of(b, n_prompt + 5, n_tail, n_request[i]);
}

// ---- memory returned to the system

static void given_back_row(bench *b, const world *w, const char *name, uint64_t freed_bytes,
                           uint64_t keep_bytes, double ns)
{
    slice_row(b, w->slice_bytes, "%s", name);
    row_cell(&b->out, "freed", (double)freed_bytes / (1 << 20), "MiB");
    row_cell(&b->out, "resident after", (double)world_resident(w) / (1 << 20), "MiB");
    row_cell(&b->out, "to be kept", (double)keep_bytes / (1 << 20), "MiB");
    row_cell(&b->out, "speed", (double)freed_bytes / ns, "GB/s");
    row_end(&b->out);
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
    vt_seq *s[N_SEQ];
    section(&b->out, "trim", "memory given back to the system");
    open_or_end(&w, b, (world_size){.max_seq = 2 * N_SEQ});
    uint32_t len_tok = b->quick ? 64 : 1024;
    uint64_t keep = vt_bytes_for(w.m, len_tok);
    for (int i = 0; i < N_SEQ; i++) s[i] = seq_new(&w, len_tok);
    release_all(s, N_SEQ);
    world_settle(&w);
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
    slice_row(b, w->slice_bytes, "fork of %u chunks", n_chunk);
    row_cell(&b->out, "map", (double)(after.map_calls - before.map_calls), "calls");
    row_cell(&b->out, "runs", (double)(after.mappings - before.mappings), "runs");
    row_cell(&b->out, "slices", (double)n_chunk * w->n_view, "slices");
    vt_seq_release(child);
    world_settle(w);
    row_cell(&b->out, "unmap", (double)(world_stats(w).unmap_calls - after.unmap_calls), "calls");
    row_end(&b->out);
    vt_seq_release(s);
    world_empty(w);
}

void bench_calls(bench *b)
{
    static const uint32_t n_chunk[] = {1, 4, 16, 64, 128};
    world w;
    section(&b->out, "calls", "system calls of sharing go with runs, not with chunks");
    open_or_end(&w, b, (world_size){.max_tok = 1 << 16});
    for (int i = 0; i < (b->quick || b->gpu ? 3 : 5); i++) calls_row(b, &w, n_chunk[i]);
    world_close(&w);
}
