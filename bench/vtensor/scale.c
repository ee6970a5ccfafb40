// scale.c - what each call costs as what it does not touch grows: sequences alive, nodes of the
// tree, tokens of the context. On a backend without memory (replay/paper), so that the manager's
// own work is measured, at any size: the budget is 1 TiB.
#include <stdlib.h>

#include "bench_vtensor.h"
#include "replay/paper/paper_memory.h"

enum { N_TOUCHED = 128, PAGE_BYTES = 65536 };

typedef struct scale {
    bench *b;
    vt_manager *m;
    vt_domain *d;
    size_t slice_bytes;
    uint32_t block_tok;
    uint32_t *tok;
    uint32_t n_tok;
    uint64_t now_ms;
} scale;

static scale scale_open(bench *b, size_t slice_bytes, uint32_t max_tok, uint32_t max_seq)
{
    const fxi_memory_costs free_of_cost = {0};
    scale s = {.b = b, .slice_bytes = slice_bytes, .n_tok = max_tok};
    vt_config cfg = vt_config_default();
    cfg.n_plane = 2;
    cfg.row_bytes = 1024;
    cfg.slice_bytes = slice_bytes;
    cfg.max_tok = max_tok;
    cfg.max_seq = max_seq;
    cfg.budget_bytes = (uint64_t)1 << 40;
    cfg.mapper = VT_MAPPER_OWNER;
    cfg.vmm = need(fxi_paper_memory_open(PAGE_BYTES, &free_of_cost));
    must(vt_manager_create(&cfg, &s.m), "make a manager");
    must(vt_domain_open(s.m, "scale", 5, &s.d), "open a domain");
    s.block_tok = (uint32_t)(slice_bytes / cfg.row_bytes);
    s.tok = random_tokens(1, max_tok);
    return s;
}

static void scale_close(scale *s)
{
    free(s->tok);
    vt_manager_destroy(s->m);
}

static void take_step(scale *s)
{
    uint32_t n_left;
    must(vt_step(s->m, VT_AHEAD_SLACK, 16, ++s->now_ms), "step");
    vt_work(s->m, UINT32_MAX, &n_left);
}

// ---- Calls

enum {
    CREATE,
    MATCH,
    FORK,
    EXTEND,
    TRUNCATE,
    RECORD,
    RELEASE,
    STEP,
    STATS,
    BUDGET,
    EVICT,
    TRIM,
    N_TIMED
};
static const char *const timed[N_TIMED] = {"create",   "match",      "fork",    "extend",
                                           "truncate", "record",     "release", "step",
                                           "stats",    "set_budget", "evict",   "trim"};

// Times a call into a list of samples.
#define TIME(list, call)                                  \
    do {                                                  \
        double began = now_ns();                          \
        call;                                             \
        samples_add(&(list), (now_ns() - began) / 1000.); \
    } while (0)

// One round: a new sequence of N_TOUCHED tokens, and the others' calls once each.
static void one_round(scale *s, samples *us, uint32_t round)
{
    vt_seq *a, *f, *h;
    vt_stats st;
    uint32_t n_hit;
    s->tok[0] = 0xF0000000u + round;
    TIME(us[CREATE], must(vt_seq_create(s->m, N_TOUCHED, &a), "create"));
    TIME(us[EXTEND], must(vt_seq_extend(a, N_TOUCHED), "extend"));
    TIME(us[RECORD], must(vt_seq_record(a, s->d, s->tok, N_TOUCHED, NULL), "record"));
    TIME(us[FORK], must(vt_seq_fork(a, N_TOUCHED, &f), "fork"));
    TIME(us[TRUNCATE], must(vt_seq_truncate(f, N_TOUCHED / 2), "truncate"));
    TIME(us[RELEASE], vt_seq_release(a));
    TIME(us[MATCH], must(vt_seq_match(s->d, s->tok, N_TOUCHED, N_TOUCHED, &h, &n_hit), "match"));
    vt_seq_release(f);
    vt_seq_release(h);
    TIME(us[STEP], must(vt_step(s->m, VT_AHEAD_SLACK, 16, ++s->now_ms), "step"));
    vt_work(s->m, UINT32_MAX, NULL);
    TIME(us[STATS], vt_get_stats(s->m, &st));
    TIME(us[BUDGET],
         must(vt_set_budget(s->m, ((uint64_t)1 << 40) - (round & 1) * ((uint64_t)1 << 30)),
              "budget"));
    TIME(us[EVICT], must(vt_evict(s->m, 1, NULL), "evict"));
    TIME(us[TRIM], must(vt_trim(s->m, st.spare_bytes, NULL), "trim"));
}

static void measure_calls(scale *s, const char *by, uint32_t n)
{
    samples us[N_TIMED] = {{0}};
    for (uint32_t i = 0; i < 4 + s->b->n_repeat; i++) one_round(s, us, i);
    row_begin(s->b, s->slice_bytes, "%s %u", by, n);
    for (int k = 0; k < N_TIMED; k++) {
        row_cell(s->b, timed[k], samples_at(&us[k], 0.5), "us");
        samples_free(&us[k]);
    }
    row_end(s->b);
}

// ---- What grows

static void by_sequences(bench *b, size_t slice_bytes, uint32_t n)
{
    scale s = scale_open(b, slice_bytes, 8192, n + 16);
    for (uint32_t i = 0; i < n; i++) {
        vt_seq *q;
        must(vt_seq_create(s.m, 0, &q), "create");
        must(vt_seq_extend(q, 1 + i % 200), "extend");
    }
    take_step(&s);
    measure_calls(&s, "sequences", n);
    scale_close(&s);
}

// Sequences of MAX_BLOCK blocks that share nothing.
static void by_nodes(bench *b, size_t slice_bytes, uint32_t n)
{
    enum { MAX_BLOCK = 64 };
    const uint32_t block = (uint32_t)(slice_bytes / 1024);
    scale s = scale_open(b, slice_bytes, MAX_BLOCK * block, 64);
    for (uint32_t at = 0; at < n; at += MAX_BLOCK) {
        uint32_t n_block = n - at < MAX_BLOCK ? n - at : MAX_BLOCK;
        vt_seq *q;
        s.tok[0] = at;
        must(vt_seq_create(s.m, 0, &q), "create");
        must(vt_seq_extend(q, n_block * block), "extend");
        must(vt_seq_record(q, s.d, s.tok, n_block * block, NULL), "record");
        vt_seq_release(q);
        if (at % 4096 == 0) take_step(&s);
    }
    take_step(&s);
    measure_calls(&s, "nodes", n);
    scale_close(&s);
}

// One sequence of n tokens, recorded as it grows; the calls are on others.
static void by_tokens(bench *b, size_t slice_bytes, uint32_t n)
{
    scale s = scale_open(b, slice_bytes, n < 8192 ? 8192 : n, 64);
    samples us = {0};
    vt_seq *q;
    must(vt_seq_create(s.m, 0, &q), "create");
    for (uint32_t at = 0; at < n;) {
        at = n - at < 512 ? n : at + 512;
        must(vt_seq_extend(q, at), "extend");
        TIME(us, must(vt_seq_record(q, s.d, s.tok, at, NULL), "record"));
        take_step(&s);
    }
    row_begin(b, slice_bytes, "recorded bit by bit %u", n);
    row_cell(b, "record of 512 more", samples_at(&us, 0.5), "us");
    row_end(b);
    samples_free(&us);
    measure_calls(&s, "tokens", n);
    scale_close(&s);
}

void bench_scale(bench *b)
{
    const uint32_t most[3] = {b->quick ? 100 : 10000, b->quick ? 100 : 1000000,
                              b->quick ? 1000 : 1000000};
    void (*const grow[3])(bench *, size_t, uint32_t) = {by_sequences, by_nodes, by_tokens};
    if (b->gpu) return;
    section(b, "scale", "cost of calls, by what they do not touch; 1 TiB without memory");
    for (int k = 0; k < 3; k++)
        for (uint32_t n = 1; n <= most[k]; n *= 10) {
            grow[k](b, 65536, n);
            if (k != 1 || n <= 10000) grow[k](b, 2 << 20, n); // their tokens are kept, 8 KiB a node
        }
}
