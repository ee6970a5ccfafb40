// vocab_hf_steps.c - the steps of a tokenizer.json: normalizer, pre_tokenizer, decoder and
// post_processor.
//
// A step is an object with a "type", or a Sequence of such objects. A table lists the supported
// types; any other is an error that names it.
//
// A pre-tokenizer that changes the text (Metaspace, ByteLevel's space in front) becomes a late norm
// step, or after a step that cuts a split step that changes every word. After ByteLevel the
// library's steps see GPT-2's printable characters for bytes: Digits and Punctuation look at bytes
// there.
#include <string.h>

#include "base/text/base64.h"
#include "format/show.h"
#include "format/vocab/read/vocab_hf.h"

// ---- what all steps share -----------------------------------------------------------------------

// A step, or the steps of a Sequence. The parser limits the depth.
static fx_status read_step(fxi_hf *h, const fxi_json *step, const char *path,
                           const fxi_hf_step_table *known)
{
    fxi_str type;
    if (!step || fxi_json_is_null(step)) return FX_OK;
    if (!fxi_json_is_object(step)) return fxi_hf_fail(h, path, "not an object");
    FX_TRY(fxi_hf_need_str(h, step, path, "type", &type));
    if (fxi_str_is(type, "Sequence")) {
        const fxi_json *members;
        FX_TRY(fxi_hf_need_array(h, step, path, known->members, &members));
        for (size_t i = 0; i < fxi_json_array_size(members); i++)
            FX_TRY(read_step(h, fxi_json_at(members, i), fxi_hf_path_at(path, i).s, known));
        return FX_OK;
    }
    for (size_t i = 0; i < known->n; i++)
        if (fxi_str_is(type, known->step[i].type)) return known->step[i].read(h, step, path);
    return fxi_hf_fail(h, path, "'%s' is not supported", fxi_show_text(type.p, type.n).s);
}

fx_status fxi_hf_read_steps(fxi_hf *h, const fxi_json *root, const fxi_hf_step_table *known)
{
    return read_step(h, fxi_json_get(root, known->key), known->key, known);
}

static fx_status put_norm(const fxi_hf *h, fxi_norm n)
{
    return fxi_spec_add_norm(h->s, n) ? FX_OK : fxi_hf_fail_memory(h);
}

// prepend_scheme, or add_prefix_space of older files.
static fx_status read_prepend_scheme(const fxi_hf *h, const fxi_json *step, const char *path,
                                     fxi_str *scheme)
{
    bool space;
    FX_TRY(fxi_hf_get_str(h, step, path, "prepend_scheme", scheme));
    FX_TRY(fxi_hf_get_bool(h, step, path, "add_prefix_space", true, &space));
    if (!scheme->p) *scheme = space ? fxi_str_of("always") : fxi_str_of("never");
    if (fxi_str_is(*scheme, "always") || fxi_str_is(*scheme, "first") ||
        fxi_str_is(*scheme, "never"))
        return FX_OK;
    return fxi_hf_fail(h, fxi_hf_path_key(path, "prepend_scheme").s, "'%s' is not supported",
                       fxi_show_text(scheme->p, scheme->n).s);
}

// Metaspace's members, as pre-tokenizer and as decoder: how it puts a mark in front.
static fx_status read_metaspace_scheme(const fxi_hf *h, const fxi_json *step, const char *path,
                                       fxi_str *scheme)
{
    fxi_str mark;
    FX_TRY(fxi_hf_need_str(h, step, path, "replacement", &mark));
    if (!fxi_str_is(mark, FXI_SPACE_MARK))
        return fxi_hf_fail(h, fxi_hf_path_key(path, "replacement").s,
                           "'%s' is not supported, only U+2581", fxi_show_text(mark.p, mark.n).s);
    return read_prepend_scheme(h, step, path, scheme);
}

// ---- normalizers --------------------------------------------------------------------------------

static fx_status read_plain_norm(fxi_hf *h, const fxi_json *step, const char *path)
{
    static const struct {
        const char *type;
        fxi_norm_kind kind;
    } kinds[] = {
        {"NFC", FXI_NORM_NFC},
        {"NFD", FXI_NORM_NFD},
        {"NFKC", FXI_NORM_NFKC},
        {"NFKD", FXI_NORM_NFKD},
        {"Lowercase", FXI_NORM_LOWERCASE},
        {"StripAccents", FXI_NORM_STRIP_ACCENTS},
    };
    const char *type = fxi_json_text(fxi_json_get(step, "type"));
    (void)path;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(type, kinds[i].type)) return put_norm(h, (fxi_norm){.kind = kinds[i].kind});
    return FX_OK;
}

static fx_status read_prepend(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_norm n = {.kind = FXI_NORM_PREPEND};
    FX_TRY(fxi_hf_need_str(h, step, path, "prepend", &n.to));
    return put_norm(h, n);
}

static fx_status read_replace(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_norm n = {.kind = FXI_NORM_REPLACE};
    bool literal;
    FX_TRY(fxi_hf_read_pattern(h, fxi_json_get(step, "pattern"), fxi_hf_path_key(path, "pattern").s,
                               &literal, &n.from));
    FX_TRY(fxi_hf_need_str(h, step, path, "content", &n.to));
    if (!literal) n.kind = FXI_NORM_REPLACE_REGEX;
    if (literal && fxi_str_is(n.from, " ") && fxi_str_is(n.to, FXI_SPACE_MARK))
        h->s->spelling = FXI_SPELL_MARKS;
    return put_norm(h, n);
}

static fx_status read_strip(fxi_hf *h, const fxi_json *step, const char *path)
{
    bool left, right;
    FX_TRY(fxi_hf_get_bool(h, step, path, "strip_left", true, &left));
    FX_TRY(fxi_hf_get_bool(h, step, path, "strip_right", true, &right));
    if (left) FX_TRY(put_norm(h, (fxi_norm){.kind = FXI_NORM_STRIP_LEFT}));
    return right ? put_norm(h, (fxi_norm){.kind = FXI_NORM_STRIP_RIGHT}) : FX_OK;
}

static fx_status read_precompiled(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_str text, map;
    size_t n = 0;
    fxi_buf bytes = {0};
    FX_TRY(fxi_hf_need_str(h, step, path, "precompiled_charsmap", &text));
    if (!text.n) return FX_OK;
    if (!fxi_buf_reserve(&bytes, fxi_base64_room(text.n))) return fxi_hf_fail_memory(h);
    const bool good = fxi_base64_decode(text.p, text.n, (unsigned char *)bytes.p, &n);
    map = (fxi_str){bytes.p, n};
    fx_status st =
        good ? put_norm(h, (fxi_norm){.kind = FXI_NORM_CHARSMAP, .from = map})
             : fxi_hf_fail(h, fxi_hf_path_key(path, "precompiled_charsmap").s, "not base64");
    fxi_buf_free(&bytes);
    return st;
}

// Removes what the library considers control characters; its white space becomes spaces.
static fx_status read_nmt(fxi_hf *h, const fxi_json *step, const char *path)
{
    (void)step;
    (void)path;
    const fxi_norm controls = {
        .kind = FXI_NORM_REPLACE_REGEX,
        .from = fxi_str_of("[\\x01-\\x08\\x0B\\x0E-\\x1F\\x7F\\x{8F}\\x{9F}]"),
        .to = fxi_str_of(""),
    };
    const fxi_norm spaces = {
        .kind = FXI_NORM_REPLACE_REGEX,
        .from = fxi_str_of(
            "[\\x09\\x0A\\x0C\\x0D\\x{1680}\\x{200B}-\\x{200F}\\x{2028}\\x{2029}\\x{2581}"
            "\\x{FEFF}\\x{FFFD}]"),
        .to = fxi_str_of(" "),
    };
    FX_TRY(put_norm(h, controls));
    return put_norm(h, spaces);
}

// Accents go with the case unless the file says otherwise.
static fx_status read_bert_norm(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_bert how;
    FX_TRY(fxi_hf_get_bool(h, step, path, "clean_text", true, &how.cleans));
    FX_TRY(fxi_hf_get_bool(h, step, path, "handle_chinese_chars", true, &how.pads_han));
    FX_TRY(fxi_hf_get_bool(h, step, path, "lowercase", true, &how.lowers));
    FX_TRY(fxi_hf_get_bool(h, step, path, "strip_accents", how.lowers, &how.strips));
    return fxi_spec_add_bert_norms(h->s, how) ? FX_OK : fxi_hf_fail_memory(h);
}

static const fxi_hf_step normalizers[] = {
    {"NFC", read_plain_norm},
    {"NFD", read_plain_norm},
    {"NFKC", read_plain_norm},
    {"NFKD", read_plain_norm},
    {"Lowercase", read_plain_norm},
    {"StripAccents", read_plain_norm},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Strip", read_strip},
    {"Nmt", read_nmt},
    {"Precompiled", read_precompiled},
    {"BertNormalizer", read_bert_norm},
};

const fxi_hf_step_table fxi_hf_normalizers = {"normalizer", "normalizers", normalizers,
                                              sizeof normalizers / sizeof *normalizers};

// ---- pre-tokenizers -----------------------------------------------------------------------------

static fx_status add_split(fxi_hf *h, fxi_split p)
{
    h->cuts = true;
    return fxi_spec_add_split(h->s, p) ? FX_OK : fxi_hf_fail_memory(h);
}

// GPT-2's pattern, built into ByteLevel.
#define GPT2_PATTERN                                                                  \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\p{White_Space}\\p{L}\\p{N}]+|" \
    "\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+"

static fx_status add_late_norm(const fxi_hf *h, const char *path, fxi_norm n)
{
    if (h->byte_level) return fxi_hf_fail(h, path, "a step after ByteLevel cannot change the text");
    if (h->cuts)
        return fxi_spec_add_split(h->s, (fxi_split){.how = FXI_SPLIT_CHANGE, .change = n})
                   ? FX_OK
                   : fxi_hf_fail_memory(h);
    n.late = true;
    return put_norm(h, n);
}

static fx_status read_byte_level(fxi_hf *h, const fxi_json *step, const char *path)
{
    bool space, regex;
    FX_TRY(fxi_hf_get_bool(h, step, path, "add_prefix_space", true, &space));
    FX_TRY(fxi_hf_get_bool(h, step, path, "use_regex", true, &regex));
    if (h->byte_level) return fxi_hf_fail(h, path, "a second ByteLevel is not supported");
    if (space)
        FX_TRY(add_late_norm(h, path,
                             (fxi_norm){.kind = FXI_NORM_PREPEND_OTHER, .to = fxi_str_of(" ")}));
    h->byte_level = true;
    return regex ? add_split(h, (fxi_split){.pattern = fxi_str_of(GPT2_PATTERN)}) : FX_OK;
}

static fx_status read_behavior(const fxi_hf *h, const fxi_json *step, const char *path,
                               const char *fallback, fxi_split_how *how)
{
    static const char *const names[FXI_SPLIT_N] = {
        [FXI_SPLIT_ISOLATED] = "Isolated",
        [FXI_SPLIT_REMOVED] = "Removed",
        [FXI_SPLIT_MERGED_PREVIOUS] = "MergedWithPrevious",
        [FXI_SPLIT_MERGED_NEXT] = "MergedWithNext",
        [FXI_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    fxi_str name;
    FX_TRY(fxi_hf_get_str(h, step, path, "behavior", &name));
    if (!name.p) name = (fxi_str){fallback, strlen(fallback)};
    for (int i = 0; i < FXI_SPLIT_N; i++) {
        *how = (fxi_split_how)i;
        if (fxi_str_is(name, names[i])) return FX_OK;
    }
    return fxi_hf_fail(h, fxi_hf_path_key(path, "behavior").s, "'%s' is not supported",
                       fxi_show_text(name.p, name.n).s);
}

// Whether a pattern matches the same in bytes and in their printable characters: it has nothing but
// letters and digits of ASCII, and operators.
static bool is_same_in_bytes(fxi_str pattern)
{
    static const char usual[] = "(?m)";
    if (pattern.n >= sizeof usual - 1 && !memcmp(pattern.p, usual, sizeof usual - 1)) {
        pattern.p += sizeof usual - 1;
        pattern.n -= sizeof usual - 1;
    }
    for (size_t i = 0; i < pattern.n; i++)
        if (!strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ[]()|+*{}-,",
                    pattern.p[i]) ||
            !pattern.p[i])
            return false;
    return true;
}

static fx_status read_split(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_split p = {.bytes = false};
    const fxi_hf_path at = fxi_hf_path_key(path, "pattern");
    FX_TRY(fxi_hf_read_quoted_pattern(h, fxi_json_get(step, "pattern"), at.s, &p.pattern));
    FX_TRY(read_behavior(h, step, path, "", &p.how));
    FX_TRY(fxi_hf_get_bool(h, step, path, "invert", false, &p.invert));
    if (h->byte_level && !is_same_in_bytes(p.pattern))
        return fxi_hf_fail(h, at.s,
                           "not supported after ByteLevel, where bytes are other characters");
    return add_split(h, p);
}

static fx_status read_digits(fxi_hf *h, const fxi_json *step, const char *path)
{
    bool single;
    FX_TRY(fxi_hf_get_bool(h, step, path, "individual_digits", false, &single));
    fxi_split p = {
        .pattern = fxi_str_of("\\p{N}"), .how = FXI_SPLIT_CONTIGUOUS, .bytes = h->byte_level};
    if (h->byte_level) p.pattern = fxi_str_of("[0-9\\xB2\\xB3\\xB9\\xBC-\\xBE]");
    if (single) p.how = FXI_SPLIT_ISOLATED;
    return add_split(h, p);
}

static fx_status read_punctuation(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_split p = {.pattern = fxi_str_of("[!-/:-@\\[-`{-~\\p{P}]"), .bytes = h->byte_level};
    if (h->byte_level)
        p.pattern = fxi_str_of("[!-/:-@\\[-`{-~\\xA1\\xA7\\xAB\\xB6\\xB7\\xBB\\xBF]");
    FX_TRY(read_behavior(h, step, path, "Isolated", &p.how));
    return add_split(h, p);
}

static fx_status read_metaspace(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_str scheme;
    bool split;
    FX_TRY(read_metaspace_scheme(h, step, path, &scheme));
    FX_TRY(fxi_hf_get_bool(h, step, path, "split", true, &split));
    FX_TRY(add_late_norm(h, path,
                         (fxi_norm){.kind = FXI_NORM_REPLACE,
                                    .from = fxi_str_of(" "),
                                    .to = fxi_str_of(FXI_SPACE_MARK)}));
    if (!fxi_str_is(scheme, "never")) {
        const bool first = fxi_str_is(scheme, "first");
        FX_TRY(add_late_norm(
            h, path,
            (fxi_norm){.kind = first ? FXI_NORM_PREPEND_FIRST : FXI_NORM_PREPEND_OTHER,
                       .to = fxi_str_of(FXI_SPACE_MARK)}));
    }
    h->s->spelling = FXI_SPELL_MARKS;
    if (!split) return FX_OK;
    return add_split(
        h, (fxi_split){.pattern = fxi_str_of(FXI_SPACE_MARK), .how = FXI_SPLIT_MERGED_NEXT});
}

// \w of Rust's regular expressions, which have the joiners, too.
#define RUST_WORD FXI_HF_WORD "\\x{200C}\\x{200D}"

// Words and punctuation, without the white space between them.
static fx_status read_whitespace(fxi_hf *h, const fxi_json *step, const char *path)
{
    (void)step;
    if (h->byte_level) return fxi_hf_fail(h, path, "not supported after ByteLevel");
    return add_split(
        h, (fxi_split){
               .pattern = fxi_str_of("[" RUST_WORD "]+|[^" RUST_WORD "\\p{White_Space}]+"),
               .how = FXI_SPLIT_REMOVED,
               .invert = true,
           });
}

static fx_status read_whitespace_split(fxi_hf *h, const fxi_json *step, const char *path)
{
    (void)step;
    if (h->byte_level) return fxi_hf_fail(h, path, "not supported after ByteLevel");
    return add_split(
        h, (fxi_split){.pattern = fxi_str_of("\\p{White_Space}"), .how = FXI_SPLIT_REMOVED});
}

static fx_status read_bert_split(fxi_hf *h, const fxi_json *step, const char *path)
{
    (void)step;
    if (h->byte_level) return fxi_hf_fail(h, path, "not supported after ByteLevel");
    h->cuts = true;
    return fxi_spec_add_bert_splits(h->s) ? FX_OK : fxi_hf_fail_memory(h);
}

static fx_status read_delimiter(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_split p = {.how = FXI_SPLIT_REMOVED};
    if (h->byte_level) return fxi_hf_fail(h, path, "not supported after ByteLevel");
    FX_TRY(fxi_hf_need_str(h, step, path, "delimiter", &p.pattern));
    FX_TRY(fxi_hf_quote(h, path, p.pattern, &p.pattern));
    return add_split(h, p);
}

static const fxi_hf_step pre_tokenizers[] = {
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"Metaspace", read_metaspace},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"BertPreTokenizer", read_bert_split},
    {"CharDelimiterSplit", read_delimiter},
};

const fxi_hf_step_table fxi_hf_pre_tokenizers = {"pre_tokenizer", "pretokenizers", pre_tokenizers,
                                                 sizeof pre_tokenizers / sizeof *pre_tokenizers};

// ---- decoders: what they do to pieces must match the spelling that the other steps imply --------

static const char *const spelling_names[FXI_SPELL_N] = {
    [FXI_SPELL_PLAIN] = "plain bytes",
    [FXI_SPELL_MARKS] = "U+2581 for spaces",
    [FXI_SPELL_PRINTABLE] = "ByteLevel's characters for bytes",
};

static fx_status want_spelling(const fxi_hf *h, const char *path, fxi_spelling want)
{
    if (h->s->spelling == want) return FX_OK;
    return fxi_hf_fail(h, path, "the decoder expects %s, but pieces are %s", spelling_names[want],
                       spelling_names[h->s->spelling]);
}

static fx_status decode_byte_level(fxi_hf *h, const fxi_json *step, const char *path)
{
    (void)step;
    h->decodes = true;
    return want_spelling(h, path, FXI_SPELL_PRINTABLE);
}

static fx_status decode_metaspace(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_str scheme;
    FX_TRY(read_metaspace_scheme(h, step, path, &scheme));
    h->decodes = true;
    if (!fxi_str_is(scheme, "never")) h->s->join = FXI_JOIN_MARKS;
    return want_spelling(h, path, FXI_SPELL_MARKS);
}

static fx_status decode_words(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_vocab_spec *s = h->s;
    FX_TRY(fxi_hf_get_str(h, step, path, "prefix", &s->join_inside));
    if (!s->join_inside.p) s->join_inside = fxi_str_of("##");
    FX_TRY(fxi_hf_get_bool(h, step, path, "cleanup", true, &s->tidies));
    if (!fxi_spec_str(s, s->join_inside.p, s->join_inside.n, &s->join_inside))
        return fxi_hf_fail_memory(h);
    s->join = FXI_JOIN_WORDS;
    h->decodes = true;
    return want_spelling(h, path, FXI_SPELL_PLAIN);
}

static fx_status decode_bytes(fxi_hf *h, const fxi_json *step, const char *path)
{
    (void)step;
    (void)path;
    h->joins_bytes = true;
    return FX_OK;
}

static fx_status decode_fuse(fxi_hf *h, const fxi_json *step, const char *path)
{
    (void)step;
    (void)path;
    h->fuses = true;
    return FX_OK;
}

static fx_status decode_replace(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_str from, to;
    bool literal;
    FX_TRY(fxi_hf_read_pattern(h, fxi_json_get(step, "pattern"), fxi_hf_path_key(path, "pattern").s,
                               &literal, &from));
    FX_TRY(fxi_hf_need_str(h, step, path, "content", &to));
    if (!literal || !fxi_str_is(from, FXI_SPACE_MARK) || !fxi_str_is(to, " "))
        return fxi_hf_fail(h, path, "Replace is supported only from U+2581 to a space");
    h->decodes = true;
    return want_spelling(h, path, FXI_SPELL_MARKS);
}

static fx_status decode_strip(fxi_hf *h, const fxi_json *step, const char *path)
{
    fxi_str content;
    FX_TRY(fxi_hf_need_str(h, step, path, "content", &content));
    const int64_t start = fxi_json_int(fxi_json_get(step, "start"));
    const int64_t stop = fxi_json_int(fxi_json_get(step, "stop"));
    if (!start && !stop) return FX_OK;
    if (!fxi_str_is(content, " ") || start != 1 || stop || !h->fuses)
        return fxi_hf_fail(h, path, "Strip is supported only for one leading space");
    h->s->strips_space = true;
    return FX_OK;
}

static const fxi_hf_step decoders[] = {
    {"ByteLevel", decode_byte_level}, {"Metaspace", decode_metaspace},
    {"ByteFallback", decode_bytes},   {"Fuse", decode_fuse},
    {"Replace", decode_replace},      {"Strip", decode_strip},
    {"WordPiece", decode_words},
};

// Without a decoder the library joins the pieces with spaces.
fx_status fxi_hf_check_decoder(const fxi_hf *h)
{
    const bool plain = h->s->spelling == FXI_SPELL_PLAIN;
    if (plain && !h->has_decoder) {
        h->s->join = FXI_JOIN_WORDS;
        return FX_OK;
    }
    if (!h->decodes && (h->s->spelling != FXI_SPELL_PLAIN || !h->fuses))
        return fxi_hf_fail(h, "decoder", "pieces are %s, but nothing decodes them",
                           spelling_names[h->s->spelling]);
    if (h->s->byte_fallback && !h->joins_bytes)
        return fxi_hf_fail(h, "decoder",
                           "ByteFallback is missing, but model.byte_fallback is true");
    return FX_OK;
}

// ---- post-processors: one token before the text, one after it, or neither -----------------------

static fx_status set_end(fxi_hf *h, const char *path, bool after, int32_t id)
{
    bool *adds = after ? &h->s->adds_eos : &h->s->adds_bos;
    if ((size_t)id >= h->s->n_tok)
        return fxi_hf_fail(h, path, "id %d, but there are %zu tokens", (int)id, h->s->n_tok);
    if (*adds)
        return fxi_hf_fail(h, path, "more than one token %s the text is not supported",
                           after ? "after" : "before");
    *adds = true;
    *(after ? &h->s->eos : &h->s->bos) = id;
    return FX_OK;
}

static fx_status read_template_part(fxi_hf *h, const fxi_json *step, const fxi_json *part,
                                    const char *path, bool *met_text)
{
    const fxi_json *special = fxi_json_get(part, "SpecialToken");
    fxi_str name;
    int32_t id;
    if (fxi_json_get(part, "Sequence")) {
        if (*met_text)
            return fxi_hf_fail(h, path, "a template with the text twice is not supported");
        *met_text = true;
        return FX_OK;
    }
    if (!special) return fxi_hf_fail(h, path, "neither a SpecialToken nor a Sequence");
    FX_TRY(fxi_hf_need_str(h, special, path, "id", &name));
    // The id of a template's token, from the template's own list.
    const fxi_json *list = fxi_json_get(step, "special_tokens");
    const fxi_json *entry = fxi_json_getn(list, name.p, name.n);
    const fxi_json *ids = fxi_json_get(entry, "ids");
    if (fxi_json_array_size(ids) != 1)
        return fxi_hf_fail(h, path, "'%s' is not one id in special_tokens",
                           fxi_show_text(name.p, name.n).s);
    FX_TRY(fxi_hf_need_id(h, fxi_json_at(ids, 0), path, &id));
    return set_end(h, path, *met_text, id);
}

static fx_status read_template(fxi_hf *h, const fxi_json *step, const char *path)
{
    const fxi_json *single;
    bool met_text = false;
    const fxi_hf_path at = fxi_hf_path_key(path, "single");
    FX_TRY(fxi_hf_need_array(h, step, path, "single", &single));
    for (size_t i = 0; i < fxi_json_array_size(single); i++)
        FX_TRY(read_template_part(h, step, fxi_json_at(single, i), fxi_hf_path_at(at.s, i).s,
                                  &met_text));
    return met_text ? FX_OK : fxi_hf_fail(h, at.s, "no Sequence for the text");
}

// RobertaProcessing and BertProcessing: "cls" before the text, "sep" after it, as [token, id].
static fx_status read_pair_processing(fxi_hf *h, const fxi_json *step, const char *path)
{
    static const char *const keys[] = {"cls", "sep"};
    for (size_t i = 0; i < 2; i++) {
        const fxi_hf_path at = fxi_hf_path_key(path, keys[i]);
        int32_t id;
        FX_TRY(fxi_hf_need_id(h, fxi_json_at(fxi_json_get(step, keys[i]), 1), at.s, &id));
        FX_TRY(set_end(h, at.s, i == 1, id));
    }
    return FX_OK;
}

// ByteLevel as a post-processor only moves offsets.
static fx_status read_nothing(fxi_hf *h, const fxi_json *step, const char *path)
{
    (void)h;
    (void)step;
    (void)path;
    return FX_OK;
}

static const fxi_hf_step processors[] = {
    {"TemplateProcessing", read_template},
    {"RobertaProcessing", read_pair_processing},
    {"BertProcessing", read_pair_processing},
    {"ByteLevel", read_nothing},
};

const fxi_hf_step_table fxi_hf_decoders = {"decoder", "decoders", decoders,
                                           sizeof decoders / sizeof *decoders};
const fxi_hf_step_table fxi_hf_processors = {"post_processor", "processors", processors,
                                             sizeof processors / sizeof *processors};
