// vocab_config.c - reads tokenizer_config.json: BOS, EOS and the chat template; beside a file that
// is no tokenizer.json, added tokens too, and how words are cut.
#include <stdlib.h>
#include <string.h>

#include "format/show.h"
#include "format/vocab/read/hf/vocab_hf.h"

enum { MAX_ADDED_ID = (1 << 24) - 1 };

// A token, as a string or an object with its content; *id is unchanged if there is none.
static fx_status read_config_token(const fxi_hf *h, const json_t *root, const char *key,
                                   int32_t *id)
{
    const json_t *token = json_object_get(root, key);
    if (json_is_object(token)) token = json_object_get(token, "content");
    if (!token || json_is_null(token)) return FX_OK;
    const fxi_str piece = {json_string_value(token), json_string_length(token)};
    if (!piece.n) return fxi_hf_fail(h, key, "not a token");
    *id = fxi_spec_find(h->s, piece);
    if (*id < 0)
        return fxi_hf_fail(h, key, "'%s' is not in the vocabulary",
                           fxi_show_text(piece.p, piece.n).s);
    return FX_OK;
}

// A string, or a list of {"name", "template"}, of which "default" is taken.
static fx_status read_config_template(const fxi_hf *h, const json_t *root)
{
    const json_t *t = json_object_get(root, "chat_template");
    for (size_t i = 0; i < json_array_size(t); i++) {
        const json_t *entry = json_array_get(t, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!name || strcmp(name, "default")) continue;
        t = json_object_get(entry, "template");
        break;
    }
    if (!json_is_string(t)) return FX_OK;
    return fxi_spec_str(h->s, json_string_value(t), json_string_length(t), &h->s->chat_template)
               ? FX_OK
               : fxi_hf_fail_memory(h);
}

// {"ID": {"content", "special", ..}}. The unknown token of a file stays what it is.
static fx_status read_added_decoder(const fxi_hf *h, const json_t *root)
{
    json_t *list = json_object_get(root, "added_tokens_decoder"), *token;
    const char *key;
    json_object_foreach(list, key, token)
    {
        char *end;
        const unsigned long id = strtoul(key, &end, 10);
        const fxi_hf_path path = fxi_hf_path_key("added_tokens_decoder", key);
        if (*key < '0' || *key > '9' || *end || id > MAX_ADDED_ID)
            return fxi_hf_fail(h, path.s, "not a token's id");
        if (id < h->s->n_tok && h->s->tok[id].type == FXI_TOKEN_UNKNOWN) continue;
        FX_TRY(fxi_hf_add_token(h, token, path.s, (int32_t)id));
    }
    return FX_OK;
}

// What stands for the named tokens is no text of a message.
static void mark_named_token(const fxi_hf *h, int32_t id)
{
    if (id >= 0 && h->s->tok[id].type == FXI_TOKEN_NORMAL) h->s->tok[id].type = FXI_TOKEN_CONTROL;
}

static fx_status read_config_root(const fxi_hf *h, const json_t *root)
{
    fxi_vocab_spec *s = h->s;
    if (!s->norms_tokens) FX_TRY(read_added_decoder(h, root)); // tokenizer.json has its own
    FX_TRY(read_config_token(h, root, "bos_token", &s->bos));
    FX_TRY(read_config_token(h, root, "eos_token", &s->eos));
    mark_named_token(h, s->bos);
    mark_named_token(h, s->eos);
    FX_TRY(fxi_hf_get_bool(h, root, "", "add_bos_token", s->adds_bos, &s->adds_bos));
    FX_TRY(fxi_hf_get_bool(h, root, "", "add_eos_token", s->adds_eos, &s->adds_eos));
    if (s->adds_bos && s->bos < 0)
        return fxi_hf_fail(h, "add_bos_token", "true, but there is none");
    if (s->adds_eos && s->eos < 0)
        return fxi_hf_fail(h, "add_eos_token", "true, but there is none");
    return read_config_template(h, root);
}

fx_status fxi_vocab_read_class(const char *json, size_t n, fxi_vocab_spec *s, const char **pre,
                               fx_error *err)
{
    static const char *const classes[][2] = {
        {"GPT2Tokenizer", "gpt-2"},
        {"GPT2TokenizerFast", "gpt-2"},
        {"Qwen2Tokenizer", "qwen2"},
        {"Qwen2TokenizerFast", "qwen2"},
    };
    json_t *root;
    fxi_str name;
    fxi_hf h = {.s = s, .err = err};
    *pre = NULL;
    FX_TRY(fxi_hf_parse(&h, json, n, JSON_DECODE_INT_AS_REAL, &root));
    fx_status st = fxi_hf_get_str(&h, root, "", "tokenizer_class", &name);
    for (size_t i = 0; st == FX_OK && name.p && i < sizeof classes / sizeof *classes; i++)
        if (fxi_str_is(name, classes[i][0])) *pre = classes[i][1];
    json_decref(root);
    return st;
}

fx_status fxi_vocab_read_config(const char *json, size_t n, fxi_vocab_spec *s, fx_error *err)
{
    json_t *root;
    fxi_hf h = {.s = s, .err = err};
    // Integers as real numbers: model_max_length is 10^30 by default.
    FX_TRY(fxi_hf_parse(&h, json, n, JSON_DECODE_INT_AS_REAL, &root));
    fx_status st = read_config_root(&h, root);
    json_decref(root);
    return st;
}
