// vocab_hf_after.c - what a tokenizer.json does after its model: decoder and post_processor.
#include "format/show.h"
#include "format/vocab/read/hf/vocab_hf.h"

//
// Decoders: what they do to pieces must match the spelling that the other steps imply
//

static const char *const spelling_names[FXI_SPELL_N] = {
    [FXI_SPELL_PLAIN] = "plain bytes",
    [FXI_SPELL_MARKS] = "U+2581 for spaces",
    [FXI_SPELL_PRINTABLE] = "ByteLevel's characters for bytes",
};

static fx_status want_spelling(const fxi_hf *h, const char *path, fxi_spelling want)
{
    if (h->s->spelling == want) return FX_OK;
    return fxi_hf_fail(h, path, "the decoder takes pieces for %s, but they are %s",
                       spelling_names[want], spelling_names[h->s->spelling]);
}

static fx_status decode_byte_level(fxi_hf *h, const json_t *step, const char *path)
{
    (void)step;
    h->decodes = true;
    return want_spelling(h, path, FXI_SPELL_PRINTABLE);
}

static fx_status decode_metaspace(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_str scheme;
    FX_TRY(fxi_hf_read_metaspace(h, step, path, &scheme));
    h->decodes = true;
    if (!fxi_str_is(scheme, "never")) h->s->join = FXI_JOIN_MARKS;
    return want_spelling(h, path, FXI_SPELL_MARKS);
}

static fx_status decode_words(fxi_hf *h, const json_t *step, const char *path)
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

static fx_status decode_bytes(fxi_hf *h, const json_t *step, const char *path)
{
    (void)step;
    (void)path;
    h->joins_bytes = true;
    return FX_OK;
}

static fx_status decode_fuse(fxi_hf *h, const json_t *step, const char *path)
{
    (void)step;
    (void)path;
    h->fuses = true;
    return FX_OK;
}

static fx_status decode_replace(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_str from, to;
    bool literal;
    FX_TRY(fxi_hf_read_pattern(h, json_object_get(step, "pattern"),
                               fxi_hf_path_key(path, "pattern").s, &literal, &from));
    FX_TRY(fxi_hf_need_str(h, step, path, "content", &to));
    if (!literal || !fxi_str_is(from, FXI_SPACE_MARK) || !fxi_str_is(to, " "))
        return fxi_hf_fail(h, path, "only U+2581 by a space is read of Replace");
    h->decodes = true;
    return want_spelling(h, path, FXI_SPELL_MARKS);
}

static fx_status decode_strip(fxi_hf *h, const json_t *step, const char *path)
{
    fxi_str content;
    FX_TRY(fxi_hf_need_str(h, step, path, "content", &content));
    const json_int_t start = json_integer_value(json_object_get(step, "start"));
    const json_int_t stop = json_integer_value(json_object_get(step, "stop"));
    if (!start && !stop) return FX_OK;
    if (!fxi_str_is(content, " ") || start != 1 || stop || !h->fuses)
        return fxi_hf_fail(h, path, "only one space at the very beginning is read of Strip");
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

//
// Post-processors: one token before the text, one after it, or neither
//

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

// The id of a template's token, from the template's own list.
static fx_status template_id(const fxi_hf *h, const json_t *step, const char *path, fxi_str name,
                             int32_t *id)
{
    const json_t *list = json_object_get(step, "special_tokens");
    const json_t *entry = json_object_getn(list, name.p, name.n);
    const json_t *ids = json_object_get(entry, "ids");
    if (json_array_size(ids) != 1)
        return fxi_hf_fail(h, path, "'%s' is not one id in special_tokens",
                           fxi_show_text(name.p, name.n).s);
    return fxi_hf_need_id(h, json_array_get(ids, 0), path, id);
}

static fx_status read_template_part(fxi_hf *h, const json_t *step, const json_t *part,
                                    const char *path, bool *met_text)
{
    const json_t *special = json_object_get(part, "SpecialToken");
    fxi_str name;
    int32_t id;
    if (json_object_get(part, "Sequence")) {
        if (*met_text) return fxi_hf_fail(h, path, "the text twice is not supported");
        *met_text = true;
        return FX_OK;
    }
    if (!special) return fxi_hf_fail(h, path, "neither a SpecialToken nor a Sequence");
    FX_TRY(fxi_hf_need_str(h, special, path, "id", &name));
    FX_TRY(template_id(h, step, path, name, &id));
    return set_end(h, path, *met_text, id);
}

static fx_status read_template(fxi_hf *h, const json_t *step, const char *path)
{
    const json_t *single;
    bool met_text = false;
    const fxi_hf_path at = fxi_hf_path_key(path, "single");
    FX_TRY(fxi_hf_need_array(h, step, path, "single", &single));
    for (size_t i = 0; i < json_array_size(single); i++)
        FX_TRY(read_template_part(h, step, json_array_get(single, i), fxi_hf_path_at(at.s, i).s,
                                  &met_text));
    return met_text ? FX_OK : fxi_hf_fail(h, at.s, "no place for the text");
}

// RobertaProcessing and BertProcessing: "cls" before the text, "sep" after it, as [token, id].
static fx_status read_pair_processing(fxi_hf *h, const json_t *step, const char *path)
{
    static const char *const keys[] = {"cls", "sep"};
    for (size_t i = 0; i < 2; i++) {
        const fxi_hf_path at = fxi_hf_path_key(path, keys[i]);
        int32_t id;
        FX_TRY(fxi_hf_need_id(h, json_array_get(json_object_get(step, keys[i]), 1), at.s, &id));
        FX_TRY(set_end(h, at.s, i == 1, id));
    }
    return FX_OK;
}

// ByteLevel as a post-processor only moves offsets.
static fx_status read_nothing(fxi_hf *h, const json_t *step, const char *path)
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
