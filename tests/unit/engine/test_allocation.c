// test_allocation.c - a step allocates nothing. No forward pass calls malloc, in any thread, for
// prompts or decodes. The rest of a decoding step, from the plan to the events and under all rules,
// allocates only when the tokens of an answer outgrow their array, which then grows by half. The
// linker wraps every allocation function.
#include "unit/cmocka_all.h"

#include "unit/engine/support/unthreaded.h"
#include "unit/wrapped_memory.h"

#define STORYTELLER FX_SOURCE_DIR "/models/storyteller.gguf"

enum {
    N_REQUEST = 5,
    N_PROMPT = 60,
    LONG_PROMPT = 300,
    STEP_TOK = 64,
    MAX_TOK = 150,
    WARM_UP = 20,
    N_TURN = 80
};

static atomic_bool in_iteration, in_forward;
static atomic_int n_in_iteration, n_in_forward;

static bool fails_now(size_t n_bytes)
{
    (void)n_bytes;
    if (atomic_load(&in_iteration)) atomic_fetch_add(&n_in_iteration, 1);
    if (atomic_load(&in_forward)) atomic_fetch_add(&n_in_forward, 1);
    return false;
}

fx_status __real_fxi_model_submit(fxi_model *m, const fxi_batch *b, float *logits, fx_error *err);
fx_status __wrap_fxi_model_submit(fxi_model *m, const fxi_batch *b, float *logits, fx_error *err);

static int n_forward, n_prompt_pass;

fx_status __wrap_fxi_model_submit(fxi_model *m, const fxi_batch *b, float *logits, fx_error *err)
{
    n_forward++;
    n_prompt_pass += b->n_tok > b->n_seq;
    atomic_store(&in_forward, true);
    fx_status st = __real_fxi_model_submit(m, b, logits, err);
    atomic_store(&in_forward, false);
    return st;
}

static void on_event(void *ud, const fx_event *ev)
{
    int *n_emitted = ud;
    if (ev->token >= 0) ++*n_emitted;
    assert_null(ev->error);
}

static void submit(fx_engine *eng, fx_sampling sampling, int n_top, int n_prompt, int *n_emitted)
{
    static int32_t tok[LONG_PROMPT];
    for (int i = 0; i < n_prompt; i++) tok[i] = 3 + (i * i * 7 + i * 13 + n_prompt) % 310;
    fx_request req = fx_request_default();
    req.prompt = tok;
    req.n_prompt = (size_t)n_prompt;
    req.max_tok = MAX_TOK;
    req.ignore_eos = true;
    req.no_cache = true; // nothing is recorded
    req.sampling = sampling;
    req.logprobs = n_top > 0;
    req.n_top = n_top;
    req.on_event = on_event;
    req.ud = n_emitted;
    uint64_t id;
    assert_int_equal(fx_submit(eng, &req, &id, NULL), FX_OK);
}

static void iterations(fx_engine *eng, int n)
{
    for (int i = 0; i < n; i++) assert_true(fxi_iteration_run(eng));
}

FX_TEST(test_steps)
{
    static const fx_sampling ways[N_REQUEST] = {
        {.temperature = 0, .top_p = 1},
        {.temperature = 1, .top_p = 1},
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 1, .top_p = 0.9f, .top_k = 40, .min_p = 0.01f, .typical_p = 0.9f},
        {.temperature = 1,
         .top_p = 1,
         .repetition_penalty = 1.1f,
         .presence_penalty = 0.5f,
         .dry_multiplier = 1,
         .dry_base = 2,
         .dry_last_tok = -1,
         .xtc_probability = 0.5f},
    };
    int n_emitted[N_REQUEST] = {0}, n_long_emitted = 0;
    fx_engine *eng =
        unthreaded_open(STORYTELLER, (fx_options){.n_thread = 2, .step_tok = STEP_TOK});
    for (int i = 0; i < N_REQUEST; i++) submit(eng, ways[i], i ? 0 : 5, N_PROMPT, &n_emitted[i]);
    for (int i = 0; !n_emitted[N_REQUEST - 1]; i++) assert_true(i < 100 && fxi_iteration_run(eng));
    iterations(eng, WARM_UP);
    const int before = n_emitted[0];
    atomic_store(&in_iteration, true);
    iterations(eng, N_TURN);
    atomic_store(&in_iteration, false);
    for (int i = 0; i < N_REQUEST; i++) assert_true(n_emitted[i] >= WARM_UP + N_TURN);
    assert_int_equal(n_emitted[0], before + N_TURN);
    assert_true(n_in_iteration <= 2 * N_REQUEST);
    submit(eng, ways[0], 0, LONG_PROMPT, &n_long_emitted);
    while (!n_long_emitted) iterations(eng, 1);
    assert_true(n_forward > N_TURN && n_prompt_pass > LONG_PROMPT / STEP_TOK);
    assert_int_equal(n_in_forward, 0);
    unthreaded_close(eng);
}

FX_RUN(test_allocation)
