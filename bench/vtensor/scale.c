// scale.c - what each call of the owner costs as what it does not touch grows: sequences alive,
// nodes of the tree, tokens of the context, idle spans; and the longest call while memory goes back
// to the system. On a backend without memory (lab/simulated_memory.h), so that the manager's own
// work is measured, at any size: the budget is 8 TiB. A block of 64 tokens fills a chunk.
//
// Only what shows all chunks (chunk_each, snapshot), and what waits for the work on all sequences
// (settle), goes with how many there are. They are timed after the others, whose caches they would
// empty.
#include <math.h>
#include <stdlib.h>

#include "bench_vtensor.h"
#include "lab/simulated_memory.h"

#define GIB         ((uint64_t)1 << 30)
#define MOST_BYTES  (8192 * GIB)
#define MANY_BLOCKS (1u << 20)

enum { N_PLANE = 2, BLOCK_TOK = 64, N_TOUCHED = 128, N_MANY = 16, PAGE_BYTES = 65536 };

typedef struct scale {
    bench *b;
    vt_manager *m;
    vt_domain *d;
    vt_seq *many[N_MANY]; // that extend_many grows by a token each time
    size_t slice_bytes;
    uint32_t *tok;
    uint64_t now_ms;
} scale;

static scale scale_open(bench *b, size_t slice_bytes, uint32_t max_tok, uint32_t max_seq)
{
    const fxi_memory_costs free_of_cost = {0};
    scale s = {.b = b, .slice_bytes = slice_bytes};
    vt_config cfg = vt_config_default();
    cfg.n_plane = N_PLANE;
    cfg.row_bytes = slice_bytes / BLOCK_TOK;
    cfg.slice_bytes = slice_bytes;
    cfg.max_tok = max_tok;
    cfg.max_seq = max_seq;
    cfg.budget_bytes = MOST_BYTES;
    cfg.swap_bytes = GIB;
    cfg.mapper = VT_MAPPER_OWNER;
    cfg.vmm = need(fxi_simulated_memory_open(PAGE_BYTES, &free_of_cost));
    must(vt_manager_create(&cfg, &s.m), "make a manager");
    must(vt_domain_open(s.m, "scale", 5, &s.d), "open a domain");
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
    must(vt_step(s->m, VT_AHEAD_SLACK, 16, ++s->now_ms), "step");
    vt_work(s->m, UINT32_MAX, NULL);
}

static vt_seq *grown(scale *s, uint32_t n_tok)
{
    vt_seq *q;
    must(vt_seq_create(s->m, 0, &q), "create");
    must(vt_seq_extend(q, n_tok), "extend");
    return q;
}

// ---- Calls

// Calls on one sequence, and on the manager.
#define SEQ_CALLS(X)   \
    X(create)          \
    X(match)           \
    X(peek)            \
    X(prefix_continue) \
    X(fork)            \
    X(extend)          \
    X(extend_many)     \
    X(prepare)         \
    X(record)          \
    X(truncate)        \
    X(swap_out)        \
    X(swap_in)         \
    X(release)
#define MANAGER_CALLS(X) \
    X(step)              \
    X(get_stats)         \
    X(read_stats)        \
    X(prefix_ages)       \
    X(held_bytes)        \
    X(mappings_for)      \
    X(domain_open)       \
    X(set_budget)        \
    X(aim_budget)        \
    X(give_back)         \
    X(evict)             \
    X(trim)              \
    X(settle)            \
    X(chunk_each)        \
    X(snapshot)

#define FIELD(name) samples name;
typedef struct call_times {
    SEQ_CALLS(FIELD)
    MANAGER_CALLS(FIELD)
} call_times;

// Times a call into a list of samples.
#define TIME(list, call)                                  \
    do {                                                  \
        double began = now_ns();                          \
        call;                                             \
        samples_add(&(list), (now_ns() - began) / 1000.); \
    } while (0)

// Waits for what has begun, untimed.
static void arrive(vt_seq *q, vt_status st)
{
    if (st == VT_BUSY) st = vt_seq_wait(q);
    must(st, "swap");
}

// A new sequence of N_TOUCHED tokens, and what becomes of it.
static void one_sequence(scale *s, call_times *us, uint32_t round)
{
    vt_seq *a, *f, *h;
    vt_status st;
    uint32_t n_hit, out[8], len[N_MANY];
    s->tok[0] = 0xF0000000u + round;
    TIME(us->create, must(vt_seq_create(s->m, N_TOUCHED, &a), "create"));
    TIME(us->extend, must(vt_seq_extend(a, N_TOUCHED), "extend"));
    TIME(us->record, must(vt_seq_record(a, s->d, s->tok, N_TOUCHED, NULL), "record"));
    TIME(us->fork, must(vt_seq_fork(a, N_TOUCHED, &f), "fork"));
    TIME(us->truncate, must(vt_seq_truncate(f, N_TOUCHED / 2), "truncate"));
    TIME(us->prepare, must(vt_seq_prepare(f, N_TOUCHED, 1), "prepare"));
    TIME(us->release, vt_seq_release(a));
    TIME(us->match, must(vt_seq_match(s->d, s->tok, N_TOUCHED, N_TOUCHED, &h, &n_hit), "match"));
    TIME(us->peek, n_hit = vt_match(s->d, s->tok, N_TOUCHED));
    TIME(us->prefix_continue, n_hit = vt_prefix_continue(s->d, s->tok, N_TOUCHED / 2, out, 8));
    must(vt_seq_extend(h, 2 * N_TOUCHED), "extend");
    TIME(us->swap_out, st = vt_seq_swap_out(h));
    arrive(h, st);
    TIME(us->swap_in, st = vt_seq_swap_in(h));
    arrive(h, st);
    vt_seq_release(f);
    vt_seq_release(h);
    for (int i = 0; i < N_MANY; i++) len[i] = vt_seq_len(s->many[i]) + 1;
    TIME(us->extend_many, must(vt_seq_extend_many(s->many, len, N_MANY, NULL), "extend"));
}

static void note_chunks(void *ud, uint64_t first, uint64_t n, uint32_t group, vt_chunk_state state)
{
    (void)first, (void)group, (void)state;
    *(uint64_t *)ud += n;
}

// Only what the sequence has left is to be done.
static void whole_manager(scale *s, call_times *us, uint32_t round)
{
    const uint64_t less = MOST_BYTES - (round & 1) * GIB;
    vt_stats st;
    vt_prefix_ages ages;
    vt_domain *d;
    uint64_t n = 0;
    TIME(us->step, must(vt_step(s->m, VT_AHEAD_SLACK, 16, ++s->now_ms), "step"));
    vt_work(s->m, UINT32_MAX, NULL);
    TIME(us->get_stats, vt_get_stats(s->m, &st));
    TIME(us->read_stats, vt_read_stats(s->m, &st));
    TIME(us->prefix_ages, vt_get_prefix_ages(s->m, &ages));
    TIME(us->held_bytes, n += vt_held_bytes(s->m));
    TIME(us->mappings_for, n += vt_mappings_for(s->m, s->many[0]));
    TIME(us->domain_open, must(vt_domain_open(s->m, "other", 5, &d), "open a domain"));
    vt_domain_close(d);
    TIME(us->set_budget, must(vt_set_budget(s->m, less), "budget"));
    TIME(us->aim_budget, must(vt_aim_budget(s->m, MOST_BYTES - GIB / 2), "budget"));
    TIME(us->give_back, vt_give_back(s->m, st.spare_bytes, false));
    TIME(us->evict, must(vt_evict(s->m, 1, NULL), "evict"));
    TIME(us->trim, must(vt_trim(s->m, st.spare_bytes, NULL), "trim"));
}

static void show_all(scale *s, call_times *us)
{
    vt_snapshot *snap;
    uint64_t n = 0;
    TIME(us->chunk_each, vt_chunk_each(s->m, note_chunks, &n));
    TIME(us->snapshot, must(vt_snapshot_take(s->m, &snap), "snapshot"));
    vt_snapshot_free(snap);
}

static void put_call(bench *b, const char *name, samples *us)
{
    row_cell(&b->out, name, samples_at(us, 0.5), "us");
    samples_free(us);
}

#define PUT_CALL(name) put_call(s->b, #name, &us.name);

// Rounds until then are not counted: they fill caches.
enum { N_WARM_UP = 2 };

static void measure_calls(scale *s, const char *by, uint32_t n)
{
    static const call_times empty;
    call_times none = empty, us = empty;
    for (int i = 0; i < N_MANY; i++) s->many[i] = grown(s, 1);
    take_step(s);
    for (uint32_t i = 0; i < N_WARM_UP + 4 + s->b->n_repeat; i++) {
        one_sequence(s, i < N_WARM_UP ? &none : &us, i);
        whole_manager(s, i < N_WARM_UP ? &none : &us, i);
    }
    for (uint32_t i = 0; i < s->b->n_repeat; i++) TIME(us.settle, must(vt_settle(s->m), "settle"));
    for (uint32_t i = 0; i < s->b->n_repeat; i++) show_all(s, &us);
    slice_row_at(s->b, s->slice_bytes, n, "a sequence next to %s", by);
    SEQ_CALLS(PUT_CALL)
    row_end(&s->b->out);
    slice_row_at(s->b, s->slice_bytes, n, "the manager next to %s", by);
    MANAGER_CALLS(PUT_CALL)
    row_end(&s->b->out);
#define FREE(name) samples_free(&none.name);
    SEQ_CALLS(FREE)
    MANAGER_CALLS(FREE)
}

// ---- What grows

static void by_sequences(bench *b, size_t slice_bytes, uint32_t n)
{
    scale s = scale_open(b, slice_bytes, 8192, n + N_MANY + 16);
    for (uint32_t i = 0; i < n; i++) (void)grown(&s, 1 + i % 200);
    take_step(&s);
    measure_calls(&s, "sequences", n);
    scale_close(&s);
}

// Sequences of MAX_BLOCK blocks that share nothing.
static void by_nodes(bench *b, size_t slice_bytes, uint32_t n)
{
    enum { MAX_BLOCK = 64 };
    scale s = scale_open(b, slice_bytes, MAX_BLOCK * BLOCK_TOK, 64);
    for (uint32_t at = 0; at < n; at += MAX_BLOCK) {
        uint32_t n_tok = (n - at < MAX_BLOCK ? n - at : MAX_BLOCK) * BLOCK_TOK;
        s.tok[0] = at;
        vt_seq *q = grown(&s, n_tok);
        must(vt_seq_record(q, s.d, s.tok, n_tok, NULL), "record");
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
    vt_seq *q = grown(&s, 0);
    for (uint32_t at = 0; at < n;) {
        at = n - at < 512 ? n : at + 512;
        must(vt_seq_extend(q, at), "extend");
        TIME(us, must(vt_seq_record(q, s.d, s.tok, at, NULL), "record"));
        take_step(&s);
    }
    slice_row_at(b, slice_bytes, n, "a context");
    row_cell(&b->out, "record of 512 more", samples_at(&us, 0.5), "us");
    row_end(&b->out);
    samples_free(&us);
    measure_calls(&s, "tokens", n);
    scale_close(&s);
}

// n idle spans with nothing warm, which have been idle longest, and one that has all that is spare:
// what one that grows takes from it, with the budget full.
static void by_idle(bench *b, size_t slice_bytes, uint32_t n)
{
    const uint32_t most_tok = (b->n_repeat + 1) * BLOCK_TOK;
    scale s = scale_open(b, slice_bytes, most_tok, n + 2);
    samples us = {0};
    vt_stats st;
    vt_seq **q = need(calloc(n, sizeof *q)), *grows = grown(&s, 1), *last = grown(&s, most_tok);
    for (uint32_t i = 0; i < n; i++) must(vt_seq_create(s.m, 0, &q[i]), "create");
    for (uint32_t i = 0; i < n; i++) vt_seq_release(q[i]);
    vt_seq_release(last);
    take_step(&s);
    vt_get_stats(s.m, &st);
    must(vt_set_budget(s.m, st.chunks_created * N_PLANE * slice_bytes), "budget");
    for (uint32_t i = 1; i <= b->n_repeat; i++)
        TIME(us, must(vt_seq_extend(grows, 1 + i * BLOCK_TOK), "extend"));
    slice_row_at(b, slice_bytes, n, "idle spans");
    put_call(b, "extend on a full budget", &us);
    row_end(&b->out);
    free(q);
    scale_close(&s);
}

// ---- Giving back

enum { N_GIVING = 3 }; // times; the least counts, since a busy machine interrupts one call of many

static uint32_t gib_tok(size_t slice_bytes)
{
    return (uint32_t)(GIB / N_PLANE / slice_bytes) * BLOCK_TOK;
}

// n sequences of a GiB have ended together, and left prefixes if not all would be too many nodes.
static void fill_with(scale *s, uint32_t n)
{
    const uint32_t n_tok = gib_tok(s->slice_bytes);
    const bool records = n * (n_tok / BLOCK_TOK) <= MANY_BLOCKS;
    vt_seq **q = need(calloc(n, sizeof *q));
    for (uint32_t i = 0; i < n; i++) {
        s->tok[0] = i;
        q[i] = grown(s, n_tok);
        if (records) must(vt_seq_record(q[i], s->d, s->tok, n_tok, NULL), "record");
    }
    for (uint32_t i = 0; i < n; i++) vt_seq_release(q[i]);
    for (int i = 0; i < 4; i++) take_step(s);
    free(q);
}

// Steps until all has gone: the longest, and how many they are.
static uint32_t go_on(scale *s, double *longest_us)
{
    vt_stats st;
    uint32_t n_step = 0;
    *longest_us = 0;
    do {
        const double began = thread_cpu_ns() / 1e3;
        must(vt_step(s->m, VT_AHEAD_SLACK, 16, ++s->now_ms), "step");
        const double us = thread_cpu_ns() / 1e3 - began;
        if (us > *longest_us) *longest_us = us;
        vt_work(s->m, UINT32_MAX, NULL);
        vt_get_stats(s->m, &st);
        n_step++;
    } while (st.returning_bytes > 0);
    return n_step;
}

static void by_gib(bench *b, size_t slice_bytes, uint32_t n)
{
    static const struct {
        const char *name, *longest, *steps;
    } way[] = {{"give_back", "longest step after give_back", "steps of give_back"},
               {"aim_budget", "longest step after aim_budget", "steps of aim_budget"}};
    scale s = scale_open(b, slice_bytes, gib_tok(slice_bytes), n);
    slice_row_at(b, slice_bytes, n, "GiB go back");
    for (int k = 0; k < 2; k++) {
        double call_us = INFINITY, longest_us = INFINITY;
        uint32_t n_step = 0;
        for (int i = 0; i < N_GIVING; i++) {
            double longest;
            fill_with(&s, n);
            const double began = thread_cpu_ns() / 1e3;
            if (k == 0)
                vt_give_back(s.m, 0, true);
            else
                must(vt_aim_budget(s.m, N_PLANE * s.slice_bytes), "budget");
            call_us = fmin(call_us, thread_cpu_ns() / 1e3 - began);
            n_step = go_on(&s, &longest);
            longest_us = fmin(longest_us, longest);
            must(vt_set_budget(s.m, MOST_BYTES), "budget");
        }
        row_cell(&b->out, way[k].name, call_us, "us");
        row_cell(&b->out, way[k].steps, n_step, "steps");
        row_cell(&b->out, way[k].longest, longest_us, "us");
    }
    row_end(&b->out);
    scale_close(&s);
}

void bench_scale(bench *b)
{
    static const struct {
        void (*grow)(bench *, size_t, uint32_t);
        uint32_t most, most_quick, factor;
    } by[] = {{by_sequences, 10000, 100, 10},
              {by_nodes, 1000000, 100, 10},
              {by_tokens, 1000000, 1000, 10},
              {by_idle, 10000, 100, 10},
              {by_gib, 1024, 1, 4}};
    if (b->gpu) return;
    section(&b->out, "scale", "cost of calls, by what they do not touch; 8 TiB without memory");
    for (size_t k = 0; k < sizeof by / sizeof by[0]; k++)
        for (uint32_t n = 1; n <= (b->quick ? by[k].most_quick : by[k].most); n *= by[k].factor) {
            by[k].grow(b, 64 << 10, n);
            by[k].grow(b, 2 << 20, n);
        }
}
