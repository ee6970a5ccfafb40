// tool_grammar.c - what an answer must look like as one grammar: its form, calls that must be made,
// strict ones.
//
//   a form               [reasoning] (form | calls)
//   required, a name     [reasoning] calls
//   auto, strict tools   [reasoning] text {calls text}     where a mark opens calls
//                        [reasoning] (calls | text [mark calls])   where they may stand bare
//
// Calls are spelled as the model's format does. Where calls must be made and the format is not
// known, or cannot say them, a plain list of objects replaces them. Arguments of required and
// strict tools follow their schemas.
//
// What the grammar lets through is parsed as it was meant: text holds no mark that opens calls, and
// does not begin as a bare call does.
#include <stdio.h>
#include <string.h>

#include "server/request/tools/tool_parts.h"

#define TOOL_BYTES  (256u << 10) // charged while a grammar is compiled,
#define FORM_COPIES 32           // and this many times the bytes of a form's text

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

typedef fxi_tool_builder builder;

static bool has_channels(const builder *b)
{
    return (b->calls && b->calls->body == FXI_BODY_CHANNELS) ||
           (b->reasoning && b->reasoning->channels);
}

// ---- text and reasoning -------------------------------------------------------------------------

// Any text in which none of these marks occurs.
static fx_part free_part(builder *b, const char *const *mark, size_t max)
{
    fxi_part_list not = {0};
    fxi_parts_add_spelled(b, &not, mark, max);
    return (fx_part){.kind = FX_PART_FREE, .part = not .part, .n_part = not .n};
}

static fx_part text_part(builder *b)
{
    return free_part(b, b->calls->open, COUNT(b->calls->open));
}

static fx_part message_part(builder *b)
{
    static const char *const marks[] = {"<|start|>", "<|channel|>", "<|message|>",
                                        "<|end|>",   "<|call|>",    "<|return|>"};
    return free_part(b, marks, COUNT(marks));
}

static void add_reasoning(builder *b, fxi_part_list *l)
{
    const fxi_reason_format *r = b->reasoning;
    fxi_parts_add(b, l, r->channels ? message_part(b) : free_part(b, &r->spelled_close, 1));
    fxi_parts_add_marked(b, l, r->spelled_close);
    if (!r->channels) fxi_parts_add(b, l, fxi_parts_regex("[ \\n]{0,4}"));
}

// What the answer may begin with: reasoning, or the rest of it.
static void add_start(builder *b, fxi_part_list *l)
{
    fxi_part_list inner = {0};
    if (!b->reasoning) return;
    if (b->opened) {
        add_reasoning(b, l);
        return;
    }
    fxi_parts_add_marked(b, &inner, b->reasoning->spelled_open);
    add_reasoning(b, &inner);
    fxi_parts_add(b, l, fxi_parts_maybe(b, fxi_parts_seq(&inner)));
}

// ---- calls --------------------------------------------------------------------------------------

static fx_part call_part(builder *b, const json_t *tool)
{
    const fxi_call_spelling *w = &b->calls->spelling;
    const json_t *name = json_object_get(json_object_get(tool, "function"), "name");
    fxi_part_list l = {0};
    fxi_parts_add_marked(b, &l, w->before);
    fxi_parts_add(b, &l, fxi_parts_text(json_string_value(name)));
    if (b->calls->head_is_id) fxi_parts_add(b, &l, fxi_parts_regex(":(?:0|[1-9][0-9]{0,3})"));
    fxi_parts_add_marked(b, &l, w->name_end);
    fxi_tool_add_args(b, &l, tool);
    fxi_parts_add_marked(b, &l, w->after);
    return fxi_parts_seq(&l);
}

static fx_part any_call_part(builder *b)
{
    fxi_part_list l = {0};
    for (size_t i = 0; i < json_array_size(b->par->tools); i++) {
        const json_t *tool = json_array_get(b->par->tools, i);
        if (fxi_tool_is_wanted(b->par, tool)) fxi_parts_add(b, &l, call_part(b, tool));
    }
    return fxi_parts_alt(&l);
}

// One section: [mark] first call {between call} last.
static fx_part calls_part(builder *b, const char *mark)
{
    const fxi_call_spelling *w = &b->calls->spelling;
    const fx_part call = any_call_part(b);
    fxi_part_list l = {0}, more = {0};
    fxi_parts_add_marked(b, &l, mark);
    fxi_parts_add_marked(b, &l, w->first);
    fxi_parts_add(b, &l, call);
    if (b->par->parallel_calls) {
        fxi_parts_add_marked(b, &more, w->between);
        fxi_parts_add(b, &more, call);
        fxi_parts_add(b, &l, fxi_parts_repeat(b, fxi_parts_seq(&more), 0, FX_PART_NO_MAX));
    }
    fxi_parts_add_marked(b, &l, w->last);
    return fxi_parts_seq(&l);
}

// ---- answers ------------------------------------------------------------------------------------

static void add_required(builder *b, fxi_part_list *l)
{
    add_start(b, l);
    fxi_parts_add(b, l, calls_part(b, NULL));
}

static fx_part form_part(builder *b)
{
    const fxi_form *form = &b->par->form;
    const json_t *v = form->value;
    fxi_part_list l = {0};
    if (form->kind != FX_PART_ALT)
        return (fx_part){.kind = form->kind,
                         .text = json_string_value(v),
                         .n_bytes = json_string_length(v),
                         .schema = form->kind == FX_PART_SCHEMA ? v : NULL};
    for (size_t i = 0; i < json_array_size(v); i++)
        fxi_parts_add(b, &l, fxi_parts_text(json_string_value(json_array_get(v, i))));
    return fxi_parts_alt(&l);
}

// Calls have a mark: without one, a text of the form might be taken for a call.
static void add_formed(builder *b, fxi_part_list *l)
{
    fxi_part_list either = {0}, text = {0};
    add_start(b, l);
    if (has_channels(b))
        fxi_parts_add_marked(b, &text, fxi_reason_format_named("harmony")->spelled_text);
    fxi_parts_add(b, &text, form_part(b));
    if (!b->calls) {
        for (size_t i = 0; i < text.n; i++) fxi_parts_add(b, l, text.part[i]);
        return;
    }
    fxi_parts_add(b, &either, fxi_parts_seq(&text));
    fxi_parts_add(b, &either, calls_part(b, b->calls->bare ? b->calls->open[0] : NULL));
    fxi_parts_add(b, l, fxi_parts_alt(&either));
}

static bool ends_with_mark(const char *text, const char *const *mark, size_t max)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i < max && mark[i]; i++) {
        const size_t n_mark = strlen(mark[i]);
        if (n_mark <= n && !strcmp(text + n - n_mark, mark[i])) return true;
    }
    return false;
}

// Whether what follows a section cannot be taken for one more call of it.
static bool is_closed(const fxi_call_format *f)
{
    const char *end = f->spelling.last[0] ? f->spelling.last : f->spelling.after;
    return (f->body != FXI_BODY_OBJECT && !f->again[0]) ||
           ends_with_mark(end, f->close, COUNT(f->close));
}

static void add_marked_answer(builder *b, fxi_part_list *l)
{
    fxi_part_list section = {0};
    const fx_part text = text_part(b);
    add_start(b, l);
    fxi_parts_add(b, l, text);
    fxi_parts_add(b, &section, calls_part(b, NULL));
    if (!b->par->parallel_calls || !is_closed(b->calls)) {
        fxi_parts_add(b, l, fxi_parts_maybe(b, fxi_parts_seq(&section)));
        return;
    }
    fxi_parts_add(b, &section, text);
    fxi_parts_add(b, l, fxi_parts_repeat(b, fxi_parts_seq(&section), 0, FX_PART_NO_MAX));
}

// Text does not begin as calls do, nor as reasoning, behind which calls might stand.
static void add_bare_answer(builder *b, fxi_part_list *l)
{
    const fxi_call_format *f = b->calls;
    const char *begins = f->bare == '{' ? "^\\s*\\{" : "^\\s*\\[";
    fxi_part_list not = {0}, text = {0}, either = {0};
    fxi_parts_add_spelled(b, &not, f->open, COUNT(f->open));
    if (b->reasoning) fxi_parts_add_spelled(b, &not, b->reasoning->open, COUNT(b->reasoning->open));
    fxi_parts_add(b, &not, fxi_parts_regex(begins));
    fxi_parts_add(b, &text, (fx_part){.kind = FX_PART_STRING, .part = not .part, .n_part = not .n});
    if (f->open[0]) fxi_parts_add(b, &text, fxi_parts_maybe(b, calls_part(b, f->open[0])));
    fxi_parts_add(b, &either, fxi_parts_seq(&text));
    fxi_parts_add(b, &either, calls_part(b, NULL));
    add_start(b, l);
    fxi_parts_add(b, l, fxi_parts_alt(&either));
}

// {<|channel|>NAME<|message|>..<|end|><|start|>assistant} a message, or calls.
static void add_channel_answer(builder *b, fxi_part_list *l)
{
    fxi_part_list message = {0}, more = {0}, last = {0};
    fxi_parts_add_marked(b, &message, "<|channel|>");
    fxi_parts_add(b, &message, fxi_parts_regex("analysis|commentary|final"));
    fxi_parts_add_marked(b, &message, "<|message|>");
    fxi_parts_add(b, &message, message_part(b));
    fxi_parts_add(b, &more, fxi_parts_seq(&message));
    fxi_parts_add_marked(b, &more, "<|end|><|start|>assistant");
    fxi_parts_add(b, l, fxi_parts_repeat(b, fxi_parts_seq(&more), 0, FX_PART_NO_MAX));
    fxi_parts_add(b, &last, fxi_parts_seq(&message));
    fxi_parts_add(b, &last, calls_part(b, NULL));
    fxi_parts_add(b, l, fxi_parts_alt(&last));
}

static void add_answer(builder *b, fxi_part_list *l)
{
    if (b->par->must_call)
        add_required(b, l);
    else if (b->par->form.field)
        add_formed(b, l);
    else if (has_channels(b))
        add_channel_answer(b, l);
    else if (b->calls->bare)
        add_bare_answer(b, l);
    else
        add_marked_answer(b, l);
}

// ---- the whole ----------------------------------------------------------------------------------

// The prompt is rendered to see its end.
static bool look_at_prompt(builder *b, fx_error *err)
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

static fx_status compile_answer(builder *b, fx_grammar **out, fx_error *err)
{
    fxi_part_list l = {0};
    add_answer(b, &l);
    *err = (fx_error){FX_ENOMEM, "out of memory"};
    const fx_part root = l.n == 1 ? l.part[0] : fxi_parts_seq(&l);
    const fx_status st = b->no_memory ? FX_ENOMEM : fx_grammar_compile(b->eng, &root, out, err);
    fxi_arena_free(&b->arena);
    return st;
}

// Of a form and tools together, the form is to blame if it does not compile alone.
static bool fail_compile(builder *b, const fx_error *e, fxi_http_error *err)
{
    fx_error alone;
    fx_grammar *g = NULL;
    const char *field = b->par->form.field;
    b->calls = NULL;
    b->reasoning = NULL;
    if (field && compile_answer(b, &g, &alone) != FX_OK)
        return fxi_http_fail_fx(err, &alone, field);
    fx_grammar_release(g);
    return fxi_http_fail_fx(err, e, "tools");
}

bool fxi_params_compile(fxi_params *par, const fx_engine *eng, fxi_http_error *err)
{
    fx_error e = {0};
    if (!par->must_call && !par->form.field && !fxi_tools_are_strict(par)) return true;
    builder b = {.par = par,
                 .eng = eng,
                 .calls = fxi_params_calls(par),
                 .reasoning = fxi_params_reasoning(par)};
    const size_t n = TOOL_BYTES + (par->form.field ? FORM_COPIES * par->n_body_bytes : 0);
    if (!look_at_prompt(&b, &e)) return fxi_http_fail_fx(err, &e, par->input);
    if (par->charge && !fxi_bytes_granted(err, fxi_charge_reserve(par->charge, FXI_BYTES_TREE, n)))
        return false;
    const fx_status st = compile_answer(&b, &par->grammar, &e);
    if (par->charge) fxi_charge_release(par->charge, FXI_BYTES_TREE, n);
    return st == FX_OK || fail_compile(&b, &e, err);
}
