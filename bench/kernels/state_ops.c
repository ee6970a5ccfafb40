// state_ops.c - the states of recurrent layers: heads of 128 x 128, a block of tokens each, and
// single tokens in the middle of one. Threads take heads.
#include <stdlib.h>
#include <string.h>

#include "bench_kernels.h"

enum { N_KEY = 128, N_VALUE = 128, ROW = N_KEY + N_VALUE + 16, IN = N_KEY + N_VALUE };
enum { HEADS_PER_THREAD = 4, MIDDLE = FXI_RECUR_TOK / 2, SINGLE_REPEAT = 64 };

// What a head reads and writes.
typedef struct state_head {
    float *state, *next; // [N_KEY][N_VALUE]
    float *rows;         // [FXI_RECUR_TOK][ROW] keys, u, g
    float *in;           // [FXI_RECUR_TOK][IN] queries, values
    float *b, *out;      // [FXI_RECUR_TOK] and [FXI_RECUR_TOK][N_VALUE]
} state_head;

typedef struct state_bench {
    const bench *b;
    const fxi_kernels *k;
    const struct state_op *op;
    state_head *head; // [n_head]
    int n_head;
} state_bench;

static fxi_recur state_call(const state_head *h, int first, int n_tok, bool updates)
{
    return (fxi_recur){.n_key = N_KEY,
                       .n_value = N_VALUE,
                       .n_column = N_VALUE,
                       .first = first,
                       .n_tok = n_tok,
                       .state = h->state,
                       .k = h->rows,
                       .u = h->rows + N_KEY,
                       .g = h->rows + N_KEY + N_VALUE,
                       .row_step = ROW,
                       .x = h->in + first * IN + (updates ? N_KEY : 0),
                       .in_step = IN,
                       .b = h->b,
                       .b_step = 1,
                       .out = h->out + first * N_VALUE,
                       .out_step = N_VALUE};
}

static void run_update(const fxi_kernels *k, const state_head *h)
{
    const fxi_recur r = state_call(h, 0, FXI_RECUR_TOK, true);
    k->recur_update(&r);
}

static void run_read(const fxi_kernels *k, const state_head *h)
{
    const fxi_recur r = state_call(h, 0, FXI_RECUR_TOK, false);
    k->recur_read(&r);
}

static void run_next(const fxi_kernels *k, const state_head *h)
{
    const fxi_recur r = state_call(h, 0, FXI_RECUR_TOK, false);
    k->recur_state(&r, h->next);
}

static void run_single(const fxi_kernels *k, const state_head *h)
{
    const fxi_recur update = state_call(h, MIDDLE, 1, true), read = state_call(h, MIDDLE, 1, false);
    for (int i = 0; i < SINGLE_REPEAT; i++) {
        k->recur_update(&update);
        k->recur_read(&read);
    }
}

enum {
    SQUARE = N_KEY * N_VALUE,
    PAIR = N_KEY + N_VALUE
};                                                        // multiply-adds of a state, of two tokens
enum { PAIRS = FXI_RECUR_TOK * (FXI_RECUR_TOK - 1) / 2 }; // of a block

static const struct state_op {
    const char *name;
    void (*run)(const fxi_kernels *k, const state_head *h);
    int n_tok;
    double n_fma; // of a run
} ops[] = {{"state update", run_update, FXI_RECUR_TOK, FXI_RECUR_TOK *SQUARE + PAIRS *PAIR},
           {"state read", run_read, FXI_RECUR_TOK, FXI_RECUR_TOK *(SQUARE + PAIR) + PAIRS *PAIR},
           {"state next", run_next, FXI_RECUR_TOK, FXI_RECUR_TOK *SQUARE},
           {"state token", run_single, 1, SINGLE_REPEAT *(2 * SQUARE + (2 * MIDDLE + 1) * PAIR)}};

static state_head make_head(void)
{
    state_head h = {.state = bench_random_floats(SQUARE),
                    .next = bench_random_floats(SQUARE),
                    .rows = bench_random_floats(FXI_RECUR_TOK * ROW),
                    .in = bench_random_floats(FXI_RECUR_TOK * IN),
                    .b = bench_random_floats(FXI_RECUR_TOK),
                    .out = bench_random_floats(FXI_RECUR_TOK * N_VALUE)};
    for (int t = 0; t < FXI_RECUR_TOK; t++) {
        float *row = h.rows + t * ROW;
        for (int i = 0; i < N_KEY; i++) row[i] *= 0.2f; // about 1 long
        row[N_KEY + N_VALUE] = -0.1f * (float)(t + 1);
    }
    return h;
}

static void free_head(state_head *h)
{
    free(h->state), free(h->next), free(h->rows), free(h->in), free(h->b), free(h->out);
}

static void run_task(void *arg, int task)
{
    const state_bench *s = arg;
    s->op->run(s->k, &s->head[task]);
}

static void run_heads(void *arg)
{
    state_bench *s = arg;
    fxi_pool_run(s->b->pool, run_task, s, s->n_head);
}

static void check_op(const bench *b, const struct state_op *op)
{
    state_head got = make_head(), want = make_head();
    op->run(b->k, &got);
    op->run(fxi_kernels_get("ref"), &want);
    bench_same_bits(b, op->name, "F32", got.rows, want.rows, FXI_RECUR_TOK * ROW * sizeof(float));
    bench_same_bits(b, op->name, "F32", got.out, want.out, FXI_RECUR_TOK * N_VALUE * sizeof(float));
    bench_same_bits(b, op->name, "F32", got.next, want.next, SQUARE * sizeof(float));
    free_head(&got), free_head(&want);
}

void bench_states(bench *b)
{
    if (b->only_type) return;
    state_bench s = {.b = b, .k = b->k, .n_head = HEADS_PER_THREAD * b->n_thread};
    s.head = bench_lines((size_t)s.n_head * sizeof *s.head);
    for (int i = 0; i < s.n_head; i++) s.head[i] = make_head();
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        bench_timed t = {.run = run_heads, .arg = &s};
        double seconds;
        s.op = &ops[i];
        check_op(b, s.op);
        bench_limits_before(b);
        bench_time(b, &t, 1, &seconds);
        bench_print_row(b, s.op->name, "F32", N_KEY, N_VALUE, s.op->n_tok, seconds,
                        (double)s.n_head * SQUARE * sizeof(float), 2 * s.n_head * s.op->n_fma,
                        BENCH_FMA);
    }
    for (int i = 0; i < s.n_head; i++) free_head(&s.head[i]);
    free(s.head);
}
