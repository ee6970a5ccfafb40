// decode.c - extends of sequences that decode together, one token per step.
//
// A step extends each sequence by a token (each call is timed), calls vt_step (timed too), and then
// reads memory for a while, in which the mapper can work.
#include <math.h>
#include <stdlib.h>

#include "bench_vtensor.h"

enum { N_SEQ = 32, LOOK_AHEAD_TOK = 16 };

typedef struct decode {
    world w;
    vt_seq *s[N_SEQ];
    uint32_t n_seq, n_step;
    busywork work;
    samples all, new_chunk, step; // ns
    uint64_t n_hit, n_miss;       // extends into a new chunk: prepared, not prepared
} decode;

static void extend_timed(decode *d, vt_seq *s, bool counts)
{
    uint32_t len_tok = vt_seq_len(s) + 1;
    bool crosses = vt_bytes_for(d->w.m, len_tok) != vt_bytes_for(d->w.m, len_tok - 1);
    double start = now_ns();
    must(vt_seq_extend(s, len_tok), "extend");
    double ns = now_ns() - start;
    if (!counts) return;
    samples_add(&d->all, ns);
    if (crosses) samples_add(&d->new_chunk, ns);
}

static void decode_step(decode *d, vt_ahead policy, bool counts)
{
    for (uint32_t i = 0; i < d->n_seq; i++) extend_timed(d, d->s[i], counts);
    double start = now_ns();
    must(vt_step(d->w.m, policy, LOOK_AHEAD_TOK, 0), "step");
    if (counts) samples_add(&d->step, now_ns() - start);
    busywork_run(&d->work, d->w.b->compute_ms);
}

// Prompts end at different places in their chunks. The first steps start the mapper and do not
// count.
static void decode_all(decode *d, vt_ahead policy)
{
    const uint32_t warm_up = LOOK_AHEAD_TOK;
    for (uint32_t i = 0; i < d->n_seq; i++) d->s[i] = seq_new(&d->w, 96 + 7 * i);
    for (uint32_t t = 0; t < warm_up; t++) decode_step(d, policy, false);
    vt_stats before = world_stats(&d->w);
    for (uint32_t t = 0; t < d->n_step; t++) decode_step(d, policy, true);
    vt_stats after = world_stats(&d->w);
    d->n_hit += after.ready_hits - before.ready_hits;
    d->n_miss += after.ready_misses - before.ready_misses;
    for (uint32_t i = 0; i < d->n_seq; i++) vt_seq_release(d->s[i]);
    world_empty(&d->w);
}

static void extend_row(bench *b, const decode *d, const char *policy, const char *which, samples *s)
{
    row_begin(b, d->w.slice_bytes, "%s, %s", policy, which);
    row_cell(b, "n", (double)s->n, "extends");
    row_cell(b, "p50", samples_at(s, 0.5), "ns");
    row_cell(b, "p99", samples_at(s, 0.99), "ns");
    row_cell(b, "max", samples_at(s, 1), "ns");
    row_end(b);
}

static void policy_rows(bench *b, decode *d, const char *policy, bool ahead)
{
    extend_row(b, d, policy, "every extend", &d->all);
    extend_row(b, d, policy, "into a new chunk", &d->new_chunk);
    row_begin(b, d->w.slice_bytes, "%s, vt_step", policy);
    row_cell(b, "p50", samples_at(&d->step, 0.5), "ns");
    row_cell(b, "p99", samples_at(&d->step, 0.99), "ns");
    row_cell(b, "hits", (double)d->n_hit, "extends");
    row_cell(b, "misses", (double)d->n_miss, "extends");
    row_end(b);
    double p99 = samples_at(&d->new_chunk, 0.99); // other extends need nothing prepared
    if (ahead) b->found.ahead_p99_ns = fmax(b->found.ahead_p99_ns, p99);
}

static void decode_close(decode *d)
{
    world_close(&d->w);
    samples_free(&d->all), samples_free(&d->new_chunk), samples_free(&d->step);
    busywork_free(&d->work);
    free(d);
}

static decode *decode_open(const bench *b)
{
    decode *d = need(calloc(1, sizeof *d));
    world_size size = {.slice_bytes = b->slice_bytes, .max_tok = 4096, .max_seq = N_SEQ};
    if (!world_open(&d->w, b, size)) must(VT_EINVAL, "slices that the backend does not have");
    d->n_seq = b->quick ? 4 : N_SEQ;
    d->n_step = b->quick ? 40 : 256;
    d->work = busywork_open();
    return d;
}

// The policies run in turn, so that they meet the same noise.
void bench_decode(bench *b)
{
    static const struct {
        const char *name;
        vt_ahead policy;
    } list[] = {{"none", VT_AHEAD_NONE}, {"next", VT_AHEAD_NEXT}, {"slack", VT_AHEAD_SLACK}};
    decode *d[3];
    section(b, "decode", "vt_seq_extend of sequences that decode together, a token a step");
    for (int i = 0; i < 3; i++) d[i] = decode_open(b);
    for (int turn = 0; turn < (b->quick ? 1 : 3); turn++)
        for (int i = 0; i < 3; i++) decode_all(d[i], list[i].policy);
    for (int i = 0; i < 3; i++) {
        policy_rows(b, d[i], list[i].name, i > 0);
        decode_close(d[i]);
    }
}
