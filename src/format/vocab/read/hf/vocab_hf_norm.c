// vocab_hf_norm.c - the "normalizer" of a tokenizer.json, to norm steps.
#include <string.h>

#include "base/text/base64.h"
#include "format/vocab/read/hf/vocab_hf.h"

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
        if (!strcmp(type, kinds[i].type))
            return fxi_hf_add_norm(h, (fxi_norm){.kind = kinds[i].kind});
    return FX_OK;
}

static fx_status read_prepend(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_norm n = {.kind = FXI_NORM_PREPEND};
    FX_TRY(fxi_hf_need_str(h, step, path, "prepend", &n.to));
    return fxi_hf_add_norm(h, n);
}

static fx_status read_replace(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_norm n = {.kind = FXI_NORM_REPLACE};
    bool literal;
    FX_TRY(fxi_hf_read_pattern(h, json_object_get(step, "pattern"),
                               fxi_hf_path_key(path, "pattern").s, &literal, &n.from));
    FX_TRY(fxi_hf_need_str(h, step, path, "content", &n.to));
    if (!literal) n.kind = FXI_NORM_REPLACE_REGEX;
    if (literal && fxi_str_is(n.from, " ") && fxi_str_is(n.to, FXI_SPACE_MARK))
        h->s->spelling = FXI_SPELL_MARKS;
    return fxi_hf_add_norm(h, n);
}

static fx_status read_strip(fxi_hf *h, const json_t *step, const char *path)
{
    bool left, right;
    FX_TRY(fxi_hf_get_bool(h, step, path, "strip_left", true, &left));
    FX_TRY(fxi_hf_get_bool(h, step, path, "strip_right", true, &right));
    if (left) FX_TRY(fxi_hf_add_norm(h, (fxi_norm){.kind = FXI_NORM_STRIP_LEFT}));
    return right ? fxi_hf_add_norm(h, (fxi_norm){.kind = FXI_NORM_STRIP_RIGHT}) : FX_OK;
}

static fx_status read_precompiled(fxi_hf *h, const json_t *step, const char *path)
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
        good ? fxi_hf_add_norm(h, (fxi_norm){.kind = FXI_NORM_CHARSMAP, .from = map})
             : fxi_hf_fail(h, fxi_hf_path_key(path, "precompiled_charsmap").s, "not base64");
    fxi_buf_free(&bytes);
    return st;
}

// Removes what the library considers control characters; its white space becomes spaces.
static fx_status read_nmt(fxi_hf *h, const json_t *step, const char *path)
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
    FX_TRY(fxi_hf_add_norm(h, controls));
    return fxi_hf_add_norm(h, spaces);
}

// Accents go with the case unless the file says otherwise.
static fx_status read_bert_norm(fxi_hf *h, const json_t *step, const char *path)
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
