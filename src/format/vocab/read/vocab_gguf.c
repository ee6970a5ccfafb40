// vocab_gguf.c - reads the vocabulary of a GGUF file, tokenizer.ggml.*.
//
//   model    kind      words                      spaces
//   llama    SCORES    the whole text             U+2581, one more in front
//   gpt2     MERGES    by the pre-tokenizer       as they are
//   gemma4   MERGES    lines                      U+2581
//   t5       UNIGRAM   the whole text             U+2581, one more in front, runs become one
//   bert     WORDS     white space, punctuation   dropped; U+2581 marks pieces that begin a word
#include <inttypes.h>
#include <string.h>

#include "format/show.h"
#include "format/vocab/read/vocab_read.h"

#define KEY(name) "tokenizer.ggml." name

typedef struct gguf_reader {
    const fxi_gguf *g;
    fxi_vocab_spec *s;
    fx_error *err;
} gguf_reader;

// ---- tokens -------------------------------------------------------------------------------------

static fx_status check_n_elem(const gguf_reader *r, const fxi_gguf_kv *kv)
{
    if (kv->n_elem == r->s->n_tok) return FX_OK;
    return fxi_fail(r->err, FX_EFORMAT, "%s: key '%s' has %" PRIu64 " elements for %zu tokens",
                    fxi_gguf_name(r->g), fxi_show_text(kv->key).s, kv->n_elem, r->s->n_tok);
}

static fx_status read_scores(gguf_reader *r)
{
    const fxi_gguf_kv *kv;
    FX_TRY(fxi_gguf_array(r->g, KEY("scores"), true, FXI_GGUF_F32, &kv, r->err));
    FX_TRY(check_n_elem(r, kv));
    for (size_t id = 0; id < r->s->n_tok; id++)
        r->s->tok[id].score = (float)fxi_gguf_float_at(kv, id);
    return FX_OK;
}

static fx_status read_types(gguf_reader *r)
{
    const fxi_gguf_kv *kv;
    FX_TRY(fxi_gguf_array(r->g, KEY("token_type"), false, FXI_GGUF_I32, &kv, r->err));
    if (!kv) return FX_OK;
    FX_TRY(check_n_elem(r, kv));
    for (size_t id = 0; id < r->s->n_tok; id++) {
        int64_t type = fxi_gguf_int_at(kv, id);
        if (type < 0 || type >= FXI_TOKEN_N_TYPE)
            return fxi_fail(
                r->err, FX_EFORMAT,
                "%s: key '" KEY("token_type") "': token %zu has the unknown type %" PRId64,
                fxi_gguf_name(r->g), id, type);
        r->s->tok[id].type = (uint8_t)type;
    }
    return FX_OK;
}

// ---- special ids --------------------------------------------------------------------------------

// -1 where the key is absent or is 2^32 - 1, which some files write for "none".
static fx_status read_id(const gguf_reader *r, const char *key, int32_t *id)
{
    uint32_t raw = UINT32_MAX;
    FX_TRY(fxi_gguf_u32(r->g, key, false, &raw, r->err));
    *id = -1;
    if (raw == UINT32_MAX) return FX_OK;
    if (raw >= r->s->n_tok)
        return fxi_fail(r->err, FX_EFORMAT, "%s: key '%s' is %" PRIu32 ", but there are %zu tokens",
                        fxi_gguf_name(r->g), key, raw, r->s->n_tok);
    *id = (int32_t)raw;
    return FX_OK;
}

static fx_status read_ids(gguf_reader *r)
{
    static const struct {
        const char *key;
        const char *piece; // the default of kinds other than MERGES; NULL: none
        size_t field;      // offset in fxi_vocab_spec; 0: none
        fxi_token_type type;
        bool ends;
    } ids[] = {
        {KEY("bos_token_id"), "<s>", offsetof(fxi_vocab_spec, bos), FXI_TOKEN_CONTROL, false},
        {KEY("eos_token_id"), "</s>", offsetof(fxi_vocab_spec, eos), FXI_TOKEN_CONTROL, true},
        {KEY("unknown_token_id"), "<unk>", offsetof(fxi_vocab_spec, unk), FXI_TOKEN_UNKNOWN, false},
        {KEY("eot_token_id"), NULL, 0, FXI_TOKEN_CONTROL, true},
        {KEY("eom_token_id"), NULL, 0, FXI_TOKEN_CONTROL, true},
        {KEY("fim_pre_token_id"), NULL, 0, FXI_TOKEN_CONTROL, false},
        {KEY("fim_suf_token_id"), NULL, 0, FXI_TOKEN_CONTROL, false},
        {KEY("fim_mid_token_id"), NULL, 0, FXI_TOKEN_CONTROL, false},
        {KEY("fim_pad_token_id"), NULL, 0, FXI_TOKEN_CONTROL, true},
        {KEY("fim_rep_token_id"), NULL, 0, FXI_TOKEN_CONTROL, true},
        {KEY("fim_sep_token_id"), NULL, 0, FXI_TOKEN_CONTROL, true},
    };
    fxi_vocab_spec *s = r->s;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int32_t id;
        FX_TRY(read_id(r, ids[i].key, &id));
        if (id < 0 && ids[i].piece && s->kind != FXI_VOCAB_MERGES &&
            !fxi_gguf_find(r->g, ids[i].key))
            id = fxi_spec_find(s, fxi_str_of(ids[i].piece));
        if (ids[i].field) *(int32_t *)(void *)((char *)s + ids[i].field) = id;
        if (id < 0) continue;
        if (s->tok[id].type != FXI_TOKEN_CONTROL) s->tok[id].type = (uint8_t)ids[i].type;
        if (ids[i].ends && !fxi_ids_add(&s->ends, id)) return fxi_fail_memory(r->err);
    }
    return FX_OK;
}

// ---- merges -------------------------------------------------------------------------------------

// A merge is "left right". A piece may begin with a space, so the first byte is not the separator.
static fx_status read_merge(gguf_reader *r, const fxi_index *x, uint64_t i, fxi_str text,
                            fxi_buf *both)
{
    const char *space = text.n ? memchr(text.p + 1, ' ', text.n - 1) : NULL;
    if (!space)
        return fxi_fail(r->err, FX_EFORMAT, "%s: merge %" PRIu64 " '%s' is not a pair",
                        fxi_gguf_name(r->g), i, fxi_show_text(text).s);
    const size_t n_left = (size_t)(space - text.p), n_right = text.n - n_left - 1;
    fxi_buf_clear(both);
    if (!fxi_buf_add(both, text.p, n_left) || !fxi_buf_add(both, space + 1, n_right))
        return fxi_fail_memory(r->err);
    fxi_spec_merge m = {fxi_index_find(x, text.p, n_left), fxi_index_find(x, space + 1, n_right),
                        fxi_index_find(x, both->p, both->n)};
    if (m.left < 0 || m.right < 0 || m.to < 0)
        return fxi_fail(r->err, FX_EFORMAT,
                        "%s: merge %" PRIu64 " '%s' has a part that is not a token",
                        fxi_gguf_name(r->g), i, fxi_show_text(text).s);
    return fxi_spec_add_merge(r->s, m) ? FX_OK : fxi_fail_memory(r->err);
}

static fx_status read_merges(gguf_reader *r)
{
    const fxi_gguf_kv *kv;
    fxi_index x;
    fxi_buf both = {0};
    FX_TRY(fxi_gguf_array(r->g, KEY("merges"), true, FXI_GGUF_STR, &kv, r->err));
    if (!fxi_spec_index(r->s, &x)) return fxi_fail_memory(r->err);
    fx_status st = FX_OK;
    const unsigned char *at = kv->value;
    for (uint64_t i = 0; st == FX_OK && i < kv->n_elem; i++)
        st = read_merge(r, &x, i, fxi_gguf_next_str(&at), &both);
    fxi_buf_free(&both);
    fxi_index_free(&x);
    return st;
}

// ---- kinds --------------------------------------------------------------------------------------

static fx_status add_norm_step(gguf_reader *r, fxi_norm_kind kind, const char *from, const char *to)
{
    fxi_norm n = {.kind = kind, .from = fxi_str_of(from), .to = fxi_str_of(to)};
    return fxi_spec_add_norm(r->s, n) ? FX_OK : fxi_fail_memory(r->err);
}

// Phi-3's chat marks swallow the white space after them, which its files do not say.
static fx_status mark_phi3(gguf_reader *r)
{
    static const char *const plain[] = {"<unk>", "<s>", "<|endoftext|>"};
    fxi_str name = {"", 0};
    FX_TRY(fxi_gguf_str(r->g, "general.architecture", false, &name, r->err));
    if (!fxi_str_is(name, "phi3")) return FX_OK;
    for (size_t i = 0; i < r->s->n_tok; i++) {
        fxi_token *t = &r->s->tok[i];
        t->eats_right = (t->type == FXI_TOKEN_CONTROL || t->type == FXI_TOKEN_USER) &&
                        !fxi_str_is_any(t->piece, plain, sizeof plain / sizeof *plain);
    }
    return FX_OK;
}

// Where a space is put in front: of every stretch between special tokens ("always", as in other
// programs that read these files) or of the whole text only ("first", Metaspace's scheme). The key
// is our own, for models trained that way.
static fx_status read_prefix_scheme(const gguf_reader *r, fxi_norm_kind *kind)
{
    static const struct {
        const char *name;
        fxi_norm_kind kind;
    } schemes[] = {{"always", FXI_NORM_PREPEND}, {"first", FXI_NORM_PREPEND_FIRST}};
    fxi_str name = fxi_str_of(schemes[0].name);
    FX_TRY(fxi_gguf_str(r->g, KEY("space_prefix_scheme"), false, &name, r->err));
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        *kind = schemes[i].kind;
        if (fxi_str_is(name, schemes[i].name)) return FX_OK;
    }
    return fxi_fail(r->err, FX_EFORMAT,
                    "%s: key '" KEY("space_prefix_scheme") "' is '%s', neither always nor first",
                    fxi_gguf_name(r->g), fxi_show_text(name).s);
}

static fx_status add_space_steps(gguf_reader *r)
{
    bool prefix = true;
    fxi_norm_kind kind;
    FX_TRY(fxi_gguf_bool(r->g, KEY("add_space_prefix"), false, &prefix, r->err));
    FX_TRY(read_prefix_scheme(r, &kind));
    if (prefix) FX_TRY(add_norm_step(r, kind, "", FXI_SPACE_MARK));
    r->s->strips_space = prefix;
    return add_norm_step(r, FXI_NORM_REPLACE, " ", FXI_SPACE_MARK);
}

static fx_status read_llama(gguf_reader *r)
{
    r->s->spelling = FXI_SPELL_MARKS;
    r->s->byte_fallback = r->s->user_marks = r->s->adds_bos = true;
    FX_TRY(read_scores(r));
    FX_TRY(read_ids(r));
    FX_TRY(mark_phi3(r));
    return add_space_steps(r);
}

static fx_status read_gpt2(gguf_reader *r)
{
    fxi_str pre = fxi_str_of("default");
    r->s->spelling = FXI_SPELL_PRINTABLE;
    r->s->unit_bytes = true;
    FX_TRY(fxi_gguf_str(r->g, KEY("pre"), false, &pre, r->err));
    // A file without the name of its pre-tokenizer is older than the key. Other programs take
    // `default` then, which is seldom what the model was trained with.
    if (!fxi_gguf_find(r->g, KEY("pre")) &&
        !fxi_spec_warn(r->s, "key '" KEY("pre") "' is missing: the pre-tokenizer 'default' is "
                                                "used, which may differ from training"))
        return fxi_fail_memory(r->err);
    FX_TRY(read_ids(r));
    FX_TRY(read_merges(r));
    return fxi_spec_add_pre(r->s, pre, r->err);
}

// Merges over text with U+2581 for spaces: what the name gemma4 implies, whatever the file says.
static fx_status read_gemma4(gguf_reader *r)
{
    r->s->user_marks = true;
    r->s->adds_bos = true;
    FX_TRY(read_ids(r));
    FX_TRY(read_merges(r));
    return fxi_spec_add_pre(r->s, fxi_str_of("gemma4"), r->err);
}

static fx_status add_charsmap(gguf_reader *r)
{
    static const char key[] = KEY("precompiled_charsmap");
    const fxi_gguf_kv *kv = fxi_gguf_find(r->g, key);
    if (!kv) return FX_OK;
    if (kv->type != FXI_GGUF_ARRAY ||
        (kv->elem_type != FXI_GGUF_U8 && kv->elem_type != FXI_GGUF_I8))
        return fxi_fail(r->err, FX_EFORMAT, "%s: key '%s' is not an array of bytes",
                        fxi_gguf_name(r->g), key);
    fxi_norm n = {.kind = FXI_NORM_CHARSMAP, .from = {(const char *)kv->value, kv->n_elem}};
    return !kv->n_elem || fxi_spec_add_norm(r->s, n) ? FX_OK : fxi_fail_memory(r->err);
}

static fx_status read_t5(gguf_reader *r)
{
    bool collapse = true;
    r->s->spelling = FXI_SPELL_MARKS;
    r->s->user_marks = r->s->adds_eos = r->s->sums_float = r->s->fuse_unknown = true;
    FX_TRY(read_scores(r));
    FX_TRY(read_ids(r));
    FX_TRY(add_charsmap(r));
    FX_TRY(fxi_gguf_bool(r->g, KEY("remove_extra_whitespaces"), false, &collapse, r->err));
    if (collapse) FX_TRY(add_norm_step(r, FXI_NORM_COLLAPSE, "", ""));
    return add_space_steps(r);
}

// Files of BERT's models have U+2581 in front of pieces that begin a word and nothing in front of
// those that continue one; here the latter have "##", as in the models' own vocabularies.
static fx_status mark_inside(gguf_reader *r)
{
    fxi_vocab_spec *s = r->s;
    fxi_buf piece = {0};
    fx_status st = FX_OK;
    for (size_t i = 0; st == FX_OK && i < s->n_tok; i++) {
        fxi_token *t = &s->tok[i];
        const bool begins = t->piece.n >= FXI_SPACE_MARK_BYTES &&
                            !memcmp(t->piece.p, FXI_SPACE_MARK, FXI_SPACE_MARK_BYTES);
        const size_t skip = begins ? FXI_SPACE_MARK_BYTES : 0;
        const bool named =
            t->piece.n > 2 && *t->piece.p == '[' && t->piece.p[t->piece.n - 1] == ']';
        if (t->type != FXI_TOKEN_NORMAL || (named && !begins)) continue;
        fxi_buf_clear(&piece);
        if ((!begins && !fxi_buf_str(&piece, "##")) ||
            !fxi_buf_add(&piece, t->piece.p + skip, t->piece.n - skip) ||
            !fxi_spec_str(s, piece.p ? piece.p : "", piece.n, &t->piece))
            st = fxi_fail_memory(r->err);
    }
    fxi_buf_free(&piece);
    return st;
}

// [CLS] and [SEP] stand around a text, under keys of their own.
static fx_status read_bert_ids(gguf_reader *r)
{
    static const struct {
        const char *key, *piece;
        size_t field; // offset in fxi_vocab_spec
    } ids[] = {
        {KEY("cls_token_id"), "[CLS]", offsetof(fxi_vocab_spec, bos)},
        {KEY("seperator_token_id"), "[SEP]", offsetof(fxi_vocab_spec, eos)}, // their spelling
        {KEY("unknown_token_id"), "[UNK]", offsetof(fxi_vocab_spec, unk)},
    };
    FX_TRY(read_ids(r));
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int32_t *to = (int32_t *)(void *)((char *)r->s + ids[i].field), id;
        FX_TRY(read_id(r, ids[i].key, &id));
        if (id >= 0 || *to < 0) *to = id >= 0 ? id : fxi_spec_find(r->s, fxi_str_of(ids[i].piece));
        if (*to >= 0 && r->s->tok[*to].type == FXI_TOKEN_NORMAL)
            r->s->tok[*to].type = FXI_TOKEN_CONTROL;
    }
    return FX_OK;
}

static fx_status read_bert(gguf_reader *r)
{
    fxi_vocab_spec *s = r->s;
    bool lower = true;
    FX_TRY(read_bert_ids(r));
    FX_TRY(mark_inside(r));
    FX_TRY(fxi_gguf_bool(r->g, KEY("normalizer.lowercase"), false, &lower, r->err));
    bool strip = lower;
    FX_TRY(fxi_gguf_bool(r->g, KEY("normalizer.strip_accents"), false, &strip, r->err));
    s->spelling = FXI_SPELL_PLAIN;
    s->inside = s->join_inside = fxi_str_of("##");
    s->max_word = 100;
    s->join = FXI_JOIN_WORDS;
    s->tidies = true;
    s->adds_bos = s->bos >= 0;
    s->adds_sep = true;
    const fxi_bert how = {.cleans = true, .pads_han = true, .strips = strip, .lowers = lower};
    const bool good = fxi_spec_add_bert_norms(s, how) && fxi_spec_add_bert_splits(s);
    return good ? FX_OK : fxi_fail_memory(r->err);
}

static const struct {
    const char *name;
    fxi_vocab_kind kind;
    fx_status (*read)(gguf_reader *r);
} models[] = {
    {"llama", FXI_VOCAB_SCORES, read_llama},   {"gpt2", FXI_VOCAB_MERGES, read_gpt2},
    {"gemma4", FXI_VOCAB_MERGES, read_gemma4}, {"t5", FXI_VOCAB_UNIGRAM, read_t5},
    {"bert", FXI_VOCAB_WORDS, read_bert},
};

// Ids that end a generation and have no key of their own; the key is ours.
static fx_status read_more_ends(gguf_reader *r)
{
    const fxi_gguf_kv *kv;
    FX_TRY(fxi_gguf_array(r->g, "flexinfer.end_token_ids", false, FXI_GGUF_I32, &kv, r->err));
    for (uint64_t i = 0; kv && i < kv->n_elem; i++) {
        const int64_t id = fxi_gguf_int_at(kv, i);
        if (id < 0 || (uint64_t)id >= r->s->n_tok)
            return fxi_fail(r->err, FX_EFORMAT,
                            "%s: key 'flexinfer.end_token_ids' has %" PRId64
                            ", but there are %zu tokens",
                            fxi_gguf_name(r->g), id, r->s->n_tok);
        if (!fxi_ids_add(&r->s->ends, (int32_t)id)) return fxi_fail_memory(r->err);
    }
    return FX_OK;
}

static fx_status read_flags(gguf_reader *r)
{
    FX_TRY(read_more_ends(r));
    FX_TRY(fxi_gguf_bool(r->g, KEY("add_bos_token"), false, &r->s->adds_bos, r->err));
    FX_TRY(fxi_gguf_bool(r->g, KEY("add_eos_token"), false, &r->s->adds_eos, r->err));
    FX_TRY(fxi_gguf_bool(r->g, KEY("add_sep_token"), false, &r->s->adds_sep, r->err));
    if (r->s->adds_sep) r->s->adds_eos = r->s->eos >= 0;
    return FX_OK;
}

fx_status fxi_vocab_read_gguf_ids(const fxi_gguf *g, fxi_vocab_spec *s, fx_error *err)
{
    gguf_reader r = {g, s, err};
    const int32_t bos = s->bos, eos = s->eos, unk = s->unk;
    FX_TRY(read_ids(&r));
    if (!fxi_gguf_find(g, KEY("bos_token_id"))) s->bos = bos;
    if (!fxi_gguf_find(g, KEY("eos_token_id"))) s->eos = eos;
    if (!fxi_gguf_find(g, KEY("unknown_token_id"))) s->unk = unk;
    return read_flags(&r);
}

fx_status fxi_vocab_read_gguf(const fxi_gguf *g, fxi_vocab_spec *s, fx_error *err)
{
    fxi_str name;
    gguf_reader r = {g, s, err};
    size_t i = 0, n = sizeof models / sizeof *models;
    FX_TRY(fxi_gguf_str(g, KEY("model"), true, &name, err));
    while (i < n && !fxi_str_is(name, models[i].name)) i++;
    if (i == n)
        return fxi_fail(err, FX_EFORMAT, "%s: tokenizer kind '%s' is not supported by this version",
                        fxi_gguf_name(g), fxi_show_text(name).s);
    s->kind = models[i].kind;
    const fxi_gguf_kv *kv;
    FX_TRY(fxi_gguf_array(r.g, KEY("tokens"), true, FXI_GGUF_STR, &kv, r.err));
    if (!kv->n_elem || kv->n_elem > INT32_MAX)
        return fxi_fail(r.err, FX_EFORMAT, "%s: key '" KEY("tokens") "' has %" PRIu64 " elements",
                        fxi_gguf_name(r.g), kv->n_elem);
    const unsigned char *at = kv->value;
    for (uint64_t id = 0; id < kv->n_elem; id++) {
        fxi_token t = {.piece = fxi_gguf_next_str(&at), .type = FXI_TOKEN_NORMAL};
        if (!fxi_spec_add_token(r.s, t)) return fxi_fail_memory(r.err);
    }
    FX_TRY(read_types(&r));
    FX_TRY(models[i].read(&r));
    return read_flags(&r);
}
