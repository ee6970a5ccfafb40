// fuzz_vocab.c - any bytes as a text, for every kind of vocabulary: bad UTF-8 is an error, any
// other text comes back from its ids unchanged or, if norm steps change it, as valid UTF-8; only
// own bytes become control tokens. The first byte of the input chooses the vocabulary, the second
// the flags and which bytes are own.
#include <string.h>

#include "base/text/utf8.h"
#include "fuzz.h"
#include "unit/format/small_spec.h"
#include "unit/format/small_vocab.h"

FUZZ_TARGET(fuzz_vocab);

//
// Vocabularies
//

static const small_token words[] = {
    {SP, -9, NORMAL},       {"a", -8, NORMAL},    {"b", -8, NORMAL},   {"ab", -2, NORMAL},
    {SP "a", -3, NORMAL},   {"aa", -2, NORMAL},   {SP SP, -4, NORMAL}, {"<tool>", 0, USER},
    {"<t", -5, NORMAL},     {"<go>", 0, CONTROL}, {SP SP SP, 0, USER}, {"\xC3\xA9", -6, NORMAL},
    {"e\xCC\x81", 0, USER}, {"aab", -1, UNUSED},
};
static const small_token crossing[] = {
    {SP, -9, NORMAL},     {"a", -8, NORMAL},        {"a" SP, -1, NORMAL},
    {SP "a", -2, NORMAL}, {"a" SP "a", -3, NORMAL},
};

static fxi_vocab *load_tokens(const small_token *own, size_t n)
{
    fxi_vocab *v;
    FUZZ_CHECK(load_parts(&(vocab_parts){.own = own, .n_own = n}, &v, NULL) == FX_OK);
    return v;
}

static void add_specials(fxi_vocab_spec *s)
{
    fxi_token t = {.piece = str_of("<go>"), .type = CONTROL};
    FUZZ_CHECK(fxi_spec_add_token(s, t));
    t = (fxi_token){.piece = str_of("<tool>"), .type = USER};
    FUZZ_CHECK(fxi_spec_add_token(s, t));
}

static void add_pre(fxi_vocab_spec *s, const char *name)
{
    FUZZ_CHECK(fxi_spec_add_pre(s, str_of(name), NULL) == FX_OK);
}

static fxi_vocab *byte_merges(const char *pre)
{
    static const char *const pairs[][2] = {{"a", "a"},   {"a", "b"},          {"aa", "b"},
                                           {"aa", "aa"}, {"\u0120", "a"},     {"\u00C3", "\u00A9"},
                                           {"1", "1"},   {"\u010A", "\u010A"}};
    fxi_vocab_spec s = spec_of(FXI_VOCAB_MERGES);
    add_printable_bytes(&s);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        add_pair_of(&s, pairs[i][0], pairs[i][1]);
    add_specials(&s);
    add_pre(&s, pre);
    return build_spec(&s);
}

// As rank files: bytes, scores, whole words first.
static fxi_vocab *load_ranks(void)
{
    static const char *const more[] = {"aa", "ab", " a", "aab", "\xC3\xA9", "\xE2\x82", "11"};
    fxi_vocab_spec s = spec_of(FXI_VOCAB_SCORES);
    s.unit_bytes = true;
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        fxi_token t = {.piece = {&byte, 1}, .score = -i, .type = NORMAL};
        FUZZ_CHECK(fxi_spec_add_token(&s, t));
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        add_piece(&s, more[i], -256 - (double)i, NORMAL);
    add_specials(&s);
    add_pre(&s, "llama-bpe");
    return build_spec(&s);
}

static fxi_vocab *load_unigram(void)
{
    static const char *const pieces[] = {SP, "a", "b", "ab", SP "a", "aa", "\xC3\xA9", SP SP};
    fxi_vocab_spec s = spec_of(FXI_VOCAB_UNIGRAM);
    s.spelling = FXI_SPELL_MARKS;
    s.sums_float = true;
    add_byte_tokens(&s);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        add_piece(&s, pieces[i], -1 - (double)i / 3, NORMAL);
    add_specials(&s);
    add_norm_of(&s, FXI_NORM_REPLACE, " ", SP);
    add_split_of(&s, SP, FXI_SPLIT_MERGED_NEXT, false);
    return build_spec(&s);
}

// Steps that change the text; characters in no piece are unknown.
static fxi_vocab *load_changed(void)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_MERGES);
    s.fuse_unknown = true;
    s.unk = add_piece(&s, "<unk>", 0, UNKNOWN);
    for (const char *c = "abe -"; *c; c++) add_piece(&s, (char[]){*c, 0}, 0, NORMAL);
    add_pair_of(&s, "a", "b");
    add_pair_of(&s, "ab", "ab");
    add_specials(&s);
    for (size_t i = 0; i < s.n_tok; i++) {
        fxi_token *t = &s.tok[i];
        if (t->type == USER) t->eats_left = t->whole_word = t->normalized = true;
        if (t->type == CONTROL) t->eats_right = t->normalized = true;
    }
    for (int kind = FXI_NORM_NFC; kind <= FXI_NORM_PREPEND_FIRST; kind++)
        add_norm_of(&s, (fxi_norm_kind)kind, "", "-");
    add_norm_of(&s, FXI_NORM_REPLACE_REGEX, "a{3,}|(?=e)", "-");
    add_norm_of(&s, FXI_NORM_STRIP_LEFT, "", "");
    add_norm_of(&s, FXI_NORM_STRIP_RIGHT, "", "");
    add_norm_of(&s, FXI_NORM_COLLAPSE, "", "");
    s.norm[s.n_norm - 1].late = true;
    for (int how = 0; how < FXI_SPLIT_N; how++)
        add_split_of(&s, how & 1 ? "\\p{White_Space}|b*" : "[^a]", (fxi_split_how)how, how & 2);
    return build_spec(&s);
}

// BERT's steps and model, a mark in front of every word after them, and words joined again.
static fxi_vocab *load_bert(void)
{
    static const char *const pieces[] = {"a", "##a",        "ab", "##b", SP "a",
                                         SP,  "##\xC3\xA9", "-",  "##"};
    const fxi_bert how = {.cleans = true, .pads_han = true, .strips = true, .lowers = true};
    const fxi_norm mark = {.kind = FXI_NORM_PREPEND_FIRST, .to = str_of(SP)},
                   gone = {.kind = FXI_NORM_REPLACE_REGEX, .from = str_of("b+$")};
    fxi_vocab_spec s = spec_of(FXI_VOCAB_WORDS);
    s.unk = add_piece(&s, "[UNK]", 0, UNKNOWN);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) add_piece(&s, pieces[i], 0, NORMAL);
    add_specials(&s);
    s.inside = s.join_inside = str_of("##");
    s.max_word = 9;
    s.join = FXI_JOIN_WORDS;
    s.tidies = true;
    FUZZ_CHECK(fxi_spec_add_bert_norms(&s, how) && fxi_spec_add_bert_splits(&s));
    FUZZ_CHECK(fxi_spec_add_split(&s, (fxi_split){.how = FXI_SPLIT_CHANGE, .change = mark}));
    add_split_of(&s, "a{3,}", FXI_SPLIT_ISOLATED, false);
    FUZZ_CHECK(fxi_spec_add_split(&s, (fxi_split){.how = FXI_SPLIT_CHANGE, .change = gone}));
    return build_spec(&s);
}

// Characters without a token leave no trace.
static fxi_vocab *load_dropping(void)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_MERGES);
    s.spelling = FXI_SPELL_MARKS;
    s.join = FXI_JOIN_MARKS;
    for (const char *c = "abe-"; *c; c++) add_piece(&s, (char[]){*c, 0}, 0, NORMAL);
    add_piece(&s, SP, 0, NORMAL);
    add_pair_of(&s, "a", "b");
    add_pair_of(&s, SP, "ab");
    add_specials(&s);
    add_norm_of(&s, FXI_NORM_REPLACE, " ", SP);
    return build_spec(&s);
}

static const struct {
    fxi_vocab *(*load)(void);
    const char *pre;        // merges of bytes cut by this pre-tokenizer
    const small_token *own; // [n_own] by their scores
    size_t n_own;
    bool changes; // the text does not come back
} vocabs[] = {
    {.own = words, .n_own = sizeof words / sizeof *words},
    {.own = crossing, .n_own = sizeof crossing / sizeof *crossing},
    {.pre = "gpt-2"},
    {.pre = "deepseek-llm"},
    {.pre = "gpt-4o"},
    {.load = load_ranks},
    {.load = load_unigram},
    {.load = load_changed, .changes = true},
    {.load = load_bert, .changes = true},
    {.load = load_dropping, .changes = true},
    {.pre = "kimi-k2"},
};

enum { N_VOCAB = sizeof vocabs / sizeof *vocabs };

//
// Properties
//

static bool is_mark(const char *s, size_t n)
{
    return n >= 3 && !memcmp(s, SP, 3);
}

// Whether the ids spell the text; U+2581 and spaces are the same.
static bool spells(const fxi_vocab *v, const fxi_ids *ids, const char *text, size_t n_text)
{
    size_t at = 0, n;
    for (size_t i = 0; i < ids->n; i++) {
        bool control = fxi_vocab_control(v, ids->id[i]);
        const char *p =
            control ? fxi_vocab_piece(v, ids->id[i], &n) : fxi_vocab_bytes(v, ids->id[i], &n);
        for (size_t k = 0; k < n; k++) {
            size_t step = p[k] == ' ' && is_mark(text + at, n_text - at) ? 3 : 1;
            if (at >= n_text || (step == 1 && text[at] != p[k])) return false;
            at += step;
        }
    }
    return at == n_text;
}

static void check_decoded(const fxi_vocab *v, const fxi_ids *ids)
{
    fxi_buf out = {0};
    FUZZ_CHECK(fxi_vocab_decode(v, ids->id, ids->n, FXI_DECODE_CONTROL, &out));
    FUZZ_CHECK(!out.n || fxi_utf8_check(out.p, out.n) == out.n);
    fxi_buf_free(&out);
}

static void check_text(unsigned which, const fxi_vocab *v, const char *text, const char *own,
                       size_t n, unsigned flags)
{
    fxi_ids ids = {0};
    fx_error err;
    fx_status st = fxi_vocab_encode_marked(v, text, own, n, flags, &ids, &err);
    FUZZ_CHECK(st == (fxi_utf8_check(text, n) == n ? FX_OK : FX_EINVAL));
    FUZZ_CHECK(st == FX_OK || !ids.n);
    if (st == FX_OK && !vocabs[which].changes) FUZZ_CHECK(spells(v, &ids, text, n));
    for (size_t i = 0; !own && !(flags & FXI_ENCODE_CONTROL) && i < ids.n; i++)
        FUZZ_CHECK(!fxi_vocab_control(v, ids.id[i]) || vocabs[which].changes);
    check_decoded(v, &ids);
    fxi_ids_free(&ids);
}

int fuzz_vocab_run(const uint8_t *data, size_t n_bytes)
{
    static fxi_vocab *loaded[N_VOCAB]; // immutable
    if (n_bytes < 2) return 0;
    const unsigned which = data[0] % N_VOCAB;
    const size_t n = n_bytes - 2;
    char *own = data[1] & 4 ? malloc(n + 1) : NULL;
    unsigned flags = data[1] & FXI_ENCODE_CONTROL;
    if (vocabs[which].changes) flags |= data[1] & FXI_ENCODE_SPACE;
    for (size_t i = 0; own && i < n; i++) own[i] = (i >> (data[1] >> 4)) & 1;
    if (!loaded[which])
        loaded[which] = vocabs[which].own   ? load_tokens(vocabs[which].own, vocabs[which].n_own)
                        : vocabs[which].pre ? byte_merges(vocabs[which].pre)
                                            : vocabs[which].load();
    check_text(which, loaded[which], (const char *)data + 2, own, n, flags);
    free(own);
    return 0;
}

bool fuzz_vocab_seed(unsigned i, fxi_buf *out)
{
    static const char *const texts[] = {
        "ab aab  a   b<tool>a<go>",
        "<go>a" SP "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA6\x99",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabab",
        "e\xCC\x81\n\t<too It's 1111\r\n\r\n  x",
        "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB \xEF\xAC\x81 \xE3\x81\x82\xE4\xB8\x80 <TOOL> ",
    };
    enum { N_TEXT = sizeof texts / sizeof *texts };
    if (i >= N_TEXT * N_VOCAB) return false;
    put_bytes(out, (char[]){(char)(i % N_VOCAB), (char)(i % 7 + 32)}, 2);
    put_bytes(out, texts[i / N_VOCAB], strlen(texts[i / N_VOCAB]));
    return true;
}
