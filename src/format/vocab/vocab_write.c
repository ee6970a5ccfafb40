// vocab_write.c - writes a spec as tokenizer.ggml.* keys.
//
// GGUF has names for pre-tokenizers. A tokenizer.json spells its patterns differently from the
// table of names, so they are compared by what they do: both cut a text that has every kind of
// case.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/vocab/lookup/vocab_lookup.h"
#include "format/vocab/vocab_write.h"

// ---- the name of a pre-tokenizer ----------------------------------------------------------------

// Contractions in both cases, numbers of one to seven digits, letters of many scripts, marks, runs
// of spaces and lines, punctuation next to everything.
static const char probe[] =
    "I'm you'RE it's They'LL can'T we'd'v 'tis x'x  a  b   c\td \n e\n\n  f\r\n\r\n g \n"
    "1 12 123 1234 12345 1234567 a1b22c333 3.14 1,000,000 $5 50% #1 v2.0 "
    "\xC2\xB2\xC2\xBD\xE2\x85\xA7 "
    "HelloWorld camelCase XMLHttp ABCdef iPhone USA's O'Neil \xC3\x89t\xC3\xA9 na\xC3\xAFve "
    "stra\xC3\x9F"
    "e \xCE\xB1\xCE\xB2\xCE\x93 \xD0\x9F\xD1\x80\xD0\xB8 "
    "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82\xE3\x81\x93\xE3\x82\x93\xE3\x83"
    "\x8A"
    "\xED\x95\x9C\xEA\xB5\xAD \xE0\xA4\x95\xE0\xA4\xBE\xE0\xA4\xB2 e\xCC\x81 \xD8\xA7\xD9\x84 "
    "\xF0\x9F\x98\x80\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD !!! ... ?! (a) [b]{c} <d/> a/b a//b \\n_x_ "
    "--y "
    "f(x)=y; \"q\" 'r' `s` ~t^u| \xE2\x80\x94 \xE2\x80\xA6 \xC2\xA0z\xC2\xA0\xC2\xA0 .\n,\n\n;/\n "
    "end  ";

enum { N_PROBE = sizeof probe - 1 };

typedef struct probe_cuts {
    bool at[N_PROBE + 1]; // a word begins here
} probe_cuts;

// Cuts each word of the text by one pattern. False: the pattern cannot be used.
static bool cut_step(const fxi_split *split, fxi_matcher *m, probe_cuts *cuts)
{
    fxi_regex *re;
    if (fxi_regex_compile(split->pattern, split->bytes, &re, NULL) != FX_OK) return false;
    const probe_cuts before = *cuts;
    bool ok = true;
    for (size_t from = 0, to; ok && from < N_PROBE; from = to) {
        for (to = from + 1; to < N_PROBE && !before.at[to]; to++) continue;
        fxi_regex_walk walk = {.re = re, .m = m, .s = probe + from, .n = to - from};
        fxi_regex_match hit;
        while ((ok = fxi_regex_next(&walk, &hit, NULL) == FX_OK) && hit.from != SIZE_MAX)
            cuts->at[from + hit.from] = cuts->at[from + hit.to] = true;
    }
    fxi_regex_free(re);
    return ok;
}

// False: the spec has steps that no named pre-tokenizer has.
static bool cut_probe(const fxi_vocab_spec *s, fxi_matcher *m, probe_cuts *cuts)
{
    *cuts = (probe_cuts){{true}};
    for (size_t i = 0; i < s->n_split; i++) {
        const fxi_split *p = &s->split[i];
        if (p->how != FXI_SPLIT_ISOLATED || p->invert || !cut_step(p, m, cuts)) return false;
    }
    return true;
}

const char *fxi_spec_pre_name(const fxi_vocab_spec *s)
{
    static const char *const names[] = {
        "llama-bpe",   "qwen2",  "gpt-2",     "smollm",       "tekken",
        "gpt-4o",      "gpt-4",  "stablelm2", "deepseek-llm", "deepseek-coder",
        "deepseek-v3", "falcon", "bloom",     "viking",       "qwen35"};
    probe_cuts cuts;
    const char *hit = NULL;
    fxi_matcher *m = fxi_matcher_new();
    if (m && cut_probe(s, m, &cuts))
        for (size_t i = 0; !hit && i < sizeof names / sizeof *names; i++) {
            fxi_vocab_spec known;
            probe_cuts other;
            fxi_vocab_spec_init(&known, names[i]);
            bool like = fxi_spec_add_pre(&known, fxi_str_of(names[i]), NULL) == FX_OK &&
                        known.n_norm == s->n_norm && known.whole_words == s->whole_words;
            for (size_t k = 0; like && k < s->n_norm; k++)
                like = known.norm[k].kind == s->norm[k].kind;
            if (like && cut_probe(&known, m, &other) && !memcmp(&other, &cuts, sizeof cuts))
                hit = names[i];
            fxi_vocab_spec_free(&known);
        }
    fxi_matcher_free(m);
    return hit;
}

#define KEY(name) "tokenizer.ggml." name

// ---- tokens ------------------------------------------------------------------------------------

// Rows without a token get one that is not used.
static fx_status write_tokens(const fxi_vocab_spec *s, size_t n, fxi_gguf_writer *w, fx_error *err)
{
    int32_t *type = calloc(n + 1, sizeof *type);
    if (!type) return fxi_fail_memory(err);
    fxi_gguf_begin_strs(w, KEY("tokens"), n);
    for (size_t i = 0; i < n; i++) {
        char pad[32];
        const bool there = i < s->n_tok && s->tok[i].piece.n;
        snprintf(pad, sizeof pad, "[PAD%zu]", i);
        fxi_gguf_put_str(w, there ? s->tok[i].piece : fxi_str_of(pad));
        type[i] = there ? s->tok[i].type : FXI_TOKEN_UNUSED;
    }
    fxi_gguf_write_array(w, KEY("token_type"), FXI_GGUF_I32, type, n);
    free(type);
    return FX_OK;
}

// ---- scores and merges -------------------------------------------------------------------------

static fx_status write_scores(const fxi_vocab_spec *s, size_t n, fxi_gguf_writer *w, fx_error *err)
{
    float *score = calloc(n + 1, sizeof *score);
    if (!score) return fxi_fail_memory(err);
    for (size_t i = 0; i < s->n_tok && i < n; i++) score[i] = (float)s->tok[i].score;
    if (s->kind == FXI_VOCAB_MERGES) {
        // A vocabulary with merges and U+2581 for spaces is SentencePiece's: its score is the rank
        // of the merge that makes a piece.
        for (size_t i = s->n_merge; i > 0; i--) score[s->merge[i - 1].to] = -(float)i;
    }
    fxi_gguf_write_array(w, KEY("scores"), FXI_GGUF_F32, score, n);
    free(score);
    return FX_OK;
}

// "left right" for each merge.
static fx_status write_merges(const fxi_vocab_spec *s, fxi_gguf_writer *w, fx_error *err)
{
    fxi_buf text = {0};
    bool ok = true;
    fxi_gguf_begin_strs(w, KEY("merges"), s->n_merge);
    for (size_t i = 0; ok && i < s->n_merge; i++) {
        const fxi_str a = s->tok[s->merge[i].left].piece, b = s->tok[s->merge[i].right].piece;
        fxi_buf_clear(&text);
        ok = fxi_buf_add(&text, a.p, a.n) && fxi_buf_add(&text, " ", 1) &&
             fxi_buf_add(&text, b.p, b.n);
        fxi_gguf_put_str(w, (fxi_str){text.p, text.n});
    }
    fxi_buf_free(&text);
    return ok ? FX_OK : fxi_fail_memory(err);
}

// ---- ids ---------------------------------------------------------------------------------------

static void write_id(fxi_gguf_writer *w, const char *key, int32_t id)
{
    if (id >= 0) fxi_gguf_write_u32(w, key, (uint32_t)id);
}

// Readers take the ids under these keys for control tokens.
static bool is_control(const fxi_vocab_spec *s, int32_t id)
{
    return (size_t)id < s->n_tok && s->tok[id].type == FXI_TOKEN_CONTROL;
}

// EOS and two more have keys that other programs know.
static void write_ends(const fxi_vocab_spec *s, const fxi_ids *ends, fxi_gguf_writer *w)
{
    static const char *const key[] = {KEY("eot_token_id"), KEY("eom_token_id")};
    const bool first = s->eos < 0 && ends->n && is_control(s, ends->id[0]);
    const int32_t eos = first ? ends->id[0] : s->eos;
    size_t n_key = 0;
    write_id(w, KEY("eos_token_id"), eos);
    for (size_t i = 0; i < ends->n && n_key < sizeof key / sizeof *key; i++)
        if (ends->id[i] != eos && is_control(s, ends->id[i]))
            write_id(w, key[n_key++], ends->id[i]);
    if (ends->n) fxi_gguf_write_array(w, FXI_KEY_ENDS, FXI_GGUF_I32, ends->id, ends->n);
}

// ---- kinds of vocabularies ----------------------------------------------------------------------

static fx_status write_kind(const fxi_vocab_spec *s, size_t n, fxi_gguf_writer *w, fx_error *err)
{
    bool prepends = false, collapses = false;
    for (size_t i = 0; i < s->n_norm; i++) {
        const fxi_norm_kind kind = s->norm[i].kind;
        prepends |= kind >= FXI_NORM_PREPEND && kind <= FXI_NORM_PREPEND_FIRST;
        collapses |= kind == FXI_NORM_COLLAPSE;
    }
    if (s->kind == FXI_VOCAB_UNIGRAM) {
        fxi_gguf_write_str(w, KEY("model"), "t5");
        fxi_gguf_write_bool(w, KEY("add_space_prefix"), prepends);
        fxi_gguf_write_bool(w, KEY("remove_extra_whitespaces"), collapses);
        for (size_t i = 0; i < s->n_norm; i++)
            if (s->norm[i].kind == FXI_NORM_CHARSMAP)
                fxi_gguf_write_array(w, KEY("precompiled_charsmap"), FXI_GGUF_U8, s->norm[i].from.p,
                                     s->norm[i].from.n);
        return write_scores(s, n, w, err);
    }
    if (s->kind == FXI_VOCAB_MERGES && s->spelling == FXI_SPELL_PRINTABLE) {
        const char *pre = fxi_spec_pre_name(s);
        fxi_gguf_write_str(w, KEY("model"), "gpt2");
        if (pre) fxi_gguf_write_str(w, KEY("pre"), pre);
        return write_merges(s, w, err);
    }
    if (s->spelling == FXI_SPELL_MARKS && s->kind != FXI_VOCAB_WORDS) {
        fxi_gguf_write_str(w, KEY("model"), "llama");
        fxi_gguf_write_bool(w, KEY("add_space_prefix"), prepends);
        return write_scores(s, n, w, err);
    }
    fxi_gguf_write_str(w, KEY("model"), "huggingface"); // not one that GGUF's keys can say
    return FX_OK;
}

fx_status fxi_vocab_write_gguf(const fxi_vocab_spec *s, size_t n_row, const fxi_ids *ends,
                               fxi_gguf_writer *w, fx_error *err)
{
    const size_t n = n_row > s->n_tok ? n_row : s->n_tok;
    FX_TRY(write_kind(s, n, w, err));
    FX_TRY(write_tokens(s, n, w, err));
    write_id(w, KEY("bos_token_id"), s->bos);
    write_id(w, KEY("unknown_token_id"), s->unk);
    write_ends(s, ends, w);
    fxi_gguf_write_bool(w, KEY("add_bos_token"), s->adds_bos);
    fxi_gguf_write_bool(w, KEY("add_eos_token"), s->adds_eos);
    return FX_OK;
}
