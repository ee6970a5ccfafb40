// planes.c - what decoding costs when planes of a cache share views: k planes of a token lie side
// by side, so that its rows are k times as far apart (kv_view.h).
//
// A run reads the caches of all sequences once, layer after layer, as a step does. All k read the
// same memory and run in turn; each is compared with ref, bit by bit. In a row, n_in is the number
// of positions and n_out head_dim, and the time is that of all layers.
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench_kernels.h"

enum { N_PLANE = 160, N_SEQ = 2, MAX_WAY = 7 };

static const int view_planes[MAX_WAY] = {1, 2, 4, 8, 16, 32, N_PLANE};

typedef struct planes_shape {
    int head_dim, group, n_kv_head, n_pos;
    bool huge; // pages of 2 MiB, otherwise those that a memfd has
} planes_shape;

static const planes_shape shapes[] = {
    {128, 8, 8, 1024, false}, {64, 8, 4, 4096, false}, {128, 8, 8, 1024, true}};

typedef struct planes_bench {
    const kernel_bench *b;
    const planes_shape *s;
    fxi_attn a; // of the first sequence
    size_t row_bytes, seq_bytes;
    char *cache;    // [N_SEQ][seq_bytes]
    float *scratch; // [n_thread][scratch_floats]
    size_t scratch_floats;
} planes_bench;

typedef struct planes_way {
    planes_bench *t;
    fxi_kv_view view; // of the first sequence
    atomic_int next;
} planes_way;

static fxi_attn call_of(const planes_way *w, int layer, int seq)
{
    const planes_bench *t = w->t;
    const size_t row = (size_t)(t->a.n_head * t->a.head_dim);
    fxi_kv_view own = w->view;
    own.base += (size_t)seq * t->seq_bytes;
    fxi_attn a = t->a;
    a.view = fxi_kv_layer(&own, layer);
    a.q += (size_t)seq * row;
    a.out += (size_t)seq * row;
    return a;
}

static void read_caches(void *arg, int task)
{
    planes_way *w = arg;
    int item;
    while ((item = atomic_fetch_add(&w->next, 1)) < N_PLANE / 2 * N_SEQ) {
        fxi_attn a = call_of(w, item / N_SEQ, item % N_SEQ);
        a.scratch = w->t->scratch + (size_t)task * w->t->scratch_floats;
        w->t->b->k->attention(&a);
    }
}

static void run_way(void *arg)
{
    planes_way *w = arg;
    fxi_pool *pool = w->t->b->pool;
    atomic_store(&w->next, 0);
    fxi_pool_run(pool, read_caches, w, fxi_pool_n_thread(pool));
}

static void check_way(const planes_way *w)
{
    const size_t n = (size_t)(w->t->a.n_head * w->t->a.head_dim);
    float *got = bench_lines(n * sizeof *got);
    fxi_attn a = call_of(w, N_PLANE / 2 - 1, N_SEQ - 1);
    a.scratch = w->t->scratch;
    w->t->b->k->attention(&a);
    memcpy(got, a.out, n * sizeof *got);
    fxi_kernels_get("ref")->attention(&a);
    bench_same_bits(w->t->b, "planes", "f16", got, a.out, n * sizeof *got);
    free(got);
}

// Whatever row a view finds in the cache is one of these: rows lie end to end.
static void fill_rows(planes_bench *t)
{
    enum { N_NOISE = 64 };
    const int n = t->s->n_kv_head * t->s->head_dim;
    float *noise = bench_random_floats((size_t)(N_NOISE * n));
    for (size_t i = 0; i * t->row_bytes < N_SEQ * t->seq_bytes; i++)
        t->b->k->store_kv[FXI_F16](noise + i * 7 % N_NOISE * (size_t)n, n,
                                   t->cache + i * t->row_bytes);
    free(noise);
}

static planes_bench open_planes(const kernel_bench *b, const planes_shape *s)
{
    const int n_head = s->n_kv_head * s->group, n_q = N_SEQ * n_head * s->head_dim;
    planes_bench t = {.b = b, .s = s};
    t.row_bytes = fxi_kv_bytes(FXI_F16, s->n_kv_head * s->head_dim);
    t.seq_bytes = N_PLANE * (size_t)s->n_pos * t.row_bytes;
    // Shared memory has the pages of a memfd; what bench_lines gives has huge ones.
    t.cache = s->huge ? bench_lines(N_SEQ * t.seq_bytes)
                      : mmap(NULL, N_SEQ * t.seq_bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(t.cache == MAP_FAILED ? NULL : t.cache);
    t.scratch_floats = (fxi_attn_scratch(s->group, s->head_dim) + 15) / 16 * 16;
    t.scratch = bench_lines((size_t)fxi_pool_n_thread(b->pool) * t.scratch_floats * sizeof(float));
    t.a = (fxi_attn){.kv_type = FXI_F16,
                     .n_kv_head = s->n_kv_head,
                     .n_head = n_head,
                     .head_dim = s->head_dim,
                     .group = s->group,
                     .n_tok = 1,
                     .pos = s->n_pos - 1,
                     .q = bench_random_floats((size_t)n_q),
                     .out = bench_lines((size_t)n_q * sizeof(float)),
                     .scale = 1 / sqrtf((float)s->head_dim)};
    fill_rows(&t);
    return t;
}

static void close_planes(planes_bench *t)
{
    if (t->s->huge)
        free(t->cache);
    else
        munmap(t->cache, N_SEQ * t->seq_bytes);
    free(t->scratch), free((float *)t->a.q), free(t->a.out);
}

static fxi_kv_view view_of(const planes_bench *t, int k)
{
    const size_t tok = (size_t)k * t->row_bytes;
    return (fxi_kv_view){.base = t->cache,
                         .plane_stride_bytes = t->row_bytes,
                         .tok_stride_bytes = tok,
                         .view_planes = k,
                         .view_stride_bytes = tok * (size_t)t->s->n_pos};
}

static void bench_planes(const kernel_bench *b, const planes_shape *s)
{
    planes_bench t = open_planes(b, s);
    planes_way way[MAX_WAY];
    bench_timed timed[MAX_WAY];
    double took[MAX_WAY];
    for (int i = 0; i < MAX_WAY; i++) {
        way[i] = (planes_way){.t = &t, .view = view_of(&t, view_planes[i])};
        timed[i] = (bench_timed){.run = run_way, .arg = &way[i]};
        check_way(&way[i]);
    }
    bench_limits_before(b);
    bench_time(b, timed, MAX_WAY, took);
    for (int i = 0; i < MAX_WAY; i++) {
        char op[96];
        snprintf(op, sizeof op, "decode group %d x%d planes %d%s", s->group, N_SEQ, view_planes[i],
                 s->huge ? " huge pages" : "");
        const double n_pair = (double)s->n_pos * (N_PLANE / 2) * N_SEQ;
        bench_print_row(b, op, "f16", s->n_pos, s->head_dim, 1, took[i],
                        (double)(N_SEQ * t.seq_bytes), 4.0 * s->head_dim * t.a.n_head * n_pair,
                        BENCH_FMA);
    }
    close_planes(&t);
}

void bench_planes_all(const kernel_bench *b)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) bench_planes(b, &shapes[i]);
}
