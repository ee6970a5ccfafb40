// test_matcher_memory.c - what matchers say they hold is what they have allocated, and a pool
// bounds it without changing a mask.
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "grammar/matcher/gram_matcher.h"
#include "grammar/syntax/gram_regex.h"

#include <malloc.h>
#include <stdlib.h>

enum { N_VOCAB = 90000, N_WORD = N_VOCAB / 64 + 1, MAX_TEXT = 150, N_MATCHER = 6 };

// ---- what is allocated --------------------------------------------------------------------------

static size_t n_held;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
void __wrap_free(void *p);

static void *count_new(void *p)
{
    n_held += malloc_usable_size(p);
    return p;
}

void *__wrap_malloc(size_t n)
{
    return count_new(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return count_new(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
    n_held -= malloc_usable_size(p);
    return count_new(__real_realloc(p, n));
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    return __wrap_realloc(p, n * size);
}

void __wrap_free(void *p)
{
    n_held -= malloc_usable_size(p);
    __real_free(p);
}

// ---- matchers -----------------------------------------------------------------------------------

static char bytes[N_VOCAB][6];
static fxi_gram_tokens tokens;

static int make_tokens(void **state)
{
    (void)state;
    fxi_str *token = calloc(N_VOCAB, sizeof *token);
    for (size_t i = 0; i < N_VOCAB; i++) {
        const size_t n = i < 26 ? 1 : 1 + fxi_rng_u64(5, 0, i) % 6;
        for (size_t k = 0; k < n; k++)
            bytes[i][k] = (char)('a' + (i < 26 ? i : fxi_rng_u64(5, i, k) % 26));
        token[i] = (fxi_str){bytes[i], n};
    }
    const fx_status st = fxi_gram_tokens_make(&tokens, token, N_VOCAB, NULL);
    free(token);
    return st;
}

static int free_tokens(void **state)
{
    (void)state;
    fxi_gram_tokens_free(&tokens);
    return 0;
}

static uint64_t letter_at(size_t i)
{
    return fxi_rng_u64(9, 0, i) % 26;
}

// At each place another letter is left out, so that no two places of a text have the same mask.
static fxi_gram_matcher *make_matcher(int i, fxi_matcher_pool *pool, size_t max_bytes)
{
    fxi_buf pattern = {0};
    for (size_t n = 0; n < 2 * MAX_TEXT; n++)
        assert_true(fxi_buf_fmt(&pattern, "[^%c]", (char)('a' + (letter_at(n) + 1 + n % 25) % 26)));
    assert_true(fxi_buf_fmt(&pattern, "%d", i));
    fxi_gram gram = {0};
    uint32_t node;
    fxi_gram_matcher *g;
    const fxi_matcher_limits limits = {
        .max_set = 1 << 14, .max_mask = 100, .max_bytes = max_bytes, .pool = pool};
    assert_int_equal(
        fxi_gram_regex(&gram, (fxi_str){pattern.p, pattern.n}, 0, FXI_SPELL_UTF8, &node, NULL),
        FX_OK);
    fxi_buf_free(&pattern);
    assert_int_equal(fxi_gram_finish(&gram, node, NULL), FX_OK);
    assert_int_equal(
        fxi_gram_matcher_make(&gram, &tokens, (fxi_matcher_speller){0}, limits, &g, NULL), FX_OK);
    return g;
}

// The mask before token n of the text, which it allows.
static void follow_token(fxi_gram_matcher *g, size_t n, fxi_match_state *at, uint64_t *mask)
{
    int32_t tok[MAX_TEXT];
    for (size_t i = 0; i < n; i++) tok[i] = (int32_t)letter_at(i);
    assert_int_equal(fxi_gram_matcher_mask(g, tok, n, at, mask, NULL), FX_OK);
}

FX_TEST(test_matchers_know_what_they_hold)
{
    static uint64_t mask[N_WORD];
    const size_t before = n_held;
    fxi_matcher_pool pool = {0, SIZE_MAX};
    fxi_gram_matcher *g = make_matcher(0, &pool, 0);
    fxi_match_state at = {0};
    for (size_t n = 0; n < MAX_TEXT; n++) {
        follow_token(g, n, &at, mask);
        for (int i = 0; i < 3; i++) (void)fxi_gram_matcher_work(g);
        const size_t held = n_held - before, told = fxi_gram_matcher_read(g).n_bytes;
        if (told > held || held > told + told / 50 + 4096)
            fail_msg("%zu bytes are held, %zu told", held, told);
        assert_int_equal(atomic_load(&pool.used_bytes), told);
    }
    print_message("%zu KiB\n", atomic_load(&pool.used_bytes) >> 10);
    fxi_gram_matcher_free(g);
    assert_int_equal(atomic_load(&pool.used_bytes), 0);
    assert_int_equal(n_held, before);
}

FX_TEST(test_a_pool_bounds_its_matchers)
{
    static uint64_t mask[N_WORD], want[N_WORD];
    fxi_matcher_pool pool = {0, 4 << 20};
    fxi_gram_matcher *g[N_MATCHER], *own = make_matcher(0, NULL, 0);
    fxi_match_state at[N_MATCHER] = {{0}}, own_at = {0};
    size_t peak = 0, n_restart = 0;
    for (int i = 0; i < N_MATCHER; i++) g[i] = make_matcher(i, &pool, 0);
    for (size_t n = 0; n < MAX_TEXT; n++) {
        follow_token(own, n, &own_at, want);
        for (int i = 0; i < N_MATCHER; i++) {
            follow_token(g[i], n, &at[i], mask);
            if (i == 0) assert_memory_equal(mask, want, sizeof mask);
            if (atomic_load(&pool.used_bytes) > peak) peak = atomic_load(&pool.used_bytes);
        }
    }
    for (int i = 0; i < N_MATCHER; i++) {
        n_restart += fxi_gram_matcher_read(g[i]).n_restart;
        fxi_gram_matcher_free(g[i]);
    }
    print_message("%zu KiB at most, %zu times begun again\n", peak >> 10, n_restart);
    assert_true(peak < (4 << 20) + N_MATCHER * (size_t)FXI_MATCHER_LEAST_BYTES);
    assert_true(n_restart > 0 && n_restart < N_MATCHER * MAX_TEXT);
    assert_int_equal(atomic_load(&pool.used_bytes), 0);
    fxi_gram_matcher_free(own);
}

// Such a matcher learns little, but it does not follow the whole text anew for each token.
FX_TEST(test_a_text_that_takes_all_the_room_is_followed)
{
    static uint64_t mask[N_WORD], want[N_WORD];
    fxi_gram_matcher *own = make_matcher(0, NULL, 0), *small = make_matcher(0, NULL, 1);
    fxi_match_state own_at = {0}, at = {0};
    for (size_t n = 0; n < MAX_TEXT; n++) {
        follow_token(own, n, &own_at, want);
        follow_token(small, n, &at, mask);
        assert_memory_equal(mask, want, sizeof mask);
    }
    const size_t n_restart = fxi_gram_matcher_read(small).n_restart;
    print_message("%zu times begun again\n", n_restart);
    assert_in_range(n_restart, 1, MAX_TEXT / 2);
    fxi_gram_matcher_free(own);
    fxi_gram_matcher_free(small);
}

FX_RUN_GROUP(test_matcher_memory, make_tokens, free_tokens)
