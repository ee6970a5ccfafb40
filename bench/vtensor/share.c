// share.c - sharing a prompt compared with copying it: fork and match.
//
// The whole cost of a shared prompt is the call plus the first read of its rows through new
// mappings: rows are read once and once again, and the difference is the cost of the first read.
// Copying means into the existing memory of another sequence. All run in turn, many times.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_vtensor.h"

enum { PROMPT_TOK = 4096, BRANCH_TOK = 64, BRANCH_EVERY = 16 };

typedef struct share {
    world w;
    uint32_t len_tok;
    uint32_t *tok;  // [len_tok]
    vt_seq *target; // of copies
    samples call, release, match, first, again, copy, extra;
} share;

static volatile uint64_t read_sum; // keeps the reads from being optimised away

static uint32_t prompt_tok(const bench *b)
{
    return b->quick ? 256 : PROMPT_TOK;
}

static double mean_chunks(const share *f)
{
    return (double)vt_bytes_for(f->w.m, f->len_tok) / (double)world_stats(&f->w).chunk_bytes;
}

static double time_read(const share *f, const vt_seq *s)
{
    double start = now_ns();
    read_sum = seq_read(&f->w, s, f->len_tok);
    return now_ns() - start;
}

static double time_copy(const share *f, const vt_seq *s)
{
    double start = now_ns();
    seq_copy(&f->w, f->target, s, f->len_tok);
    return now_ns() - start;
}

// Not measured on a GPU, where the host cannot see the cost of a first read.
static void time_bytes(share *f, vt_seq *s, double call_ns)
{
    if (f->w.b->gpu) return;
    double first = time_read(f, s), again = time_read(f, s), copy = time_copy(f, s);
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
    row_begin(b, f->w.slice_bytes, "%s", name);
    row_cell(b, "p50", samples_at(ns, 0.5) / 1e3, "us");
    row_cell(b, "max", samples_at(ns, 1) / 1e3, "us");
    row_end(b);
}

static void byte_rows(bench *b, share *f, const char *what)
{
    if (b->gpu) return;
    row_begin(b, f->w.slice_bytes, "%s: rows read", what);
    row_cell(b, "first", samples_at(&f->first, 0.5) / 1e3, "us");
    row_cell(b, "again", samples_at(&f->again, 0.5) / 1e3, "us");
    row_end(b);
    double n_byte = (double)f->len_tok * (double)f->w.token_bytes;
    row_begin(b, f->w.slice_bytes, "%s: memcpy of the rows", what);
    row_cell(b, "p50", samples_at(&f->copy, 0.5) / 1e3, "us");
    row_cell(b, "speed", n_byte / samples_at(&f->copy, 0.5), "GB/s");
    row_end(b);
    row_begin(b, f->w.slice_bytes, "%s: extra cost over memcpy", what);
    row_cell(b, "call", 100 * samples_at(&f->call, 0.5) / samples_at(&f->copy, 0.5), "%");
    row_cell(b, "with first read", 100 * samples_at(&f->extra, 0.5), "%");
    row_end(b);
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
    *f = (share){.len_tok = huge_bytes > 0 ? PROMPT_TOK : prompt_tok(b)};
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

static void fork_once(share *f, vt_seq *parent)
{
    vt_seq *child;
    double start = now_ns();
    must(vt_seq_fork(parent, f->len_tok, &child), "fork");
    double ns = now_ns() - start;
    samples_add(&f->call, ns);
    time_bytes(f, child, ns);
    time_release(f, child);
}

void bench_fork(bench *b)
{
    share f;
    section(b, "fork", "a prompt forked, and the same bytes copied");
    if (!share_open(&f, b, b->slice_bytes, 0)) return;
    vt_seq *parent = new_filled_seq(&f, 1);
    f.target = new_filled_seq(&f, 2);
    if (!parent || !f.target) must(VT_NOSPACE, "extend");
    for (uint32_t r = 0; r < b->n_repeat; r++) fork_once(&f, parent);
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
    row_begin(b, f->w.slice_bytes, "%s: the tree", pages);
    row_cell(b, "nodes", (double)world_stats(&f->w).prefix_nodes, "nodes");
    row_end(b);
    row_begin(b, f->w.slice_bytes, "%s: vt_match, %u tokens", pages, f->len_tok);
    row_cell(b, "p50", samples_at(&f->match, 0.5), "ns");
    row_cell(b, "max", samples_at(&f->match, 1), "ns");
    row_end(b);
    char name[48];
    snprintf(name, sizeof name, "%s: vt_seq_match, %.0f chunks", pages, mean_chunks(f));
    call_row(b, f, name, &f->call);
    snprintf(name, sizeof name, "%s: release", pages);
    call_row(b, f, name, &f->release);
    byte_rows(b, f, pages);
}

static void part_row(bench *b, share *f, const char *pages)
{
    char name[48];
    samples_free(&f->call);
    for (uint32_t r = 0; r < b->n_repeat; r++) match_once(f, f->len_tok - f->w.chunk_tok / 2);
    snprintf(name, sizeof name, "%s: vt_seq_match, part of a chunk", pages);
    call_row(b, f, name, &f->call);
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
    part_row(b, f, pages);
}

void bench_match(bench *b)
{
    const size_t huge_bytes = (size_t)2 << 20;
    share f;
    section(b, "match", "a prompt found among many entries and shared, and its bytes copied");
    if (share_open(&f, b, b->slice_bytes, 0)) {
        match_on(b, &f, b->gpu ? "cuda" : "4 KiB", &b->found.extra_small);
        share_close(&f);
    }
    if (!b->gpu && share_open(&f, b, huge_bytes, huge_bytes)) {
        match_on(b, &f, "2 MiB", &b->found.extra_huge);
        share_close(&f);
    }
}
