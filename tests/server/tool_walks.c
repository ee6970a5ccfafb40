// tool_walks.c - writes what grammars for calls of tools let through at random, taken apart as a
// server does, for another program to judge.
//
//   tool_walks CASES N
//
// CASES is JSON: "tools", and "modes", the members of a request by name. Every published format is
// asked for calls in every mode, with and without reasoning, N times. The walks like marks, where
// the grammar allows them. Each text that comes to an end is a line of JSON: its format, mode and
// text, and what was taken out of it.
#include "json_doc.h"
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

typedef struct taken {
    fxi_buf text, reasoning, broken;
    fxi_buf calls; // members of a JSON list; the last is written when it has ended
    fxi_buf name, args;
    bool has_call, is_done;
} taken;

static bool end_call(taken *t)
{
    fxi_buf *b = &t->calls;
    bool ok = !t->has_call || (fxi_buf_str(b, b->n ? ",{\"name\":" : "{\"name\":") &&
                               fxi_json_str(b, t->name.p, t->name.n) &&
                               (!t->args.n || (fxi_buf_str(b, ",\"arguments\":") &&
                                               fxi_json_str(b, t->args.p, t->args.n))) &&
                               fxi_buf_str(b, t->is_done ? ",\"done\":true}" : "}"));
    fxi_buf_clear(&t->name);
    fxi_buf_clear(&t->args);
    t->has_call = t->is_done = false;
    return ok;
}

static bool note_event(void *ud, const fxi_output_event *ev)
{
    taken *t = ud;
    switch (ev->kind) {
    case FXI_OUTPUT_TEXT: return fxi_buf_add(&t->text, ev->p, ev->n);
    case FXI_OUTPUT_REASONING: return fxi_buf_add(&t->reasoning, ev->p, ev->n);
    case FXI_OUTPUT_CALL:
        if (!end_call(t)) return false;
        t->has_call = true;
        return fxi_buf_add(&t->name, ev->p, ev->n);
    case FXI_OUTPUT_ARGS: return fxi_buf_add(&t->args, ev->p, ev->n);
    case FXI_OUTPUT_DONE: return t->is_done = true;
    case FXI_OUTPUT_BROKEN: return fxi_buf_add(&t->broken, ev->p, ev->n);
    }
    return true;
}

static void print_member(const char *name, const char *s, size_t n)
{
    fxi_buf b = {0};
    if (!fxi_json_str(&b, s, n)) exit(2);
    printf("\"%s\":%s,", name, b.p);
    fxi_buf_free(&b);
}

static void print_walk(const walk *w, const fxi_params *par, const char *mode, const char *think)
{
    const fxi_reply_spec spec = fxi_params_reply(par);
    const fxi_output_spec answer = {.calls = spec.calls,
                                    .reasoning = spec.reasoning,
                                    .either = spec.either,
                                    .has_tool = fxi_tools_has,
                                    .param = fxi_tools_param,
                                    .tools = (void *)spec.tools};
    taken t = {.has_call = false};
    fxi_output_parser *a = fxi_output_parser_new(&answer);
    if (!a || !fxi_output_parser_add(a, w->s, w->n, note_event, &t) ||
        !fxi_output_parser_end(a, false, note_event, &t) || !end_call(&t))
        exit(2);
    const char *format = par->formats->calls->name;
    const fxi_buf *const texts[] = {&t.text, &t.reasoning, &t.broken};
    static const char *const names[] = {"text", "reasoning", "broken"};
    printf("{");
    print_member("format", format, strlen(format));
    print_member("mode", mode, strlen(mode));
    print_member("think", think, strlen(think));
    print_member("raw", w->s, w->n);
    for (int i = 0; i < 3; i++)
        if (texts[i]->n) print_member(names[i], texts[i]->p, texts[i]->n);
    printf("\"calls\":[%s]}\n", t.calls.n ? t.calls.p : "");
    fxi_output_parser_free(a);
    fxi_buf_free(&t.text);
    fxi_buf_free(&t.reasoning);
    fxi_buf_free(&t.broken);
    fxi_buf_free(&t.calls);
    fxi_buf_free(&t.name);
    fxi_buf_free(&t.args);
}

// ---- cases --------------------------------------------------------------------------------------

static void run_case(fx_engine *eng, const fxi_formats *f, const fxi_json *tools, const char *mode,
                     const fxi_json *members, int n_walk)
{
    const fxi_limits lim = {.model_id = "m", .n_vocab = 300, .max_choice = 64, .formats = f};
    static walk w;
    fxi_buf body = {0};
    fxi_params par;
    fxi_http_error e = {0};
    // Of equal members the last counts.
    fxi_buf_str(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":");
    fxi_json_value(&body, tools);
    for (fxi_json_iter it = fxi_json_members(members); fxi_json_next(&it);) {
        fxi_buf_fmt(&body, ",\"%s\":", it.key);
        fxi_json_value(&body, it.value);
    }
    fxi_buf_str(&body, "}");
    if (!fxi_params_parse(&par, FXI_API_CHAT, body.p, body.n, &lim, &e) ||
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
    fxi_buf_free(&body);
}

int main(int argc, char **argv)
{
    fxi_json_doc cases = {0};
    if (argc == 3) cases = json_doc_file(argv[1]);
    const fxi_json *root = cases.root;
    fx_engine *eng = fake_engine_new();
    if (!root || !eng) return 2;
    for (size_t i = 0; fxi_call_format_at(i); i++)
        for (int thinks = 0; thinks < 2; thinks++) {
            const fxi_call_format *calls = fxi_call_format_at(i);
            const char *name = calls->body == FXI_BODY_CHANNELS ? "harmony" : "think";
            const fxi_formats f = {.calls = calls,
                                   .reasoning = thinks ? fxi_reason_format_named(name) : NULL};
            for (fxi_json_iter it = fxi_json_members(fxi_json_get(root, "modes"));
                 fxi_json_next(&it);)
                run_case(eng, &f, fxi_json_get(root, "tools"), it.key, it.value, atoi(argv[2]));
        }
    fx_engine_close(eng);
    fxi_gram_free(&walk_form);
    fxi_json_doc_free(&cases);
    return 0;
}
