// vocab_hf_split.c - the "pre_tokenizer" of a tokenizer.json, to split steps.
//
// A pre-tokenizer that changes the text (Metaspace, ByteLevel's space in front) becomes a late norm
// step, or behind a step that cuts a split step that changes every word. After ByteLevel the
// library's steps see GPT-2's printable characters for bytes: Digits and Punctuation look at bytes
// there.
#include <string.h>

#include "format/show.h"
#include "format/vocab/read/hf/vocab_hf.h"

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
    if (h->byte_level) return fxi_hf_fail(h, path, "changes the text after ByteLevel");
    if (h->cuts)
        return fxi_spec_add_split(h->s, (fxi_split){.how = FXI_SPLIT_CHANGE, .change = n})
                   ? FX_OK
                   : fxi_hf_fail_memory(h);
    n.late = true;
    return fxi_hf_add_norm(h, n);
}

static fx_status read_byte_level(fxi_hf *h, const json_t *step, const char *path)
{
    bool space, regex;
    FX_TRY(fxi_hf_get_bool(h, step, path, "add_prefix_space", true, &space));
    FX_TRY(fxi_hf_get_bool(h, step, path, "use_regex", true, &regex));
    if (h->byte_level) return fxi_hf_fail(h, path, "ByteLevel a second time is not supported");
    if (space)
        FX_TRY(add_late_norm(h, path,
                             (fxi_norm){.kind = FXI_NORM_PREPEND_OTHER, .to = fxi_str_of(" ")}));
    h->byte_level = true;
    return regex ? add_split(h, (fxi_split){.pattern = fxi_str_of(GPT2_PATTERN)}) : FX_OK;
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

static fx_status read_split(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_split p = {.bytes = false};
    const fxi_hf_path at = fxi_hf_path_key(path, "pattern");
    FX_TRY(fxi_hf_read_quoted_pattern(h, json_object_get(step, "pattern"), at.s, &p.pattern));
    FX_TRY(read_behavior(h, step, path, "", &p.how));
    FX_TRY(fxi_hf_get_bool(h, step, path, "invert", false, &p.invert));
    if (h->byte_level && !is_same_in_bytes(p.pattern))
        return fxi_hf_fail(h, at.s,
                           "not supported after ByteLevel, where bytes are other characters");
    return add_split(h, p);
}

static fx_status read_digits(fxi_hf *h, const json_t *step, const char *path)
{
    bool single;
    FX_TRY(fxi_hf_get_bool(h, step, path, "individual_digits", false, &single));
    fxi_split p = {
        .pattern = fxi_str_of("\\p{N}"), .how = FXI_SPLIT_CONTIGUOUS, .bytes = h->byte_level};
    if (h->byte_level) p.pattern = fxi_str_of("[0-9\\xB2\\xB3\\xB9\\xBC-\\xBE]");
    if (single) p.how = FXI_SPLIT_ISOLATED;
    return add_split(h, p);
}

static fx_status read_punctuation(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_split p = {.pattern = fxi_str_of("[!-/:-@\\[-`{-~\\p{P}]"), .bytes = h->byte_level};
    if (h->byte_level)
        p.pattern = fxi_str_of("[!-/:-@\\[-`{-~\\xA1\\xA7\\xAB\\xB6\\xB7\\xBB\\xBF]");
    FX_TRY(read_behavior(h, step, path, "Isolated", &p.how));
    return add_split(h, p);
}

static fx_status read_metaspace(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_str scheme;
    bool split;
    FX_TRY(fxi_hf_read_metaspace(h, step, path, &scheme));
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
static fx_status read_whitespace(fxi_hf *h, const json_t *step, const char *path)
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

static fx_status read_whitespace_split(fxi_hf *h, const json_t *step, const char *path)
{
    (void)step;
    if (h->byte_level) return fxi_hf_fail(h, path, "not supported after ByteLevel");
    return add_split(
        h, (fxi_split){.pattern = fxi_str_of("\\p{White_Space}"), .how = FXI_SPLIT_REMOVED});
}

static fx_status read_bert_split(fxi_hf *h, const json_t *step, const char *path)
{
    (void)step;
    if (h->byte_level) return fxi_hf_fail(h, path, "not supported after ByteLevel");
    h->cuts = true;
    return fxi_spec_add_bert_splits(h->s) ? FX_OK : fxi_hf_fail_memory(h);
}

static fx_status read_delimiter(fxi_hf *h, const json_t *step, const char *path)
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
