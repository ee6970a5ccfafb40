// test_compute_attention.c - attention of a batch: any number of threads and any division into
// blocks give the same bits as one thread; and long sequences are split where threads would idle.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/rng.h"
#include "model/host/compute.h"
#include "suite.h"
#include "unit/cmocka_all.h"

enum { N_HEAD = 6, N_KV_HEAD = 2, HEAD_DIM = 20, CTX_TOK = 4096, MAX_TOK = 64, MAX_SEQ = 32 };

typedef struct world {
    fxi_pool *pool;
    fxi_compute compute;
    char *cache;
    float *q, *out, *scratch;
    int window;    // 0: none
    bool has_caps; // scores are capped, and heads have a sink
} world;

typedef struct token_range {
    int pos, n_tok;
} token_range;

static float *numbers(size_t n)
{
    float *p = calloc(n, sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(4 * fxi_rng_unit(7, 0, i) - 2);
    return p;
}

static void world_open(world *w, int n_thread)
{
    fx_error err;
    memset(w, 0, sizeof *w);
    assert_int_equal(fxi_pool_create(n_thread, &w->pool, &err), FX_OK);
    w->compute = (fxi_compute){fxi_kernels_get(NULL), w->pool};
    size_t n_cache = 2 * (size_t)CTX_TOK * N_KV_HEAD * HEAD_DIM;
    float *f = numbers(n_cache);
    w->cache = malloc(n_cache * 2);
    w->compute.k->store_kv[FXI_F16](f, (int)n_cache, w->cache);
    free(f);
    w->q = numbers(MAX_TOK * N_HEAD * HEAD_DIM);
    w->out = calloc(MAX_TOK * N_HEAD * HEAD_DIM, sizeof *w->out);
    const fxi_attn_pass sizes = {
        .n_kv_head = N_KV_HEAD,
        .ctx_tok = CTX_TOK,
        .call = {.n_head = N_HEAD, .head_dim = HEAD_DIM, .group = N_HEAD / N_KV_HEAD}};
    w->scratch = malloc(fxi_compute_attn_scratch(&w->compute, &sizes) * sizeof *w->scratch);
}

static void world_close(world *w)
{
    fxi_pool_destroy(w->pool);
    free(w->cache), free(w->q), free(w->out), free(w->scratch);
}

// Ranges of tokens over the same cache, in blocks of at most most_tok tokens. Returns the plan.
static fxi_attn_pass attend(world *w, const token_range *r, int n_run, int most_tok)
{
    static const float sink[N_HEAD] = {0.5f, -1, 2, 0, 1.5f, -0.25f};
    fxi_attn_block block[MAX_TOK];
    size_t row = N_KV_HEAD * HEAD_DIM * 2;
    fxi_attn_pass p = {.n_kv_head = N_KV_HEAD,
                       .ctx_tok = CTX_TOK,
                       .call = {.kv_type = FXI_F16,
                                .n_head = N_HEAD,
                                .head_dim = HEAD_DIM,
                                .group = N_HEAD / N_KV_HEAD,
                                .window = w->window,
                                .softcap = w->has_caps ? 1.5f : 0,
                                .sink = w->has_caps ? sink : NULL,
                                .q = w->q,
                                .out = w->out,
                                .scale = 0.25f},
                       .scratch = w->scratch};
    int n_row = 0;
    memset(w->out, 0, MAX_TOK * N_HEAD * HEAD_DIM * sizeof *w->out);
    for (int i = 0; i < n_run; i++)
        for (int t = 0; t < r[i].n_tok; t += block[p.n_block++].n_tok) {
            int n = r[i].n_tok - t < most_tok ? r[i].n_tok - t : most_tok;
            block[p.n_block] = (fxi_attn_block){
                .view = {.base = w->cache,
                         .plane_stride_bytes = CTX_TOK * row,
                         .tok_stride_bytes = row},
                .row = n_row,
                .n_tok = n,
                .pos = r[i].pos + t,
            };
            n_row += n;
        }
    fxi_compute_attn_plan(&w->compute, &p, block);
    fxi_compute_attention(&w->compute, &p);
    return p;
}

static const token_range one_long[] = {{4095, 1}};
static const token_range long_and_short[] = {{10, 1},  {4000, 1}, {300, 1},
                                             {255, 1}, {256, 2},  {0, 3}};
static const token_range chunk_after_long[] = {{3000, 40}, {500, 1}};
static const token_range even[] = {{900, 1}, {901, 1}, {902, 1}, {903, 1}, {904, 1},
                                   {905, 1}, {906, 1}, {907, 1}, {908, 1}, {909, 1},
                                   {910, 1}, {911, 1}, {912, 1}, {913, 1}};

static const struct {
    const token_range *r;
    int n_run;
    bool cut; // with 16 threads
} batches[] = {{one_long, 1, true},
               {long_and_short, 6, true},
               {chunk_after_long, 2, false},
               {even, 14, false}};

static void check_threads(int window, bool has_caps)
{
    static const int n_thread[] = {2, 3, 16};
    world one, w;
    world_open(&one, 1);
    one.window = window;
    one.has_caps = has_caps;
    for (int i = 0; i < 3; i++) {
        world_open(&w, n_thread[i]);
        w.window = window;
        w.has_caps = has_caps;
        for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
            assert_false(attend(&one, batches[b].r, batches[b].n_run, 32).is_cut);
            for (int most = 1; most <= 32; most += 13) {
                bool cut = attend(&w, batches[b].r, batches[b].n_run, most).is_cut;
                if (n_thread[i] == 16 && batches[b].cut && !window) assert_true(cut);
                assert_memory_equal(w.out, one.out, MAX_TOK * N_HEAD * HEAD_DIM * sizeof *w.out);
            }
        }
        world_close(&w);
    }
    world_close(&one);
}

FX_TEST(test_threads_do_not_matter)
{
    check_threads(0, false);
    check_threads(0, true);
    for (int window = 1; window < CTX_TOK; window = 3 * window + 5)
        check_threads(window, window % 2);
}

// What no token of a batch sees is not read: it may be absent, or anything.
FX_TEST(test_windows_skip_what_they_cannot_see)
{
    enum { WINDOW = 700, POS = 4000 };
    static const token_range at_end[] = {{POS, 5}};
    const size_t row = N_KV_HEAD * HEAD_DIM * 2, unseen = (POS + 1 - WINDOW) * row;
    const size_t n_out = MAX_TOK * N_HEAD * HEAD_DIM;
    float *want = malloc(n_out * sizeof *want);
    for (int n_thread = 1; n_thread <= 16; n_thread += 15) {
        world w;
        world_open(&w, n_thread);
        w.window = WINDOW;
        attend(&w, at_end, 1, 32);
        memcpy(want, w.out, n_out * sizeof *want);
        memset(w.cache, 0xFF, unseen);                 // keys: NaN
        memset(w.cache + CTX_TOK * row, 0xFF, unseen); // values
        attend(&w, at_end, 1, 32);
        assert_memory_equal(w.out, want, n_out * sizeof *want);
        world_close(&w);
    }
    free(want);
}

// One long sequence is split so that every thread is busy; many equal sequences are not split.
FX_TEST(test_cuts_where_it_helps)
{
    world w;
    world_open(&w, 16);
    assert_true(attend(&w, one_long, 1, 32).n_item >= 16);
    token_range alike[MAX_SEQ];
    for (int i = 0; i < MAX_SEQ; i++) alike[i] = (token_range){1000, 1};
    assert_false(attend(&w, alike, MAX_SEQ, 32).is_cut);
    world_close(&w);
}

// ---- latent layers -----------------------------------------------------------------------------

enum { L_HEAD = 64, L_DIM = 48, L_VALUE = 32, L_POS = 400 };

// One and two tokens of two sequences, which are the same cache. Returns the plan.
static fxi_attn_pass attend_latent(int n_thread, const float *q, float *out)
{
    fxi_pool *pool;
    fx_error err;
    assert_int_equal(fxi_pool_create(n_thread, &pool, &err), FX_OK);
    const fxi_compute c = {fxi_kernels_get(NULL), pool};
    const size_t row = L_DIM * sizeof(uint16_t);
    float *f = numbers(L_POS * L_DIM);
    uint16_t *cache = malloc(L_POS * row);
    c.k->store_kv[FXI_F16](f, L_POS * L_DIM, cache);
    const fxi_kv_view view = {.base = (char *)cache, .tok_stride_bytes = row};
    fxi_attn_block block[] = {{.view = view, .row = 0, .n_tok = 1, .pos = 99},
                              {.view = view, .row = 1, .n_tok = 2, .pos = 300}};
    fxi_attn_pass p = {.n_block = 2,
                       .n_kv_head = 1,
                       .ctx_tok = L_POS,
                       .call = {.kv_type = FXI_F16,
                                .n_head = L_HEAD,
                                .head_dim = L_DIM,
                                .v_dim = L_VALUE,
                                .group = L_HEAD,
                                .q = q,
                                .out = out,
                                .scale = 0.25f}};
    p.scratch = malloc(fxi_compute_attn_scratch(&c, &p) * sizeof *p.scratch);
    fxi_compute_attn_plan(&c, &p, block);
    fxi_compute_attention(&c, &p);
    free(p.scratch), free(cache), free(f);
    fxi_pool_destroy(pool);
    return p;
}

// Heads that read one row are divided where there are fewer segments than threads, down to 16.
FX_TEST(test_latent_heads_are_divided)
{
    const size_t n = 3 * L_HEAD * L_VALUE;
    float *q = numbers(3 * L_HEAD * L_DIM), *one = calloc(n, sizeof *one),
          *many = calloc(n, sizeof *many);
    assert_int_equal(attend_latent(1, q, one).n_kv_head, 1);
    assert_int_equal(attend_latent(5, q, many).n_kv_head, 2);
    assert_memory_equal(one, many, n * sizeof *one);
    memset(many, 0, n * sizeof *many);
    const fxi_attn_pass p = attend_latent(16, q, many);
    assert_int_equal(p.n_kv_head, 4);
    assert_int_equal(p.call.group, 16);
    assert_memory_equal(one, many, n * sizeof *one);
    free(q), free(one), free(many);
}

FX_RUN(test_compute_attention)
