// Rank files: special tokens after the ranks, and the error line for a broken file.
#include <string.h>

#include "base/fail.h"
#include "format/vocab/read/vocab_read.h"
#include "suite.h"
#include "unit/cmocka_all.h"

#define COUNT(list) (sizeof list / sizeof *list)

static const char three[] = "YQ== 0\nYg== 1\nYWI= 2\n"; // a, b, ab

static fx_status read_ranks(const char *text, const char *pre, fxi_vocab_spec *s, fx_error *err)
{
    fxi_vocab_spec_init(s, "t.tiktoken");
    return fxi_vocab_read_ranks(text, strlen(text), pre, s, err);
}

static void test_ranks(void **state)
{
    (void)state;
    static const char *const texts[] = {
        three, "YWI= 2\r\nYQ== 0\r\n\r\nYg== 1", // another order, other line ends
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        fxi_vocab_spec s;
        assert_int_equal(read_ranks(texts[i], "gpt-4", &s, NULL), FX_OK);
        assert_int_equal(s.kind, FXI_VOCAB_SCORES);
        assert_int_equal(s.n_tok, 3);
        assert_true(fxi_str_is(s.tok[2].piece, "ab") && s.tok[2].score == -2);
        assert_true(s.unit_bytes && s.whole_words && s.n_split == 1);
        assert_int_equal(s.bos, -1);
        assert_false(s.adds_bos);
        fxi_vocab_spec_free(&s);
    }
}

static void expect_special(const fxi_vocab_spec *s, int32_t id, const char *piece)
{
    assert_true(id < (int64_t)s->n_tok && fxi_str_is(s->tok[id].piece, piece));
    assert_int_equal(s->tok[id].type, FXI_TOKEN_CONTROL);
}

static void test_llama3(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    assert_int_equal(read_ranks(three, "llama-bpe", &s, NULL), FX_OK);
    assert_int_equal(s.n_tok, 3 + 256);
    expect_special(&s, 3, "<|begin_of_text|>");
    expect_special(&s, 4, "<|end_of_text|>");
    expect_special(&s, 5, "<|reserved_special_token_0|>");
    expect_special(&s, 9, "<|start_header_id|>");
    expect_special(&s, 10, "<|end_header_id|>");
    expect_special(&s, 11, "<|reserved_special_token_4|>");
    expect_special(&s, 12, "<|eot_id|>");
    expect_special(&s, 258, "<|reserved_special_token_250|>");
    assert_true(s.bos == 3 && s.eos == 4 && s.adds_bos);
    fxi_vocab_spec_free(&s);
}

static void test_qwen(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    assert_int_equal(read_ranks(three, "qwen2", &s, NULL), FX_OK);
    assert_int_equal(s.n_tok, 3 + 208);
    expect_special(&s, 3, "<|endoftext|>");
    expect_special(&s, 4, "<|im_start|>");
    expect_special(&s, 5, "<|im_end|>");
    expect_special(&s, 210, "<|extra_204|>");
    assert_true(s.bos == -1 && s.eos == 3 && !s.adds_bos);
    fxi_vocab_spec_free(&s);
}

// A special token that has a rank already keeps its id.
static void test_special_among_ranks(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    assert_int_equal(read_ranks("YQ== 0\nPHxlbmRvZnRleHR8Pg== 1\n", "gpt-2", &s, NULL), FX_OK);
    assert_int_equal(s.n_tok, 2);
    expect_special(&s, 1, "<|endoftext|>");
    assert_int_equal(s.eos, 1);
    fxi_vocab_spec_free(&s);
}

static void test_broken(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pre, *error;
    } cases[] = {
        {three, NULL, "the name of a pre-tokenizer must be given"},
        {three, "nobody", "unknown pre-tokenizer 'nobody'"},
        {"", "gpt-2", "0 ranks"},
        {"\n\n", "gpt-2", "0 ranks"},
        {"YQ== 0\nb\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg==\n", "gpt-2", "line 2 is not a token in base64 and its rank"},
        {"YQ== 0\n Yg== 1\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg== 1x\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg== -1\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg== 1234567890\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg== 3\n", "gpt-2", "line 2: rank 3, but there are 2 tokens"},
        {"YQ== 0\nYg== 0\n", "gpt-2", "line 2: duplicate rank 0"},
        {"YQ== 0\nY!== 1\n", "gpt-2", "line 2: 'Y!==' is not base64"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab_spec s;
        fx_error err = {.text = ""};
        assert_int_equal(read_ranks(cases[i].text, cases[i].pre, &s, &err), FX_EFORMAT);
        if (strncmp(err.text, "t.tiktoken: ", 12) || !strstr(err.text, cases[i].error))
            fail_msg("'%s' is not the error '%s'", err.text, cases[i].error);
        fxi_vocab_spec_free(&s);
    }
}

FX_SUITE(test_vocab_ranks)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),  cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_qwen),   cmocka_unit_test(test_special_among_ranks),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
