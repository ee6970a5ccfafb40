// decoding.c - sequences that decode together: their extends, and the steady state of a server.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_vtensor.h"

// ---- decode
//
// Extends of sequences that decode together, one token per step.
//
// A step extends each sequence by a token (each call is timed), calls vt_step (timed too), and then
// reads memory for a while, in which the mapper can work.

enum { N_SEQ = 32, LOOK_AHEAD_TOK = 16 };

typedef struct decode {
    world w;
    vt_seq *s[N_SEQ];
    uint32_t n_seq, n_step;
    busywork work;
    samples all, new_chunk, step; // ns
    uint64_t n_hit, n_miss;       // extends into a new chunk: prepared, not prepared
} decode;

// Extends by a token. Returns the time, and whether it went into a new chunk.
static double extend_one(const world *w, vt_seq *s, bool *crosses)
{
    const uint32_t len_tok = vt_seq_len(s) + 1;
    *crosses = vt_bytes_for(w->m, len_tok) != vt_bytes_for(w->m, len_tok - 1);
    const double start = now_ns();
    must(vt_seq_extend(s, len_tok), "extend");
    return now_ns() - start;
}

static void decode_step(decode *d, vt_ahead policy, bool counts)
{
    for (uint32_t i = 0; i < d->n_seq; i++) {
        bool crosses;
        const double ns = extend_one(&d->w, d->s[i], &crosses);
        if (counts) samples_add(&d->all, ns);
        if (counts && crosses) samples_add(&d->new_chunk, ns);
    }
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
    slice_row(b, d->w.slice_bytes, "%s, %s", policy, which);
    row_cell(&b->out, "n", (double)s->n, "extends");
    row_cell(&b->out, "p50", samples_at(s, 0.5), "ns");
    row_cell(&b->out, "p99", samples_at(s, 0.99), "ns");
    row_cell(&b->out, "max", samples_at(s, 1), "ns");
    row_end(&b->out);
}

static void policy_rows(bench *b, decode *d, const char *policy, bool ahead)
{
    extend_row(b, d, policy, "every extend", &d->all);
    extend_row(b, d, policy, "into a new chunk", &d->new_chunk);
    slice_row(b, d->w.slice_bytes, "%s, vt_step", policy);
    row_cell(&b->out, "p50", samples_at(&d->step, 0.5), "ns");
    row_cell(&b->out, "p99", samples_at(&d->step, 0.99), "ns");
    row_cell(&b->out, "hits", (double)d->n_hit, "extends");
    row_cell(&b->out, "misses", (double)d->n_miss, "extends");
    row_end(&b->out);
    double p99 = samples_at(&d->new_chunk, 0.99); // other extends need nothing prepared
    if (ahead) b->found.ahead_p99_ns = fmax(b->found.ahead_p99_ns, p99);
}

// The policies run in turn, so that they meet the same noise.
void bench_decode(bench *b)
{
    static const struct {
        const char *name;
        vt_ahead policy;
    } list[] = {{"none", VT_AHEAD_NONE}, {"next", VT_AHEAD_NEXT}, {"slack", VT_AHEAD_SLACK}};
    const world_size size = {.slice_bytes = b->slice_bytes, .max_tok = 4096, .max_seq = N_SEQ};
    decode *d = need(calloc(3, sizeof *d));
    section(&b->out, "decode", "vt_seq_extend of sequences that decode together, a token a step");
    for (int i = 0; i < 3; i++) {
        if (!world_open(&d[i].w, b, size)) must(VT_EINVAL, "slices that the backend does not have");
        d[i].n_seq = b->quick ? 4 : N_SEQ;
        d[i].n_step = b->quick ? 40 : 256;
        d[i].work = busywork_open();
    }
    for (int turn = 0; turn < (b->quick ? 1 : 3); turn++)
        for (int i = 0; i < 3; i++) decode_all(&d[i], list[i].policy);
    for (int i = 0; i < 3; i++) {
        policy_rows(b, &d[i], list[i].name, i > 0);
        world_close(&d[i].w);
        samples_free(&d[i].all), samples_free(&d[i].new_chunk), samples_free(&d[i].step);
        busywork_free(&d[i].work);
    }
    free(d);
}

// ---- churn
//
// The steady state of a server: 32 sequences decode, end, are recorded, and others arrive, with
// free memory and with the budget full of the prefixes of others.
//
// A step extends each sequence by a token and writes a part of its row; those that have reached
// their length are recorded and released, and others arrive, half of them with a prompt that was
// recorded once; prompts are recorded at once. Then it calls vt_step and reads memory for a while.
// The worlds take their steps in turn, so that they meet the same noise.

enum { N_WORLD = 3 };
enum { READY_SHARE = 64 }; // of the memory of the prefixes, ready for arrivals
enum { PROMPT_TOK = 128, LEAST_TOK = 64, MOST_TOK = 512 };

typedef struct arrival {
    vt_seq *s;
    uint64_t seed;
    uint32_t end_tok;
} arrival;

typedef struct churn {
    world w;
    const char *name;
    arrival live[N_SEQ];
    uint32_t n_seq, n_filler, max_tok;
    uint64_t rng, next_seed;
    samples grow, arrive, share, end, step, owner; // ns; share: arrivals that share; owner: all
                                                   // calls of a step, the thread's time
    vt_stats before;
    double owner_sum;
    bool counts;
} churn;

typedef struct churn_shape {
    const char *name;
    uint32_t n_plane, filler_tok;
    size_t row_bytes, slice_bytes;
    uint64_t full_bytes; // budget; 0: what the fillers need
    uint32_t n_filler;   // 0: as many as fill the budget
} churn_shape;

static uint32_t draw(churn *c, uint32_t below)
{
    c->rng ^= c->rng << 13, c->rng ^= c->rng >> 7, c->rng ^= c->rng << 17;
    return (uint32_t)((c->rng >> 32) * below >> 32);
}

static void note(churn *c, samples *s, double start)
{
    double ns = now_ns() - start;
    if (c->counts) samples_add(s, ns);
}

// ---- Sequences

// The tokens of a seed are the same whenever it comes back.
static void seq_end(churn *c, arrival *a)
{
    uint32_t *tok = random_tokens(a->seed, vt_seq_len(a->s));
    double start = now_ns();
    must(vt_seq_record(a->s, c->w.d, tok, vt_seq_len(a->s), NULL), "record");
    vt_seq_release(a->s);
    note(c, &c->end, start);
    free(tok);
}

static void seq_arrive(churn *c, arrival *a)
{
    uint32_t n_hit;
    a->seed = draw(c, 2) ? draw(c, c->n_filler) : c->next_seed++;
    uint32_t n_tok = PROMPT_TOK + draw(c, LEAST_TOK);
    a->end_tok = n_tok + LEAST_TOK + draw(c, MOST_TOK - LEAST_TOK);
    uint32_t *tok = random_tokens(a->seed, n_tok);
    double start = now_ns();
    must(vt_seq_match(c->w.d, tok, n_tok, n_tok, &a->s, &n_hit), "match");
    must(vt_seq_extend(a->s, n_tok), "extend to the prompt");
    must(vt_seq_record(a->s, c->w.d, tok, n_tok, NULL), "record the prompt");
    note(c, n_hit > 0 ? &c->share : &c->arrive, start);
    free(tok);
}

static void seq_decode(churn *c, vt_seq *s)
{
    bool crosses;
    const double ns = extend_one(&c->w, s, &crosses);
    if (crosses && c->counts) samples_add(&c->grow, ns);
    // A byte of each plane: where a shared chunk can still be written to, nothing happens.
    const size_t at = (vt_seq_len(s) - 1) * vt_seq_stride(s);
    for (uint32_t p = 0; p < c->w.b->n_plane; p++) *((char *)vt_seq_plane(s, p) + at) = 1;
}

static void churn_step(churn *c, const busywork *work)
{
    double own = thread_cpu_ns();
    for (uint32_t i = 0; i < c->n_seq; i++) {
        arrival *a = &c->live[i];
        if (vt_seq_len(a->s) < a->end_tok) {
            seq_decode(c, a->s);
            continue;
        }
        seq_end(c, a);
        seq_arrive(c, a);
    }
    double start = now_ns();
    must(vt_step(c->w.m, VT_AHEAD_SLACK, LOOK_AHEAD_TOK, 0), "step");
    note(c, &c->step, start);
    own = thread_cpu_ns() - own;
    if (c->counts) samples_add(&c->owner, own);
    if (c->counts) c->owner_sum += own;
    busywork_run(work, c->w.b->compute_ms);
}

// ---- Worlds

// Prefixes fill the budget.
static void fill_budget(churn *c, const churn_shape *shape)
{
    for (uint32_t i = 0; i < c->n_filler; i++) {
        uint32_t *tok = random_tokens(i, shape->filler_tok);
        vt_seq *s;
        must(vt_seq_create(c->w.m, shape->filler_tok, &s), "create");
        must(vt_seq_extend(s, shape->filler_tok), "extend");
        must(vt_seq_record(s, c->w.d, tok, shape->filler_tok, NULL), "record");
        vt_seq_release(s);
        free(tok);
    }
    world_settle(&c->w);
}

static churn *churn_open(const bench *b, const churn_shape *shape, const char *name, bool full,
                         bool no_guard)
{
    churn *c = need(calloc(1, sizeof *c));
    *c = (churn){.name = name, .n_seq = b->quick ? 4 : N_SEQ, .rng = 88172645463325252u};
    c->max_tok = shape->filler_tok > 1024 ? shape->filler_tok : 1024;
    uint64_t chunk = (uint64_t)shape->n_plane * shape->slice_bytes;
    world_size size = {.slice_bytes = b->layout == VT_LAYOUT_SPLIT ? shape->slice_bytes : chunk,
                       .max_tok = c->max_tok,
                       .max_seq = N_SEQ + 1,
                       .no_guard = no_guard,
                       .budget_bytes = (uint64_t)1 << 40};
    uint64_t each =
        (shape->filler_tok * shape->row_bytes + shape->slice_bytes - 1) / shape->slice_bytes;
    c->n_filler = shape->n_filler;
    if (c->n_filler == 0) c->n_filler = (uint32_t)(shape->full_bytes / chunk / each);
    if (b->quick) c->n_filler /= 20;
    if (full) size.budget_bytes = c->n_filler * each * chunk;
    size.spare_low_bytes = c->n_filler * each * chunk / READY_SHARE;
    if (!world_open(&c->w, b, size)) must(VT_EINVAL, "slices that the backend does not have");
    c->next_seed = (uint64_t)1 << 32;
    fill_budget(c, shape);
    for (uint32_t i = 0; i < c->n_seq; i++) seq_arrive(c, &c->live[i]);
    return c;
}

static void churn_close(churn *c)
{
    samples *all[] = {&c->grow, &c->arrive, &c->share, &c->end, &c->step, &c->owner};
    for (uint32_t i = 0; i < c->n_seq; i++) vt_seq_release(c->live[i].s);
    world_close(&c->w);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) samples_free(all[i]);
    free(c);
}

// ---- Rows

static void time_row(bench *b, const churn *c, const char *which, samples *s)
{
    slice_row(b, c->w.slice_bytes, "%s: %s", c->name, which);
    row_cell(&b->out, "n", (double)s->n, "");
    row_times(b, s, true);
    row_end(&b->out);
}

static void count_row(bench *b, const churn *c)
{
    vt_stats st = world_stats(&c->w);
    slice_row(b, c->w.slice_bytes, "%s: counted", c->name);
    row_cell(&b->out, "not ready", (double)(st.ready_misses - c->before.ready_misses), "extends");
    row_cell(&b->out, "create", (double)(st.create_calls - c->before.create_calls), "calls");
    row_cell(&b->out, "destroy", (double)(st.destroy_calls - c->before.destroy_calls), "calls");
    row_cell(&b->out, "protect", (double)(st.protect_calls - c->before.protect_calls), "calls");
    row_cell(&b->out, "evicted", (double)(st.prefix_evicted - c->before.prefix_evicted), "nodes");
    row_cell(&b->out, "prefixes", (double)st.prefix_nodes, "nodes");
    row_end(&b->out);
}

static void churn_rows(bench *b, churn *c)
{
    time_row(b, c, "extend into a new chunk", &c->grow);
    time_row(b, c, "arrive, nothing shared", &c->arrive); // match to record
    time_row(b, c, "arrive, a prompt shared", &c->share);
    time_row(b, c, "end (record, release)", &c->end);
    time_row(b, c, "vt_step", &c->step);
    slice_row(b, c->w.slice_bytes, "%s: all of a step, thread", c->name);
    row_cell(&b->out, "mean", c->owner_sum / (double)c->owner.n / 1e3, "us");
    row_cell(&b->out, "p50", samples_at(&c->owner, 0.5) / 1e3, "us");
    row_cell(&b->out, "p99", samples_at(&c->owner, 0.99) / 1e3, "us");
    row_end(&b->out);
    count_row(b, c);
}

static void find_goals(bench *b, churn *const *c)
{
    bench_findings *f = &b->found;
    f->churn_p99_ns = fmax(f->churn_p99_ns, samples_at(&c[1]->grow, 0.99));
    f->churn_max_ns = fmax(f->churn_max_ns, samples_at(&c[1]->grow, 1));
    const vt_stats st = world_stats(&c[1]->w), *was = &c[1]->before;
    const uint64_t n_system =
        st.create_calls - was->create_calls + st.destroy_calls - was->destroy_calls;
    f->churn_system = fmax(f->churn_system, (double)n_system);
    double guard_ns = (c[1]->owner_sum - c[2]->owner_sum) / (double)c[1]->owner.n;
    f->guard_share = fmax(f->guard_share, guard_ns / (b->compute_ms * 1e6));
}

static void churn_of(bench *b, const churn_shape *shape)
{
    bench own = *b;
    own.n_plane = shape->n_plane;
    own.row_bytes = shape->row_bytes;
    char title[96];
    snprintf(title, sizeof title, "%u planes of %zu bytes, chunks of %zu KiB", shape->n_plane,
             shape->row_bytes, shape->n_plane * shape->slice_bytes / 1024);
    section(&b->out, "churn", title);
    busywork work = busywork_open();
    churn *c[N_WORLD] = {churn_open(&own, shape, "room", false, false),
                         churn_open(&own, shape, "full", true, false),
                         churn_open(&own, shape, "full, no guard", true, true)};
    uint32_t n_step = b->quick ? 100 : 3000, warm_up = b->quick ? 50 : 1000;
    for (uint32_t t = 0; t < warm_up + n_step; t++)
        for (int i = 0; i < N_WORLD; i++) {
            if (t == warm_up) c[i]->before = world_stats(&c[i]->w);
            c[i]->counts = t >= warm_up;
            churn_step(c[i], &work);
        }
    for (int i = 0; i < N_WORLD; i++) churn_rows(b, c[i]);
    find_goals(b, c);
    for (int i = 0; i < N_WORLD; i++) churn_close(c[i]);
    busywork_free(&work);
}

void bench_churn(bench *b)
{
    static const churn_shape shapes[] = {
        {"many", 16, 128, 64, 4096, 0, 10000},
        {"large", 16, 1024, 1024, 65536, (uint64_t)768 << 20, 0},
    };
    if (b->gpu) return; // these slices are smaller than its granularity
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) churn_of(b, &shapes[i]);
}
