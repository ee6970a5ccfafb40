// test_speculate.c - drafts change how many passes an answer takes, and nothing else: text, ends,
// stop strings, what is recorded; no draft goes beyond what a request may become, or takes memory
// from anyone; whatever of it fails, the answer is the same. (The same bits under everything else
// that the engine does: same_bits/.)
//
// The engine's clock advances with each look at it, so that what drafting is thought to take does
// not depend on the machine.
#include "unit/cmocka_all.h"

#include "engine/iteration.h"

#include "model/device.h"
#include "unit/engine/same_bits/drafters.h"
#include "unit/engine/support/unthreaded.h"

#include <string.h>

#define TINY     FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"
#define WINDOWED FX_SOURCE_DIR "/tests/vectors/models/gemma3.gguf"

enum { N_PROMPT = 40, N_GEN = BITS_MAX_GEN, LOOK_US = 500 };

static int32_t prompt[N_PROMPT];
static bits_answer want, got;
static drafter guess;

static uint64_t next_look(void *ud)
{
    static uint64_t now_us;
    (void)ud;
    return now_us += LOOK_US;
}

static fx_engine *open_speculating(const char *path, const char *speculate, fx_options opt)
{
    opt.n_thread = 1;
    opt.speculate = speculate;
    if (!opt.max_seq) opt.max_seq = 8;
    fx_engine *eng = unthreaded_open_single(path, opt);
    eng->journal.now_us = next_look;
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = i ? 3 + (i * i * 7 + i * 13) % (eng->info.n_vocab - 3) : 1;
    return eng;
}

// Drafts come from the answer that is wanted, right and wrong ones.
static void set_drafter(fx_engine *eng, enum drafts kind)
{
    guess = (drafter){.kind = kind,
                      .want = &want,
                      .prompt = prompt,
                      .n_prompt = N_PROMPT,
                      .n_vocab = eng->info.n_vocab,
                      .rng = 9};
    eng->draft_hooks.drafter = drafter_guess;
    eng->draft_hooks.ud = &guess;
}

static void expect_same(const fx_engine *eng)
{
    char what[128];
    const char *broken = "";
    if (!bits_same_answer(&got, &want, what)) fail_msg("%s", what);
    if (fxi_kv_check(eng->kv, &broken) != FX_OK) fail_msg("%s", broken);
}

static fx_request request_to(bits_answer *out, int max_tok)
{
    fx_request r = bits_request(prompt, N_PROMPT, max_tok, out);
    r.logprobs = true;
    return r;
}

// What is wanted, computed without drafts.
static void ask_plain(fx_engine *eng, fx_request r)
{
    r.no_speculate = true;
    bits_ask(eng, &r, &want);
    fxi_cache_forget_idle(&eng->memory);
}

// ---- drafts from the text ----------------------------------------------------------------------

// An answer that repeats itself, as those of small models do in the end, takes fewer passes.
FX_TEST(test_repetition_takes_fewer_passes)
{
    fx_engine *eng = open_speculating(TINY, "prompt", (fx_options){0});
    static const int32_t loop[] = {5, 6, 7};
    fx_request r = request_to(&want, N_GEN), r2 = request_to(&got, N_GEN);
    r.sampling.allow = r2.sampling.allow = loop;
    r.sampling.n_allow = r2.sampling.n_allow = 3;
    ask_plain(eng, r);
    const uint64_t plain = eng->stats.now.n_step;
    bits_ask(eng, &r2, &got);
    expect_same(eng);
    const uint64_t steps = eng->stats.now.n_step - plain;
    assert_true(eng->stats.now.n_accepted_tok > 0);
    assert_int_equal(steps + eng->stats.now.n_accepted_tok, plain);
    assert_true(steps < plain * 2 / 3);
    assert_true(eng->stats.now.draft_saved_us > 2 * eng->stats.now.draft_lost_us);
    unthreaded_close(eng);
}

// A sampled answer to the prompt.
static void ask_sampled(fx_engine *eng, bits_answer *out, uint64_t seed, fx_request with)
{
    fx_request r = request_to(out, N_GEN);
    r.sampling = (fx_sampling){.temperature = 1, .top_p = 1, .seed = seed};
    r.tenant = with.tenant;
    r.no_cache = with.no_cache;
    r.no_speculate = with.no_speculate;
    bits_ask(eng, &r, out);
    out->n_cached = 0;
}

// The same prompt again: what followed it is recorded, and comes true, in fewer passes. Another
// tenant's is not looked at, nor anything by a request without the cache.
FX_TEST(test_recorded_answers_are_drafted)
{
    fx_engine *eng = open_speculating(TINY, "prefix", (fx_options){0});
    ask_sampled(eng, &want, 5, (fx_request){0});
    const uint64_t plain = eng->stats.now.n_step;
    ask_sampled(eng, &got, 5, (fx_request){.tenant = "another"});
    ask_sampled(eng, &got, 5, (fx_request){.no_cache = true});
    assert_int_equal(eng->stats.now.n_draft, 0);
    assert_int_equal(eng->stats.now.n_step, 3 * plain);
    ask_sampled(eng, &got, 5, (fx_request){0});
    expect_same(eng);
    assert_true(eng->stats.now.n_accepted_tok > N_GEN / 2);
    assert_true(eng->stats.now.n_step < 3 * plain + plain / 2);
    ask_sampled(eng, &want, 6, (fx_request){.tenant = "a third"});
    ask_sampled(eng, &got, 6, (fx_request){0}); // it goes on otherwise
    expect_same(eng);
    unthreaded_close(eng);
}

FX_TEST(test_a_request_may_refuse_drafts)
{
    fx_engine *eng = open_speculating(TINY, "auto", (fx_options){0});
    ask_plain(eng, request_to(&want, N_GEN));
    set_drafter(eng, ORACLE);
    fx_request r = request_to(&got, N_GEN);
    r.no_speculate = true;
    bits_ask(eng, &r, &got);
    assert_int_equal(eng->stats.now.n_draft, 0);
    r = request_to(&got, 12);
    r.beam_width = r.n_choice = 3; // beams draw more than one token: nothing is drafted for them
    bits_ask(eng, &r, &got);
    assert_int_equal(eng->stats.now.n_draft, 0);
    unthreaded_close(eng);
}

FX_TEST(test_unknown_sources_are_refused)
{
    fx_options opt = {.model_path = TINY, .speculate = "always"};
    fx_model_info info;
    fx_error err;
    assert_int_equal(fx_options_check(&opt, &info, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "'always'"));
    opt.speculate = "auto";
    opt.draft_tok = FX_MAX_DRAFT + 1;
    assert_int_equal(fx_options_check(&opt, &info, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "drafted tokens"));
}

// ---- ends --------------------------------------------------------------------------------------

static int n_beyond; // tokens that a draft was asked for beyond what the answer may have

static int guess_to_the_end(void *ud, const fxi_seq *s, int32_t *tok, int most)
{
    const int left = (int)s->request->spec.n_prompt + s->request->max_tok - s->n_tok;
    if (most >= left) n_beyond++;
    return drafter_guess(ud, s, tok, most);
}

// All lengths, up to the end of the context.
FX_TEST(test_no_draft_goes_beyond_the_end)
{
    fx_engine *eng = open_speculating(TINY, "auto", (fx_options){.ctx_tok = N_PROMPT + N_GEN});
    ask_plain(eng, request_to(&want, N_GEN));
    set_drafter(eng, ORACLE);
    eng->draft_hooks.drafter = guess_to_the_end;
    for (int n = 1; n <= N_GEN; n += n < 12 ? 1 : 13) {
        const fx_request r = request_to(&got, n);
        bits_ask(eng, &r, &got);
        assert_int_equal(got.choice[0].n_tok, n);
        assert_int_equal(got.choice[0].finish, FX_FINISH_LENGTH);
        assert_memory_equal(got.choice[0].tok, want.choice[0].tok,
                            (size_t)n * sizeof *want.choice[0].tok);
    }
    assert_int_equal(n_beyond, 0);
    assert_true(eng->stats.now.n_accepted_tok > N_GEN);
    unthreaded_close(eng);
}

// An answer that ends within a draft: what was drafted behind the end leaves nothing.
static fx_request request_until(const int32_t *stop, bits_answer *out)
{
    fx_request r = request_to(out, N_GEN);
    r.stop_token = stop;
    r.n_stop_token = 1;
    return r;
}

// As many tokens are recorded as without drafts: all but the last.
static void check_recorded(fx_engine *eng)
{
    int32_t tok[N_PROMPT + N_GEN];
    const int n = got.choice[0].n_tok;
    fxi_kv_domain *d;
    memcpy(tok, prompt, sizeof prompt);
    for (int i = 0; i < n; i++) tok[N_PROMPT + i] = got.choice[0].tok[i].tok;
    assert_int_equal(fxi_kv_domain_open(eng->kv, "", 0, &d), FX_OK);
    assert_int_equal(fxi_kv_peek(eng->kv, d, tok, N_PROMPT + n), N_PROMPT + n - 1);
    fxi_kv_domain_close(eng->kv, d);
}

FX_TEST(test_an_end_within_a_draft)
{
    static bits_answer whole, ended;
    for (int at = 0; at < 12; at++) {
        fx_engine *eng = open_speculating(TINY, "auto", (fx_options){0});
        ask_plain(eng, request_to(&want, N_GEN));
        whole = want;
        const int32_t stop = want.choice[0].tok[at].tok;
        ask_plain(eng, request_until(&stop, &want));
        assert_int_equal(want.choice[0].finish, FX_FINISH_STOP);
        ended = want;
        want = whole; // drafts go on behind the end
        set_drafter(eng, ORACLE);
        const fx_request r = request_until(&stop, &got);
        bits_ask(eng, &r, &got);
        want = ended;
        expect_same(eng);
        check_recorded(eng);
        unthreaded_close(eng);
    }
}

typedef struct quitter {
    fx_engine *eng;
    int n_tok;
    fx_finish finish;
} quitter;

static void cancel_at_five(void *ud, const fx_event *ev)
{
    quitter *q = ud;
    if (ev->token >= 0 && ++q->n_tok == 5) fx_cancel(q->eng, ev->request_id);
    if (ev->last) q->finish = ev->finish;
}

FX_TEST(test_a_cancel_within_a_draft)
{
    fx_engine *eng = open_speculating(TINY, "auto", (fx_options){0});
    ask_plain(eng, request_to(&want, N_GEN));
    set_drafter(eng, ORACLE);
    quitter q = {.eng = eng};
    fx_request r = request_to(&got, N_GEN);
    r.on_event = cancel_at_five;
    r.ud = &q;
    (void)bits_submit(eng, &r);
    while (q.finish == FX_FINISH_NONE) (void)fxi_iteration_run(eng);
    assert_int_equal(q.finish, FX_FINISH_CANCEL);
    assert_int_equal(q.n_tok, 5);
    unthreaded_close(eng);
}

// Where the device says which token is likeliest, and there are no logits.
FX_TEST(test_greedy_draws_of_the_device)
{
    fx_engine *eng = open_speculating(TINY, "auto", (fx_options){0});
    fx_request r = request_to(&want, N_GEN);
    r.logprobs = false;
    ask_plain(eng, r);
    eng->device->prefers_best = true;
    set_drafter(eng, ORACLE);
    r = request_to(&got, N_GEN);
    r.logprobs = false;
    bits_ask(eng, &r, &got);
    expect_same(eng);
    assert_true(eng->stats.now.n_accepted_tok > 10 && eng->pass->has_best);
    unthreaded_close(eng);
}

// Layers with a window free rows as a sequence grows: none that it needs once drafts are cut off.
FX_TEST(test_windows_keep_what_drafts_need_again)
{
    for (int kind = ORACLE; kind <= WRONG; kind++) {
        fx_engine *eng = open_speculating(WINDOWED, "auto", (fx_options){.draft_tok = 12});
        ask_plain(eng, request_to(&want, N_GEN));
        set_drafter(eng, (enum drafts)kind);
        const fx_request r = request_to(&got, N_GEN);
        bits_ask(eng, &r, &got);
        expect_same(eng);
        assert_true(eng->stats.now.n_draft_tok > N_GEN / 2);
        unthreaded_close(eng);
    }
}

// ---- memory ------------------------------------------------------------------------------------

// The manager's table. A cache that grows by more than a token grows for a draft.
static struct {
    fxi_kv_ops ops;
    const fxi_kv_ops *real;
    fx_status extend_with, truncate_with; // what drafts get
    struct {
        const fxi_kv_seq *kv;
        int len_tok;
    } seen[2];
    int n_refused;
} faulty;

static int *length_of(const fxi_kv_seq *s)
{
    int i = 0;
    while (i < 1 && faulty.seen[i].kv && faulty.seen[i].kv != s) i++;
    faulty.seen[i].kv = s;
    return &faulty.seen[i].len_tok;
}

static fx_status extend_for_prompt(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    *length_of(s) = len_tok;
    return faulty.real->seq_extend(kv, s, len_tok);
}

static fx_status extend_by_one(fxi_kv *kv, fxi_kv_seq *const *s, const int *len_tok, int n,
                               int *n_done)
{
    for (*n_done = 0; *n_done < n; ++*n_done) {
        const int i = *n_done, more = len_tok[i] - *length_of(s[i]);
        if (more > 1 && faulty.extend_with != FX_OK) {
            faulty.n_refused++;
            return faulty.extend_with;
        }
        FX_TRY(faulty.real->seq_extend(kv, s[i], len_tok[i]));
        *length_of(s[i]) = len_tok[i];
    }
    return FX_OK;
}

static fx_status truncate_or_fail(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    *length_of(s) = len_tok;
    if (faulty.truncate_with == FX_OK) return faulty.real->seq_truncate(kv, s, len_tok);
    faulty.n_refused++;
    return faulty.truncate_with;
}

static void make_faulty(fx_engine *eng, fx_status extend_with, fx_status truncate_with)
{
    memset(&faulty, 0, sizeof faulty);
    faulty.real = eng->kv->ops;
    faulty.ops = *faulty.real;
    faulty.ops.seq_extend = extend_for_prompt;
    faulty.ops.seq_extend_many = extend_by_one;
    faulty.ops.seq_truncate = truncate_or_fail;
    faulty.extend_with = extend_with;
    faulty.truncate_with = truncate_with;
    eng->kv->ops = &faulty.ops;
}

// Two requests: there would be one to preempt.
static void check_faulty_memory(fx_status extend_with, fx_status truncate_with)
{
    static bits_answer twin;
    fx_engine *eng = open_speculating(TINY, "auto", (fx_options){0});
    ask_plain(eng, request_to(&want, N_GEN));
    set_drafter(eng, ORACLE);
    make_faulty(eng, extend_with, truncate_with);
    fx_request r = request_to(&got, N_GEN), r2 = request_to(&twin, N_GEN);
    r.no_cache = r2.no_cache = true;
    (void)bits_submit(eng, &r);
    (void)bits_submit(eng, &r2);
    bits_finish(eng, &got);
    bits_finish(eng, &twin);
    expect_same(eng);
    got = twin;
    expect_same(eng);
    assert_true(faulty.n_refused > 3);
    assert_int_equal(eng->stats.now.n_preempt_recompute + eng->stats.now.n_preempt_swap, 0);
    // The last draft of each is one token, which looks like a step's own.
    if (extend_with != FX_OK) assert_true(eng->stats.now.n_draft_tok <= 2);
    eng->kv->ops = faulty.real;
    unthreaded_close(eng);
}

FX_TEST(test_no_memory_for_drafts_preempts_nobody)
{
    check_faulty_memory(FX_ENOSPACE, FX_OK);
}

FX_TEST(test_a_failed_extension_is_no_draft)
{
    check_faulty_memory(FX_EIO, FX_OK);
}

FX_TEST(test_a_failed_truncation_is_computed_again)
{
    check_faulty_memory(FX_OK, FX_EIO);
}

// What a request may ever take is what was promised to it: drafts take no more.
FX_TEST(test_drafts_fit_what_was_promised)
{
    for (int i = 0; fxi_kv_manager_name(i); i++) {
        fx_options opt = {.ctx_tok = 256, .kv_manager = fxi_kv_manager_name(i)};
        opt.kv_memory_bytes = 8 << 20;
        fx_engine *eng = open_speculating(TINY, "auto", opt);
        fx_request r = request_to(&want, N_GEN);
        r.expect_tok = N_GEN;
        const uint64_t need = fxi_request_bytes(&eng->service, &r, N_GEN);
        ask_plain(eng, r);
        unthreaded_close(eng);
        for (opt.kv_memory_bytes = need;; opt.kv_memory_bytes += 4096, unthreaded_close(eng)) {
            eng = open_speculating(TINY, "auto", opt);
            if (eng->service.budget_bytes >= need) break;
        }
        set_drafter(eng, ORACLE);
        r = request_to(&got, N_GEN);
        r.expect_tok = N_GEN;
        bits_ask(eng, &r, &got);
        expect_same(eng);
        assert_true(eng->stats.now.n_accepted_tok > 10);
        assert_int_equal(eng->stats.now.n_preempt_recompute + eng->stats.now.n_preempt_swap, 0);
        unthreaded_close(eng);
    }
}

FX_RUN(test_speculate)
