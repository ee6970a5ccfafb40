// test_refusals.c - a request that cannot be served is refused at once, with one line that says
// what and where; other requests are not affected.
#include "unit/cmocka_all.h"

#include "unit/engine/support/bits.h"
#include "unit/engine/support/unthreaded.h"

#include <math.h>
#include <string.h>

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"

enum { CTX_TOK = 256, MAX_SEQ = 8, N_VOCAB = 320, N_GEN = 40 };

static fx_engine *eng;
static const int32_t prompt[CTX_TOK] = {1, 5, 6}; // zeros are tokens, too
static bits_answer alone;

static int open_once(void **state)
{
    (void)state;
    eng =
        unthreaded_open(MODEL, (fx_options){.n_thread = 1, .ctx_tok = CTX_TOK, .max_seq = MAX_SEQ});
    // Six sequences of full length.
    const uint64_t bytes = 6 * fxi_kv_bytes_for(eng->kv, CTX_TOK);
    assert_int_equal(fx_set_kv_memory(eng, bytes, NULL), FX_OK);
    (void)fxi_iteration_run(eng);
    const fx_request req = bits_request(prompt, 3, N_GEN, &alone);
    bits_ask(eng, &req, &alone);
    return 0;
}

static int close_once(void **state)
{
    (void)state;
    unthreaded_close(eng);
    return 0;
}

// ---- requests ----------------------------------------------------------------------------------

static const int32_t too_high[] = {5, N_VOCAB}, negative[] = {-1}, some[] = {7, 8},
                     more[] = {9, 8, 7};
static const fx_bias bias_outside[] = {{5, 1}, {N_VOCAB, 1}}, bias_nan[] = {{5, NAN}},
                     bias_inf[] = {{5, INFINITY}};
static const int32_t end_only[] = {2};
static const fx_id_run empty_run[] = {{some, 1}, {some, 0}}, run_outside[] = {{too_high, 2}},
                       run_bans[] = {{some, 1}, {some + 1, 1}};
static const char *const empty_stop[] = {"a", ""};

#define REFUSALS(X)                                                                            \
    X(FX_ENOSPACE, "budget", r->n_choice = 7, r->max_tok = 250)                                \
    X(FX_ENOSPACE, "budget", r->n_choice = 7, r->max_tok = 1 << 30)                            \
    X(FX_ENOSPACE, "budget", r->beam_width = 7, r->max_tok = 250)                              \
    X(FX_ENOSPACE, "budget", r->n_best = 7, r->max_tok = 250)                                  \
    X(FX_EINVAL, "9 sequences", r->n_choice = MAX_SEQ + 1, r->max_tok = 1)                     \
    X(FX_EINVAL, "9 sequences", r->beam_width = MAX_SEQ + 1, r->max_tok = 1)                   \
    X(FX_EINVAL, "beam_width", r->beam_width = FX_MAX_BEAM + 1)                                \
    X(FX_EINVAL, "beam_width", r->beam_width = -1)                                             \
    X(FX_EINVAL, "beam_width", r->beam_width = 2, r->n_choice = 3)                             \
    X(FX_EINVAL, "n_best", r->n_best = 2, r->n_choice = 3)                                     \
    X(FX_EINVAL, "n_best", r->n_best = 4, r->beam_width = 4)                                   \
    X(FX_EINVAL, "n_best", r->n_best = -1)                                                     \
    X(FX_EINVAL, "n: 0", r->n_choice = 0)                                                      \
    X(FX_EINVAL, "n: 65", r->n_choice = FX_MAX_CHOICE + 1)                                     \
    X(FX_EINVAL, "top logprobs", r->n_top = FX_MAX_TOP + 1)                                    \
    X(FX_EINVAL, "prompt logprobs", r->n_prompt_top = FX_MAX_TOP + 1)                          \
    X(FX_EINVAL, "no tokens", r->n_prompt = 0)                                                 \
    X(FX_ECONTEXT, "This model's maximum context length is 256 tokens", r->n_prompt = CTX_TOK) \
    X(FX_EINVAL, "prompt token 1: id 320", r->prompt = too_high, r->n_prompt = 2)              \
    X(FX_EINVAL, "prompt token 0: id -1", r->prompt = negative, r->n_prompt = 1)               \
    X(FX_EINVAL, "allowed token 1: id 320", s->allow = too_high, s->n_allow = 2)               \
    X(FX_EINVAL, "banned token 0: id -1", s->ban = negative, s->n_ban = 1)                     \
    X(FX_EINVAL, "stop token 1: id 320", r->stop_token = too_high, r->n_stop_token = 2)        \
    X(FX_EINVAL, "bias token", s->bias = bias_outside, s->n_bias = 2)                          \
    X(FX_EINVAL, "bias of token 5", s->bias = bias_nan, s->n_bias = 1)                         \
    X(FX_EINVAL, "bias of token 5", s->bias = bias_inf, s->n_bias = 1)                         \
    X(FX_EINVAL, "allowed is banned", s->allow = some, s->n_allow = 2, s->ban = more,          \
      s->n_ban = 3)                                                                            \
    X(FX_EINVAL, "allowed is banned", s->allow = some, s->n_allow = 2, s->ban_run = run_bans,  \
      s->n_ban_run = 2)                                                                        \
    X(FX_EINVAL, "run of tokens is empty", s->ban_run = empty_run, s->n_ban_run = 2)           \
    X(FX_EINVAL, "banned token 1: id 320", s->ban_run = run_outside, s->n_ban_run = 1)         \
    X(FX_EINVAL, "min_tok: every", s->allow = end_only, s->n_allow = 1, s->min_tok = 1)        \
    X(FX_EINVAL, "min_tok: every", s->allow = some, s->n_allow = 2, s->min_tok = 3,            \
      r->stop_token = some, r->n_stop_token = 2)                                               \
    X(FX_EINVAL, "stop string", r->stop = empty_stop, r->n_stop = 2)                           \
    X(FX_EINVAL, "temperature", s->temperature = NAN)                                          \
    X(FX_EINVAL, "temperature", s->temperature = -1)                                           \
    X(FX_EINVAL, "temperature", s->temperature = INFINITY)                                     \
    X(FX_EINVAL, "top_p", s->top_p = NAN)                                                      \
    X(FX_EINVAL, "top_p", s->top_p = 0)                                                        \
    X(FX_EINVAL, "min_p", s->min_p = 1.5f)                                                     \
    X(FX_EINVAL, "typical_p", s->typical_p = -0.5f)                                            \
    X(FX_EINVAL, "repetition_penalty", s->repetition_penalty = NAN)                            \
    X(FX_EINVAL, "repetition_penalty", s->repetition_penalty = -2)                             \
    X(FX_EINVAL, "presence_penalty", s->presence_penalty = 2.5f)                               \
    X(FX_EINVAL, "dry_multiplier", s->dry_multiplier = -1)                                     \
    X(FX_EINVAL, "dry_base", s->dry_base = NAN)                                                \
    X(FX_EINVAL, "dry_allowed_length", s->dry_allowed_length = -1)                             \
    X(FX_EINVAL, "dry_last_tok", s->dry_last_tok = -2)                                         \
    X(FX_EINVAL, "sequence breaker", s->dry_breaker = empty_stop, s->n_dry_breaker = 2)        \
    X(FX_EINVAL, "xtc_probability", s->xtc_probability = 1.5f)                                 \
    X(FX_EINVAL, "xtc_threshold", s->xtc_threshold = -0.5f)                                    \
    X(FX_EINVAL, "frequency_penalty", s->frequency_penalty = -INFINITY)                        \
    X(FX_EINVAL, "length_penalty", r->length_penalty = NAN)                                    \
    X(FX_EINVAL, "top_k", s->top_k = -3)                                                       \
    X(FX_EINVAL, "min_tok", s->min_tok = -1)                                                   \
    X(FX_EINVAL, "priority", r->priority = FX_MAX_PRIORITY + 1)                                \
    X(FX_EINVAL, "keep_priority", r->keep_priority = 8)                                        \
    X(FX_EINVAL, "on_event", r->on_event = NULL)

static void expect_refusal(const fx_request *req, fx_status want, const char *says)
{
    fx_error err = {0};
    uint64_t id;
    assert_int_equal(fx_submit(eng, req, &id, &err), want);
    assert_int_equal(err.status, want);
    if (!strstr(err.text, says)) fail_msg("expected \"%s\" in: %s", says, err.text);
    assert_null(strchr(err.text, '\n'));
}

// Beside a running request, which answers what it answers alone.
FX_TEST(test_bad_requests)
{
    static bits_answer got, never;
    char what[128];
    const fx_request good = bits_request(prompt, 3, N_GEN, &got);
    (void)bits_submit(eng, &good);
#define REFUSE(status, says, ...)                            \
    {                                                        \
        fx_request req = bits_request(prompt, 3, 4, &never); \
        fx_request *r = &req;                                \
        fx_sampling *s = &r->sampling;                       \
        (void)s;                                             \
        (void)(__VA_ARGS__);                                 \
        expect_refusal(r, status, says);                     \
        if (!got.last) (void)fxi_iteration_run(eng);         \
    }
    REFUSALS(REFUSE)
#undef REFUSE
    bits_finish(eng, &got);
    if (!bits_same_answer(&got, &alone, what)) fail_msg("%s", what);
    fx_stats st;
    fx_engine_stats(eng, &st);
    assert_int_equal(st.n_waiting, 0);
    assert_int_equal(st.n_running, 0);
}

// The largest possible requests are served.
FX_TEST(test_limits_are_allowed)
{
    static bits_answer got;
    fx_request req = bits_request(prompt, CTX_TOK - 1, 1 << 30, &got);
    bits_ask(eng, &req, &got);
    assert_int_equal(got.choice[0].n_tok, 1);
    req = bits_request(prompt, 3, 16, &got);
    req.n_choice = MAX_SEQ;
    bits_ask(eng, &req, &got);
    assert_int_equal(got.n_choice, MAX_SEQ);
    req = bits_request(prompt, 3, 2, &got);
    req.sampling.repetition_penalty = 1e30F;
    bits_ask(eng, &req, &got);
    req = bits_request(prompt, 3, 2, &got);
    req.sampling.allow = end_only;
    req.sampling.n_allow = 1;
    bits_ask(eng, &req, &got);
    assert_int_equal(got.choice[0].tok[1].tok, end_only[0]);
    req = bits_request(prompt, 3, -1, &got); // as many as the memory holds
    req.n_choice = MAX_SEQ;
    bits_ask(eng, &req, &got);
    assert_int_equal(got.choice[MAX_SEQ - 1].finish, FX_FINISH_LENGTH);
    assert_in_range(got.choice[0].n_tok, 1, CTX_TOK - 3);
}

// ---- queues ------------------------------------------------------------------------------------

typedef struct queue_row {
    fx_options opt;
    int n_prompt, n_choice;
    int n_ok; // requests accepted before the first one runs
    const char *says;
} queue_row;

static void check_queue(const queue_row *row)
{
    enum { N_REQUEST = 12 };
    static bits_answer got[N_REQUEST];
    fx_error err = {0};
    uint64_t id;
    fx_engine *e = unthreaded_open(MODEL, row->opt);
    for (int i = 0; i < N_REQUEST; i++) {
        fx_request req = bits_request(prompt, row->n_prompt, 3, &got[i]);
        req.n_choice = row->n_choice;
        assert_int_equal(fx_submit(e, &req, &id, &err), i < row->n_ok ? FX_OK : FX_EQUEUE);
        if (i >= row->n_ok) assert_non_null(strstr(err.text, row->says));
    }
    for (int i = 0; i < row->n_ok; i++) bits_finish(e, &got[i]);
    const fx_request req = bits_request(prompt, row->n_prompt, 3, &got[0]);
    bits_ask(e, &req, &got[0]); // there is room again
    unthreaded_close(e);
}

FX_TEST(test_queues_are_bounded)
{
    const fx_options base = {.n_thread = 1, .max_seq = 2, .max_queue = 3};
    fx_options many = base, few_tok = base;
    many.max_queue = 1000;
    few_tok.max_queue = 1000;
    few_tok.max_queue_tok = 100;
    const queue_row row[] = {
        {base, 3, 1, 5, "5 sequences are waiting"},
        {base, 3, 2, 2, "4 sequences are waiting"},
        {many, 250, 1, 12, ""},
        {few_tok, 30, 1, 3, "90 prompt tokens are waiting"},
        {few_tok, 10, 2, 10, "100 prompt tokens are waiting"},
        {few_tok, 200, 1, 1, "200 prompt tokens are waiting"}, // a single one is always accepted
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) check_queue(&row[i]);
}

FX_RUN_GROUP(test_refusals, open_once, close_once)
