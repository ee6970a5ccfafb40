// The reader of SentencePiece models, and that of Protocol Buffers.
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "format/vocab/read/protobuf.h"
#include "format/vocab/read/vocab_read.h"
#include "suite.h"
#include "unit/cmocka_all.h"
#include "unit/format/protobuf_bytes.h"

#define COUNT(list) (sizeof list / sizeof *list)
#define MARK        "\xE2\x96\x81"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE, WORD, CHAR };

//
// Protocol Buffers
//

static void test_fields(void **state)
{
    (void)state;
    fxi_buf b = {0};
    fxi_pb_field f;
    pb_number(&b, 1, 300);
    pb_number(&b, 536870911, UINT64_MAX);
    pb_float(&b, 2, 1.5f);
    pb_bytes(&b, 3, "abc", 3);
    pb_raw(&b, "\x21\1\2\3\4\5\6\7\x08", 9); // field 4 of 8 bytes
    fxi_pb pb = fxi_pb_of(b.p, b.n);
    assert_true(fxi_pb_next(&pb, &f) && f.number == 1 && f.wire == FXI_PB_VARINT);
    assert_int_equal(f.value, 300);
    assert_true(fxi_pb_next(&pb, &f) && f.number == 536870911 && f.value == UINT64_MAX);
    assert_true(fxi_pb_next(&pb, &f) && f.wire == FXI_PB_I32 && f.value == 0x3FC00000);
    assert_true(fxi_pb_next(&pb, &f) && fxi_str_is(f.bytes, "abc"));
    assert_true(fxi_pb_next(&pb, &f) && f.wire == FXI_PB_I64 && f.value == 0x0807060504030201);
    assert_false(fxi_pb_next(&pb, &f));
    assert_null(pb.bad);
    fxi_buf_free(&b);
}

static void test_broken_fields(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *bad;
    } cases[] = {
        {"\x80", 1, "the message ends inside a number"},
        {"\x08\x80", 2, "the message ends inside a number"},
        {"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 11, "a number has more than 64 bits"},
        {"\x0A\x04"
         "abc",
         5, "a field is longer than what is left"},
        {"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11, "a field is longer than what is left"},
        {"\x0D\1\2\3", 4, "the message ends inside a number"},
        {"\x09\1\2\3\4\5\6\7", 8, "the message ends inside a number"},
        {"\x00\x01", 2, "a field has no valid number"},
        {"\x0B", 1, "a field has an unknown wire type"},
        {"\x0F", 1, "a field has an unknown wire type"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_pb_field f;
        fxi_pb pb = fxi_pb_of(cases[i].bytes, cases[i].n);
        assert_false(fxi_pb_next(&pb, &f));
        assert_string_equal(pb.bad, cases[i].bad);
        assert_false(fxi_pb_next(&pb, &f)); // and stays broken
    }
}

//
// Models
//

typedef struct setup {
    unsigned model; // 0: the field is absent
    unsigned field; // of trainer_spec, one more; 0: none
    uint64_t value;
    unsigned norm_field; // of normalizer_spec
    uint64_t norm_value;
} setup;

static void put_specs(fxi_buf *b, const setup *u)
{
    fxi_buf trainer = {0}, norm = {0};
    if (u->model) pb_number(&trainer, 3, u->model);
    if (u->field) pb_number(&trainer, u->field, u->value);
    pb_message(b, 2, &trainer);
    if (u->norm_field) pb_number(&norm, u->norm_field, u->norm_value);
    pb_message(b, 3, &norm);
}

static void put_pieces(fxi_buf *b)
{
    pb_piece(b, "<unk>", 0, UNKNOWN);
    pb_piece(b, "<s>", 0, CONTROL);
    pb_piece(b, "</s>", 0, CONTROL);
    pb_piece(b, MARK "a", -1.5f, NORMAL);
    pb_piece(b, "<x>", 0, USER);
    pb_piece(b, "b", -3, NORMAL);
}

static fx_status read_and_free(fxi_buf *b, fxi_vocab_spec *s, fx_error *err)
{
    fxi_vocab_spec_init(s, "t.model");
    fx_status st = fxi_vocab_read_sentencepiece(b->p, b->n, s, err);
    fxi_buf_free(b);
    return st;
}

static void must_read(const setup *u, fxi_vocab_spec *s)
{
    fxi_buf b = {0};
    fx_error err = {.text = ""};
    put_pieces(&b);
    put_specs(&b, u);
    const fx_status st = read_and_free(&b, s, &err);
    if (st != FX_OK) print_message("%s\n", err.text);
    assert_int_equal(st, FX_OK);
}

static void test_bpe(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    must_read(&(setup){.model = BPE}, &s);
    assert_int_equal(s.kind, FXI_VOCAB_SCORES);
    assert_int_equal(s.spelling, FXI_SPELL_MARKS);
    assert_int_equal(s.n_tok, 6);
    assert_int_equal(s.unk, 0);
    assert_int_equal(s.bos, 1);
    assert_int_equal(s.eos, 2);
    assert_true(s.adds_bos && !s.adds_eos && s.strips_space && s.fuse_unknown);
    assert_true(!s.byte_fallback && !s.norms_tokens);
    assert_true(s.tok[3].score == -1.5 && fxi_str_is(s.tok[3].piece, MARK "a"));
    assert_int_equal(s.tok[4].type, FXI_TOKEN_USER);
    assert_true(s.tok[4].normalized);
    fxi_vocab_spec_free(&s);
}

// A model without model_type is a unigram model.
static void test_unigram(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    must_read(&(setup){.field = 35, .value = 1}, &s);
    assert_int_equal(s.kind, FXI_VOCAB_UNIGRAM);
    assert_true(s.byte_fallback && !s.fuse_unknown && s.sums_float);
    assert_int_equal(s.tok[4].type, FXI_TOKEN_USER);
    assert_true(s.user_in_model);
    fxi_vocab_spec_free(&s);
}

static void expect_norms(const setup *u, const fxi_norm_kind *want, size_t n)
{
    fxi_vocab_spec s;
    must_read(u, &s);
    assert_int_equal(s.n_norm, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s.norm[i].kind, want[i]);
        assert_false(s.norm[i].late);
    }
    fxi_vocab_spec_free(&s);
}

static void test_norms(void **state)
{
    (void)state;
    static const fxi_norm_kind all[] = {FXI_NORM_COLLAPSE, FXI_NORM_PREPEND, FXI_NORM_REPLACE};
    expect_norms(&(setup){.model = BPE}, all, 3);
    expect_norms(&(setup){.model = BPE, .norm_field = 4}, all + 1, 2);
    expect_norms(&(setup){.model = BPE, .norm_field = 3},
                 (const fxi_norm_kind[]){FXI_NORM_COLLAPSE, FXI_NORM_REPLACE}, 2);
}

static void test_charsmap(void **state)
{
    (void)state;
    fxi_buf b = {0}, norm = {0};
    fxi_vocab_spec s;
    put_pieces(&b);
    pb_bytes(&norm, 2, "\0map", 4);
    pb_message(&b, 3, &norm);
    assert_int_equal(read_and_free(&b, &s, NULL), FX_OK);
    assert_int_equal(s.norm[0].kind, FXI_NORM_CHARSMAP);
    assert_int_equal(s.norm[0].from.n, 4);
    assert_memory_equal(s.norm[0].from.p, "\0map", 4);
    fxi_vocab_spec_free(&s);
}

// bos_id of -1, as in models without one; and one that is no control symbol.
static void test_ids(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    must_read(&(setup){.model = BPE, .field = 41, .value = UINT64_MAX}, &s);
    assert_true(s.bos == -1 && !s.adds_bos);
    fxi_vocab_spec_free(&s);
    must_read(&(setup){.model = BPE, .field = 41, .value = 3}, &s);
    assert_true(s.bos == -1 && !s.adds_bos);
    fxi_vocab_spec_free(&s);
}

//
// Broken models
//

static void expect_error(fxi_buf *b, const char *text)
{
    fxi_vocab_spec s;
    fx_error err = {.text = ""};
    assert_int_equal(read_and_free(b, &s, &err), FX_EFORMAT);
    fxi_vocab_spec_free(&s);
    if (strncmp(err.text, "t.model: ", 9) || !strstr(err.text, text))
        fail_msg("'%s' is not the error '%s'", err.text, text);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        setup u;
        const char *text;
    } cases[] = {
        {{.model = WORD}, "trainer_spec.model_type 3 (word) is not supported"},
        {{.model = CHAR}, "trainer_spec.model_type 4 (char) is not supported"},
        {{.model = 9}, "trainer_spec.model_type 9 (unknown) is not supported"},
        {{.model = BPE, .field = 24, .value = 1}, "treat_whitespace_as_suffix is not supported"},
        {{.model = BPE, .field = 41, .value = 6},
         "trainer_spec.bos_id is 6, but there are 6 pieces"},
        {{.model = BPE, .field = 42, .value = 7},
         "trainer_spec.eos_id is 7, but there are 6 pieces"},
        {{.model = BPE, .norm_field = 5},
         "normalizer_spec.escape_whitespaces false is not supported"},
        {{.model = BPE, .norm_field = 2}, "field 2 of normalizer_spec has the wrong wire type"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_buf b = {0};
        put_pieces(&b);
        put_specs(&b, &cases[i].u);
        expect_error(&b, cases[i].text);
    }
}

static void test_broken_pieces(void **state)
{
    (void)state;
    static const struct {
        const char *piece;
        float score;
        unsigned type;
        const char *text;
    } cases[] = {
        {"", 0, NORMAL, "piece 0 is empty"},
        {"a", 0, 0, "piece 0 ('a') has the unknown type 0"},
        {"a", 0, 7, "piece 0 ('a') has the unknown type 7"},
        {"a", NAN, NORMAL, "piece 0 ('a') has the score nan"},
        {"a", INFINITY, NORMAL, "piece 0 ('a') has the score inf"},
        {"a", 0, NORMAL, "no piece is of type UNKNOWN"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_buf b = {0};
        pb_piece(&b, cases[i].piece, cases[i].score, cases[i].type);
        expect_error(&b, cases[i].text);
    }
}

static void test_broken_messages(void **state)
{
    (void)state;
    fxi_buf b = {0};
    expect_error(&b, "no pieces: not a SentencePiece model");
    pb_raw(&b, "not one at all", 14);
    expect_error(&b, "the model, byte ");
    pb_number(&b, 1, 7);
    expect_error(&b, "field 1 of the model has the wrong wire type");
    pb_bytes(&b, 1, "\x08\x01", 2);
    expect_error(&b, "field 1 of a piece has the wrong wire type");
    pb_bytes(&b, 1, "\x0A\x09", 2);
    expect_error(&b, "a piece, byte 2: a field is longer than what is left");
    put_pieces(&b);
    pb_piece(&b, "<unk2>", 0, UNKNOWN);
    expect_error(&b, "pieces 0 and 6 are both of type UNKNOWN");
    put_pieces(&b);
    pb_bytes(&b, 2, "\x18", 1);
    expect_error(&b, "trainer_spec, byte 1: the message ends inside a number");
    put_pieces(&b);
    pb_bytes(&b, 5, "\x12\x01x", 3);
    expect_error(&b, "a denormalizer_spec is not supported");
}

FX_SUITE(test_vocab_sentencepiece)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),        cmocka_unit_test(test_broken_fields),
        cmocka_unit_test(test_bpe),           cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_norms),         cmocka_unit_test(test_charsmap),
        cmocka_unit_test(test_ids),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_broken_pieces), cmocka_unit_test(test_broken_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
