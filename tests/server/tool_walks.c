// tool_walks.c - writes what grammars for calls of tools let through at random, taken apart as a
// server does, for another program to judge.
//
//   tool_walks CASES N
//
// CASES is JSON: "tools", and "modes", the members of a request by name. Every published format is
// asked for calls in every mode, with and without reasoning, N times. The walks like marks, where
// the grammar allows them. Each text that comes to an end is a line of JSON: its format, mode and
// text, and what was taken out of it.
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/number/rng.h"
#include "engine/grammar/grammars.h"
#include "grammar/automaton/gram_auto.h"
#include "server/fake_engine.h"
#include "server/request/api_request.h"

enum { MAX_WALK = 1500, MAX_BAIT = 64 };

// ---- grammars: what the server compiles, as an automaton over bytes -----------------------------

static fxi_gram walk_form;

fx_status fx_grammar_compile(const fx_engine *e, const fx_part *root, fx_grammar **out,
                             fx_error *err)
{
    uint32_t node = 0;
    fxi_gram_free(&walk_form);
    FX_TRY(fxi_grammar_part(&walk_form, NULL, root, &node, err));
    FX_TRY(fxi_gram_finish(&walk_form, node, err));
    *out = calloc(1, sizeof **out);
    if (!*out) return FX_ENOMEM;
    atomic_init(&(*out)->n_ref, 1);
    (void)e;
    return FX_OK;
}

void fx_grammar_retain(fx_grammar *g)
{
    atomic_fetch_add(&g->n_ref, 1);
}

void fx_grammar_release(fx_grammar *g)
{
    if (g && atomic_fetch_sub(&g->n_ref, 1) == 1) free(g);
}

const char *fake_engine_form(const fx_grammar *g)
{
    return g ? "a grammar" : "";
}

// ---- walks --------------------------------------------------------------------------------------

typedef struct walk {
    fxi_auto *a;
    uint32_t at;
    uint64_t seed, n_draw;
    size_t n;
    char s[MAX_WALK];
    const char *bait[MAX_BAIT]; // [n_bait] texts that it tries to write
    size_t n_bait;
} walk;

static uint64_t draw(walk *w)
{
    return fxi_rng_u64(w->seed, 1, w->n_draw++);
}

static bool push_byte(walk *w, uint8_t byte)
{
    const fxi_byte_set may = fxi_auto_bytes(w->a, w->at);
    if (w->n == MAX_WALK || !fxi_byte_in(&may, byte)) return false;
    if (fxi_auto_step(w->a, w->at, byte, &w->at, NULL)) return false;
    w->s[w->n++] = (char)byte;
    return true;
}

static void follow_bait(walk *w, const char *bait)
{
    while (*bait && push_byte(w, (uint8_t)*bait)) bait++;
}

static bool push_any(walk *w)
{
    static const char marks[] = "\"}])>,:01\n= ";
    const uint64_t r = draw(w);
    for (size_t k = 0; r % 2 && k < sizeof marks - 1; k++)
        if (push_byte(w, (uint8_t)marks[(k + (r >> 8)) % (sizeof marks - 1)])) return true;
    for (uint32_t k = 0; k < 256; k++)
        if (push_byte(w, (uint8_t)(k + (r >> 16)))) return true;
    return false;
}

// Whether the text came to an end. One that stops where it may not ends the program.
static bool run_walk(walk *w)
{
    w->at = fxi_auto_start(w->a);
    w->n = w->n_draw = 0;
    while (w->n < MAX_WALK) {
        if (fxi_auto_is_final(w->a, w->at) && draw(w) % 6 == 0) return true;
        if (draw(w) % 3 == 0) follow_bait(w, w->bait[draw(w) % w->n_bait]);
        if (w->n == MAX_WALK || push_any(w)) continue;
        if (fxi_auto_is_final(w->a, w->at)) return true;
        fprintf(stderr, "stuck behind %.*s\n", (int)w->n, w->s);
        exit(1);
    }
    return false;
}

static void add_baits(walk *w, const char *const *text, size_t n)
{
    for (size_t i = 0; i < n && text[i] && w->n_bait < MAX_BAIT; i++)
        if (*text[i]) w->bait[w->n_bait++] = text[i];
}

static void set_baits(walk *w, const fxi_call_format *f)
{
    static const char *const evil[] = {"{\"name\": \"note\", \"parameters\": {\"text\": 5}}",
                                       "[note(text=5)]",
                                       "{\"text\": 5}",
                                       "note",
                                       "write",
                                       "ping",
                                       "loose",
                                       "<think>",
                                       "</think>",
                                       "hello",
                                       "text",
                                       "\\\"",
                                       "\n"};
    const fxi_call_spelling *s = &f->spelling;
    const char *const spelled[] = {s->before, s->name_end, s->after};
    const char *const tags[] = {s->value_end, s->key, s->key_end, f->value_end, f->call_end};
    w->n_bait = 0;
    add_baits(w, evil, sizeof evil / sizeof evil[0]);
    for (int i = 0; i < 4; i++) add_baits(w, f->open, 3);
    add_baits(w, f->again, 2);
    add_baits(w, f->skip, 3);
    add_baits(w, f->close, 3);
    add_baits(w, spelled, 3);
    add_baits(w, &s->first, 1);
    add_baits(w, &s->between, 1);
    add_baits(w, &s->last, 1);
    add_baits(w, tags, 5);
    add_baits(w, tags, 1);
}

// ---- what is taken out --------------------------------------------------------------------------

static bool append_text(json_t *o, const char *key, const char *p, size_t n)
{
    const json_t *old = json_object_get(o, key);
    json_t *more = json_sprintf("%s%.*s", old ? json_string_value(old) : "", (int)n, p);
    return !json_object_set_new(o, key, more);
}

static bool note_event(void *ud, const fxi_output_event *ev)
{
    json_t *o = ud, *calls = json_object_get(o, "calls");
    json_t *last = json_array_get(calls, json_array_size(calls) - 1);
    switch (ev->kind) {
    case FXI_OUTPUT_TEXT: return append_text(o, "text", ev->p, ev->n);
    case FXI_OUTPUT_REASONING: return append_text(o, "reasoning", ev->p, ev->n);
    case FXI_OUTPUT_CALL:
        return !json_array_append_new(calls, json_pack("{s:s%}", "name", ev->p, ev->n));
    case FXI_OUTPUT_ARGS: return append_text(last, "arguments", ev->p, ev->n);
    case FXI_OUTPUT_DONE: return !json_object_set_new(last, "done", json_true());
    case FXI_OUTPUT_BROKEN: return append_text(o, "broken", ev->p, ev->n);
    }
    return true;
}

static void print_walk(const walk *w, const fxi_params *par, const char *mode, const char *think)
{
    const fxi_reply_spec spec = fxi_params_reply(par);
    const fxi_output_spec answer = {.calls = spec.calls,
                                    .reasoning = spec.reasoning,
                                    .either = spec.either,
                                    .has_tool = fxi_tools_has,
                                    .param = fxi_tools_param,
                                    .tools = spec.tools};
    json_t *o = json_pack("{s:s,s:s,s:s,s:s%,s:[]}", "format", par->formats->calls->name, "mode",
                          mode, "think", think, "raw", w->s, w->n, "calls");
    fxi_output_parser *a = fxi_output_parser_new(&answer);
    if (!o || !a || !fxi_output_parser_add(a, w->s, w->n, note_event, o) ||
        !fxi_output_parser_end(a, note_event, o))
        exit(2);
    json_dumpf(o, stdout, JSON_COMPACT);
    putchar('\n');
    fxi_output_parser_free(a);
    json_decref(o);
}

// ---- cases --------------------------------------------------------------------------------------

static void run_case(fx_engine *eng, const fxi_formats *f, const json_t *tools, const char *mode,
                     json_t *members, int n_walk)
{
    const fxi_limits lim = {.model_id = "m", .n_vocab = 300, .max_choice = 64, .formats = f};
    static walk w;
    json_t *body = json_pack("{s:[{s:s,s:s}],s:O}", "messages", "role", "user", "content", "a",
                             "tools", tools);
    fxi_params par;
    fxi_http_error e = {0};
    json_object_update(body, members);
    char *text = json_dumps(body, 0);
    if (!fxi_params_parse(&par, FXI_API_CHAT, text, strlen(text), &lim, &e) ||
        !fxi_params_resolve(&par, eng, &e)) {
        fprintf(stderr, "%s, %s: %s\n", f->calls->name, mode, e.message);
        exit(1);
    }
    if (fxi_auto_make(&walk_form, 1 << 20, &w.a, NULL)) exit(2);
    set_baits(&w, f->calls);
    for (int i = 0; i < n_walk; i++) {
        w.seed = (uint64_t)i + 1;
        if (run_walk(&w)) print_walk(&w, &par, mode, f->reasoning ? f->reasoning->name : "");
    }
    fxi_auto_free(w.a);
    fxi_params_free(&par);
    json_decref(body);
    free(text);
}

int main(int argc, char **argv)
{
    const char *mode;
    json_t *members, *root = argc == 3 ? json_load_file(argv[1], 0, NULL) : NULL;
    fx_engine *eng = fake_engine_new();
    if (!root || !eng) return 2;
    for (size_t i = 0; fxi_call_format_at(i); i++)
        for (int thinks = 0; thinks < 2; thinks++) {
            const fxi_call_format *calls = fxi_call_format_at(i);
            const char *name = calls->body == FXI_BODY_CHANNELS ? "harmony" : "think";
            const fxi_formats f = {.calls = calls,
                                   .reasoning = thinks ? fxi_reason_format_named(name) : NULL};
            json_object_foreach(json_object_get(root, "modes"), mode, members)
                run_case(eng, &f, json_object_get(root, "tools"), mode, members, atoi(argv[2]));
        }
    fx_engine_close(eng);
    fxi_gram_free(&walk_form);
    json_decref(root);
    return 0;
}
