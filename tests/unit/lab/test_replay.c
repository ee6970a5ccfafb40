// test_replay.c - traces in virtual time: every request ends with all its tokens, time and memory
// follow from the setting, equal prefixes are found, and the same options give the same figures. Of
// the real trace the first quarter is run, and all with FX_TEST_LONG.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "lab/kv_reserve.h" // defines: fxi_lab_manager_name
#include "lab/replay.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOONCAKE FX_SOURCE_DIR "/../shared/data/traces/mooncake_conversation.dev_small.csv"

static const fxi_geometry geometry = {"test", 4, 256, 4, 4, 64, 1e9, 2048};
static const fxi_simulated_device device = {"test", 8, 100, 1000, 100, {1, 2, 1, 1, 1, 1, 1}};

static fxi_replay_options small_options(void)
{
    fxi_replay_options o = fxi_replay_options_start();
    o.geometry = &geometry;
    o.device = &device;
    o.page_bytes = 4096;
    o.engine.kv_memory_bytes = 64 << 20; // 16 K tokens of 4 KiB
    return o;
}

static fxi_trace make_trace(const char *text)
{
    fxi_trace t;
    fx_error err = {0};
    if (fxi_trace_read(text, strlen(text), "test", &t, &err) != FX_OK) fail_msg("%s", err.text);
    return t;
}

static fxi_replay_figures run_replay(const char *text, const fxi_replay_options *o)
{
    fxi_trace t = make_trace(text);
    fxi_replay_figures f;
    fx_error err = {0};
    if (fxi_replay_run(&t, o, &f, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_trace_free(&t);
    return f;
}

FX_TEST(test_every_request_ends)
{
    fxi_replay_options o = small_options();
    fxi_replay_figures f =
        run_replay("prompt_tokens,output_tokens\n100,50\n300,7\n2000,40\n1,1\n", &o);
    assert_int_equal(f.n_done, 4);
    assert_int_equal(f.n_refused, 0);
    assert_int_equal(f.n_prompt_tok, 2401);
    assert_int_equal(f.n_output_tok, 98);
    assert_true(f.mean_batch > 1 && f.mean_batch <= 4);
    assert_true(f.end_s > 0 && f.first_s.p50 > 0 && f.first_s.p99 >= f.first_s.p50);
    assert_true(f.mean.live > 0 && f.mean.mapped >= f.mean.live);
    assert_true(f.peak_mapped_bytes <= (double)f.budget_bytes);
    fxi_replay_figures_free(&f);
}

// Alone on the device, a request takes one pass for its prompt and one for each further token.
FX_TEST(test_time_of_one_request)
{
    fxi_replay_options o = small_options();
    fxi_replay_figures f = run_replay("prompt_tokens,output_tokens\n100,11\n", &o);
    const double pass_s = (100 + 2e9 / 1e6) / 1e6; // reading the weights at 1000 GB/s
    assert_int_equal(f.n_pass, 11);
    assert_true(f.end_s > 11 * pass_s && f.end_s < 11 * pass_s * 1.2 + f.driver_s);
    assert_true(f.first_s.p50 < 2 * pass_s + f.driver_s);
    fxi_replay_figures_free(&f);
}

// Whatever a block holds, the answers are complete; the smaller it is, the less of it is empty.
FX_TEST(test_blocks_of_any_size)
{
    double internal = 0;
    for (int n = 1; n <= 256; n *= 4) {
        fxi_replay_options o = small_options();
        o.engine.kv_manager = "paged";
        o.engine.kv_block_tok = n;
        fxi_replay_figures f =
            run_replay("prompt_tokens,output_tokens\n100,50\n300,7\n2000,40\n", &o);
        assert_int_equal(f.n_done, 3);
        assert_true(n == 1 ? f.mean.internal == 0 : f.mean.internal > internal);
        internal = f.mean.internal;
        fxi_replay_figures_free(&f);
    }
}

// Short requests, all at once, with OPT-13B and pages of 2 MiB. kv_bytes: 0: what 40 GB leave.
static fxi_replay_figures run_short(const char *manager, int beam_width, uint64_t kv_bytes)
{
    enum { N = 200 };
    static char text[64 + 16 * N];
    fxi_replay_options o = fxi_replay_options_start();
    int n = sprintf(text, "prompt_tokens,output_tokens\n");
    for (int i = 0; i < N; i++)
        n += sprintf(text + n, "%d,%d\n", 8 + i * i * 7 % 40, 20 + i * 31 % 90);
    o.engine.kv_manager = manager;
    o.engine.kv_memory_bytes = kv_bytes;
    o.run.load.beam_width = beam_width;
    return run_replay(text, &o);
}

// As many sequences run together as with blocks of 16 tokens, less one in a hundred.
FX_TEST(test_chunks_are_small_enough)
{
    const uint64_t bytes = UINT64_C(4) << 30;
    fxi_replay_figures chunks = run_short("vtensor", 0, bytes);
    fxi_replay_figures blocks = run_short("paged", 0, bytes);
    assert_true(chunks.mean_batch >= 0.99 * blocks.mean_batch);
    fxi_replay_figures_free(&chunks);
    fxi_replay_figures_free(&blocks);
}

// A beam is forked in one call for all chunks that it shares: steps wait for that for less than a
// sixth of the time, although they are short, and most of them fork most beams.
FX_TEST(test_forks_cost_little)
{
    fxi_replay_figures f = run_short("vtensor", 4, 0);
    assert_int_equal(f.n_done, 200);
    assert_true(f.driver_s > 0 && f.driver_s < f.end_s / 6);
    fxi_replay_figures_free(&f);
}

FX_TEST(test_arrivals)
{
    fxi_replay_options o = small_options();
    const char *text = "arrival_ms,prompt_tokens,output_tokens\n0,10,2\n60000,10,2\n120000,10,2\n";
    fxi_replay_figures f = run_replay(text, &o);
    assert_true(f.end_s > 120 && f.end_s < 121);
    assert_true(f.first_s.p99 < 0.1);
    fxi_replay_figures_free(&f);
    o.run.load.rate_per_s = 100;
    f = run_replay(text, &o);
    assert_true(f.end_s < 2);
    fxi_replay_figures_free(&f);
}

FX_TEST(test_what_does_not_fit_is_refused)
{
    fxi_replay_options o = small_options();
    fxi_replay_figures f = run_replay("prompt_tokens,output_tokens\n5000,5\n10,5\n", &o);
    assert_int_equal(f.n_done, 1);
    assert_int_equal(f.n_refused, 1);
    fxi_replay_figures_free(&f);
}

// More than the memory holds at once: the answers are complete all the same.
FX_TEST(test_short_memory)
{
    fxi_replay_options o = small_options();
    char text[2000] = "prompt_tokens,output_tokens\n";
    for (int i = 0; i < 60; i++) strcat(text, "300,200\n");
    o.engine.kv_memory_bytes = 8 << 20; // 2 K tokens
    fxi_replay_figures f = run_replay(text, &o);
    assert_int_equal(f.n_done, 60);
    assert_int_equal(f.n_output_tok, 60 * 200);
    assert_true(f.mean_batch < 8);
    assert_true(f.peak_mapped_bytes <= (double)o.engine.kv_memory_bytes);
    fxi_replay_figures_free(&f);
}

// The product's managers and the laboratory's serve the same requests, with little memory, too.
FX_TEST(test_every_manager)
{
    fxi_replay_options o = small_options();
    char text[1000] = "prompt_tokens,output_tokens\n";
    for (int i = 0; i < 20; i++) strcat(text, "200,60\n");
    o.engine.kv_memory_bytes = 16 << 20; // 4 K tokens
    for (int i = 0; (o.engine.kv_manager = fxi_lab_manager_name(i)) != NULL; i++) {
        fxi_replay_figures f = run_replay(text, &o);
        if (f.n_done != 20 || f.n_output_tok != 20 * 60) fail_msg("%s", o.engine.kv_manager);
        fxi_replay_figures_free(&f);
    }
}

FX_TEST(test_equal_prefixes_are_found)
{
    fxi_replay_options o = small_options();
    fxi_replay_figures f =
        run_replay("arrival_ms,prompt_tokens,output_tokens,hash_ids\n"
                   "0,1100,2,1 2 3\n9000,1300,2,1 2 4\n18000,600,2,1 5\n27000,600,2,6 5\n",
                   &o);
    const uint64_t least = 1024 + 512; // whole blocks; others begin alike by chance
    assert_true(f.n_cached_tok >= least && f.n_cached_tok < least + 8);
    fxi_replay_figures_free(&f);
}

FX_TEST(test_the_same_figures)
{
    fxi_replay_options o = small_options();
    const char *text = "prompt_tokens,output_tokens\n100,50\n300,70\n200,40\n1000,100\n";
    o.run.load.rate_per_s = 50;
    o.run.sample_s = 0.01;
    fxi_replay_figures a = run_replay(text, &o), b = run_replay(text, &o);
    assert_true(a.n_sample > 3 && a.n_sample == b.n_sample);
    assert_memory_equal(a.sample, b.sample, a.n_sample * sizeof *a.sample);
    fxi_replay_figures_free(&b);
    a.n_sample = 0;
    o.run.load.seed = 5;
    b = run_replay(text, &o);
    assert_true(a.end_s != b.end_s);
    fxi_replay_figures_free(&a);
    fxi_replay_figures_free(&b);
}

static bool stop_at_once(void *ud, size_t n_done, size_t n_row)
{
    (void)ud, (void)n_done;
    assert_int_equal(n_row, 1);
    return false;
}

FX_TEST(test_errors)
{
    fxi_replay_options o = small_options();
    fxi_trace t = make_trace("prompt_tokens,output_tokens\n10,5\n");
    fxi_replay_figures f;
    fx_error err = {0};
    o.page_bytes = 5000;
    assert_int_equal(fxi_replay_run(&t, &o, &f, &err), FX_EINVAL);
    o = small_options();
    o.engine.kv_memory_bytes = 4096;
    assert_int_equal(fxi_replay_run(&t, &o, &f, &err), FX_ENOSPACE);
    o = small_options();
    o.engine.kv_memory_bytes = 0;
    o.geometry = fxi_geometry_find("opt-66b");
    o.device = fxi_simulated_device_find("a100-40g");
    assert_int_equal(fxi_replay_run(&t, &o, &f, &err), FX_ENOSPACE);
    assert_string_equal(err.text, "opt-66b does not fit a100-40g");
    o = small_options();
    o.run.on_progress = stop_at_once;
    assert_int_equal(fxi_replay_run(&t, &o, &f, &err), FX_ECLOSED);
    fxi_replay_figures_free(&f);
    fxi_trace_free(&t);
}

// The hits that an unlimited cache finds: at least those of whole blocks, counted from the ids.
static uint64_t block_hits(const fxi_trace *t)
{
    enum { MAX_ID = 1 << 20 };
    static bool seen[MAX_ID];
    uint64_t n_tok = 0;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < t->n_row; i++) {
        const fxi_trace_row *r = &t->row[i];
        const uint64_t *id = t->hash + r->hash;
        size_t n = 0;
        while (n < r->n_hash && seen[id[n] % MAX_ID]) n++;
        const uint64_t hit = n * FXI_TRACE_BLOCK_TOK;
        n_tok += hit < (uint64_t)r->n_prompt ? hit : (uint64_t)r->n_prompt;
        for (n = 0; n < r->n_hash; n++) seen[id[n] % MAX_ID] = true;
    }
    return n_tok;
}

FX_TEST(test_hits_of_a_real_trace)
{
    if (access(MOONCAKE, R_OK) != 0) skip();
    fxi_trace t;
    fxi_replay_figures f;
    fx_error err = {0};
    fxi_replay_options o = small_options();
    o.geometry = fxi_geometry_find("llama-3-8b");
    o.engine.kv_memory_bytes = 1ull << 46;
    o.engine.ctx_tok = 1 << 18;
    o.page_bytes = 64 << 10;
    if (fxi_trace_open(MOONCAKE, &t, &err) != FX_OK) fail_msg("%s", err.text);
    if (!suite_is_long()) t.n_row /= 4;
    if (fxi_replay_run(&t, &o, &f, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(f.n_refused, 0);
    assert_true(f.n_cached_tok > block_hits(&t));
    fxi_replay_figures_free(&f);
    fxi_trace_free(&t);
}

FX_RUN(test_replay)
