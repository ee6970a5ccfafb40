// tool_grammar.c - calls that must be made, and strict ones, as a grammar for the answer.
//
//   required, a name   [reasoning] calls
//   auto, strict tools [reasoning] text {calls text}      where a mark opens calls
//
// Calls are spelled as the model's format does. One that cannot be (arguments as tags or Python,
// no format at all) is replaced by a plain list of objects. Arguments of required and strict tools
// follow their schemas, of others they are any object.
#include <stdlib.h>
#include <string.h>

#include "server/request/api_fields.h"

#define PARTS_PER_TOOL 24 // of a grammar
#define PARTS_BESIDE   96
#define TOOL_BYTES     (256u << 10) // billed while a grammar is compiled

enum { MAX_SEQ = 16 };

typedef struct tool_builder {
    const fxi_params *par;
    const fx_engine *eng;
    const fxi_call_format *calls;
    const fxi_reason_format *reasoning; // NULL: none
    bool opened;                        // the prompt has opened the reasoning
    fx_part *part;                      // [cap]
    size_t n, cap;
} tool_builder;

typedef struct part_seq { // parts of a sequence, while it is collected
    fx_part part[MAX_SEQ];
    size_t n;
} part_seq;

// ---- parts --------------------------------------------------------------------------------------

static void add_to_seq(part_seq *s, fx_part p)
{
    if (s->n < MAX_SEQ) s->part[s->n++] = p;
}

static fx_part text_part(const char *text, size_t n)
{
    return (fx_part){.kind = FX_PART_TEXT, .text = text, .n_bytes = n};
}

// Room for n parts that are one of another part's lists; there is always enough.
static fx_part *take_parts(tool_builder *b, size_t n)
{
    fx_part *p = b->part + b->n;
    b->n += n;
    return p;
}

static fx_part list_part(tool_builder *b, fx_part_kind kind, const fx_part *from, size_t n)
{
    fx_part *p = take_parts(b, n);
    memcpy(p, from, n * sizeof *p);
    return (fx_part){.kind = kind, .part = p, .n_part = n};
}

static fx_part seq_part(tool_builder *b, const part_seq *s)
{
    return list_part(b, FX_PART_SEQ, s->part, s->n);
}

static fx_part repeat_part(tool_builder *b, fx_part of, uint32_t min, uint32_t max)
{
    fx_part p = list_part(b, FX_PART_REPEAT, &of, 1);
    p.min = min;
    p.max = max;
    return p;
}

// ---- marks --------------------------------------------------------------------------------------

// The control token that `text` begins with; its bytes, or 0.
static size_t control_at(const tool_builder *b, const char *text)
{
    const fxi_formats *f = b->par->formats;
    for (size_t i = 0; f && i < f->n_mark; i++) {
        size_t n;
        const char *s = fx_token_text(b->eng, f->mark[i], &n);
        if (n && !strncmp(s, text, n)) return n;
    }
    return 0;
}

// Text in which marks that are control tokens become those tokens.
static void add_marked(tool_builder *b, part_seq *s, const char *text)
{
    size_t n = 0;
    while (text[n]) {
        const size_t n_control = control_at(b, text + n);
        if (!n_control) {
            n++;
            continue;
        }
        if (n) add_to_seq(s, text_part(text, n));
        fx_part control = text_part(text + n, n_control);
        control.kind = FX_PART_CONTROL;
        add_to_seq(s, control);
        text += n + n_control;
        n = 0;
    }
    if (n) add_to_seq(s, text_part(text, n));
}

// Any text before a mark. A control token cannot stand in a text anyway.
static fx_part free_part(tool_builder *b, const char *mark)
{
    const fx_part not = text_part(mark, strlen(mark));
    return list_part(b, FX_PART_FREE, &not, control_at(b, mark) ? 0 : 1);
}

static void add_reasoning(tool_builder *b, part_seq *s)
{
    static const char blanks[] = "[ \\n]{0,4}";
    fx_part blank = text_part(blanks, sizeof blanks - 1);
    blank.kind = FX_PART_REGEX;
    add_to_seq(s, free_part(b, b->reasoning->spelled_close));
    add_marked(b, s, b->reasoning->spelled_close);
    if (!b->reasoning->channels) add_to_seq(s, blank);
}

// What the answer may begin with: reasoning, or the rest of it.
static void add_start(tool_builder *b, part_seq *s)
{
    part_seq inner = {.n = 0};
    if (!b->reasoning) return;
    if (b->opened) {
        add_reasoning(b, s);
        return;
    }
    add_marked(b, &inner, b->reasoning->spelled_open);
    add_reasoning(b, &inner);
    add_to_seq(s, repeat_part(b, seq_part(b, &inner), 0, 1));
}

// ---- calls --------------------------------------------------------------------------------------

static bool is_strict(const json_t *tool)
{
    return json_is_true(json_object_get(json_object_get(tool, "function"), "strict"));
}

static fx_part args_part(const tool_builder *b, const json_t *tool)
{
    const json_t *schema = json_object_get(json_object_get(tool, "function"), "parameters");
    if (!b->par->must_call && !is_strict(tool)) return (fx_part){.kind = FX_PART_JSON};
    if (!json_is_object(schema)) return text_part("{}", 2);
    return (fx_part){.kind = FX_PART_SCHEMA, .schema = schema};
}

static fx_part call_part(tool_builder *b, const json_t *tool)
{
    const fxi_call_spelling *w = &b->calls->spelling;
    const json_t *name = json_object_get(json_object_get(tool, "function"), "name");
    part_seq s = {.n = 0};
    add_marked(b, &s, w->before);
    add_to_seq(&s, text_part(json_string_value(name), json_string_length(name)));
    add_marked(b, &s, w->name_end);
    add_to_seq(&s, args_part(b, tool));
    add_marked(b, &s, w->after);
    return seq_part(b, &s);
}

static fx_part any_call_part(tool_builder *b)
{
    const size_t n = json_array_size(b->par->tools);
    fx_part *alt = take_parts(b, n);
    size_t n_alt = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *tool = json_array_get(b->par->tools, i);
        if (fxi_tool_is_wanted(b->par, tool)) alt[n_alt++] = call_part(b, tool);
    }
    return (fx_part){.kind = FX_PART_ALT, .part = alt, .n_part = n_alt};
}

// One section: first call {between call} last.
static fx_part calls_part(tool_builder *b)
{
    const fxi_call_spelling *w = &b->calls->spelling;
    const fx_part call = any_call_part(b);
    part_seq s = {.n = 0}, more = {.n = 0};
    add_marked(b, &s, w->first);
    add_to_seq(&s, call);
    if (b->par->parallel_calls) {
        add_marked(b, &more, w->between);
        add_to_seq(&more, call);
        add_to_seq(&s, repeat_part(b, seq_part(b, &more), 0, FX_PART_NO_MAX));
    }
    add_marked(b, &s, w->last);
    return seq_part(b, &s);
}

static fx_part required_part(tool_builder *b)
{
    part_seq s = {.n = 0};
    add_start(b, &s);
    add_to_seq(&s, calls_part(b));
    return seq_part(b, &s);
}

static fx_part optional_part(tool_builder *b)
{
    const fx_part text = free_part(b, b->calls->open[0]);
    part_seq s = {.n = 0}, section = {.n = 0};
    add_start(b, &s);
    add_to_seq(&s, text);
    add_to_seq(&section, calls_part(b));
    add_to_seq(&section, text);
    add_to_seq(
        &s, repeat_part(b, seq_part(b, &section), 0, b->par->parallel_calls ? FX_PART_NO_MAX : 1));
    return seq_part(b, &s);
}

// ---- the whole ----------------------------------------------------------------------------------

// Whether one of the tools is strict, and the format has a mark in front of calls: without one,
// every text may become a call.
static bool has_strict_tools(const fxi_params *par)
{
    const fxi_call_format *f = fxi_params_calls(par);
    if (!f || !f->open[0] || !f->spelling.before || f->bare) return false;
    for (size_t i = 0; i < json_array_size(par->tools); i++)
        if (is_strict(json_array_get(par->tools, i))) return true;
    return false;
}

// The prompt is rendered to see its end.
static bool look_at_prompt(tool_builder *b, fx_error *err)
{
    const fxi_answer_spec spec = {.reasoning = b->reasoning};
    const fx_chat_request q = fxi_params_chat(b->par);
    char *text = NULL;
    size_t n = 0;
    if (!b->reasoning || b->reasoning->channels) return true;
    if (fx_chat_request_text(b->eng, &q, &text, &n, err) != FX_OK) return false;
    b->opened = fxi_answer_opens_reasoning(&spec, text, n);
    free(text);
    return true;
}

static fx_status compile_calls(tool_builder *b, fx_grammar **out, fx_error *err)
{
    b->cap = PARTS_BESIDE + PARTS_PER_TOOL * json_array_size(b->par->tools);
    b->part = calloc(b->cap, sizeof *b->part);
    *err = (fx_error){FX_ENOMEM, "out of memory"};
    if (!b->part) return FX_ENOMEM;
    const fx_part root = b->par->must_call ? required_part(b) : optional_part(b);
    const fx_status st = fx_grammar_compile(b->eng, &root, out, err);
    free(b->part);
    return st;
}

bool fxi_tools_compile(fxi_params *par, const fx_engine *eng, fxi_http_error *err)
{
    fx_error e = {0};
    if (!par->must_call && (par->grammar || !has_strict_tools(par))) return true;
    tool_builder b = {.par = par,
                      .eng = eng,
                      .calls = fxi_params_calls(par),
                      .reasoning = fxi_params_reasoning(par)};
    if (!look_at_prompt(&b, &e)) return fxi_http_fail_fx(err, &e, par->input);
    if (par->bill && !fxi_bytes_granted(err, fxi_bill_take(par->bill, FXI_BYTES_TREE, TOOL_BYTES)))
        return false;
    const fx_status st = compile_calls(&b, &par->grammar, &e);
    if (par->bill) fxi_bill_give(par->bill, FXI_BYTES_TREE, TOOL_BYTES);
    return st == FX_OK || fxi_http_fail_fx(err, &e, "tools");
}
