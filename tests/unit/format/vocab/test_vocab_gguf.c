// test_vocab_gguf.c - the kinds of vocabularies in GGUF files besides "llama" (test_vocab.c): gpt2,
// t5 and bert, valid and broken. Pre-tokenizers by name, compared with the `tokenizers` package on
// the models' own patterns (tests/vectors/pretokenizers.json, by make_pretokenizer_vectors.py).

#include "json_doc.h"
#include "unit/cmocka_all.h"
#include "unit/format/gguf_bytes.h"
#include "unit/format/small_spec.h"
#include "unit/format/vocab/encoded.h"

// ---- kinds --------------------------------------------------------------------------------------

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define KEY(name)    "tokenizer.ggml." name

typedef struct parts {
    const char *model, *pre, *merges[4];
    const char *more[12]; // tokens after the first ones
    int types[12];
    fxi_gguf_type map_type; // of precompiled_charsmap; 0: none
    bool phi3;
    uint32_t eos;       // plus one; 0: none
    const char *scheme; // of the space in front
} parts;

static void put_tokens(fxi_buf *b, const parts *p, bool bytes)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_SCORES);
    if (bytes) add_printable_bytes(&s);
    size_t n_more = 0;
    while (n_more < COUNT(p->more) && p->more[n_more]) n_more++;
    put_array(b, KEY("tokens"), FXI_GGUF_STR, s.n_tok + n_more);
    for (size_t i = 0; i < s.n_tok; i++) {
        put_u64(b, s.tok[i].piece.n);
        put_bytes(b, s.tok[i].piece.p, s.tok[i].piece.n);
    }
    for (size_t i = 0; i < n_more; i++) put_text(b, p->more[i]);
    put_array(b, KEY("token_type"), FXI_GGUF_I32, s.n_tok + n_more);
    for (size_t i = 0; i < s.n_tok; i++) put_u32(b, FXI_TOKEN_NORMAL);
    for (size_t i = 0; i < n_more; i++)
        put_u32(b, (uint32_t)(p->types[i] ? p->types[i] : FXI_TOKEN_NORMAL));
    put_array(b, KEY("scores"), FXI_GGUF_F32, s.n_tok + n_more);
    for (size_t i = 0; i < s.n_tok + n_more; i++) {
        float score = -1.5f * (float)(i + 1);
        put_bytes(b, &score, sizeof score);
    }
    fxi_vocab_spec_free(&s);
}

static fxi_buf file_of(const parts *p)
{
    fxi_buf b = {0};
    size_t n_merge = 0;
    while (n_merge < COUNT(p->merges) && p->merges[n_merge]) n_merge++;
    put_header(&b, 3, 0,
               5 + (p->pre != NULL) + (p->map_type != 0) + p->phi3 + (p->scheme != NULL) +
                   (p->eos != 0));
    put_kv(&b, KEY("model"), FXI_GGUF_STR, "", 0);
    put_text(&b, p->model);
    put_tokens(&b, p, !strcmp(p->model, "gpt2"));
    put_array(&b, KEY("merges"), FXI_GGUF_STR, n_merge);
    for (size_t i = 0; i < n_merge; i++) put_text(&b, p->merges[i]);
    if (p->pre) put_kv(&b, KEY("pre"), FXI_GGUF_STR, "", 0);
    if (p->pre) put_text(&b, p->pre);
    if (p->map_type) put_array(&b, KEY("precompiled_charsmap"), p->map_type, 3);
    if (p->map_type) put_zeros(&b, 3 * fxi_gguf_type_bytes(p->map_type));
    if (p->phi3) put_kv(&b, "general.architecture", FXI_GGUF_STR, "", 0);
    if (p->phi3) put_text(&b, "phi3");
    if (p->eos) put_kv(&b, KEY("eos_token_id"), FXI_GGUF_U32, "", 0);
    if (p->eos) put_u32(&b, p->eos - 1);
    if (p->scheme) put_kv(&b, KEY("space_prefix_scheme"), FXI_GGUF_STR, "", 0);
    if (p->scheme) put_text(&b, p->scheme);
    return b;
}

static fx_status load(const parts *p, fxi_vocab **v, fx_error *err)
{
    fxi_buf b = file_of(p);
    fxi_gguf *g;
    assert_int_equal(fxi_gguf_parse(b.p, b.n, "mem.gguf", &g, NULL), FX_OK);
    fx_status st = fxi_vocab_load(g, v, err);
    fxi_gguf_close(g);
    fxi_buf_free(&b);
    return st;
}

static fxi_vocab *load_sound(const parts *p)
{
    fxi_vocab *v;
    assert_int_equal(load(p, &v, NULL), FX_OK);
    return v;
}

FX_TEST(test_gpt2)
{
    const parts p = {.model = "gpt2",
                     .pre = "qwen2",
                     .merges = {"a b", "\u0120 ab", "1 1"},
                     .more = {"ab",
                              "\u0120"
                              "ab",
                              "11", "<|x|>", "\u00FC", "<u>"},
                     .types = {0, 0, 0, FXI_TOKEN_USER, FXI_TOKEN_USER, FXI_TOKEN_USER}};
    fxi_vocab *v = load_sound(&p);
    expect_numbers(v, "ab ab11", 0, "256 257 49 49"); // one per digit
    fxi_vocab_free(v);
}

FX_TEST(test_gpt2_specials)
{
    const parts p = {.model = "gpt2",
                     .merges = {"\u00C3 \u00BC"},
                     .more = {"\u00C3\u00BC", "<|x|>", "\u00FC", "<u>"},
                     .types = {0, FXI_TOKEN_USER, FXI_TOKEN_USER, FXI_TOKEN_USER}};
    fxi_vocab *v = load_sound(&p);
    expect_numbers(v, "\u00FC<u>", 0, "258 259"); // user-defined tokens are spelled plainly
    assert_true(fxi_vocab_control(v, 257));       // spelled like a mark
    expect_numbers(v, "<|x|>", FXI_ENCODE_CONTROL, "257");
    expect_numbers(v, "<|x|>", 0, "60 124 120 124 62");
    size_t n;
    const char *text = fxi_vocab_bytes(v, 256, &n);
    assert_true(n == 2 && !memcmp(text, "\u00FC", 2));
    assert_false(fxi_vocab_adds_bos(v) || fxi_vocab_adds_eos(v));
    fxi_vocab_free(v);
}

FX_TEST(test_t5)
{
    const parts p = {.model = "t5",
                     .more = {"<unk>", SP, "a", SP "a", "</s>"},
                     .types = {FXI_TOKEN_UNKNOWN, 0, 0, 0, FXI_TOKEN_CONTROL}};
    fxi_vocab *v = load_sound(&p);
    expect_numbers(v, "  a   aa ", FXI_ENCODE_SPACE, "3 3 2");
    expect_numbers(v, "xy a", FXI_ENCODE_SPACE, "1 0 3");
    assert_true(fxi_vocab_adds_eos(v) && fxi_vocab_eos(v) == 4 && fxi_vocab_ends(v, 4));
    fxi_vocab_free(v);
}

// A file without the name of its pre-tokenizer is cut by "default", three digits at a time, and
// the vocabulary says so.
FX_TEST(test_missing_pre)
{
    static const struct {
        const char *pre, *ids;
    } cases[] = {{NULL, "256 49 49"}, {"default", "256 49 49"}, {"gpt-2", "256 256"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const parts p = {.model = "gpt2", .pre = cases[i].pre, .merges = {"1 1"}, .more = {"11"}};
        fxi_vocab *v = load_sound(&p);
        expect_numbers(v, "1111", 0, cases[i].ids);
        const char *warning = fxi_vocab_warning(v);
        if (cases[i].pre)
            assert_null(warning);
        else
            assert_string_equal(warning, "mem.gguf: key 'tokenizer.ggml.pre' is missing: the "
                                         "pre-tokenizer 'default' is used, which may differ from "
                                         "training");
        fxi_vocab_free(v);
    }
}

// Text with marks for spaces, line by line; empty lines as they are.
FX_TEST(test_gemma4)
{
    const parts p = {.model = "gemma4",
                     .merges = {SP " a"},
                     .more = {SP, "a", SP "a", "<0x0A>", "\n\n", "<u>"},
                     .types = {0, 0, 0, FXI_TOKEN_BYTE, 0, FXI_TOKEN_USER}};
    fxi_vocab *v = load_sound(&p);
    expect_numbers(v, "a a\na<u>\n\n a", 0, "1 2 3 1 5 4 2");
    assert_null(fxi_vocab_warning(v));
    fxi_vocab_free(v);
}

static void expect_text(const fxi_vocab *v, const int32_t *id, size_t n, const char *want)
{
    fxi_buf got = {0};
    assert_true(fxi_vocab_decode(v, id, n, 0, &got));
    assert_string_equal(got.n ? got.p : "", want);
    fxi_buf_free(&got);
}

// Words by the longest pieces; a word that pieces do not spell is unknown; [CLS] and [SEP] around.
FX_TEST(test_bert)
{
    const parts p = {.model = "bert",
                     .more = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", SP "un", SP "hello", "able", "s",
                              SP ",", SP "\u4E2D"},
                     .types = {FXI_TOKEN_CONTROL, FXI_TOKEN_UNKNOWN, FXI_TOKEN_CONTROL}};
    fxi_vocab *v = load_sound(&p);
    expect_numbers(v, " H\u00E9llo,  unables \x01un\u4E2D\u4E2D s un-able", 0,
                   "5 8 4 6 7 4 9 9 1 4 1 1");
    assert_true(fxi_vocab_adds_bos(v) && fxi_vocab_adds_eos(v));
    assert_int_equal(fxi_vocab_bos(v), 2);
    assert_int_equal(fxi_vocab_eos(v), 3);
    expect_text(v, (const int32_t[]){2, 5, 8, 4, 6, 7, 3}, 7, "hello, unables");
    fxi_vocab_free(v);
}

// Models of embeddings want their separator after a text.
FX_TEST(test_separator)
{
    static const struct {
        const char *pre;
        bool adds;
    } cases[] = {{"gpt-2", false}, {"roberta-bpe", true}, {"jina-v2-code", true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const parts p = {.model = "gpt2", .pre = cases[i].pre, .more = {"</s>"}, .eos = 257};
        fxi_vocab *v = load_sound(&p);
        assert_int_equal(fxi_vocab_adds_eos(v), cases[i].adds);
        assert_int_equal(fxi_vocab_eos(v), 256);
        fxi_vocab_free(v);
    }
}

// Phi-3's marks swallow the white space after them.
FX_TEST(test_phi3)
{
    const parts p = {.model = "llama",
                     .phi3 = true,
                     .more = {"<unk>", "<s>", "<|end|>", SP, "a", "\n"},
                     .types = {FXI_TOKEN_UNKNOWN, FXI_TOKEN_CONTROL, FXI_TOKEN_CONTROL}};
    fxi_vocab *v = load_sound(&p);
    expect_numbers(v, "<s>\na<|end|>\n a", FXI_ENCODE_CONTROL | FXI_ENCODE_SPACE, "1 3 5 4 2 3 4");
    fxi_vocab_free(v);
}

// A space in front of every text between special tokens, or of the whole text only.
FX_TEST(test_space_schemes)
{
    static const struct {
        const char *scheme, *begun, *inside;
    } cases[] = {{NULL, "3 4 2 3 4", "2 3 4 2 3 4"},
                 {"always", "3 4 2 3 4", "2 3 4 2 3 4"},
                 {"first", "3 4 2 4", "2 4 2 4"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const parts p = {.model = "llama",
                         .scheme = cases[i].scheme,
                         .more = {"<unk>", "<s>", "<|end|>", SP, "a"},
                         .types = {FXI_TOKEN_UNKNOWN, FXI_TOKEN_CONTROL, FXI_TOKEN_CONTROL}};
        fxi_vocab *v = load_sound(&p);
        expect_numbers(v, "a<|end|>a", FXI_ENCODE_CONTROL | FXI_ENCODE_SPACE, cases[i].begun);
        expect_numbers(v, "<|end|>a<|end|>a", FXI_ENCODE_CONTROL | FXI_ENCODE_SPACE,
                       cases[i].inside);
        fxi_vocab_free(v);
    }
}

FX_TEST(test_broken)
{
    static const struct {
        parts p;
        const char *says;
    } cases[] = {
        {{.model = "gpt2", .merges = {"ab"}, .more = {"ab"}}, "merge 0 'ab' is not a pair"},
        {{.model = "gpt2", .merges = {""}}, "merge 0 '' is not a pair"},
        {{.model = "gpt2", .merges = {"a b"}}, "merge 0 'a b' has a part that is not a token"},
        {{.model = "gpt2", .merges = {"a ab"}, .more = {"aab"}},
         "merge 0 'a ab' has a part that is not a token"},
        {{.model = "gpt2", .pre = "none"}, "mem.gguf: unknown pre-tokenizer 'none'"},
        {{.model = "t5", .more = {"a"}, .map_type = FXI_GGUF_I8},
         "mem.gguf: the precompiled character map is broken"},
        {{.model = "t5", .more = {"a"}, .map_type = FXI_GGUF_U16},
         "key 'tokenizer.ggml.precompiled_charsmap' is not an array of bytes"},
        {{.model = "llama", .more = {"a"}, .scheme = "last"},
         "key 'tokenizer.ggml.space_prefix_scheme' is 'last', neither always nor first"},
        {{.model = "rwkv", .more = {"a"}},
         "tokenizer kind 'rwkv' is not supported by this version"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab *v = NULL;
        fx_error err;
        if (load(&cases[i].p, &v, &err) != FX_EFORMAT) fail_msg("case %zu is loaded", i);
        assert_null(v);
        if (!strstr(err.text, cases[i].says)) fail_msg("\"%s\"", err.text);
    }
}

// ---- pre-tokenizers by name ---------------------------------------------------------------------

static fxi_vocab *make_vocab(const fxi_json *merges, const char *pre)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_MERGES);
    fx_error err = {.text = ""};
    add_printable_bytes(&s);
    for (size_t i = 0; i < fxi_json_array_size(merges); i++) {
        const fxi_json *m = fxi_json_at(merges, i);
        add_pair_of(&s, fxi_json_text(fxi_json_at(m, 0)), fxi_json_text(fxi_json_at(m, 1)));
    }
    if (fxi_spec_add_pre(&s, str_of(pre), &err) != FX_OK) fail_msg("%s", err.text);
    return build_spec(&s);
}

static void check_text(const char *pre, const fxi_vocab *v, const fxi_json *text, const char *want)
{
    const char *p = fxi_json_text(text);
    fxi_buf got = numbers_of(ids_of(v, p, fxi_json_string(text).n, NULL, 0));
    if (strcmp(got.p, want)) fail_msg("%s: '%s'\n%s\n%s", pre, p, want, got.p);
    fxi_buf_free(&got);
}

FX_TEST(test_pre_tokenizers)
{
    fxi_json_doc all_doc = json_doc_file(FX_SOURCE_DIR "/tests/vectors/pretokenizers.json");
    const fxi_json *all = all_doc.root;
    const fxi_json *texts = fxi_json_get(all, "texts"), *merges = fxi_json_get(all, "merges");
    const fxi_json *ids = fxi_json_get(all, "ids");
    assert_true(fxi_json_object_size(ids) >= 30 && fxi_json_array_size(texts) >= 20);
    for (fxi_json_iter it = fxi_json_members(ids); fxi_json_next(&it);) {
        fxi_vocab *v = make_vocab(merges, it.key);
        for (size_t i = 0; i < fxi_json_array_size(texts); i++)
            check_text(it.key, v, fxi_json_at(texts, i), fxi_json_text(fxi_json_at(it.value, i)));
        fxi_vocab_free(v);
    }
    fxi_json_doc_free(&all_doc);
}

FX_RUN(test_vocab_gguf)
