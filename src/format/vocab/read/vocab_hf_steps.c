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

#define COUNT(table) (sizeof(table) / sizeof *(table))

// ---- what all steps share -----------------------------------------------------------------------

typedef struct hf_step {
    const char *type;
    fx_status (*read)(fxi_hf *h); // the step is h->at
    int how;                      // where several rows share a function
} hf_step;

static fx_status put_norm(const fxi_hf *h, fxi_norm n)
{
    return fxi_spec_add_norm(h->s, n) ? FX_OK : fxi_fail_memory(h->err);
}

static fx_status need_str(const fxi_hf *h, const char *key, fxi_str *out)
{
    return fxi_members_str(&h->at, key, true, out);
}

static fx_status fail_unsupported(const fxi_hf *h, const char *key, fxi_str what)
{
    return fxi_members_fail(&h->at, key, "'%s' is not supported", fxi_show_text(what).s);
}

fx_status fxi_hf_need_id(const fxi_members *m, const char *key, const fxi_json *value, int32_t *out)
{
    enum { MAX_ID = (1 << 24) - 1 };
    if (!fxi_json_is_int(value) || fxi_json_int(value) < 0 || fxi_json_int(value) > MAX_ID)
        return fxi_members_fail(m, key, "not a token's id (0 to %d)", MAX_ID);
    *out = (int32_t)fxi_json_int(value);
    return FX_OK;
}

// Metaspace's members, as pre-tokenizer and as decoder: how it puts a mark in front. Older files
// have add_prefix_space.
static fx_status read_metaspace_scheme(const fxi_hf *h, fxi_str *scheme)
{
    static const char *const known[] = {"always", "first", "never"};
    fxi_str mark;
    bool space = true;
    FX_TRY(need_str(h, "replacement", &mark));
    if (!fxi_str_is(mark, FXI_SPACE_MARK))
        return fxi_members_fail(&h->at, "replacement", "'%s' is not supported, only U+2581",
                                fxi_show_text(mark).s);
    FX_TRY(fxi_members_bool(&h->at, "add_prefix_space", &space));
    *scheme = fxi_str_of(space ? "always" : "never");
    FX_TRY(fxi_members_str(&h->at, "prepend_scheme", false, scheme));
    return fxi_str_is_any(*scheme, known, COUNT(known))
               ? FX_OK
               : fail_unsupported(h, "prepend_scheme", *scheme);
}

// ---- normalizers --------------------------------------------------------------------------------

static fx_status read_plain_norm(fxi_hf *h)
{
    return put_norm(h, (fxi_norm){.kind = (fxi_norm_kind)h->how});
}

static fx_status read_prepend(fxi_hf *h)
{
    fxi_norm n = {.kind = FXI_NORM_PREPEND};
    FX_TRY(need_str(h, "prepend", &n.to));
    return put_norm(h, n);
}

static fx_status read_replace(fxi_hf *h)
{
    fxi_norm n = {.kind = FXI_NORM_REPLACE};
    bool literal;
    FX_TRY(fxi_hf_read_pattern(h, &literal, &n.from));
    FX_TRY(need_str(h, "content", &n.to));
    if (!literal) n.kind = FXI_NORM_REPLACE_REGEX;
    if (literal && fxi_str_is(n.from, " ") && fxi_str_is(n.to, FXI_SPACE_MARK))
        h->s->spelling = FXI_SPELL_MARKS;
    return put_norm(h, n);
}

static fx_status read_strip(fxi_hf *h)
{
    bool left = true, right = true;
    FX_TRY(fxi_members_bool(&h->at, "strip_left", &left));
    FX_TRY(fxi_members_bool(&h->at, "strip_right", &right));
    if (left) FX_TRY(put_norm(h, (fxi_norm){.kind = FXI_NORM_STRIP_LEFT}));
    return right ? put_norm(h, (fxi_norm){.kind = FXI_NORM_STRIP_RIGHT}) : FX_OK;
}

static fx_status read_precompiled(fxi_hf *h)
{
    static const char key[] = "precompiled_charsmap";
    fxi_str text;
    size_t n = 0;
    fxi_buf map = {0};
    FX_TRY(need_str(h, key, &text));
    if (!text.n) return FX_OK;
    if (!fxi_buf_reserve(&map, fxi_base64_room(text.n))) return fxi_fail_memory(h->err);
    const bool good = fxi_base64_decode(text.p, text.n, (unsigned char *)map.p, &n);
    fx_status st = good ? put_norm(h, (fxi_norm){.kind = FXI_NORM_CHARSMAP, .from = {map.p, n}})
                        : fxi_members_fail(&h->at, key, "not base64");
    fxi_buf_free(&map);
    return st;
}

// Removes what the library considers control characters; its white space becomes spaces.
static fx_status read_nmt(fxi_hf *h)
{
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
static fx_status read_bert_norm(fxi_hf *h)
{
    fxi_bert how = {.cleans = true, .pads_han = true, .lowers = true};
    FX_TRY(fxi_members_bool(&h->at, "clean_text", &how.cleans));
    FX_TRY(fxi_members_bool(&h->at, "handle_chinese_chars", &how.pads_han));
    FX_TRY(fxi_members_bool(&h->at, "lowercase", &how.lowers));
    how.strips = how.lowers;
    FX_TRY(fxi_members_bool(&h->at, "strip_accents", &how.strips));
    return fxi_spec_add_bert_norms(h->s, how) ? FX_OK : fxi_fail_memory(h->err);
}

static const hf_step normalizers[] = {
    {"NFC", read_plain_norm, FXI_NORM_NFC},
    {"NFD", read_plain_norm, FXI_NORM_NFD},
    {"NFKC", read_plain_norm, FXI_NORM_NFKC},
    {"NFKD", read_plain_norm, FXI_NORM_NFKD},
    {"Lowercase", read_plain_norm, FXI_NORM_LOWERCASE},
    {"StripAccents", read_plain_norm, FXI_NORM_STRIP_ACCENTS},
    {"Prepend", read_prepend, 0},
    {"Replace", read_replace, 0},
    {"Strip", read_strip, 0},
    {"Nmt", read_nmt, 0},
    {"Precompiled", read_precompiled, 0},
    {"BertNormalizer", read_bert_norm, 0},
};

// ---- pre-tokenizers -----------------------------------------------------------------------------

static fx_status add_split(fxi_hf *h, fxi_split p)
{
    h->cuts = true;
    return fxi_spec_add_split(h->s, p) ? FX_OK : fxi_fail_memory(h->err);
}

static fx_status refuse_bytes(const fxi_hf *h)
{
    return h->byte_level ? fxi_members_fail(&h->at, NULL, "not supported after ByteLevel") : FX_OK;
}

static fx_status add_late_norm(fxi_hf *h, fxi_norm n)
{
    if (h->byte_level)
        return fxi_members_fail(&h->at, NULL, "a step after ByteLevel cannot change the text");
    if (h->cuts) return add_split(h, (fxi_split){.how = FXI_SPLIT_CHANGE, .change = n});
    n.late = true;
    return put_norm(h, n);
}

static fx_status read_byte_level(fxi_hf *h)
{
    const fxi_norm in_front = {.kind = FXI_NORM_PREPEND_OTHER, .to = fxi_str_of(" ")};
    bool space = true, regex = true;
    FX_TRY(fxi_members_bool(&h->at, "add_prefix_space", &space));
    FX_TRY(fxi_members_bool(&h->at, "use_regex", &regex));
    if (h->byte_level) return fxi_members_fail(&h->at, NULL, "a second ByteLevel is not supported");
    if (space) FX_TRY(add_late_norm(h, in_front));
    h->byte_level = true;
    h->cuts |= regex;
    return regex ? fxi_spec_add_pre(h->s, fxi_str_of("gpt-2"), h->err) : FX_OK;
}

static fx_status read_behavior(const fxi_hf *h, bool must, fxi_split_how *how)
{
    static const char *const names[FXI_SPLIT_N] = {
        [FXI_SPLIT_ISOLATED] = "Isolated",
        [FXI_SPLIT_REMOVED] = "Removed",
        [FXI_SPLIT_MERGED_PREVIOUS] = "MergedWithPrevious",
        [FXI_SPLIT_MERGED_NEXT] = "MergedWithNext",
        [FXI_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    fxi_str name = fxi_str_of(must ? "" : names[FXI_SPLIT_ISOLATED]);
    FX_TRY(fxi_members_str(&h->at, "behavior", false, &name));
    for (int i = 0; i < FXI_SPLIT_N; i++) {
        *how = (fxi_split_how)i;
        if (fxi_str_is(name, names[i])) return FX_OK;
    }
    return fail_unsupported(h, "behavior", name);
}

// Whether a pattern matches the same in bytes and in their printable characters: it has nothing but
// letters and digits of ASCII, and operators.
static bool is_same_in_bytes(fxi_str pattern)
{
    static const char same[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ[]()|+*{}-,";
    const size_t skip = pattern.n >= 4 && !memcmp(pattern.p, "(?m)", 4) ? 4 : 0;
    for (size_t i = skip; i < pattern.n; i++)
        if (!memchr(same, pattern.p[i], sizeof same - 1)) return false;
    return true;
}

static fx_status read_split(fxi_hf *h)
{
    fxi_split p = {.bytes = false};
    bool literal;
    FX_TRY(fxi_hf_read_pattern(h, &literal, &p.pattern));
    if (literal) FX_TRY(fxi_hf_quote(h, p.pattern, &p.pattern));
    FX_TRY(read_behavior(h, true, &p.how));
    FX_TRY(fxi_members_bool(&h->at, "invert", &p.invert));
    if (h->byte_level && !is_same_in_bytes(p.pattern))
        return fxi_members_fail(&h->at, "pattern",
                                "not supported after ByteLevel, where bytes are other characters");
    return add_split(h, p);
}

static fx_status read_digits(fxi_hf *h)
{
    bool single = false;
    FX_TRY(fxi_members_bool(&h->at, "individual_digits", &single));
    return add_split(
        h, (fxi_split){.pattern =
                           fxi_str_of(h->byte_level ? "[0-9\\xB2\\xB3\\xB9\\xBC-\\xBE]" : "\\p{N}"),
                       .how = single ? FXI_SPLIT_ISOLATED : FXI_SPLIT_CONTIGUOUS,
                       .bytes = h->byte_level});
}

static fx_status read_punctuation(fxi_hf *h)
{
    static const char of_text[] = "[!-/:-@\\[-`{-~\\p{P}]",
                      of_bytes[] = "[!-/:-@\\[-`{-~\\xA1\\xA7\\xAB\\xB6\\xB7\\xBB\\xBF]";
    fxi_split p = {.pattern = fxi_str_of(h->byte_level ? of_bytes : of_text),
                   .bytes = h->byte_level};
    FX_TRY(read_behavior(h, false, &p.how));
    return add_split(h, p);
}

static fx_status read_metaspace(fxi_hf *h)
{
    const fxi_str mark = fxi_str_of(FXI_SPACE_MARK);
    fxi_str scheme;
    bool split = true;
    FX_TRY(read_metaspace_scheme(h, &scheme));
    FX_TRY(fxi_members_bool(&h->at, "split", &split));
    FX_TRY(add_late_norm(
        h, (fxi_norm){.kind = FXI_NORM_REPLACE, .from = fxi_str_of(" "), .to = mark}));
    if (fxi_str_is(scheme, "first"))
        FX_TRY(add_late_norm(h, (fxi_norm){.kind = FXI_NORM_PREPEND_FIRST, .to = mark}));
    if (fxi_str_is(scheme, "always"))
        FX_TRY(add_late_norm(h, (fxi_norm){.kind = FXI_NORM_PREPEND_OTHER, .to = mark}));
    h->s->spelling = FXI_SPELL_MARKS;
    if (!split) return FX_OK;
    return add_split(h, (fxi_split){.pattern = mark, .how = FXI_SPLIT_MERGED_NEXT});
}

// \w of Rust's regular expressions, which have the joiners, too.
#define RUST_WORD FXI_HF_WORD "\\x{200C}\\x{200D}"

// White space alone is dropped, or (h->how) all between words and punctuation.
static fx_status read_whitespace(fxi_hf *h)
{
    const char *pattern =
        h->how ? "[" RUST_WORD "]+|[^" RUST_WORD "\\p{White_Space}]+" : "\\p{White_Space}";
    FX_TRY(refuse_bytes(h));
    return add_split(
        h, (fxi_split){.pattern = fxi_str_of(pattern), .how = FXI_SPLIT_REMOVED, .invert = h->how});
}

static fx_status read_bert_split(fxi_hf *h)
{
    FX_TRY(refuse_bytes(h));
    h->cuts = true;
    return fxi_spec_add_bert_splits(h->s) ? FX_OK : fxi_fail_memory(h->err);
}

static fx_status read_delimiter(fxi_hf *h)
{
    fxi_split p = {.how = FXI_SPLIT_REMOVED};
    FX_TRY(refuse_bytes(h));
    FX_TRY(need_str(h, "delimiter", &p.pattern));
    FX_TRY(fxi_hf_quote(h, p.pattern, &p.pattern));
    return add_split(h, p);
}

static const hf_step pre_tokenizers[] = {
    {"ByteLevel", read_byte_level, 0},
    {"Split", read_split, 0},
    {"Digits", read_digits, 0},
    {"Punctuation", read_punctuation, 0},
    {"Metaspace", read_metaspace, 0},
    {"Whitespace", read_whitespace, 1},
    {"WhitespaceSplit", read_whitespace, 0},
    {"BertPreTokenizer", read_bert_split, 0},
    {"CharDelimiterSplit", read_delimiter, 0},
};

// ---- decoders: what they do to pieces must match the spelling that the other steps imply --------

static const char *const spelling_names[FXI_SPELL_N] = {
    [FXI_SPELL_PLAIN] = "plain bytes",
    [FXI_SPELL_MARKS] = "U+2581 for spaces",
    [FXI_SPELL_PRINTABLE] = "ByteLevel's characters for bytes",
};

// Pieces become text, if they are spelled so.
static fx_status decode_spelling(fxi_hf *h, fxi_spelling want)
{
    h->decodes = true;
    if (h->s->spelling == want) return FX_OK;
    return fxi_members_fail(&h->at, NULL, "the decoder expects %s, but pieces are %s",
                            spelling_names[want], spelling_names[h->s->spelling]);
}

static fx_status decode_byte_level(fxi_hf *h)
{
    return decode_spelling(h, FXI_SPELL_PRINTABLE);
}

static fx_status decode_metaspace(fxi_hf *h)
{
    fxi_str scheme;
    FX_TRY(read_metaspace_scheme(h, &scheme));
    if (!fxi_str_is(scheme, "never")) h->s->join = FXI_JOIN_MARKS;
    return decode_spelling(h, FXI_SPELL_MARKS);
}

static fx_status decode_words(fxi_hf *h)
{
    fxi_vocab_spec *s = h->s;
    s->join_inside = fxi_str_of("##");
    s->tidies = true;
    FX_TRY(fxi_members_str(&h->at, "prefix", false, &s->join_inside));
    FX_TRY(fxi_members_bool(&h->at, "cleanup", &s->tidies));
    if (!fxi_spec_str(s, s->join_inside.p, s->join_inside.n, &s->join_inside))
        return fxi_fail_memory(h->err);
    s->join = FXI_JOIN_WORDS;
    return decode_spelling(h, FXI_SPELL_PLAIN);
}

// ByteFallback, or (h->how) Fuse.
static fx_status note_joining(fxi_hf *h)
{
    *(h->how ? &h->fuses : &h->joins_bytes) = true;
    return FX_OK;
}

static fx_status decode_replace(fxi_hf *h)
{
    fxi_str from, to;
    bool literal;
    FX_TRY(fxi_hf_read_pattern(h, &literal, &from));
    FX_TRY(need_str(h, "content", &to));
    if (!literal || !fxi_str_is(from, FXI_SPACE_MARK) || !fxi_str_is(to, " "))
        return fxi_members_fail(&h->at, NULL, "Replace is supported only from U+2581 to a space");
    return decode_spelling(h, FXI_SPELL_MARKS);
}

static fx_status decode_strip(fxi_hf *h)
{
    fxi_str content;
    FX_TRY(need_str(h, "content", &content));
    const int64_t start = fxi_json_int(fxi_json_get(h->at.root, "start"));
    const int64_t stop = fxi_json_int(fxi_json_get(h->at.root, "stop"));
    if (!start && !stop) return FX_OK;
    if (!fxi_str_is(content, " ") || start != 1 || stop || !h->fuses)
        return fxi_members_fail(&h->at, NULL, "Strip is supported only for one leading space");
    h->s->strips_space = true;
    return FX_OK;
}

static const hf_step decoders[] = {
    {"ByteLevel", decode_byte_level, 0}, {"Metaspace", decode_metaspace, 0},
    {"ByteFallback", note_joining, 0},   {"Fuse", note_joining, 1},
    {"Replace", decode_replace, 0},      {"Strip", decode_strip, 0},
    {"WordPiece", decode_words, 0},
};

// After all steps: whether the decoder turns the pieces into what they mean. Without one the
// library joins the pieces with spaces.
static fx_status check_decoder(const fxi_hf *h, const fxi_members *file)
{
    const bool plain = h->s->spelling == FXI_SPELL_PLAIN;
    if (plain && !fxi_members_get(file, "decoder")) {
        h->s->join = FXI_JOIN_WORDS;
        return FX_OK;
    }
    if (!h->decodes && !(plain && h->fuses))
        return fxi_members_fail(file, "decoder", "pieces are %s, but nothing decodes them",
                                spelling_names[h->s->spelling]);
    if (h->s->byte_fallback && !h->joins_bytes)
        return fxi_members_fail(file, "decoder",
                                "ByteFallback is missing, but model.byte_fallback is true");
    return FX_OK;
}

// ---- post-processors: one token before the text, one after it, or neither -----------------------

static fx_status set_end(fxi_hf *h, const fxi_members *at, const char *key, bool after, int32_t id)
{
    bool *adds = after ? &h->s->adds_eos : &h->s->adds_bos;
    if ((size_t)id >= h->s->n_tok)
        return fxi_members_fail(at, key, "id %d, but there are %zu tokens", (int)id, h->s->n_tok);
    if (*adds)
        return fxi_members_fail(at, key, "more than one token %s the text is not supported",
                                after ? "after" : "before");
    *adds = true;
    *(after ? &h->s->eos : &h->s->bos) = id;
    return FX_OK;
}

static fx_status read_template_part(fxi_hf *h, const fxi_members *part, bool *met_text)
{
    const fxi_members special = fxi_members_part(part, "SpecialToken");
    fxi_str name;
    int32_t id = 0;
    if (fxi_json_get(part->root, "Sequence")) {
        if (*met_text)
            return fxi_members_fail(part, NULL, "a template with the text twice is not supported");
        *met_text = true;
        return FX_OK;
    }
    if (!special.root) return fxi_members_fail(part, NULL, "neither a SpecialToken nor a Sequence");
    FX_TRY(fxi_members_str(&special, "id", true, &name));
    // The id of a template's token, from the template's own list.
    const fxi_json *list = fxi_json_get(h->at.root, "special_tokens");
    const fxi_json *ids = fxi_json_get(fxi_json_getn(list, name.p, name.n), "ids");
    if (fxi_json_array_size(ids) != 1)
        return fxi_members_fail(part, NULL, "'%s' is not one id in special_tokens",
                                fxi_show_text(name).s);
    FX_TRY(fxi_hf_need_id(part, NULL, fxi_json_at(ids, 0), &id));
    return set_end(h, part, NULL, *met_text, id);
}

static fx_status read_template(fxi_hf *h)
{
    const fxi_json *single;
    bool met_text = false;
    FX_TRY(fxi_members_array(&h->at, "single", &single));
    for (fxi_json_iter it = fxi_json_items(single); fxi_json_next(&it);) {
        const fxi_members part = fxi_members_item(&h->at, "single", it.i, it.value);
        FX_TRY(read_template_part(h, &part, &met_text));
    }
    return met_text ? FX_OK : fxi_members_fail(&h->at, "single", "no Sequence for the text");
}

// RobertaProcessing and BertProcessing: "cls" before the text, "sep" after it, as [token, id].
static fx_status read_pair_processing(fxi_hf *h)
{
    static const char *const keys[] = {"cls", "sep"};
    for (size_t i = 0; i < 2; i++) {
        int32_t id = 0;
        const fxi_json *pair = fxi_json_get(h->at.root, keys[i]);
        FX_TRY(fxi_hf_need_id(&h->at, keys[i], fxi_json_at(pair, 1), &id));
        FX_TRY(set_end(h, &h->at, keys[i], i == 1, id));
    }
    return FX_OK;
}

// ByteLevel as a post-processor only moves offsets.
static fx_status read_nothing(fxi_hf *h)
{
    (void)h;
    return FX_OK;
}

static const hf_step processors[] = {
    {"TemplateProcessing", read_template, 0},
    {"RobertaProcessing", read_pair_processing, 0},
    {"BertProcessing", read_pair_processing, 0},
    {"ByteLevel", read_nothing, 0},
};

// ---- all steps ----------------------------------------------------------------------------------

typedef struct step_table {
    const char *key, *members; // in the file's object; the list in a Sequence
    const hf_step *step;
    size_t n;
} step_table;

// A step, or the steps of a Sequence. The parser limits the depth.
static fx_status read_step(fxi_hf *h, const fxi_members *at, const step_table *known)
{
    fxi_str type;
    if (!fxi_json_is_object(at->root)) return fxi_members_fail(at, NULL, "not an object");
    FX_TRY(fxi_members_str(at, "type", true, &type));
    if (fxi_str_is(type, "Sequence")) {
        const fxi_json *list;
        FX_TRY(fxi_members_array(at, known->members, &list));
        for (fxi_json_iter it = fxi_json_items(list); fxi_json_next(&it);) {
            const fxi_members item = fxi_members_item(at, NULL, it.i, it.value);
            if (!fxi_json_is_null(it.value)) FX_TRY(read_step(h, &item, known));
        }
        return FX_OK;
    }
    h->at = *at;
    for (size_t i = 0; i < known->n; i++) {
        h->how = known->step[i].how;
        if (fxi_str_is(type, known->step[i].type)) return known->step[i].read(h);
    }
    return fail_unsupported(h, NULL, type);
}

// "<0x0A>".
static bool is_byte_piece(fxi_str piece)
{
    static const char digits[] = "0123456789ABCDEF";
    return piece.n == 6 && !memcmp(piece.p, "<0x", 3) && piece.p[5] == '>' &&
           memchr(digits, piece.p[3], 16) && memchr(digits, piece.p[4], 16);
}

fx_status fxi_hf_read_steps(fxi_hf *h, const fxi_members *file)
{
    static const step_table parts[] = {
        {"normalizer", "normalizers", normalizers, COUNT(normalizers)},
        {"pre_tokenizer", "pretokenizers", pre_tokenizers, COUNT(pre_tokenizers)},
        {"decoder", "decoders", decoders, COUNT(decoders)},
        {"post_processor", "processors", processors, COUNT(processors)},
    };
    fxi_vocab_spec *s = h->s;
    for (size_t i = 0; i < COUNT(parts); i++) {
        fxi_members at = fxi_members_part(file, parts[i].key);
        at.root = fxi_members_get(file, parts[i].key); // of any type
        if (at.root) FX_TRY(read_step(h, &at, &parts[i]));
        if (h->byte_level) s->spelling = FXI_SPELL_PRINTABLE;
    }
    s->unit_bytes = h->byte_level;
    for (size_t i = 0; h->joins_bytes && i < s->n_tok; i++)
        if (s->tok[i].type == FXI_TOKEN_NORMAL && is_byte_piece(s->tok[i].piece))
            s->tok[i].type = FXI_TOKEN_BYTE;
    return check_decoder(h, file);
}
