// vocab_hf_steps.c - the steps of a tokenizer.json: normalizer and pre_tokenizer, which are here,
// decoder and post_processor, which are in vocab_hf_after.c.
//
// Each of the four is an object with a "type", or a Sequence of such objects; a table says which
// types are known. A step of another type is refused by its name.
//
// A pre-tokenizer that changes the text (Metaspace, ByteLevel's space in front) becomes a late norm
// step, so it must stand before all that cuts. Behind ByteLevel the library's steps see GPT-2's
// printable characters for bytes: Digits and Punctuation look at bytes then.
#include <string.h>

#include "format/show.h"
#include "format/vocab/vocab_hf.h"

static fxi_str text_of(const char *s)
{
    return (fxi_str){s, strlen(s)};
}

// A step, or the steps of a Sequence. jansson has bounded how deep they can be.
static fx_status read_steps(fxi_hf *h, const json_t *step, const char *path,
                            const fxi_hf_steps_known *known)
{
    fxi_str type;
    if (!step || json_is_null(step)) return FX_OK;
    if (!json_is_object(step)) return fxi_hf_bad(h, path, "not an object");
    FX_TRY(fxi_hf_need_str(h, step, path, "type", &type));
    if (fxi_str_is(type, "Sequence")) {
        const json_t *members;
        FX_TRY(fxi_hf_need_array(h, step, path, known->members, &members));
        for (size_t i = 0; i < json_array_size(members); i++)
            FX_TRY(read_steps(h, json_array_get(members, i), fxi_hf_at(path, i).s, known));
        return FX_OK;
    }
    for (size_t i = 0; i < known->n; i++)
        if (fxi_str_is(type, known->step[i].type)) return known->step[i].read(h, step, path);
    return fxi_hf_bad(h, path, "'%s' is not read", fxi_show(type.p, type.n).s);
}

static fx_status add_norm(const fxi_hf *h, fxi_norm n)
{
    return fxi_spec_add_norm(h->s, n) ? FX_OK : fxi_hf_no_memory(h);
}

static fx_status add_split(fxi_hf *h, fxi_split p)
{
    h->cuts = true;
    return fxi_spec_add_split(h->s, p) ? FX_OK : fxi_hf_no_memory(h);
}

//
// Normalizers
//

static fx_status read_plain_norm(fxi_hf *h, const json_t *step, const char *path)
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
    const char *type = json_string_value(json_object_get(step, "type"));
    (void)path;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(type, kinds[i].type)) return add_norm(h, (fxi_norm){.kind = kinds[i].kind});
    return FX_OK;
}

static fx_status read_prepend(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_norm n = {.kind = FXI_NORM_PREPEND};
    FX_TRY(fxi_hf_need_str(h, step, path, "prepend", &n.to));
    return add_norm(h, n);
}

static fx_status read_replace(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_norm n = {.kind = FXI_NORM_REPLACE};
    bool literal;
    FX_TRY(fxi_hf_pattern(h, json_object_get(step, "pattern"), fxi_hf_key(path, "pattern").s,
                          &literal, &n.from));
    FX_TRY(fxi_hf_need_str(h, step, path, "content", &n.to));
    if (!literal) n.kind = FXI_NORM_REPLACE_REGEX;
    if (literal && fxi_str_is(n.from, " ") && fxi_str_is(n.to, FXI_SPACE_MARK))
        h->s->spelling = FXI_SPELL_MARKS;
    return add_norm(h, n);
}

static fx_status read_strip(fxi_hf *h, const json_t *step, const char *path)
{
    bool left, right;
    FX_TRY(fxi_hf_bool(h, step, path, "strip_left", true, &left));
    FX_TRY(fxi_hf_bool(h, step, path, "strip_right", true, &right));
    if (left) FX_TRY(add_norm(h, (fxi_norm){.kind = FXI_NORM_STRIP_LEFT}));
    return right ? add_norm(h, (fxi_norm){.kind = FXI_NORM_STRIP_RIGHT}) : FX_OK;
}

static fx_status read_precompiled(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_str text, map;
    size_t n = 0;
    fxi_buf bytes = {0};
    FX_TRY(fxi_hf_need_str(h, step, path, "precompiled_charsmap", &text));
    if (!text.n) return FX_OK;
    if (!fxi_buf_reserve(&bytes, fxi_base64_room(text.n))) return fxi_hf_no_memory(h);
    const bool good = fxi_base64_decode(text.p, text.n, (unsigned char *)bytes.p, &n);
    map = (fxi_str){bytes.p, n};
    fx_status st = good ? add_norm(h, (fxi_norm){.kind = FXI_NORM_CHARSMAP, .from = map})
                        : fxi_hf_bad(h, fxi_hf_key(path, "precompiled_charsmap").s, "not base64");
    fxi_buf_free(&bytes);
    return st;
}

// What the library takes for control characters goes, what it takes for white space becomes spaces.
static fx_status read_nmt(fxi_hf *h, const json_t *step, const char *path)
{
    (void)step;
    (void)path;
    const fxi_norm controls = {
        .kind = FXI_NORM_REPLACE_REGEX,
        .from = text_of("[\\x01-\\x08\\x0B\\x0E-\\x1F\\x7F\\x{8F}\\x{9F}]"),
        .to = text_of(""),
    };
    const fxi_norm spaces = {
        .kind = FXI_NORM_REPLACE_REGEX,
        .from =
            text_of("[\\x09\\x0A\\x0C\\x0D\\x{1680}\\x{200B}-\\x{200F}\\x{2028}\\x{2029}\\x{2581}"
                    "\\x{FEFF}\\x{FFFD}]"),
        .to = text_of(" "),
    };
    FX_TRY(add_norm(h, controls));
    return add_norm(h, spaces);
}

static const fxi_hf_step normalizers[] = {
    {"NFC", read_plain_norm},  {"NFD", read_plain_norm},          {"NFKC", read_plain_norm},
    {"NFKD", read_plain_norm}, {"Lowercase", read_plain_norm},    {"StripAccents", read_plain_norm},
    {"Prepend", read_prepend}, {"Replace", read_replace},         {"Strip", read_strip},
    {"Nmt", read_nmt},         {"Precompiled", read_precompiled},
};

//
// Pre-tokenizers
//

// GPT-2's, which ByteLevel has inside.
#define GPT2_PATTERN                                                                  \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\p{White_Space}\\p{L}\\p{N}]+|" \
    "\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+"

static fx_status add_late_norm(const fxi_hf *h, const char *path, fxi_norm n)
{
    if (h->cuts) return fxi_hf_bad(h, path, "changes the text behind a step that cuts it");
    if (h->byte_level) return fxi_hf_bad(h, path, "changes the text behind ByteLevel");
    n.late = true;
    return add_norm(h, n);
}

static fx_status read_byte_level(fxi_hf *h, const json_t *step, const char *path)
{
    bool space, regex;
    FX_TRY(fxi_hf_bool(h, step, path, "add_prefix_space", true, &space));
    FX_TRY(fxi_hf_bool(h, step, path, "use_regex", true, &regex));
    if (h->byte_level) return fxi_hf_bad(h, path, "ByteLevel a second time is not read");
    if (space)
        FX_TRY(
            add_late_norm(h, path, (fxi_norm){.kind = FXI_NORM_PREPEND_OTHER, .to = text_of(" ")}));
    h->byte_level = true;
    return regex ? add_split(h, (fxi_split){.pattern = text_of(GPT2_PATTERN)}) : FX_OK;
}

static fx_status read_behavior(const fxi_hf *h, const json_t *step, const char *path,
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
    FX_TRY(fxi_hf_str(h, step, path, "behavior", &name));
    if (!name.p) name = (fxi_str){fallback, strlen(fallback)};
    for (int i = 0; i < FXI_SPLIT_N; i++) {
        *how = (fxi_split_how)i;
        if (fxi_str_is(name, names[i])) return FX_OK;
    }
    return fxi_hf_bad(h, fxi_hf_key(path, "behavior").s, "'%s' is not read",
                      fxi_show(name.p, name.n).s);
}

// Whether a pattern sees the same in bytes and in their printable characters: letters and digits of
// ASCII, and what is said of them.
static bool same_in_bytes(fxi_str pattern)
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

static fx_status read_split(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_split p = {.bytes = false};
    const fxi_hf_path at = fxi_hf_key(path, "pattern");
    FX_TRY(fxi_hf_quoted_pattern(h, json_object_get(step, "pattern"), at.s, &p.pattern));
    FX_TRY(read_behavior(h, step, path, "", &p.how));
    FX_TRY(fxi_hf_bool(h, step, path, "invert", false, &p.invert));
    if (h->byte_level && !same_in_bytes(p.pattern))
        return fxi_hf_bad(h, at.s, "not read behind ByteLevel, where bytes are other characters");
    return add_split(h, p);
}

static fx_status read_digits(fxi_hf *h, const json_t *step, const char *path)
{
    bool single;
    FX_TRY(fxi_hf_bool(h, step, path, "individual_digits", false, &single));
    fxi_split p = {
        .pattern = text_of("\\p{N}"), .how = FXI_SPLIT_CONTIGUOUS, .bytes = h->byte_level};
    if (h->byte_level) p.pattern = text_of("[0-9\\xB2\\xB3\\xB9\\xBC-\\xBE]");
    if (single) p.how = FXI_SPLIT_ISOLATED;
    return add_split(h, p);
}

static fx_status read_punctuation(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_split p = {.pattern = text_of("[!-/:-@\\[-`{-~\\p{P}]"), .bytes = h->byte_level};
    if (h->byte_level) p.pattern = text_of("[!-/:-@\\[-`{-~\\xA1\\xA7\\xAB\\xB6\\xB7\\xBB\\xBF]");
    FX_TRY(read_behavior(h, step, path, "Isolated", &p.how));
    return add_split(h, p);
}

// prepend_scheme, or add_prefix_space, which older files have.
static fx_status read_scheme(const fxi_hf *h, const json_t *step, const char *path, fxi_str *scheme)
{
    bool space;
    FX_TRY(fxi_hf_str(h, step, path, "prepend_scheme", scheme));
    FX_TRY(fxi_hf_bool(h, step, path, "add_prefix_space", true, &space));
    if (!scheme->p) *scheme = space ? text_of("always") : text_of("never");
    if (fxi_str_is(*scheme, "always") || fxi_str_is(*scheme, "first") ||
        fxi_str_is(*scheme, "never"))
        return FX_OK;
    return fxi_hf_bad(h, fxi_hf_key(path, "prepend_scheme").s, "'%s' is not read",
                      fxi_show(scheme->p, scheme->n).s);
}

fx_status fxi_hf_metaspace(const fxi_hf *h, const json_t *step, const char *path, fxi_str *scheme)
{
    fxi_str mark;
    FX_TRY(fxi_hf_need_str(h, step, path, "replacement", &mark));
    if (!fxi_str_is(mark, FXI_SPACE_MARK))
        return fxi_hf_bad(h, fxi_hf_key(path, "replacement").s, "'%s' is not read, only U+2581",
                          fxi_show(mark.p, mark.n).s);
    return read_scheme(h, step, path, scheme);
}

static fx_status read_metaspace(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_str scheme;
    bool split;
    FX_TRY(fxi_hf_metaspace(h, step, path, &scheme));
    FX_TRY(fxi_hf_bool(h, step, path, "split", true, &split));
    FX_TRY(add_late_norm(
        h, path,
        (fxi_norm){.kind = FXI_NORM_REPLACE, .from = text_of(" "), .to = text_of(FXI_SPACE_MARK)}));
    if (!fxi_str_is(scheme, "never")) {
        const bool first = fxi_str_is(scheme, "first");
        FX_TRY(add_late_norm(
            h, path,
            (fxi_norm){.kind = first ? FXI_NORM_PREPEND_FIRST : FXI_NORM_PREPEND_OTHER,
                       .to = text_of(FXI_SPACE_MARK)}));
    }
    h->s->spelling = FXI_SPELL_MARKS;
    if (!split) return FX_OK;
    return add_split(h,
                     (fxi_split){.pattern = text_of(FXI_SPACE_MARK), .how = FXI_SPLIT_MERGED_NEXT});
}

// Words and punctuation without the white space between them.
static fx_status read_whitespace(fxi_hf *h, const json_t *step, const char *path)
{
    (void)step;
    if (h->byte_level) return fxi_hf_bad(h, path, "not read behind ByteLevel");
    return add_split(
        h, (fxi_split){
               .pattern = text_of("[" FXI_HF_WORD "]+|[^" FXI_HF_WORD "\\p{White_Space}]+"),
               .how = FXI_SPLIT_REMOVED,
               .invert = true,
           });
}

static fx_status read_whitespace_split(fxi_hf *h, const json_t *step, const char *path)
{
    (void)step;
    if (h->byte_level) return fxi_hf_bad(h, path, "not read behind ByteLevel");
    return add_split(h,
                     (fxi_split){.pattern = text_of("\\p{White_Space}"), .how = FXI_SPLIT_REMOVED});
}

static const fxi_hf_step pre_tokenizers[] = {
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"Metaspace", read_metaspace},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
};

//
// All four
//

static bool is_byte_piece(fxi_str piece)
{
    static const char digits[] = "0123456789ABCDEF";
    return piece.n == 6 && !memcmp(piece.p, "<0x", 3) && piece.p[5] == '>' &&
           memchr(digits, piece.p[3], 16) && memchr(digits, piece.p[4], 16);
}

static void mark_byte_tokens(fxi_vocab_spec *s)
{
    for (size_t i = 0; i < s->n_tok; i++)
        if (s->tok[i].type == FXI_TOKEN_NORMAL && is_byte_piece(s->tok[i].piece))
            s->tok[i].type = FXI_TOKEN_BYTE;
}

fx_status fxi_hf_steps(fxi_hf *h, const json_t *root)
{
#define KNOWN(steps) steps, sizeof steps / sizeof *steps
    static const fxi_hf_steps_known normalizer = {"normalizer", "normalizers", KNOWN(normalizers)};
    static const fxi_hf_steps_known pre_tokenizer = {"pre_tokenizer", "pretokenizers",
                                                     KNOWN(pre_tokenizers)};
#undef KNOWN
    const fxi_hf_steps_known *const parts[] = {&normalizer, &pre_tokenizer, &fxi_hf_decoders,
                                               &fxi_hf_processors};
    fxi_vocab_spec *s = h->s;
    s->norms_tokens = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *key = parts[i]->key;
        FX_TRY(read_steps(h, json_object_get(root, key), key, parts[i]));
        if (h->byte_level) s->spelling = FXI_SPELL_PRINTABLE;
    }
    s->unit_bytes = h->byte_level;
    if (h->joins_bytes) mark_byte_tokens(s);
    return fxi_hf_check_decoder(h);
}
