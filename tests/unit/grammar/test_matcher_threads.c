// test_matcher_threads.c - matchers that many threads use at once: some follow texts, one works in
// the background, one compiles others. Limits are so tight that masks are replaced and matchers are
// reset all the time. Every mask equals that of a matcher that no other thread uses.
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "grammar/matcher/gram_matcher.h"
#include "grammar/syntax/gram_regex.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { N_VOCAB = 400, MAX_TOKEN = 6, N_WORD = N_VOCAB / 64 + 1, N_FOLLOWER = 3, N_TEXT = 10 };
enum { MAX_TEXT = 16 };

static const char *const patterns[] = {
    "\\{\"(?:[^t\"]|t[^e\"])[^\"]{0,30}\":[0-9]{1,3}\\}",
    "(?:[a-z]{0,9}[b-z]{0,9}){2,6}",
    "(\"[^\"\\\\]{0,40}\",){0,9}\"x\"",
};
enum { N_PATTERN = sizeof patterns / sizeof *patterns };

static char bytes[N_VOCAB][MAX_TOKEN];
static fxi_gram_tokens tokens;
static fxi_gram_matcher *shared[N_PATTERN];
static atomic_int n_following;

static void make_tokens(void)
{
    static const char letters[] = "abctexz019\",:{}\\ \xC3\xA9";
    fxi_str token[N_VOCAB];
    for (size_t i = 0; i < N_VOCAB; i++) {
        const bool is_letter = i < sizeof letters - 1;
        const size_t n = is_letter ? 1 : 1 + fxi_rng_u64(11, 0, i) % MAX_TOKEN;
        for (size_t k = 0; k < n; k++)
            bytes[i][k] = letters[is_letter ? i : fxi_rng_u64(11, i, k) % (sizeof letters - 1)];
        token[i] = (fxi_str){bytes[i], n};
    }
    assert_int_equal(fxi_gram_tokens_make(&tokens, token, N_VOCAB, NULL), FX_OK);
}

// Not on a test's own thread: nothing is asserted.
static fxi_gram_matcher *make_matcher(int pattern, fxi_matcher_limits limits)
{
    fxi_gram gram = {0};
    uint32_t node;
    fxi_gram_matcher *g = NULL;
    if (fxi_gram_regex(&gram, fxi_str_of(patterns[pattern]), 0, FXI_SPELL_UTF8, &node, NULL) ||
        fxi_gram_finish(&gram, node, NULL) ||
        fxi_gram_matcher_make(&gram, &tokens, (fxi_matcher_speller){0}, limits, &g, NULL))
        fxi_gram_free(&gram);
    return g;
}

static const fxi_matcher_limits tight = {.max_set = 1200, .max_mask = 4},
                                wide = {.max_set = 1 << 16, .max_mask = 1000};

// A token that the mask allows; -1: there is none.
static int32_t pick_token(const uint64_t *mask, uint64_t seed, uint64_t i)
{
    const uint64_t from = fxi_rng_u64(seed, 1, i) % N_VOCAB;
    for (uint64_t k = 0; k < N_VOCAB; k++) {
        const uint64_t id = (from + k) % N_VOCAB;
        if (mask[id / 64] >> (id % 64) & 1) return (int32_t)id;
    }
    return -1;
}

// As the engine's thread does: little is spent, and what is left to the worker is waited for.
static fx_status find_shared(fxi_gram_matcher *g, const int32_t *tok, size_t n, fxi_match_state *at,
                             uint64_t *mask)
{
    for (bool is_ready = false; !is_ready; sched_yield()) {
        size_t left = 300;
        if (fxi_gram_matcher_prepare(g, tok, n, at, true, &left, &is_ready, NULL))
            break; // it is full
    }
    return fxi_gram_matcher_mask(g, tok, n, at, mask, NULL);
}

// One text over a matcher that is shared and one that is not. The number of differences.
static int follow_one(fxi_gram_matcher *g, fxi_gram_matcher *own, uint64_t seed)
{
    int32_t tok[MAX_TEXT];
    fxi_match_state at = {0}, own_at = {0};
    int n_bad = 0;
    for (size_t n = 0; n < MAX_TEXT; n++) {
        uint64_t mask[N_WORD], want[N_WORD];
        if (find_shared(g, tok, n, &at, mask) ||
            fxi_gram_matcher_mask(own, tok, n, &own_at, want, NULL))
            return n_bad + 1;
        n_bad += memcmp(mask, want, sizeof mask) != 0 || at.may_end != own_at.may_end;
        tok[n] = pick_token(want, seed, n);
        if (tok[n] < 0) break;
    }
    return n_bad;
}

static void *follow_texts(void *arg)
{
    const uint64_t seed = *(const uint64_t *)arg;
    intptr_t n_bad = 0;
    for (int p = 0; p < N_PATTERN; p++) {
        fxi_gram_matcher *own = make_matcher(p, wide);
        for (uint64_t i = 0; own && i < N_TEXT; i++)
            n_bad += follow_one(shared[p], own, seed * N_TEXT + i);
        n_bad += !own;
        fxi_gram_matcher_free(own);
    }
    atomic_fetch_sub(&n_following, 1);
    return (void *)n_bad;
}

static void *work_for_all(void *arg)
{
    (void)arg;
    while (atomic_load(&n_following))
        for (int p = 0; p < N_PATTERN; p++) (void)fxi_gram_matcher_work(shared[p]);
    return NULL;
}

static void *compile_others(void *arg)
{
    (void)arg;
    intptr_t n_bad = 0;
    for (int i = 0; atomic_load(&n_following); i++) {
        fxi_gram_matcher *g = make_matcher(i % N_PATTERN, tight);
        for (int k = 0; g && k < 3; k++) (void)fxi_gram_matcher_work(g);
        n_bad += !g || !fxi_gram_matcher_read(g).n_bytes;
        fxi_gram_matcher_free(g);
        sched_yield();
    }
    return (void *)n_bad;
}

FX_TEST(test_guides_serve_many_threads)
{
    pthread_t thread[N_FOLLOWER + 2];
    uint64_t seed[N_FOLLOWER];
    size_t n_restart = 0, n_left = 0;
    make_tokens();
    for (int p = 0; p < N_PATTERN; p++) assert_non_null(shared[p] = make_matcher(p, tight));
    atomic_store(&n_following, N_FOLLOWER);
    for (int i = 0; i < N_FOLLOWER; i++) {
        seed[i] = (uint64_t)i;
        assert_int_equal(pthread_create(&thread[i], NULL, follow_texts, &seed[i]), 0);
    }
    assert_int_equal(pthread_create(&thread[N_FOLLOWER], NULL, work_for_all, NULL), 0);
    assert_int_equal(pthread_create(&thread[N_FOLLOWER + 1], NULL, compile_others, NULL), 0);
    for (int i = 0; i < N_FOLLOWER + 2; i++) {
        void *n_bad;
        assert_int_equal(pthread_join(thread[i], &n_bad), 0);
        assert_null(n_bad);
    }
    for (int p = 0; p < N_PATTERN; p++) {
        n_restart += fxi_gram_matcher_read(shared[p]).n_restart;
        n_left += fxi_gram_matcher_read(shared[p]).n_left;
        fxi_gram_matcher_free(shared[p]);
    }
    print_message("%zu times begun again, %zu things left to the worker\n", n_restart, n_left);
    assert_true(n_restart > 2 && n_left > 10);
    fxi_gram_tokens_free(&tokens);
}

FX_RUN(test_matcher_threads)
