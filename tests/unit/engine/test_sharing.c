// test_sharing.c - what requests share, counted in tokens and in chunks: equal prompts that arrive
// together, beams, the iterations of a chat; and what stays when memory is short.
#include "unit/cmocka_all.h"

#include "unit/engine/support/bits.h"
#include "unit/engine/support/unthreaded.h"

#include <string.h>

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"

enum { MAX_EQUAL = 20, N_TOK = BITS_MAX_PROMPT };

static bits_answer got[MAX_EQUAL];

static fx_engine *open_engine(fx_options opt)
{
    opt.n_thread = 2;
    opt.ctx_tok = 1024;
    if (!opt.kv_memory_bytes) opt.kv_memory_bytes = 64 << 20;
    return unthreaded_open_single(MODEL, opt);
}

// Different for each `which` from the first token on.
static void make_prompt(int32_t *tok, int n, int which)
{
    for (int i = 0; i < n; i++) tok[i] = 3 + (which * 7 + i * i * 7 + i * 13) % 310;
}

static uint64_t held(const fx_engine *eng)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(eng->kv, &st);
    return st.held_bytes;
}

static uint64_t n_prompt_tok(const fx_engine *eng)
{
    fx_stats st;
    fx_engine_stats(eng, &st);
    return st.n_prompt_tok;
}

// ---- equal prompts -----------------------------------------------------------------------------

typedef struct equal_row {
    int n_request, n_prompt, step_tok;
    bool other_tenants, no_cache;
    bool is_shared;
} equal_row;

static void submit_equal(fx_engine *eng, const equal_row *row, const int32_t *tok)
{
    static const char *const tenant[] = {"a", "b", NULL, "c"};
    for (int i = 0; i < row->n_request; i++) {
        fx_request req = bits_request(tok, row->n_prompt, 4, &got[i]);
        if (row->other_tenants) req.tenant = tenant[i % 4];
        req.no_cache = row->no_cache;
        (void)bits_submit(eng, &req);
    }
    for (int i = 0; i < row->n_request; i++) bits_finish(eng, &got[i]);
}

// What others can take of a prompt while the sequence that computed it lives: blocks in full
// chunks, but not the last token, whose logits they need.
static int least_cached(const fx_engine *eng, int n_prompt)
{
    const int n = fxi_kv_whole_tok(eng->kv, n_prompt);
    return n < n_prompt ? n : n_prompt - 1;
}

// The first one computes the prompt; each other one at most its last, partly filled chunk.
static void check_equal(const equal_row *row)
{
    int32_t tok[N_TOK];
    char what[128];
    make_prompt(tok, row->n_prompt, 1);
    fx_engine *eng = open_engine((fx_options){.max_seq = 8, .step_tok = row->step_tok});
    submit_equal(eng, row, tok);
    int n_computed = 0;
    for (int i = 0; i < row->n_request; i++) {
        if (!bits_same_choice(&got[i].choice[0], &got[0].choice[0], what)) fail_msg("%s", what);
        const int least = row->is_shared && i ? least_cached(eng, row->n_prompt) : 0;
        const int most = row->is_shared && i ? row->n_prompt - 1 : 0;
        assert_in_range(got[i].n_cached, least, most);
        n_computed += row->n_prompt - got[i].n_cached;
    }
    assert_int_equal(n_prompt_tok(eng), n_computed);
    unthreaded_check_manager(eng);
    unthreaded_close(eng);
}

FX_TEST(test_equal_prompts_are_computed_once)
{
    static const int n_request[] = {2, 5, MAX_EQUAL}, n_prompt[] = {2, 33, 200}, step[] = {0, 24};
    for (int i = 0; i < 3 * 3 * 2; i++)
        check_equal(&(equal_row){.n_request = n_request[i % 3],
                                 .n_prompt = n_prompt[i / 3 % 3],
                                 .step_tok = step[i / 9],
                                 .is_shared = true});
}

FX_TEST(test_tenants_share_nothing)
{
    static const equal_row row[] = {
        {4, 33, 0, true, false, false},   {4, 200, 24, true, false, false},
        {2, 33, 0, false, true, false},   {5, 200, 24, false, true, false},
        {20, 33, 24, false, true, false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) check_equal(&row[i]);
}

// A request with no_cache neither matches nor records anything.
FX_TEST(test_no_cache_leaves_nothing)
{
    fx_engine *eng = open_engine((fx_options){0});
    int32_t tok[100];
    make_prompt(tok, 100, 2);
    static const struct {
        bool no_cache;
        int n_cached;
    } row[] = {{true, 0}, {false, 0}, {true, 0}, {false, 99}};
    for (int i = 0; i < 4; i++) {
        fx_request req = bits_request(tok, 100, 4, &got[0]);
        req.no_cache = row[i].no_cache;
        bits_ask(eng, &req, &got[0]);
        assert_int_equal(got[0].n_cached, row[i].n_cached);
    }
    unthreaded_close(eng);
}

// ---- beams -------------------------------------------------------------------------------------

// Sequences 0 .. i-1 of the request do not begin with the first n tokens of sequence i.
static bool is_new(const fxi_live_request *g, int i, int n)
{
    for (int k = 0; k < i; k++) {
        const fxi_seq *a = &g->seq[k], *b = &g->seq[i];
        if (a->n_computed >= n && memcmp(a->tok, b->tok, (size_t)n * sizeof *a->tok) == 0)
            return false;
    }
    return true;
}

// Beams that are equal up to the end of a chunk share it, since they forked later; the last, partly
// filled chunk is each beam's own.
static int chunks_needed(const fxi_live_request *g, int per_chunk)
{
    int n_chunk = 0;
    for (int i = 0; i < g->n_seq; i++) {
        const int n = g->seq[i].n_computed;
        for (int end = per_chunk; end < n + per_chunk; end += per_chunk)
            n_chunk += end > n || is_new(g, i, end);
    }
    return n_chunk;
}

static uint64_t mapped(const fx_engine *eng)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(eng->kv, &st);
    return st.mapped_bytes;
}

static void check_beams(int width, int n_prompt, int max_tok)
{
    fx_engine *eng = open_engine((fx_options){.max_seq = width});
    eng->hooks.ahead_tok = 0; // nothing but what is needed
    int n = 1;
    while (fxi_kv_whole_tok(eng->kv, n) == 0) n++;
    const int per_chunk = n;
    const uint64_t chunk = fxi_kv_bytes_for(eng->kv, 1);
    int32_t tok[N_TOK];
    make_prompt(tok, n_prompt, 3);
    fx_request req = bits_request(tok, n_prompt, max_tok, &got[0]);
    req.beam_width = width;
    req.n_choice = 1;
    const uint64_t id = bits_submit(eng, &req);
    // a tail and a new one of each, and what is ready for newcomers
    const uint64_t most = 2 * (uint64_t)width * chunk + eng->memory.effective_bytes / 64;
    (void)fxi_iteration_run(eng);
    for (uint64_t before = mapped(eng); (void)fxi_iteration_run(eng), !got[0].last;) {
        const fxi_live_request *g = bits_live_request(eng, id);
        assert_int_equal(held(eng) / chunk, chunks_needed(g, per_chunk));
        assert_true(mapped(eng) <= before + most);
        before = mapped(eng);
    }
    assert_int_equal(got[0].choice[0].n_tok, max_tok);
    assert_int_equal(held(eng), 0);
    unthreaded_check_manager(eng);
    unthreaded_close(eng);
}

FX_TEST(test_beams_share_all_but_their_own)
{
    check_beams(8, 100, 512);
    check_beams(8, 1, 70);
    check_beams(3, 64, 130);
}

// ---- chats -------------------------------------------------------------------------------------

// The next turn of a chat matches all that the previous one computed, whichever choice it goes on
// with: prompt and answer, except the last token of the answer.
FX_TEST(test_next_iteration_finds_the_last)
{
    fx_engine *eng = open_engine((fx_options){.max_seq = 4, .step_tok = 40});
    int32_t tok[N_TOK];
    int n = 30;
    make_prompt(tok, n, 4);
    for (int iteration = 0; iteration < 6; iteration++) {
        const int n_gen = 5 + 11 * iteration, last = n + n_gen - 1, choice = iteration % 3;
        fx_request req = bits_request(tok, n, n_gen, &got[0]);
        req.sampling = (fx_sampling){.temperature = 1, .top_p = 1, .seed = (uint64_t)iteration};
        req.n_choice = 3;
        bits_ask(eng, &req, &got[0]);
        for (int i = 0; i < n_gen; i++) tok[n++] = got[0].choice[choice].tok[i].tok;
        make_prompt(tok + n, 7, iteration);
        n += 7;
        req = bits_request(tok, n, 1, &got[1]);
        bits_ask(eng, &req, &got[1]);
        assert_int_equal(got[1].n_cached, last);
    }
    unthreaded_check_manager(eng);
    unthreaded_close(eng);
}

// ---- what stays --------------------------------------------------------------------------------

enum { N_KEPT = 128 }; // two chunks

static void ask(fx_engine *eng, int which, int keep_priority, uint32_t keep_s)
{
    int32_t tok[N_KEPT];
    make_prompt(tok, N_KEPT, which);
    fx_request req = bits_request(tok, N_KEPT, 1, &got[0]);
    req.keep_priority = keep_priority;
    req.keep_s = keep_s;
    bits_ask(eng, &req, &got[0]);
}

// Tokens of prompt `which` in the cache.
static int cached(fx_engine *eng, int which)
{
    fxi_kv_domain *d;
    int32_t tok[N_KEPT];
    make_prompt(tok, N_KEPT, which);
    assert_int_equal(fxi_kv_domain_open(eng->kv, "", 0, &d), FX_OK);
    const int n = fxi_kv_peek(eng->kv, d, tok, N_KEPT);
    fxi_kv_domain_close(eng->kv, d);
    return n;
}

static uint64_t clock_us;

static uint64_t read_clock(void *ud)
{
    (void)ud;
    return clock_us;
}

// Room for the prompts of n requests.
static fx_engine *open_small(int n)
{
    fx_engine *eng = open_engine((fx_options){0});
    const uint64_t bytes = (uint64_t)n * fxi_kv_bytes_for(eng->kv, N_KEPT);
    unthreaded_close(eng);
    eng = open_engine((fx_options){.kv_memory_bytes = bytes, .max_seq = 1});
    clock_us = 1000000;
    eng->journal.now_us = read_clock;
    eng->hooks.ahead_tok = 0;
    return eng;
}

FX_TEST(test_least_recently_used_goes_first)
{
    fx_engine *eng = open_small(4);
    for (int i = 0; i < 3; i++) ask(eng, i, 0, 0);
    ask(eng, 0, 0, 0); // use it again
    assert_int_equal(got[0].n_cached, N_KEPT - 1);
    for (int i = 3; i < 5; i++) ask(eng, i, 0, 0);
    assert_true(cached(eng, 1) < N_KEPT);
    assert_int_equal(cached(eng, 0), N_KEPT);
    assert_int_equal(cached(eng, 4), N_KEPT);
    unthreaded_check_manager(eng);
    unthreaded_close(eng);
}

// A prefix with a higher priority outlives any number of plain ones, even if a plain request has
// used it, until its time is over, which counts from the end of its request.
FX_TEST(test_kept_prefixes_stay)
{
    fx_engine *eng = open_small(4);
    ask(eng, 0, 5, 60);
    ask(eng, 0, 0, 0);
    for (int i = 1; i < 12; i++) ask(eng, i, 0, 0);
    assert_int_equal(cached(eng, 0), N_KEPT);
    assert_int_equal(cached(eng, 1), 0);
    clock_us += 59 * 1000000ull;
    for (int i = 12; i < 24; i++) ask(eng, i, 0, 0);
    assert_int_equal(cached(eng, 0), N_KEPT);
    clock_us += 2 * 1000000ull;
    for (int i = 24; i < 36; i++) ask(eng, i, 0, 0);
    assert_int_equal(cached(eng, 0), 0);
    unthreaded_check_manager(eng);
    unthreaded_close(eng);
}

// A request that runs for longer than keep_s: the time counts from its end.
FX_TEST(test_kept_from_the_end_on)
{
    fx_engine *eng = open_small(5);
    int32_t tok[N_KEPT];
    make_prompt(tok, N_KEPT, 0);
    fx_request req = bits_request(tok, N_KEPT, 20, &got[0]);
    req.keep_priority = 7;
    req.keep_s = 30;
    (void)bits_submit(eng, &req);
    while (!got[0].last) {
        (void)fxi_iteration_run(eng);
        clock_us += 10 * 1000000ull;
    }
    for (int i = 1; i < 12; i++) ask(eng, i, 0, 0);
    assert_int_equal(cached(eng, 0), N_KEPT);
    unthreaded_close(eng);
}

FX_RUN(test_sharing)
