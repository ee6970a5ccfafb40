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
#include "json_doc.h"

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

static fx_status render(const fxi_json *text, const fxi_json *vars, fxi_marked *out, fx_error *err)
{
    fxi_jinja_var var[MAX_VAR];
    fxi_jinja_context c = {.var = var, .now = clock_stands()};
    fxi_jinja *t;
    for (fxi_json_iter it = fxi_json_members(vars); fxi_json_next(&it);) {
        if (c.n_var < MAX_VAR) var[c.n_var++] = (fxi_jinja_var){it.key, it.value, owner_of(it.key)};
    }
    FX_TRY(fxi_jinja_compile(fxi_json_text(text), fxi_json_string(text).n, &t, err));
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

static fx_status chat(model *m, const fxi_json *job, fxi_marked *out, fxi_ids *ids, fx_error *err)
{
    FX_TRY(open_model(m, fxi_json_text(fxi_json_get(job, "tokenizer")),
                      fxi_json_text(fxi_json_get(job, "chat_template")), err));
    static const char *const names[] = {"messages", "tools", "kwargs"};
    fxi_buf text[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        const fxi_json *v = fxi_json_get(job, names[i]);
        if (v) (void)fxi_json_value(&text[i], v);
    }
    const fxi_conversation q = {.messages = {text[0].p, text[0].n},
                                .tools = {text[1].p, text[1].n},
                                .kwargs = {text[2].p, text[2].n},
                                .add_generation_prompt = true,
                                .now = clock_stands()};
    fx_status st = fxi_chat_render(m->c, &q, out, err);
    if (st == FX_OK) st = fxi_chat_encode(m->c, m->v, &q, ids, err);
    for (int i = 0; i < 3; i++) fxi_buf_free(&text[i]);
    return st;
}

// ---- jobs ---------------------------------------------------------------------------------------

static bool write_ids(fxi_buf *b, const model *m, const fxi_ids *ids, bool only_control)
{
    bool ok = fxi_buf_str(b, "["), first = true;
    for (size_t i = 0; ok && i < ids->n; i++) {
        if (only_control && !fxi_vocab_control(m->v, ids->id[i])) continue;
        ok = fxi_buf_fmt(b, "%s%d", first ? "" : ",", (int)ids->id[i]);
        first = false;
    }
    return ok && fxi_buf_str(b, "]");
}

static bool write_reply(fxi_buf *b, const model *m, fxi_marked *out, const fxi_ids *ids)
{
    for (size_t i = 0; i < out->own.n; i++) out->own.p[i] = out->own.p[i] ? '1' : '0';
    return fxi_buf_str(b, "{\"text\":") && fxi_json_str(b, out->text.p, out->text.n) &&
           fxi_buf_str(b, ",\"own\":") && fxi_json_str(b, out->own.p, out->own.n) &&
           fxi_buf_str(b, ",\"ids\":") && write_ids(b, m, ids, false) &&
           fxi_buf_str(b, ",\"control\":") && write_ids(b, m, ids, true) && fxi_buf_str(b, "}");
}

static bool answer(model *m, const fxi_json *job, fxi_buf *reply)
{
    const fxi_json *text = fxi_json_get(job, "template");
    fxi_marked out = {0};
    fxi_ids ids = {0};
    fx_error err;
    fx_status st = text ? render(text, fxi_json_get(job, "context"), &out, &err)
                        : chat(m, job, &out, &ids, &err);
    const bool ok = st == FX_OK ? write_reply(reply, m, &out, &ids)
                                : fxi_buf_str(reply, "{\"error\":") &&
                                      fxi_json_cstr(reply, err.text) && fxi_buf_str(reply, "}");
    fxi_marked_free(&out);
    fxi_ids_free(&ids);
    return ok;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    model m = {0};
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        fxi_buf reply = {0};
        fxi_json_doc job = json_doc_sized(line, (size_t)n);
        if (!job.root || !answer(&m, job.root, &reply)) return 2;
        puts(reply.p);
        fflush(stdout);
        fxi_buf_free(&reply);
        fxi_json_doc_free(&job);
    }
    close_model(&m);
    free(line);
    return 0;
}
