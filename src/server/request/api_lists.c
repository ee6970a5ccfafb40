// api_lists.c - fields that are lists: strings, token ids, and biases by token id.
//
// The parameters own the arrays of ids and biases; strings stay in the JSON tree.
#include "server/request/api_fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_count

// ---- strings ------------------------------------------------------------------------------------

static bool append_stop(fxi_parse *p, const json_t *v)
{
    if (!json_is_string(v)) return fxi_bad_type(p, "stop", "a string or an array of strings");
    if (!json_string_length(v)) return fxi_bad_value(p, "stop", "a stop string is empty");
    if (fxi_utf8_count(json_string_value(v), json_string_length(v)) > FXI_MAX_STOP_CHARS)
        return fxi_bad_value(p, "stop", "a stop string has more than %d characters",
                             FXI_MAX_STOP_CHARS);
    p->par->stop[p->par->n_stop++] = json_string_value(v);
    return true;
}

bool fxi_set_stop(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (json_is_string(v)) return append_stop(p, v);
    if (json_array_size(v) > FXI_MAX_STOP)
        return fxi_bad_value(p, f->name, "at most %d stop strings", FXI_MAX_STOP);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!append_stop(p, json_array_get(v, i))) return false;
    return true;
}

bool fxi_set_bad_words(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *word = json_array_get(v, i);
        if (!json_is_string(word)) return fxi_bad_type(p, f->name, "an array of strings");
        if (!json_string_length(word)) return fxi_bad_value(p, f->name, "a bad word is empty");
        if (json_string_length(word) > FXI_MAX_STOP_CHARS)
            return fxi_bad_value(p, f->name, "a bad word has more than %d bytes",
                                 FXI_MAX_STOP_CHARS);
    }
    p->par->bad_words = v;
    return true;
}

// ---- token ids --------------------------------------------------------------------------------

bool fxi_read_ids(fxi_parse *p, const char *param, const char *want, const json_t *v,
                  fxi_id_list *out)
{
    size_t n = json_array_size(v);
    if (!fxi_charge_list(p, n * sizeof *out->id)) return false;
    out->id = malloc(n * sizeof *out->id);
    if (!out->id) return fxi_no_memory(p);
    for (; out->n < n; out->n++) {
        const json_t *id = json_array_get(v, out->n);
        if (!json_is_integer(id)) return fxi_bad_type(p, param, want);
        if (json_integer_value(id) < 0 || json_integer_value(id) >= p->lim->n_vocab)
            return fxi_bad_value(p, param, "token id %lld is outside the vocabulary (0 to %d)",
                                 (long long)json_integer_value(id), p->lim->n_vocab - 1);
        out->id[out->n] = (int32_t)json_integer_value(id);
    }
    return true;
}

bool fxi_set_ids(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    fxi_id_list *out = (fxi_id_list *)((char *)p->par + f->at);
    return !json_array_size(v) || fxi_read_ids(p, f->name, "an array of token ids", v, out);
}

// ---- biases -----------------------------------------------------------------------------------

// The token id, written as JSON writes numbers so that no token appears twice; -1: not a token id.
static int32_t id_of_key(const char *key, int n_vocab)
{
    char same[24];
    long id = strtol(key, NULL, 10);
    if (id < 0 || id >= n_vocab) return -1;
    snprintf(same, sizeof same, "%ld", id);
    return strcmp(same, key) ? -1 : (int32_t)id;
}

static bool append_bias(fxi_parse *p, const char *key, const json_t *v)
{
    int32_t id = id_of_key(key, p->lim->n_vocab);
    if (id < 0)
        return fxi_bad_value(p, "logit_bias", "'logit_bias' has a key that is not a token id");
    if (!json_is_number(v) || fabs(json_number_value(v)) > 100)
        return fxi_bad_value(p, "logit_bias", "a bias must be a number from -100 to 100");
    p->par->bias[p->par->n_bias++] = (fx_bias){id, (float)json_number_value(v)};
    return true;
}

bool fxi_set_bias(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)f;
    const char *key;
    json_t *bias;
    if (!json_object_size(v)) return true;
    if (!fxi_charge_list(p, json_object_size(v) * sizeof *p->par->bias)) return false;
    p->par->bias = malloc(json_object_size(v) * sizeof *p->par->bias);
    if (!p->par->bias) return fxi_no_memory(p);
    json_object_foreach((json_t *)v, key, bias) if (!append_bias(p, key, bias)) return false;
    return true;
}
