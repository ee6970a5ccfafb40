// cache_ops.c - attention over caches: of every type and shape, and with planes that share views.
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/number/rng.h"
#include "bench_kernels.h"

// ---- attention
//
// Decoding over long caches, and whole prompts, with every type of cache, contiguous and in blocks
// found through a table. Each is compared with ref, bit by bit, before it is timed.
//
// In a row, n_in is the number of positions and n_out head_dim. GFLOP/s counts 2 (head_dim + the
// numbers of a value) for each pair of a query and a position that it attends to; GB/s counts the
// cache that a decode must read, with a window only the window.

typedef struct shape {
    const char *what;
    int head_dim, group, n_kv_head, n_seq, n_pos;
    bool whole; // all tokens have queries, otherwise only the last one
    int window; // 0: none
    float softcap;
    bool sinks;
    int v_dim; // latent: a value is the first v_dim numbers of its key; 0: a row of its own
} shape;

static const shape decode_8 = {"decode", 64, 8, 4, 16, 4096, false, 0, 0, false, 0};
static const shape decode_mha = {"decode", 128, 1, 32, 1, 4096, false, 0, 0, false, 0};
static const shape decode_4 = {"decode", 128, 4, 8, 4, 4096, false, 0, 0, false, 0};
static const shape prompt_8 = {"prompt", 64, 8, 4, 1, 2048, true, 0, 0, false, 0};
static const shape prompt_mha = {"prompt", 128, 1, 8, 1, 2048, true, 0, 0, false, 0};

// Other sizes of heads, windows, caps and sinks, each next to the same shape without them.
static const shape others[] = {
    {"decode", 80, 1, 32, 1, 4096, false, 0, 0, false, 0},
    {"decode", 96, 1, 32, 1, 4096, false, 0, 0, false, 0},
    {"decode", 112, 4, 8, 4, 4096, false, 0, 0, false, 0},
    {"decode", 256, 2, 4, 4, 4096, false, 0, 0, false, 0},
    {"decode", 128, 4, 8, 4, 4096, false, 1024, 0, false, 0},
    {"decode", 256, 2, 4, 4, 4096, false, 1024, 0, false, 0},
    {"decode", 256, 2, 4, 4, 4096, false, 0, 50, false, 0},
    {"decode", 64, 8, 8, 8, 4096, false, 0, 0, true, 0},
    {"decode", 64, 8, 8, 8, 4096, false, 128, 0, true, 0},
    {"prompt", 80, 1, 8, 1, 2048, true, 0, 0, false, 0},
    {"prompt", 96, 1, 8, 1, 2048, true, 0, 0, false, 0},
    {"prompt", 112, 4, 4, 1, 2048, true, 0, 0, false, 0},
    {"prompt", 256, 2, 4, 1, 2048, true, 0, 0, false, 0},
    {"prompt", 256, 2, 4, 1, 2048, true, 512, 0, false, 0},
    {"prompt", 256, 2, 4, 1, 2048, true, 0, 50, false, 0},
    {"prompt", 64, 8, 8, 1, 2048, true, 128, 0, true, 0},
};

// Latent attention of DeepSeek-V2-Lite and V3: 16 and 128 heads over one row.
static const shape latent[] = {
    {"decode", 576, 16, 1, 8, 4096, false, 0, 0, false, 512},
    {"decode", 576, 128, 1, 2, 4096, false, 0, 0, false, 512},
    {"prompt", 576, 16, 1, 1, 1024, true, 0, 0, false, 512},
    {"prompt", 576, 128, 1, 1, 512, true, 0, 0, false, 512},
};

// The caches of a shape, and the calls over them.
typedef struct attn_bench {
    const bench *b;
    const shape *s;
    fxi_attn a;     // of the first sequence
    char *cache;    // [n_seq][seq_bytes]
    bool is_shared; // the cache's memory
    int32_t *table; // of every sequence, in blocks
    size_t seq_bytes, scratch_floats;
    float *scratch; // one for each thread
    atomic_int next;
} attn_bench;

static int value_dim(const shape *s)
{
    return s->v_dim ? s->v_dim : s->head_dim;
}

static int n_plane(const shape *s) // of a layer
{
    return s->v_dim ? 1 : 2;
}

// Tokens of a prompt that a call has, as models make them: no more query rows than stay in a cache.
static int n_call_tok(const shape *s)
{
    enum { MAX_ROW = 256 };
    const int n = MAX_ROW / s->group;
    return n < FXI_ATTN_MAX_TOK ? n : FXI_ATTN_MAX_TOK;
}

static int n_query_tok(const shape *s)
{
    return s->whole ? s->n_pos : 1;
}

static int n_block(const shape *s)
{
    return (n_query_tok(s) + n_call_tok(s) - 1) / n_call_tok(s);
}

// KV heads of a call: 1 for prompts; in decoding as many as leave a call for each thread.
static int n_call_head(const attn_bench *t)
{
    const shape *s = t->s;
    int n = s->n_seq * s->n_kv_head / fxi_pool_n_thread(t->b->pool);
    if (s->whole || n < 1) return 1;
    while (s->n_kv_head % n || n > s->n_kv_head) n--;
    return n;
}

// Call `item`: some KV heads, a block of tokens, a sequence.
static fxi_attn make_call(const attn_bench *t, int item)
{
    const shape *s = t->s;
    fxi_attn a = t->a;
    const int n_group = s->n_kv_head / n_call_head(t);
    int block = item / n_group % n_block(s), seq = item / n_group / n_block(s);
    int tok = block * n_call_tok(s), left = n_query_tok(s) - tok;
    const size_t head = (size_t)(seq * n_query_tok(s) + tok) * (size_t)a.n_head;
    a.kv_head = item % n_group * n_call_head(t);
    a.n_kv_head = n_call_head(t);
    a.n_tok = left < n_call_tok(s) ? left : n_call_tok(s);
    a.pos = s->n_pos - n_query_tok(s) + tok;
    a.view.base += (size_t)seq * t->seq_bytes;
    a.q += head * (size_t)a.head_dim;
    a.out += head * (size_t)value_dim(s);
    return a;
}

static int n_call(const attn_bench *t)
{
    return t->s->n_seq * n_block(t->s) * (t->s->n_kv_head / n_call_head(t));
}

static void call_task(void *arg, int task)
{
    attn_bench *t = arg;
    int item, n = n_call(t);
    while ((item = atomic_fetch_add(&t->next, 1)) < n) {
        fxi_attn a = make_call(t, n - 1 - item);
        a.scratch = t->scratch + (size_t)task * t->scratch_floats;
        t->b->k->attention(&a);
    }
}

static void run_calls(void *arg)
{
    attn_bench *t = arg;
    atomic_store(&t->next, 0);
    fxi_pool_run(t->b->pool, call_task, t, fxi_pool_n_thread(t->b->pool));
}

// Fills the planes of a sequence, row by row.
static void fill_cache(const attn_bench *t, const fxi_attn *a)
{
    size_t n = (size_t)(t->s->n_kv_head * t->s->head_dim), n_noise = 64 * n;
    float *noise = bench_random_floats(n_noise);
    for (int p = 0; p < n_plane(t->s); p++)
        for (int i = 0; i < t->s->n_pos; i++)
            t->b->k->store_kv[a->kv_type](noise + (size_t)(i * 7 + p) % 64 * n, (int)n,
                                          fxi_kv_row(&a->view, p, i));
    free(noise);
}

// Lays out and fills the planes of all sequences: contiguously (shift 0), or in blocks of 2^shift
// tokens in random order.
static void lay_out(attn_bench *t, int shift)
{
    size_t row = t->a.view.tok_stride_bytes, n = (size_t)t->s->n_pos >> shift;
    t->a.view.plane_stride_bytes = row * (shift ? (size_t)1 << shift : (size_t)t->s->n_pos);
    t->a.view.table = shift ? t->table : NULL;
    t->a.view.block_shift = shift;
    t->a.view.block_stride_bytes = (size_t)n_plane(t->s) * t->a.view.plane_stride_bytes;
    for (size_t i = 0; shift && i < n; i++) t->table[i] = (int32_t)i;
    for (size_t i = 0; shift && i < n; i++) {
        size_t k = (size_t)(fxi_rng_u64(3, 0, i) % n);
        int32_t was = t->table[i];
        t->table[i] = t->table[k], t->table[k] = was;
    }
    for (int seq = 0; seq < t->s->n_seq; seq++) {
        fxi_attn a = t->a;
        a.view.base += (size_t)seq * t->seq_bytes;
        fill_cache(t, &a);
    }
}

static attn_bench attn_open(const bench *b, const shape *s, fxi_dtype type, int n_layer,
                            bool is_shared)
{
    const int n_row = s->group * (s->n_kv_head > n_call_tok(s) ? s->n_kv_head : n_call_tok(s));
    attn_bench t = {
        .b = b, .s = s, .scratch_floats = fxi_attn_scratch(n_row, s->head_dim, value_dim(s))};
    size_t row = fxi_kv_bytes(type, s->n_kv_head * s->head_dim),
           n_head = (size_t)(s->n_kv_head * s->group);
    size_t n_q = (size_t)(s->n_seq * n_query_tok(s)) * n_head * (size_t)s->head_dim;
    t.is_shared = is_shared;
    t.seq_bytes = (size_t)n_plane(s) * row * (size_t)(n_layer * s->n_pos);
    const size_t n_bytes = (size_t)s->n_seq * t.seq_bytes;
    // Shared memory has the pages of a memfd; other memory may have huge ones.
    t.cache = is_shared
                  ? mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                  : bench_lines(n_bytes);
    if (t.cache == MAP_FAILED) die("no memory");
    t.table = bench_lines((size_t)s->n_pos * sizeof *t.table);
    t.scratch_floats = (t.scratch_floats + 15) / 16 * 16;
    t.scratch = bench_lines((size_t)fxi_pool_n_thread(b->pool) * t.scratch_floats * sizeof(float));
    t.a = (fxi_attn){.view = {.base = t.cache, .tok_stride_bytes = row},
                     .kv_type = type,
                     .n_head = (int)n_head,
                     .head_dim = s->head_dim,
                     .group = s->group,
                     .v_dim = s->v_dim,
                     .q = bench_random_floats(n_q),
                     .out = bench_lines(n_q * sizeof(float)),
                     .window = s->window,
                     .softcap = s->softcap,
                     .sink = s->sinks ? bench_random_floats(n_head) : NULL,
                     .scale = 1 / sqrtf((float)s->head_dim)};
    return t;
}

static void attn_close(attn_bench *t)
{
    if (t->is_shared)
        munmap(t->cache, (size_t)t->s->n_seq * t->seq_bytes);
    else
        free(t->cache);
    free(t->table), free(t->scratch), free((float *)t->a.q), free(t->a.out);
    free((float *)t->a.sink);
}

// Compares a call with ref.
static void check_call(const attn_bench *t, fxi_attn a, const char *what)
{
    const char *type = fxi_dtype_find(a.kv_type)->name;
    const size_t row = (size_t)(a.n_head * value_dim(t->s));
    const size_t n = (size_t)(a.n_kv_head * a.group * value_dim(t->s));
    float *got = bench_lines((size_t)a.n_tok * row * sizeof *got);
    a.scratch = t->scratch;
    t->b->k->attention(&a);
    memcpy(got, a.out, (size_t)a.n_tok * row * sizeof *got);
    fxi_kernels_get("ref")->attention(&a);
    for (size_t i = 0; i < (size_t)a.n_tok; i++) {
        const size_t at = i * row + (size_t)(a.kv_head * a.group * value_dim(t->s));
        bench_same_bits(t->b, what, type, got + at, a.out + at, n * sizeof *got);
    }
    free(got);
}

static void print_row(const attn_bench *t, const char *lies, double s)
{
    const shape *h = t->s;
    char op[128], window[24] = "", cap[24] = "";
    const int n_mul = h->head_dim + value_dim(h); // of a query and a position
    if (h->window) snprintf(window, sizeof window, " window %d", h->window);
    if (h->softcap != 0) snprintf(cap, sizeof cap, " cap %g", (double)h->softcap);
    snprintf(op, sizeof op, "%s%s group %d x%d%s%s%s%s", h->v_dim ? "latent " : "", h->what,
             h->group, h->n_seq, window, cap, h->sinks ? " sinks" : "", lies);
    double n_pair = 0, n_byte = h->n_seq * (double)t->seq_bytes;
    for (int i = h->whole ? 0 : h->n_pos - 1; i < h->n_pos; i++)
        n_pair += h->window && h->window < i + 1 ? h->window : i + 1;
    if (!h->whole) n_byte *= n_pair / h->n_pos;
    bench_print_row(t->b, op, fxi_dtype_find(t->a.kv_type)->name, h->n_pos, h->head_dim,
                    n_query_tok(h), s, n_byte,
                    2.0 * n_mul * h->group * h->n_kv_head * h->n_seq * n_pair, BENCH_FMA);
}

// Contiguous and, unless shift is 0, in blocks, in turn.
static void bench_shape(const bench *b, const shape *s, fxi_dtype type, int shift)
{
    const int n = shift ? 2 : 1;
    attn_bench t[2];
    bench_timed timed[2];
    double took[2];
    char lies[32] = "";
    for (int k = 0; k < n; k++) {
        t[k] = attn_open(b, s, type, 1, false);
        lay_out(&t[k], k * shift);
        check_call(&t[k], make_call(&t[k], n_call(&t[k]) - 1), s->what);
        timed[k] = (bench_timed){.run = run_calls, .arg = &t[k]};
    }
    bench_limits_before(b);
    bench_time(b, timed, n, took);
    for (int k = 0; k < n; k++) {
        if (shift)
            snprintf(lies, sizeof lies, k ? " in blocks of %d" : " next to those of %d",
                     1 << shift);
        print_row(&t[k], lies, took[k]);
        attn_close(&t[k]);
    }
}

void bench_attention(bench *b)
{
    if (b->only_type) return;
    static const fxi_dtype types[] = {FXI_F16, FXI_BF16, FXI_F32, FXI_Q8_0};
    for (int i = 0; i < 4; i++) bench_shape(b, &decode_8, types[i], 0);
    bench_shape(b, &decode_4, FXI_F16, 0);
    bench_shape(b, &decode_mha, FXI_F16, 0);
    for (int i = 0; i < 4; i++) bench_shape(b, &prompt_8, types[i], 0);
    bench_shape(b, &prompt_mha, FXI_F16, 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        bench_shape(b, &others[i], FXI_F16, 0);
    for (int shift = 4; shift <= 6; shift += 2) {
        bench_shape(b, &decode_8, FXI_F16, shift);
        bench_shape(b, &prompt_8, FXI_F16, shift);
    }
}

void bench_latent(bench *b)
{
    static const fxi_dtype types[] = {FXI_F16, FXI_Q8_0};
    if (b->only_type) return;
    for (size_t i = 0; i < sizeof latent / sizeof latent[0]; i++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
            bench_shape(b, &latent[i], types[t], 0);
}

// ---- planes
//
// What decoding costs when planes of a cache share views: k planes of a token lie side by side, so
// that its rows are k times as far apart (kv_view.h).
//
// A run reads the caches of all sequences once, layer after layer, as a step does. All k read the
// same memory and run in turn; each is compared with ref, bit by bit. In a row, n_in is the number
// of positions and n_out head_dim, and the time is that of all layers.

enum { N_PLANE = 160, N_SEQ = 2, MAX_WAY = 7 };

static const int view_planes[MAX_WAY] = {1, 2, 4, 8, 16, 32, N_PLANE};

static const struct {
    shape s;
    bool huge; // pages of 2 MiB, otherwise those that a memfd has
} planes_shapes[] = {{{"decode", 128, 8, 8, N_SEQ, 1024, false, 0, 0, false, 0}, false},
                     {{"decode", 64, 8, 4, N_SEQ, 4096, false, 0, 0, false, 0}, false},
                     {{"decode", 128, 8, 8, N_SEQ, 1024, false, 0, 0, false, 0}, true}};

typedef struct planes_way {
    const attn_bench *t;
    fxi_kv_view view; // of the first sequence
    atomic_int next;
} planes_way;

static fxi_attn call_of(const planes_way *w, int layer, int seq)
{
    fxi_attn a = w->t->a;
    const size_t row = (size_t)(a.n_head * a.head_dim);
    fxi_kv_view own = w->view;
    own.base += (size_t)seq * w->t->seq_bytes;
    a.view = fxi_kv_layer(&own, 2 * layer);
    a.n_kv_head = w->t->s->n_kv_head;
    a.n_tok = 1;
    a.pos = w->t->s->n_pos - 1;
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

static void planes_of(const bench *b, const shape *s, bool huge)
{
    enum { N_NOISE = 64 };
    attn_bench t = attn_open(b, s, FXI_F16, N_PLANE / 2, !huge);
    const size_t row_bytes = t.a.view.tok_stride_bytes, n = (size_t)(s->n_kv_head * s->head_dim);
    planes_way way[MAX_WAY];
    bench_timed timed[MAX_WAY];
    double took[MAX_WAY];
    float *noise = bench_random_floats(N_NOISE * n);
    // Whatever row a view finds in the cache is one of these: rows lie end to end.
    for (size_t i = 0; i * row_bytes < N_SEQ * t.seq_bytes; i++)
        b->k->store_kv[FXI_F16](noise + i * 7 % N_NOISE * n, (int)n, t.cache + i * row_bytes);
    free(noise);
    for (int i = 0; i < MAX_WAY; i++) {
        const size_t tok = (size_t)view_planes[i] * row_bytes;
        way[i] = (planes_way){.t = &t,
                              .view = {.base = t.cache,
                                       .plane_stride_bytes = row_bytes,
                                       .tok_stride_bytes = tok,
                                       .view_planes = view_planes[i],
                                       .view_stride_bytes = tok * (size_t)s->n_pos}};
        timed[i] = (bench_timed){.run = run_way, .arg = &way[i]};
        check_call(&t, call_of(&way[i], N_PLANE / 2 - 1, N_SEQ - 1), "planes");
    }
    bench_limits_before(b);
    bench_time(b, timed, MAX_WAY, took);
    for (int i = 0; i < MAX_WAY; i++) {
        char op[96];
        snprintf(op, sizeof op, "decode group %d x%d planes %d%s", s->group, N_SEQ, view_planes[i],
                 huge ? " huge pages" : "");
        const double n_pair = (double)s->n_pos * (N_PLANE / 2) * N_SEQ;
        bench_print_row(b, op, "f16", s->n_pos, s->head_dim, 1, took[i],
                        (double)(N_SEQ * t.seq_bytes), 4.0 * s->head_dim * t.a.n_head * n_pair,
                        BENCH_FMA);
    }
    attn_close(&t);
}

void bench_planes(bench *b)
{
    if (b->only_type) return;
    for (size_t i = 0; i < sizeof planes_shapes / sizeof planes_shapes[0]; i++)
        planes_of(b, &planes_shapes[i].s, planes_shapes[i].huge);
}
