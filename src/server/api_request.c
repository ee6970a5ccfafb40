// api_request.c - a request body to parameters: the JSON itself, prompts and messages.
//
// The body is never trusted: before it is parsed it is scanned for depth and for the number of
// values, because a tree takes up to a hundred times the bytes of its text.
#include "server/server_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 32
#define MAX_VALUE 400000

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

// ---- messages ---------------------------------------------------------------------------------

static const struct role_row {
    const char *name;
    const char *engine; // what the engine calls it; NULL: known, not to be had yet
} role_rows[] = {
    {"system", "system"},       {"developer", "system"}, {"user", "user"},
    {"assistant", "assistant"}, {"tool", NULL},          {"function", NULL},
};

typedef struct where { // for `param`: "messages[2].content"
    size_t i;
    char text[48];
} where;

static const char *at(where *w, const char *member)
{
    snprintf(w->text, sizeof w->text, "messages[%zu].%s", w->i, member);
    return w->text;
}

static bool read_role(fxi_parse *p, where *w, const json_t *v, fx_message *m)
{
    const char *name = json_string_value(v);
    if (!name) return fxi_bad_type(p, at(w, "role"), "a string");
    for (size_t i = 0; i < sizeof role_rows / sizeof role_rows[0]; i++) {
        if (strcmp(name, role_rows[i].name)) continue;
        m->role = role_rows[i].engine;
        if (m->role) return true;
        m->role = "user"; // the request ends in 501 after the other checks
        return fxi_unsupported(p, at(w, "role"));
    }
    return fxi_bad_value(p, at(w, "role"), "unknown role '%.40s'", name);
}

static bool is_known_part(const char *type)
{
    static const char *const known[] = {"image_url", "input_audio", "file", "refusal"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(type, known[i])) return true;
    return false;
}

static bool add_part(fxi_parse *p, where *w, const json_t *v, fxi_buf *b)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *text = json_object_get(v, "text");
    if (!type) return fxi_bad_type(p, at(w, "content"), "a string or parts that have a 'type'");
    if (is_known_part(type)) return fxi_unsupported(p, at(w, "content"));
    if (strcmp(type, "text"))
        return fxi_bad_value(p, at(w, "content"), "unknown kind of part '%.40s'", type);
    if (!json_is_string(text))
        return fxi_bad_type(p, at(w, "content"), "parts whose 'text' is a string");
    bool ok = (!b->n || fxi_buf_str(b, "\n")) &&
              fxi_buf_add(b, json_string_value(text), json_string_length(text));
    return ok || fxi_no_memory(p);
}

// Parts are joined by newlines into text that the parameters own.
static bool read_parts(fxi_parse *p, where *w, const json_t *v, fx_message *m)
{
    fxi_buf b = {0};
    bool ok =
        json_array_size(v) || fxi_bad_type(p, at(w, "content"), "a string or at least one part");
    for (size_t i = 0; ok && i < json_array_size(v); i++)
        ok = add_part(p, w, json_array_get(v, i), &b);
    if (ok && !fxi_buf_reserve(&b, 0)) ok = fxi_no_memory(p);
    p->par->joined[w->i] = b.p;
    m->content = b.p;
    m->content_bytes = b.n;
    return ok;
}

static bool read_content(fxi_parse *p, where *w, const json_t *v, fx_message *m)
{
    if (json_is_array(v)) return read_parts(p, w, v, m);
    if (!json_is_string(v))
        return fxi_bad_type(p, at(w, "content"), "a string or an array of parts");
    m->content = json_string_value(v);
    m->content_bytes = json_string_length(v);
    return true;
}

// An assistant's message that only calls tools has no content; it ends in 501 like all that has to
// do with tools.
static bool read_message(fxi_parse *p, where *w, const json_t *v, fx_message *m)
{
    const json_t *content = json_object_get(v, "content");
    if (!json_is_object(v)) return fxi_bad_type(p, "messages", "an array of objects");
    if (!read_role(p, w, json_object_get(v, "role"), m)) return false;
    if (json_array_size(json_object_get(v, "tool_calls"))) {
        if (!content || json_is_null(content)) content = NULL;
        fxi_unsupported(p, at(w, "tool_calls"));
        if (!content) return true;
    }
    return read_content(p, w, content, m);
}

bool fxi_set_messages(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    size_t n = json_array_size(v);
    if (!n) return fxi_bad_value(p, f->name, "'messages' is empty");
    p->par->msg = calloc(n, sizeof *p->par->msg);
    p->par->joined = calloc(n, sizeof *p->par->joined);
    if (!p->par->msg || !p->par->joined) return fxi_no_memory(p);
    p->par->n_msg = n;
    p->par->n_prompt = 1;
    for (size_t i = 0; i < n; i++) {
        where w = {.i = i};
        if (!read_message(p, &w, json_array_get(v, i), &p->par->msg[i])) return false;
    }
    return true;
}

// ---- the whole body ---------------------------------------------------------------------------

typedef struct shape {
    size_t depth, max_depth, n_value;
} shape;

// Counts brackets and commas outside of strings; what is not JSON gets some number and fails in the
// parser.
static shape measure(const char *s, size_t n)
{
    shape m = {0};
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                quoted = false;
            continue;
        }
        if (s[i] == '"') quoted = true;
        if (s[i] == ',') m.n_value++;
        if (s[i] == '[' || s[i] == '{') m.n_value++, m.depth++;
        if ((s[i] == ']' || s[i] == '}') && m.depth) m.depth--;
        if (m.depth > m.max_depth) m.max_depth = m.depth;
    }
    return m;
}

static json_t *parse_json(const char *body, size_t n_bytes, fxi_http_error *err)
{
    shape m = measure(body, n_bytes);
    if (m.max_depth > MAX_DEPTH || m.n_value > MAX_VALUE) {
        fxi_http_fail(err, 400, "invalid_json", NULL,
                      "the JSON body nests deeper than %d or has more than %d values", MAX_DEPTH,
                      MAX_VALUE);
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
                        .cache_prompt = true};
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
    for (size_t i = 0; par->joined && i < par->n_msg; i++) free(par->joined[i]);
    free(par->prompt);
    free(par->msg);
    free(par->joined);
    free(par->stop_token.id);
    free(par->allow.id);
    free(par->bias);
    json_decref(par->root);
    *par = (fxi_params){0};
}
