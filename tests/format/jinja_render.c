// jinja_render.c - renders templates for tests that compare with another program's results: a JSON
// object on each line of stdin, and one on each line of stdout.
//
//     {"template": text, "context": {name: value, ..}}           {"text": .., "own": ..}
//     {"tokenizer": path, "messages": [..], "tools": [..],       {"text": .., "own": .., "ids":
//     [..], "control": [..]}
//      "kwargs": {..}, "chat_template": file}
//
// or {"error": ..}. "own" has a '1' for each byte that is the template's, '0' for others. Variables
// whose name begins with "own_" are the template's own; "messages" are messages. The second form
// takes the vocabulary and the template next to it, or the one named; "control" are
// those ids that are control tokens. The clock stands at 2026-02-03 04:05:06 UTC.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/chat.h"
#include "format/jinja/jinja.h"
#include "format/vocab.h"

enum { MAX_VAR = 64 };

static struct tm clock_stands(void)
{
    const time_t moment = 1770091506;
    struct tm now;
    gmtime_r(&moment, &now);
    return now;
}

static fxi_jinja_owner owner_of(const char *name)
{
    if (!strncmp(name, "own_", 4)) return FXI_JINJA_TEMPLATE;
    return strcmp(name, "messages") ? FXI_JINJA_CALLER : FXI_JINJA_MESSAGES;
}

// ---- a template and its variables ---------------------------------------------------------------

static fx_status render(const json_t *text, json_t *vars, fxi_marked *out, fx_error *err)
{
    fxi_jinja_var var[MAX_VAR];
    fxi_jinja_context c = {.var = var, .now = clock_stands()};
    const char *name;
    json_t *value;
    fxi_jinja *t;
    json_object_foreach(vars, name, value)
    {
        if (c.n_var < MAX_VAR) var[c.n_var++] = (fxi_jinja_var){name, value, owner_of(name)};
    }
    FX_TRY(fxi_jinja_compile(json_string_value(text), json_string_length(text), &t, err));
    fx_status st = fxi_jinja_render(t, &c, out, err);
    fxi_jinja_free(t);
    return st;
}

// ---- a model's vocabulary and template ----------------------------------------------------------

typedef struct model {
    char *path; // of what is open
    fxi_vocab *v;
    fxi_chat *c;
} model;

static void close_model(model *m)
{
    fxi_chat_free(m->c);
    fxi_vocab_free(m->v);
    free(m->path);
    *m = (model){0};
}

static fx_status open_model(model *m, const char *path, const char *wanted, fx_error *err)
{
    fxi_buf text = {0};
    if (m->path && !strcmp(m->path, path)) return FX_OK;
    close_model(m);
    fx_status st = fxi_vocab_open(path, NULL, &text, &m->v, err);
    const fxi_chat_source s = {.tokenizer = {text.p, text.n}, .wanted = wanted};
    if (st == FX_OK) st = fxi_chat_open(&s, m->v, &m->c, err);
    m->path = st == FX_OK ? strdup(path) : NULL;
    fxi_buf_free(&text);
    return st;
}

static fx_status chat(model *m, const json_t *job, fxi_marked *out, fxi_ids *ids, fx_error *err)
{
    FX_TRY(open_model(m, json_string_value(json_object_get(job, "tokenizer")),
                      json_string_value(json_object_get(job, "chat_template")), err));
    const fxi_conversation q = {.messages = json_object_get(job, "messages"),
                                .tools = json_object_get(job, "tools"),
                                .kwargs = json_object_get(job, "kwargs"),
                                .add_generation_prompt = true,
                                .now = clock_stands()};
    fx_status st = fxi_chat_render(m->c, &q, out, err);
    if (st == FX_OK) st = fxi_chat_encode(m->c, m->v, &q, ids, err);
    return st;
}

// ---- jobs ---------------------------------------------------------------------------------------

static json_t *reply_of(const model *m, fxi_marked *out, const fxi_ids *ids)
{
    for (size_t i = 0; i < out->own.n; i++) out->own.p[i] = out->own.p[i] ? '1' : '0';
    json_t *all = json_array(), *control = json_array();
    for (size_t i = 0; i < ids->n; i++) {
        json_array_append_new(all, json_integer(ids->id[i]));
        if (fxi_vocab_control(m->v, ids->id[i]))
            json_array_append_new(control, json_integer(ids->id[i]));
    }
    return json_pack("{s:s%, s:s%, s:o, s:o}", "text", out->text.p ? out->text.p : "", out->text.n,
                     "own", out->own.p ? out->own.p : "", out->own.n, "ids", all, "control",
                     control);
}

static json_t *answer(model *m, json_t *job)
{
    const json_t *text = json_object_get(job, "template");
    fxi_marked out = {0};
    fxi_ids ids = {0};
    fx_error err;
    fx_status st = text ? render(text, json_object_get(job, "context"), &out, &err)
                        : chat(m, job, &out, &ids, &err);
    json_t *reply = st == FX_OK ? reply_of(m, &out, &ids) : json_pack("{s:s}", "error", err.text);
    fxi_marked_free(&out);
    fxi_ids_free(&ids);
    return reply;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    model m = {0};
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        json_t *job = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL),
               *reply = job ? answer(&m, job) : NULL;
        if (!reply) return 2;
        json_dumpf(reply, stdout, JSON_ENSURE_ASCII);
        puts("");
        fflush(stdout);
        json_decref(reply);
        json_decref(job);
    }
    close_model(&m);
    free(line);
    return 0;
}
