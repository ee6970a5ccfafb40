// test_draft_model.c - a draft model: the answers are those without it, to the last bit, whatever
// it says; where it is like the model, most of its drafts come true, of sampled answers, too; its
// caches follow preemptions, choices and many sequences in little memory; another vocabulary is
// refused.
#include "unit/cmocka_all.h"

#include "unit/engine/support/bits.h"
#include "unit/engine/support/unthreaded.h"

#include <math.h>
#include <string.h>

#define VECTORS  FX_SOURCE_DIR "/tests/vectors/"
#define TINY     VECTORS "logits/tiny-f32.gguf"
#define LIKE_IT  VECTORS "logits/tiny-bf16.gguf"
#define WINDOWED VECTORS "models/gemma3.gguf"

enum { N_PROMPT = 50, N_GEN = BITS_MAX_GEN, N_CLIENT = 6, LOOK_US = 500 };

static int32_t prompt[N_CLIENT][N_PROMPT];
static bits_answer want[N_CLIENT], got[N_CLIENT];

static uint64_t next_look(void *ud)
{
    static uint64_t now_us;
    (void)ud;
    return now_us += LOOK_US;
}

static fx_engine *open_with(const char *model, const char *draft, fx_options opt)
{
    opt.n_thread = 1;
    opt.draft_path = draft;
    if (!opt.max_seq) opt.max_seq = 8;
    fx_engine *eng = unthreaded_open_single(model, opt);
    eng->journal.now_us = next_look;
    for (int i = 0; i < N_CLIENT; i++)
        for (int t = 0; t < N_PROMPT; t++)
            prompt[i][t] = t ? 3 + (t * t * 7 + t * 13 + i * 31) % (eng->info.n_vocab - 3) : 1;
    return eng;
}

// Client i: the even ones are greedy, the odd ones draw.
static fx_request request_of(int i, bits_answer *out)
{
    fx_request r = bits_request(prompt[i], N_PROMPT, N_GEN, out);
    r.logprobs = true;
    r.no_cache = true;
    if (i % 2) r.sampling = (fx_sampling){.temperature = 0.8f, .top_p = 0.95f, .seed = (uint64_t)i};
    if (i == 3) r.n_choice = 3;
    return r;
}

static void ask_alone(const char *model, int n)
{
    fx_engine *eng = open_with(model, NULL, (fx_options){0});
    for (int i = 0; i < n; i++) {
        const fx_request r = request_of(i, &want[i]);
        bits_ask(eng, &r, &want[i]);
    }
    unthreaded_close(eng);
}

static void ask_together(fx_engine *eng, int n, bool preempts)
{
    for (int i = 0; i < n; i++) {
        const fx_request r = request_of(i, &got[i]);
        (void)bits_submit(eng, &r);
    }
    for (int iteration = 0; fxi_iteration_run(eng); iteration++)
        if (preempts && iteration % 3 == 2 && eng->sched.running.head)
            fxi_preempt_request(&eng->memory, eng->sched.running.head, FXI_RECOMPUTE);
}

static void expect_same(const fx_engine *eng, int n)
{
    char what[128];
    const char *broken = "";
    for (int i = 0; i < n; i++)
        if (!bits_same_answer(&got[i], &want[i], what)) fail_msg("client %d: %s", i, what);
    if (fxi_kv_check(eng->kv, &broken) != FX_OK) fail_msg("%s", broken);
}

// ---- drafts ------------------------------------------------------------------------------------

// A model drafts for itself: what it draws is what is drawn.
FX_TEST(test_a_like_model_is_mostly_right)
{
    for (int i = 0; i < 2; i++) { // greedy, drawn
        ask_alone(TINY, i + 1);
        fx_engine *eng = open_with(TINY, TINY, (fx_options){0});
        const fx_request r = request_of(i, &got[i]);
        bits_ask(eng, &r, &got[i]);
        got[1 - i] = want[1 - i];
        expect_same(eng, i + 1);
        assert_true(eng->stats.now.n_accepted_tok > N_GEN / 2);
        assert_int_equal(eng->stats.now.n_accepted_tok, eng->stats.now.n_draft_tok);
        assert_true(eng->stats.now.n_step < N_GEN / 2);
        unthreaded_close(eng);
    }
}

// Client 1 under every rule that changes what is drawn; a grammar, too.
static fx_request request_with_rules(fx_grammar *g, bits_answer *out)
{
    static fx_bias bias[40];
    static int32_t ban[20];
    fx_request r = request_of(1, out);
    for (int i = 0; i < 40; i++) bias[i] = (fx_bias){3 + 5 * i, i % 2 ? 3.0f : -3.0f};
    for (int i = 0; i < 20; i++) ban[i] = 4 + 7 * i;
    r.sampling.bias = bias;
    r.sampling.n_bias = 40;
    r.sampling.ban = ban;
    r.sampling.n_ban = g ? 0 : 20; // where nothing is banned, the grammar may force tokens
    r.sampling.repetition_penalty = 1.5f;
    r.sampling.presence_penalty = 0.7f;
    r.sampling.frequency_penalty = 0.4f;
    r.sampling.min_tok = N_GEN;
    r.grammar = g;
    return r;
}

static void ask_with_rules(bool speculates, const fx_part *form, bits_answer *out)
{
    fx_engine *eng = open_with(TINY, speculates ? TINY : NULL, (fx_options){0});
    fx_grammar *g = NULL;
    fx_error err;
    if (form && fx_grammar_compile(eng, form, &g, &err) != FX_OK) fail_msg("%s", err.text);
    const fx_request r = request_with_rules(g, out);
    eng->draft_hooks.takes_all = true;
    bits_ask(eng, &r, out);
    if (speculates) {
        assert_true(eng->stats.now.n_accepted_tok > N_GEN / 2);
        assert_int_equal(eng->stats.now.n_accepted_tok, eng->stats.now.n_draft_tok);
    }
    fx_grammar_release(g);
    unthreaded_close(eng);
}

// The draft model's draws follow the rules of the request, so that what it says still comes true.
FX_TEST(test_drafts_follow_the_rules)
{
    static const char pattern[] = "([a-m ]{3}(xyzzy|[n-z])){1,200}";
    const fx_part form = {.kind = FX_PART_REGEX, .text = pattern, .n_bytes = sizeof pattern - 1};
    const fx_part *const forms[] = {NULL, &form};
    for (int i = 0; i < 2; i++) {
        char what[128];
        ask_with_rules(false, forms[i], &want[0]);
        ask_with_rules(true, forms[i], &got[0]);
        if (!bits_same_answer(&got[0], &want[0], what)) fail_msg("%d: %s", i, what);
    }
}

// How many masks a grammar has made when its answer has come to one that takes too long, and the
// worker that would make it stands still.
static size_t masks_before_the_worker(const char *draft, int *n_tok)
{
    static const char pattern[] =
        "[ab]{6}(?:[a-z ]{0,40}[a-y ]{0,40}[b-z ]{0,40}[a-x ]{0,40}){3,40}";
    const fx_part form = {.kind = FX_PART_REGEX, .text = pattern, .n_bytes = sizeof pattern - 1};
    fx_engine *eng = open_with(TINY, draft, (fx_options){0});
    fx_grammar *g = NULL;
    fx_error err;
    eng->draft_hooks.takes_all = true;
    unthreaded_pause_grammars(eng, true); // before it is given the grammar
    if (fx_grammar_compile(eng, &form, &g, &err) != FX_OK) fail_msg("%s", err.text);
    fx_request r = request_of(1, &got[0]);
    r.grammar = g;
    const uint64_t id = bits_submit(eng, &r);
    for (int i = 0; i < 40; i++) (void)fxi_iteration_run(eng);
    assert_true(fxi_gram_matcher_read(g->matcher).n_left > 0);
    const size_t n_mask = fxi_gram_matcher_read(g->matcher).n_mask_made;
    *n_tok = got[0].choice[0].n_tok;
    fx_cancel(eng, id);
    unthreaded_pause_grammars(eng, false);
    while (fxi_iteration_run(eng)) {
    }
    fx_grammar_release(g);
    unthreaded_close(eng);
    return n_mask;
}

FX_TEST(test_a_draft_ends_where_its_grammar_takes_too_long)
{
    int n_plain, n_drafted;
    const size_t plain = masks_before_the_worker(NULL, &n_plain);
    assert_int_equal(masks_before_the_worker(TINY, &n_drafted), plain);
    assert_int_equal(n_plain, n_drafted);
}

// Right and wrong drafts, many sequences, choices, preemptions.
FX_TEST(test_no_draft_changes_an_answer)
{
    static const char *const drafts[] = {TINY, LIKE_IT};
    ask_alone(TINY, N_CLIENT);
    for (int i = 0; i < 4; i++) {
        fx_engine *eng = open_with(TINY, drafts[i % 2], (fx_options){0});
        eng->draft_hooks.takes_all = true;
        ask_together(eng, N_CLIENT, i >= 2);
        expect_same(eng, N_CLIENT);
        assert_true(eng->stats.now.n_draft > 10);
        if (i >= 2) assert_true(eng->stats.now.n_preempt_recompute > 3);
        unthreaded_close(eng);
    }
}

// Windows of the draft model pass nothing that a wrong draft needs again.
FX_TEST(test_a_draft_model_with_windows)
{
    ask_alone(WINDOWED, N_CLIENT);
    fx_engine *eng = open_with(WINDOWED, WINDOWED, (fx_options){.speculate = "auto"});
    eng->draft_hooks.takes_all = true;
    ask_together(eng, N_CLIENT, false);
    expect_same(eng, N_CLIENT);
    assert_true(eng->stats.now.n_accepted_tok > 20);
    unthreaded_close(eng);
}

// Prompts are read a step at a time, and caches make room for one another.
FX_TEST(test_little_memory_and_small_steps)
{
    ask_alone(TINY, N_CLIENT);
    fx_engine *eng = open_with(
        TINY, TINY, (fx_options){.step_tok = 24, .kv_memory_bytes = 1200 << 10, .max_seq = 8});
    eng->draft_hooks.takes_all = true;
    ask_together(eng, N_CLIENT, false);
    expect_same(eng, N_CLIENT);
    assert_true(eng->stats.now.n_draft > 10);
    unthreaded_close(eng);
}

// ---- what is not worth it ----------------------------------------------------------------------

// A draft model that is too slow is tried. What it reads for that is paid by 1 % of the time: if
// reading takes a hundred times as long as this clock says, it happens once in so many answers.
FX_TEST(test_a_slow_draft_model_reads_little)
{
    fx_engine *eng = open_with(TINY, LIKE_IT, (fx_options){.speculate = "off"});
    fxi_drafting *x = eng->drafting;
    int n_read = 0, n_pass = 0;
    for (int i = 0; i < 20; i++) {
        const fx_request r = request_of(0, &got[0]);
        (void)bits_submit(eng, &r);
        for (bool runs = true; runs; n_pass++) {
            const double before_us = x->model_credit_us;
            x->model_us = 1e9; // no token seems worth that
            runs = fxi_iteration_run(eng);
            if (x->model_credit_us > before_us) x->model_credit_us = before_us + 0.01 * LOOK_US;
            if (!runs || x->read_us <= 0) continue;
            assert_true(before_us >= 0); // overdrawn, it reads nothing
            x->model_credit_us -= 100 * x->read_us;
            x->read_us = 0;
            n_read++;
        }
    }
    assert_true(n_pass > 400);
    assert_int_equal(n_read, 1);
    unthreaded_close(eng);
}

static uint64_t drafts_with(fxi_draft_pace pace)
{
    fx_engine *eng = open_with(TINY, LIKE_IT, (fx_options){.speculate = "off"});
    const fx_request r = request_of(0, &got[0]);
    eng->drafting->pace = pace;
    bits_ask(eng, &r, &got[0]);
    const uint64_t n = eng->stats.now.n_draft, lost_us = eng->stats.now.draft_lost_us;
    assert_true(n || !lost_us);
    unthreaded_close(eng);
    return n;
}

// A pass takes some looks at this clock.
FX_TEST(test_a_draft_model_that_cannot_pay_is_left_alone)
{
    assert_true(drafts_with((fxi_draft_pace){.token_us = 0.1 * LOOK_US, .read_us = 1}) > 5);
    assert_int_equal(drafts_with((fxi_draft_pace){.token_us = 20 * LOOK_US, .read_us = 1}), 0);
    // Nor is a text read for more than the drafts after it promise to save.
    assert_int_equal(drafts_with((fxi_draft_pace){.token_us = 1, .read_us = 20 * LOOK_US}), 0);
}

FX_TEST(test_the_pace_is_measured_when_the_engine_opens)
{
    const fx_options opt = {.model_path = TINY, .draft_path = LIKE_IT, .n_thread = 1};
    fx_engine *eng;
    fx_error err;
    assert_int_equal(fx_engine_open(&opt, &eng, &err), FX_OK);
    const fxi_draft_pace pace = eng->drafting->pace;
    assert_true(pace.token_us > 0 && pace.read_us >= 0);
    fx_engine_close(eng);
}

// ---- what is refused ---------------------------------------------------------------------------

static void expect_refused(const char *draft, fx_status st, const char *text)
{
    fx_options opt = {.model_path = TINY, .draft_path = draft};
    fx_engine *eng;
    fx_model_info info;
    fx_error err = {0};
    assert_int_equal(fx_engine_open(&opt, &eng, &err), st);
    if (!strstr(err.text, text)) fail_msg("%s", err.text);
    assert_int_equal(fx_options_check(&opt, &info, &err), st);
    if (!strstr(err.text, text)) fail_msg("%s", err.text);
}

FX_TEST(test_other_vocabularies_are_refused)
{
    expect_refused(FX_SOURCE_DIR "/models/storyteller.gguf", FX_EINVAL, "vocabulary");
    expect_refused(FX_SOURCE_DIR "/none.gguf", FX_EIO, "none.gguf");
    expect_refused(FX_SOURCE_DIR "/README.md", FX_EFORMAT, "README.md");
}

FX_RUN(test_draft_model)
