// api_request.c - a request body to parameters: the JSON itself, and prompts.
//
// The body is never trusted: before it is parsed it is scanned for depth and for the number of
// values, because a tree takes up to a hundred times the bytes of its text.
#include "server/server_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_shape.h"

bool fxi_bad_value(fxi_parse *p, const char *param, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fxi_http_fail(p->err, 400, "invalid_value", param, "%s", text);
}

bool fxi_unsupported(fxi_parse *p, const char *param)
{
    fxi_http_error *e = &p->par->unsupported;
    if (!e->status)
        fxi_http_fail(e, 501, "unsupported_parameter", param,
                      "this server does not have '%s' (with this value)", param);
    return true;
}

bool fxi_no_memory(fxi_parse *p)
{
    return fxi_http_fail(p->err, 500, NULL, NULL, "out of memory");
}

bool fxi_bad_type(fxi_parse *p, const char *param, const char *want)
{
    return fxi_http_fail(p->err, 400, "invalid_type", param, "'%s' must be %s", param, want);
}

// ---- prompts ----------------------------------------------------------------------------------

static bool prompt_text(fxi_prompt *out, const json_t *v)
{
    out->text = json_string_value(v);
    out->n_bytes = json_string_length(v);
    return true;
}

static bool prompt_ids(fxi_parse *p, fxi_prompt *out, const json_t *v)
{
    if (!json_array_size(v)) return fxi_bad_value(p, "prompt", "a prompt has no tokens");
    return fxi_read_ids(p, "prompt", "all token ids, or all strings", v, &out->ids);
}

static bool prompt_one(fxi_parse *p, const json_t *v)
{
    fxi_prompt *out = &p->par->prompt[p->par->n_prompt++];
    if (json_is_string(v)) return prompt_text(out, v);
    if (json_is_array(v)) return prompt_ids(p, out, v);
    return fxi_bad_type(p, "prompt",
                        "a string, an array of strings, of token ids, or of arrays of ids");
}

// str | [int] is one prompt, [str] | [[int]] are as many as there are members, all of one kind.
bool fxi_set_prompt(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const json_t *first = json_is_array(v) ? json_array_get(v, 0) : NULL;
    bool several = json_is_string(first) || json_is_array(first);
    size_t n = several ? json_array_size(v) : 1;
    if (n > (size_t)p->lim->max_choice)
        return fxi_bad_value(p, f->name, "at most %d prompts at once", p->lim->max_choice);
    p->par->prompt = calloc(n, sizeof *p->par->prompt);
    if (!p->par->prompt) return fxi_no_memory(p);
    if (!several) return prompt_one(p, v);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(v, i);
        if (json_typeof(one) != json_typeof(first))
            return fxi_bad_type(p, f->name, "all token ids, or all strings");
        if (!prompt_one(p, one)) return false;
    }
    return true;
}

// ---- the whole body ---------------------------------------------------------------------------

static json_t *parse_json(const char *body, size_t n_bytes, fxi_http_error *err)
{
    const fxi_json_shape shape = fxi_json_measure(body, n_bytes);
    if (shape.max_depth > FXI_JSON_MAX_DEPTH || shape.n_value > FXI_JSON_MAX_VALUE) {
        fxi_http_fail(err, 400, "invalid_json", NULL,
                      "the JSON body nests deeper than %d or has more than %d values",
                      FXI_JSON_MAX_DEPTH, FXI_JSON_MAX_VALUE);
        return NULL;
    }
    json_error_t je = {0};
    json_t *root = json_loadb(n_bytes ? body : "", n_bytes, 0, &je);
    if (!root) {
        fxi_http_fail(err, 400, "invalid_json", NULL,
                      "the body is not JSON: line %d, column %d: %.160s", je.line, je.column,
                      je.text);
    } else if (!json_is_object(root)) {
        fxi_http_fail(err, 400, "invalid_json", NULL, "the body must be a JSON object");
        json_decref(root);
        root = NULL;
    }
    return root;
}

static fxi_params defaults(fxi_api api)
{
    return (fxi_params){.api = api,
                        .max_tok = -1,
                        .max_completion_tok = -1,
                        .n = 1,
                        .best_of = -1,
                        .temperature = 1,
                        .top_p = 1,
                        .typical_p = 1,
                        .repetition_penalty = 1,
                        .length_penalty = 1,
                        .cache_prompt = true,
                        .add_generation_prompt = true};
}

bool fxi_params_parse(fxi_params *par, fxi_api api, const char *body, size_t n_bytes,
                      const fxi_limits *lim, fxi_http_error *err)
{
    *par = defaults(api);
    par->root = parse_json(body, n_bytes, err);
    if (!par->root) return false;
    fxi_parse p = {par, lim, err};
    if (fxi_fields_read(&p)) return true;
    fxi_params_free(par);
    return false;
}

void fxi_params_free(fxi_params *par)
{
    for (size_t i = 0; par->prompt && i < par->n_prompt; i++) free(par->prompt[i].ids.id);
    free(par->prompt);
    free(par->stop_token.id);
    free(par->allow.id);
    free(par->bias);
    json_decref(par->root);
    *par = (fxi_params){0};
}
