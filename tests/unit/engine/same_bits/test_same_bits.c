// test_same_bits.c - whatever the engine does to a request, its answer is the same to the last bit:
// token ids, logprobs, ranks, the likeliest five, scores; and so are the keys and values in its
// cache. variants.h lists what is done to it.
//
// Here every pair of levels of all six axes is covered, on storyteller those of the most revealing
// levels; a long prompt crosses chunks; one request with several sequences is compared with
// separate requests that are forced along the same tokens; and the ledger is shown to find one
// wrong byte. All combinations: test_same_bits_all.c.
#include "unit/cmocka_all.h"

#include "unit/engine/same_bits/variants.h"
#include "unit/engine/support/unthreaded.h"

enum { N_PROMPT = 66, N_LONG = RIG_MAX_PROMPT, N_GEN = 12, N_FEW = 5 };

// ---- the same answer by other requests ---------------------------------------------------------

// A request for the probabilities of the prompt and of this answer to it, and nothing else.
static void check_forced(rig *r, int kind, int choice)
{
    static bits_answer forced;
    const bits_choice *c = &rig_want(r, kind)->choice[choice];
    const int n_all = r->n_prompt + c->n_tok;
    int32_t tok[RIG_MAX_PROMPT + RIG_MAX_GEN];
    char what[128];
    for (int i = 0; i < n_all; i++)
        tok[i] = i < r->n_prompt ? r->prompt[i] : c->tok[i - r->n_prompt].tok;
    fx_request req = bits_request(tok, n_all, 0, &forced);
    req.prompt_logprobs = true;
    req.n_prompt_top = BITS_TOP;
    bits_ask(r->eng[choice % N_THREAD_LEVEL], &req, &forced);
    assert_int_equal(forced.n_prompt_emitted, n_all - 1);
    for (int i = 0; i < c->n_tok; i++)
        if (!bits_same_tok(&c->tok[i], &forced.prompt[r->n_prompt + i], what))
            fail_msg("%s, kind %d, choice %d, token %d: %s", r->name, kind, choice, i, what);
}

// Each choice equals the first choice of a request of this kind.
static void expect_first_of(rig *r, int kind, const bits_choice *c)
{
    char what[128];
    if (!bits_same_choice(c, &rig_want(r, kind)->choice[0], what))
        fail_msg("%s, kind %d: %s", r->name, kind, what);
}

// The first of several choices equals a single one; greedy choices are all equal.
static void check_forks(rig *r)
{
    static bits_answer a;
    expect_first_of(r, SEEDED, &rig_want(r, FORKS)->choice[0]);
    expect_first_of(r, GREEDY, &rig_want(r, PROMPT_PROBS)->choice[0]);
    fx_request req = rig_request(r, GREEDY, &a);
    req.n_choice = 4;
    bits_ask(r->eng[1], &req, &a);
    for (int i = 0; i < 4; i++) expect_first_of(r, GREEDY, &a.choice[i]);
}

static void check_said_by_others(rig *r, int n_kind, int max_choice)
{
    check_forks(r);
    for (int kind = 0; kind < n_kind; kind++)
        for (int i = 0; i < rig_want(r, kind)->n_choice && i < max_choice; i++)
            check_forced(r, kind, i);
}

FX_TEST(test_separate_requests)
{
    static const int model[] = {TINY, STORIES};
    for (int i = 0; i < 2; i++) {
        if (!model_is_present(model[i])) continue;
        rig *r = rig_open(model[i], N_PROMPT, RIG_MAX_GEN);
        check_said_by_others(r, N_KIND, BITS_MAX_CHOICE);
        rig_close(r);
    }
}

// ---- the ledger --------------------------------------------------------------------------------

static char *byte_at(const fx_engine *eng, const fxi_seq *s, int position, int plane, int byte)
{
    const fxi_kv_views v = fxi_kv_get_views(eng->kv, s->kv);
    return fxi_kv_row(&v.group[0], plane, position) + byte;
}

static void expect_diff(rig *r, const fxi_seq *s, int first, bits_diff want)
{
    bits_diff got = {-1, -1, false};
    assert_false(bits_ledger_check(r->ledger, r->eng[0], s, first, &got));
    assert_int_equal(got.position, want.position);
    assert_int_equal(got.layer, want.layer);
    assert_int_equal(got.in_values, want.in_values);
}

static void expect_found(rig *r, const fxi_seq *s, int position, int plane, int byte)
{
    char *at = byte_at(r->eng[0], s, position, plane, byte);
    bits_diff d;
    *at ^= 1;
    expect_diff(r, s, 0, (bits_diff){position, plane / 2, plane % 2});
    *at ^= 1;
    assert_true(bits_ledger_check(r->ledger, r->eng[0], s, 0, &d));
}

// One wrong byte in any row is found and named. Once a step has read it, the first rows that are
// wrong because of it are those of the next layer.
FX_TEST(test_ledger_finds_a_byte)
{
    static bits_answer got;
    unthreaded_is_unguarded = true; // the test writes to rows that are shared
    rig *r = rig_open(TINY, N_PROMPT, N_FEW);
    unthreaded_is_unguarded = false;
    fx_engine *eng = r->eng[0];
    (void)rig_want(r, GREEDY); // fills the ledger
    rig_make_cold(eng);
    const fx_request req = rig_request(r, GREEDY, &got);
    const uint64_t id = bits_submit(eng, &req);
    while (got.choice[0].n_tok < 2) (void)fxi_iteration_run(eng);
    const fxi_seq *s = &bits_live_request(eng, id)->seq[0];
    const int n = s->n_computed, n_plane = 2 * eng->info.n_layer;
    const int last_byte = (int)eng->model->shape.kv.group[0].row_bytes - 1;
    for (int plane = 0; plane < n_plane; plane++) {
        expect_found(r, s, 0, plane, 0);
        expect_found(r, s, n / 2, plane, last_byte / 2);
        expect_found(r, s, n - 1, plane, last_byte);
    }
    *byte_at(eng, s, n / 2, 0, 1) ^= (char)0x80; // a sign
    (void)fxi_iteration_run(eng);
    expect_diff(r, s, 0, (bits_diff){n / 2, 0, false});
    expect_diff(r, s, n, (bits_diff){n, 1, false});
    rig_close(r);
}

// ---- combinations ------------------------------------------------------------------------------

FX_TEST(test_pairs)
{
    rig *r = rig_open(TINY, N_PROMPT, N_GEN);
    rig_compare_pairs(r, 7);
    rig_check_preemptions(r);
    rig_check_drafts(r);
    rig_close(r);
}

FX_TEST(test_pairs_of_storyteller)
{
    rig *r = rig_open(STORYTELLER, N_PROMPT, N_FEW);
    rig_compare_pairs(r, 5);
    check_said_by_others(r, BEAMS + 1, 1);
    rig_close(r);
}

// Rows of a size that f16 does not have.
FX_TEST(test_pairs_of_cache_types)
{
    static const int model[] = {TINY_F32_KV, STORYTELLER_Q8_KV};
    for (int i = 0; i < 2; i++) {
        rig *r = rig_open(model[i], N_PROMPT, N_FEW);
        rig_compare_pairs(r, 3);
        rig_close(r);
    }
}

FX_TEST(test_long_prompt)
{
    rig *r = rig_open(TINY, N_LONG, N_FEW);
    for (int i = 0; i < N_CHUNK_LEVEL * N_PREEMPT_LEVEL; i++) {
        const variant v = {.chunk = i % N_CHUNK_LEVEL,
                           .preempt = i / N_CHUNK_LEVEL,
                           .thread = i % N_THREAD_LEVEL,
                           .start = i % 3,
                           .kind = i % 2 ? PROMPT_PROBS : FORKS};
        rig_compare(r, &v);
    }
    rig_close(r);
}

FX_RUN(test_same_bits)
