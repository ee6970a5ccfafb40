// test_forward.c - the law of order, seen from above: a token's logits are the same bits whatever
// the chunking of the prompt, the batch it shares a pass with, the number of threads, and the
// instruction set.
#include "unit/cmocka_all.h"

#include "unit/model/runner.h"

#include <stdlib.h>
#include <string.h>

#define N_TOK RUNNER_MAX_TOK
#define FILES FX_SOURCE_DIR "/tests/vectors/"

static const char *const models[] = {FILES "tiny-f32.gguf", FILES "tiny-f16.gguf",
                                     FILES "tiny-bf16.gguf", FILES "tiny-q8_0.gguf"};

static void test_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        check_variants(models[m], models[m], N_TOK);
}

static void test_other_tokens_other_logits(void **state)
{
    (void)state;
    int n_vocab;
    float *a = run_plain(models[0], N_TOK, &n_vocab),
          *b = run_plain(models[0], N_TOK - 1, &n_vocab);
    assert_memory_not_equal(a, b, (size_t)n_vocab * sizeof *b);
    free(a);
    free(b);
}

// All rows that can be asked for at once: each is what it is alone.
static void test_logits_of_every_token(void **state)
{
    (void)state;
    const variant v = {"", N_TOK, 2, RUNNER_OTHERS, NULL};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        runner r;
        runner_open(&r, models[m], &v);
        const size_t n_vocab = (size_t)r.n_vocab;
        float *all = malloc(N_TOK * n_vocab * sizeof *all);
        runner_pass(&r, &v, 0, N_TOK, N_TOK, all);
        runner_close(&r);
        for (int n = 1; n <= N_TOK; n += 11) {
            int again;
            float *one = run_plain(models[m], n, &again);
            assert_memory_equal(one, all + (size_t)(n - 1) * n_vocab, n_vocab * sizeof *one);
            free(one);
        }
        free(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits),
                                       cmocka_unit_test(test_other_tokens_other_logits),
                                       cmocka_unit_test(test_logits_of_every_token)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
