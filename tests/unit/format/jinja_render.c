// jinja_render.c - renders templates for a test that compares with another program's results: a JSON object on each
// line of stdin, {"template": text, "context": {name: value, ..}}, and one on each line of stdout, {"text": .., "own":
// ..} or {"error": ..}. "own" has a '1' for each byte that is the template's, '0' for others. Variables whose name
// begins with "own_" are the template's own; "messages" are messages. The clock stands at 2026-02-03 04:05:06 UTC.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/chat/jinja.h"

enum { MAX_VAR = 64 };

static fxi_jinja_whose whose(const char *name)
{
    if (!strncmp(name, "own_", 4)) return FXI_JINJA_OWN;
    return strcmp(name, "messages") ? FXI_JINJA_CALLERS : FXI_JINJA_MESSAGES;
}

static fx_status render(const char *text, size_t n, json_t *vars, fxi_marked *out, fx_error *err)
{
    fxi_jinja_var var[MAX_VAR];
    fxi_jinja_context c = {.var = var};
    const time_t moment = 1770091506;
    const char *name;
    json_t *value;
    fxi_jinja *t;
    json_object_foreach(vars, name, value)
    {
        if (c.n_var < MAX_VAR) var[c.n_var++] = (fxi_jinja_var){name, value, whose(name)};
    }
    gmtime_r(&moment, &c.now);
    FX_TRY(fxi_jinja_compile(text, n, &t, err));
    fx_status st = fxi_jinja_render(t, &c, out, err);
    fxi_jinja_free(t);
    return st;
}

static json_t *answer(json_t *job)
{
    const json_t *text = json_object_get(job, "template");
    fxi_marked out = {0};
    fx_error err;
    json_t *reply;
    fx_status st = render(json_string_value(text), json_string_length(text),
                          json_object_get(job, "context"), &out, &err);
    for (size_t i = 0; i < out.own.n; i++) out.own.p[i] = out.own.p[i] ? '1' : '0';
    if (st == FX_OK)
        reply = json_pack("{s:s#, s:s#}", "text", out.text.p ? out.text.p : "", out.text.n, "own",
                          out.own.p ? out.own.p : "", out.own.n);
    else
        reply = json_pack("{s:s}", "error", err.text);
    fxi_marked_free(&out);
    return reply;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        json_t *job = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL),
               *reply = job ? answer(job) : NULL;
        if (!reply) return 2;
        json_dumpf(reply, stdout, JSON_ENSURE_ASCII);
        puts("");
        fflush(stdout);
        json_decref(reply);
        json_decref(job);
    }
    free(line);
    return 0;
}
