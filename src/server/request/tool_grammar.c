// tool_grammar.c - what an answer must look like as one grammar: its form, calls that must be made,
// strict ones.
//
//   a form               [reasoning] (form | calls)
//   required, a name     [reasoning] calls      a name: one call
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
#include <stdlib.h>
#include <string.h>

#include "base/system/regions.h"
#include "base/text/utf8.h"
#include "server/request/api_fields.h"

#define TOOL_BYTES  (256u << 10) // charged while a grammar is compiled,
#define FORM_COPIES 32           // and this many times the bytes of a form's text

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

typedef struct grammar_builder {
    const fxi_params *par;
    const fx_engine *eng;
    const fxi_call_format *calls;       // NULL: none can be made
    const fxi_reason_format *reasoning; // NULL: none
    bool opened;                        // the prompt has opened the reasoning
    fxi_arena arena;                    // of parts and their texts
    bool no_memory;                     // some of them are missing
    const fxi_json *schema;             // the last that was written, and its text in the arena
    fxi_str schema_text;
} grammar_builder;

typedef struct part_list { // all zero: empty; in the arena
    fx_part *part;         // [n]
    size_t n, cap;
} part_list;

// ---- parts of a grammar in an arena, and marks --------------------------------------------------

enum { SLAB_BYTES = 16 << 10 };

static void *take_part_bytes(grammar_builder *b, size_t n)
{
    void *p = fxi_arena_take(&b->arena, n, SLAB_BYTES);
    b->no_memory |= !p;
    return p;
}

static void append_part(grammar_builder *b, part_list *l, fx_part p)
{
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 8;
        fx_part *more = take_part_bytes(b, cap * sizeof *more);
        if (!more) return;
        if (l->n) memcpy(more, l->part, l->n * sizeof *more);
        l->part = more;
        l->cap = cap;
    }
    l->part[l->n++] = p;
}

// NUL-terminated, lives as long as the builder.
static fx_part part_text(const char *text)
{
    return (fx_part){.kind = FX_PART_TEXT, .text = text, .n_bytes = strlen(text)};
}

static fx_part part_regex(const char *pattern)
{
    return (fx_part){.kind = FX_PART_REGEX, .text = pattern, .n_bytes = strlen(pattern)};
}

// The parts one after the other; one of them. The list is not changed any more.
static fx_part part_seq(const part_list *l)
{
    return (fx_part){.kind = FX_PART_SEQ, .part = l->part, .n_part = l->n};
}

static fx_part part_alt(const part_list *l)
{
    return (fx_part){.kind = FX_PART_ALT, .part = l->part, .n_part = l->n};
}

static fx_part part_repeat(grammar_builder *b, fx_part of, uint32_t min, uint32_t max)
{
    part_list l = {0};
    append_part(b, &l, of);
    return (fx_part){.kind = FX_PART_REPEAT, .part = l.part, .n_part = l.n, .min = min, .max = max};
}

static fx_part part_maybe(grammar_builder *b, fx_part of)
{
    return part_repeat(b, of, 0, 1);
}

// A part with a schema, as JSON text.
static fx_part part_schema(grammar_builder *b, fx_part_kind kind, const fxi_json *schema)
{
    if (schema != b->schema) {
        fxi_buf text = {0};
        char *copy = fxi_json_value(&text, schema) ? take_part_bytes(b, text.n) : NULL;
        if (copy) memcpy(copy, text.p, text.n);
        b->no_memory |= !copy;
        b->schema = schema;
        b->schema_text = (fxi_str){copy, text.n};
        fxi_buf_free(&text);
    }
    return (fx_part){.kind = kind, .schema = b->schema_text.p, .schema_bytes = b->schema_text.n};
}

// ---- marks --------------------------------------------------------------------------------------

// The control token that `text` begins with; its bytes, or 0.
static size_t control_at(const grammar_builder *b, const char *text)
{
    const fxi_formats *f = b->par->formats;
    for (size_t i = 0; f && i < f->n_mark; i++) {
        size_t n;
        const char *s = fx_token_text(b->eng, f->mark[i], &n);
        if (n && !strncmp(s, text, n)) return n;
    }
    return 0;
}

static void add_mark_piece(grammar_builder *b, part_list *l, fx_part_kind kind, const char *text,
                           size_t n)
{
    if (n) append_part(b, l, (fx_part){.kind = kind, .text = text, .n_bytes = n});
}

// Text in which marks that are control tokens become those tokens. NULL: nothing.
static void add_marked_text(grammar_builder *b, part_list *l, const char *text)
{
    size_t n = 0;
    while (text && text[n]) {
        const size_t n_control = control_at(b, text + n);
        if (!n_control) {
            n++;
            continue;
        }
        add_mark_piece(b, l, FX_PART_TEXT, text, n);
        add_mark_piece(b, l, FX_PART_CONTROL, text + n, n_control);
        text += n + n_control;
        n = 0;
    }
    add_mark_piece(b, l, FX_PART_TEXT, text, n);
}

// Adds the marks mark[0..max), up to a NULL, that may stand in a text: not those that begin with a
// control token.
static void add_spelled_marks(grammar_builder *b, part_list *l, const char *const *mark, size_t max)
{
    for (size_t i = 0; i < max && mark[i]; i++)
        if (!control_at(b, mark[i])) append_part(b, l, part_text(mark[i]));
}

// As parts of a grammar, by the body of the format: JSON, a tag for each, or Python's keywords.
// Where the arguments are taken apart, the format must be able to name each of them; what it cannot
// is refused.

enum { MAX_NAME = 200 };

static const fxi_json *params_of(const fxi_json *tool)
{
    const fxi_json *v = fxi_json_get(fxi_json_get(tool, "function"), "parameters");
    return fxi_json_is_object(v) ? v : NULL;
}

static bool takes_apart(const fxi_call_format *f)
{
    return f->body == FXI_BODY_TAGS || f->body == FXI_BODY_PYTHON;
}

// ---- what can be said ---------------------------------------------------------------------------

// Of an object that is written member by member. Those after `required` say nothing of a value.
static bool is_sayable_keyword(const char *key)
{
    static const char *const words[] = {"type",     "properties", "additionalProperties",
                                        "required", "$defs",      "definitions",
                                        "$schema",  "$id",        "$comment",
                                        "$anchor",  "title",      "description",
                                        "default",  "examples",   "deprecated",
                                        "readOnly", "writeOnly",  "strict"};
    return !strncmp(key, "x-", 2) || fxi_str_is_any(fxi_str_of(key), words, COUNT(words));
}

// Whether the parser finds the end of a parameter's name.
static bool is_sayable_key(const fxi_call_format *f, const char *key)
{
    const size_t n = strlen(key);
    if (!n || n > MAX_NAME) return false;
    if (f->body == FXI_BODY_PYTHON) return fxi_str_is_plain(fxi_str_of(key), "_");
    return !strpbrk(key, "<>\"\n");
}

static bool check_params(const fxi_call_format *f, const fxi_json *params, char *why, size_t n)
{
    const fxi_json *properties = fxi_json_get(params, "properties");
    const fxi_json *names = fxi_json_get(params, "required"), *type = fxi_json_get(params, "type");
    for (fxi_json_iter it = fxi_json_members(params); fxi_json_next(&it);) {
        if (is_sayable_keyword(it.key)) continue;
        snprintf(why, n, "a call cannot be forced to follow '%.*s'", FXI_UTF8_HEAD(it.key, 60));
        return false;
    }
    if (type && !fxi_str_is(fxi_json_string(type), "object")) {
        snprintf(why, n, "the 'type' of its parameters is not 'object'");
        return false;
    }
    for (fxi_json_iter it = fxi_json_members(properties); fxi_json_next(&it);) {
        if (is_sayable_key(f, it.key)) continue;
        snprintf(why, n, "no call can name a parameter '%.*s'", FXI_UTF8_HEAD(it.key, 60));
        return false;
    }
    for (size_t i = 0; i < fxi_json_array_size(names); i++) {
        const char *name = fxi_json_text(fxi_json_at(names, i));
        if (!name || fxi_json_get(properties, name)) continue;
        snprintf(why, n, "'required' names '%.*s', which is none of its 'properties'",
                 FXI_UTF8_HEAD(name, 60));
        return false;
    }
    return true;
}

bool fxi_tool_is_sayable(const fxi_call_format *calls, const fxi_json *tool, bool strict, char *why,
                         size_t n)
{
    const fxi_json *params = params_of(tool);
    const char *name = fxi_tool_name(tool);
    if (calls->body == FXI_BODY_PYTHON && !fxi_str_is_plain(fxi_str_of(name), "_.-")) {
        snprintf(why, n, "no call can name it");
        return false;
    }
    return !strict || !params || !takes_apart(calls) || check_params(calls, params, why, n);
}

// ---- values -------------------------------------------------------------------------------------

// "/properties/NAME", in which ~, / and % are escaped.
static const char *pointer_to(grammar_builder *b, const char *name)
{
    static const char front[] = "/properties/";
    char *p = take_part_bytes(b, sizeof front + 3 * strlen(name)), *at = p;
    if (!p) return "";
    at += sprintf(at, "%s", front);
    for (; *name; name++) {
        const char *as = *name == '~' ? "~0" : *name == '/' ? "~1" : *name == '%' ? "%25" : NULL;
        if (as)
            at += sprintf(at, "%s", as);
        else
            *at++ = *name;
    }
    *at = 0;
    return p;
}

static fx_part member_part(grammar_builder *b, fx_part_kind kind, const fxi_json *params,
                           const char *name)
{
    fx_part p = part_schema(b, kind, params);
    p.text = pointer_to(b, name);
    p.n_bytes = strlen(p.text);
    return p;
}

// The value of a parameter: JSON, or text, which ends where its tag does. Where a text has no lines
// of its own, a line break at its end would be taken for the tag's.
static fx_part tag_value(grammar_builder *b, const fxi_json *tool, const char *name)
{
    const fxi_call_format *f = b->calls;
    const fxi_json *params = params_of(tool);
    const char *function = fxi_tool_name(tool);
    const fxi_param_kind kind =
        fxi_tools_param((void *)b->par->tools, function, strlen(function), name, strlen(name));
    part_list not = {0};
    if (kind != FXI_PARAM_TEXT) return member_part(b, FX_PART_SCHEMA, params, name);
    add_spelled_marks(b, &not, &f->value_end, 1);
    if (f->spelling.value_end[0] != '\n') append_part(b, &not, part_regex("^\\n|\\n$"));
    fx_part value = member_part(b, FX_PART_STRING, params, name);
    value.part = not .part;
    value.n_part = not .n;
    return value;
}

static bool is_required(const fxi_json *params, const char *name)
{
    const fxi_json *names = fxi_json_get(params, "required");
    for (size_t i = 0; i < fxi_json_array_size(names); i++) {
        const char *s = fxi_json_text(fxi_json_at(names, i));
        if (s && !strcmp(s, name)) return true;
    }
    return false;
}

// ---- tags ---------------------------------------------------------------------------------------

// An argument with what stands around its key and its value; NULL: nothing.
static fx_part argument_part(grammar_builder *b, const char *front, fx_part key,
                             const char *between, fx_part value, const char *back)
{
    part_list l = {0};
    add_marked_text(b, &l, front);
    append_part(b, &l, key);
    add_marked_text(b, &l, between);
    append_part(b, &l, value);
    add_marked_text(b, &l, back);
    return part_seq(&l);
}

static fx_part one_tag(grammar_builder *b, fx_part key, fx_part value)
{
    const fxi_call_spelling *w = &b->calls->spelling;
    return argument_part(b, w->key, key, w->key_end, value, w->value_end);
}

static void add_tags(grammar_builder *b, part_list *l, const fxi_json *tool)
{
    const fxi_json *params = params_of(tool);
    for (fxi_json_iter it = fxi_json_members(fxi_json_get(params, "properties"));
         fxi_json_next(&it);) {
        const fx_part tag = one_tag(b, part_text(it.key), tag_value(b, tool, it.key));
        append_part(b, l, is_required(params, it.key) ? tag : part_maybe(b, tag));
    }
}

// Any parameters: JSON, or text that looks like none, so that it ends where its tag does.
static void add_any_tags(grammar_builder *b, part_list *l)
{
    static const char key[] = "[^<>\"\\s]{1,64}", like_json[] = "^\\s*[\"{\\[]";
    part_list value = {0}, not = {0};
    append_part(b, &value, (fx_part){.kind = FX_PART_SCHEMA});
    add_spelled_marks(b, &not, &b->calls->value_end, 1);
    append_part(b, &not, part_regex(like_json));
    append_part(b, &value, (fx_part){.kind = FX_PART_STRING, .part = not .part, .n_part = not .n});
    const fx_part tag = one_tag(b, part_regex(key), part_alt(&value));
    append_part(b, l, part_repeat(b, tag, 0, FX_PART_NO_MAX));
}

// ---- Python -------------------------------------------------------------------------------------

// The first required parameter has no comma; those before it end with theirs. Where none is
// required, the last may be missing after a comma, as Python allows.
static void add_keywords(grammar_builder *b, part_list *l, const fxi_json *tool)
{
    const fxi_json *params = params_of(tool), *all = fxi_json_get(params, "properties");
    size_t i = 0;
    bool follows = false;
    for (fxi_json_iter it = fxi_json_members(all); fxi_json_next(&it);) {
        const bool must = is_required(params, it.key), is_last = ++i == fxi_json_object_size(all);
        const fx_part one = argument_part(b, follows ? ", " : NULL, part_text(it.key), "=",
                                          member_part(b, FX_PART_SCHEMA, params, it.key),
                                          follows || must || is_last ? NULL : ", ");
        append_part(b, l, must ? one : part_maybe(b, one));
        follows |= must;
    }
}

static void add_any_keywords(grammar_builder *b, part_list *l)
{
    static const char key[] = "[A-Za-z_][A-Za-z0-9_]{0,63}";
    part_list all = {0};
    const fx_part value = {.kind = FX_PART_SCHEMA};
    const fx_part more = argument_part(b, ", ", part_regex(key), "=", value, NULL);
    append_part(b, &all, argument_part(b, NULL, part_regex(key), "=", value, NULL));
    append_part(b, &all, part_repeat(b, more, 0, FX_PART_NO_MAX));
    append_part(b, l, part_maybe(b, part_seq(&all)));
}

// ---- arguments, text and reasoning --------------------------------------------------------------

// Adds the arguments of a call, with what stands around them in a TAGS or PYTHON body.
static void add_args(grammar_builder *b, part_list *l, const fxi_json *tool)
{
    const bool strict = b->par->must_call || fxi_tool_is_strict(tool);
    const bool is_python = b->calls->body == FXI_BODY_PYTHON;
    const fxi_json *params = params_of(tool);
    if (takes_apart(b->calls) && strict)
        (is_python ? add_keywords : add_tags)(b, l, tool);
    else if (takes_apart(b->calls))
        (is_python ? add_any_keywords : add_any_tags)(b, l);
    else if (!strict)
        append_part(b, l, (fx_part){.kind = FX_PART_JSON});
    else if (!params)
        add_marked_text(b, l, "{}");
    else
        append_part(b, l, part_schema(b, FX_PART_OBJECT, params));
}

static bool has_channels(const grammar_builder *b)
{
    return (b->calls && b->calls->body == FXI_BODY_CHANNELS) ||
           (b->reasoning && b->reasoning->channels);
}

// Any text in which none of these marks occurs.
static fx_part free_part(grammar_builder *b, const char *const *mark, size_t max)
{
    part_list not = {0};
    add_spelled_marks(b, &not, mark, max);
    return (fx_part){.kind = FX_PART_FREE, .part = not .part, .n_part = not .n};
}

static fx_part message_part(grammar_builder *b)
{
    static const char *const marks[] = {"<|start|>", "<|channel|>", "<|message|>",
                                        "<|end|>",   "<|call|>",    "<|return|>"};
    return free_part(b, marks, COUNT(marks));
}

static void add_reasoning(grammar_builder *b, part_list *l)
{
    const fxi_reason_format *r = b->reasoning;
    append_part(b, l, r->channels ? message_part(b) : free_part(b, &r->spelled_close, 1));
    add_marked_text(b, l, r->spelled_close);
    if (!r->channels) append_part(b, l, part_regex("[ \\n]{0,4}"));
}

// What the answer may begin with: reasoning, or the rest of it.
static void add_start(grammar_builder *b, part_list *l)
{
    part_list inner = {0};
    if (!b->reasoning) return;
    if (b->opened) {
        add_reasoning(b, l);
        return;
    }
    add_marked_text(b, &inner, b->reasoning->spelled_open);
    add_reasoning(b, &inner);
    append_part(b, l, part_maybe(b, part_seq(&inner)));
}

// ---- calls --------------------------------------------------------------------------------------

static fx_part call_part(grammar_builder *b, const fxi_json *tool)
{
    const fxi_call_spelling *w = &b->calls->spelling;
    part_list l = {0};
    add_marked_text(b, &l, w->before);
    append_part(b, &l, part_text(fxi_tool_name(tool)));
    if (b->calls->head_is_id) append_part(b, &l, part_regex(":(?:0|[1-9][0-9]{0,3})"));
    add_marked_text(b, &l, w->name_end);
    add_args(b, &l, tool);
    add_marked_text(b, &l, w->after);
    return part_seq(&l);
}

static fx_part any_call_part(grammar_builder *b)
{
    part_list l = {0};
    for (size_t i = 0; i < fxi_json_array_size(b->par->tools); i++) {
        const fxi_json *tool = fxi_json_at(b->par->tools, i);
        if (fxi_tool_is_wanted(b->par, tool)) append_part(b, &l, call_part(b, tool));
    }
    return part_alt(&l);
}

static bool is_white_space(const char *text)
{
    return *text && !text[strspn(text, " \n")];
}

// One section: [mark] first call {between call} last. White space between calls is what models
// write before any text, so it decides nothing: the section may end after it, too.
static fx_part calls_part(grammar_builder *b, const char *mark)
{
    const fxi_call_spelling *w = &b->calls->spelling;
    const fx_part call = any_call_part(b);
    part_list l = {0}, more = {0};
    add_marked_text(b, &l, mark);
    add_marked_text(b, &l, w->first);
    append_part(b, &l, call);
    if (b->par->parallel_calls && !b->par->only_tool) {
        add_marked_text(b, &more, w->between);
        append_part(b, &more, call);
        append_part(b, &l, part_repeat(b, part_seq(&more), 0, FX_PART_NO_MAX));
        if (b->par->must_call && is_white_space(w->between))
            append_part(b, &l, part_maybe(b, part_text(w->between)));
    }
    add_marked_text(b, &l, w->last);
    return part_seq(&l);
}

// ---- answers ------------------------------------------------------------------------------------

static fx_part form_part(grammar_builder *b)
{
    const fxi_form *form = &b->par->form;
    const fxi_json *v = form->value;
    part_list l = {0};
    if (form->kind == FX_PART_SCHEMA) return part_schema(b, FX_PART_SCHEMA, v);
    if (form->kind != FX_PART_ALT)
        return (fx_part){
            .kind = form->kind, .text = fxi_json_text(v), .n_bytes = fxi_json_string(v).n};
    for (size_t i = 0; i < fxi_json_array_size(v); i++)
        append_part(b, &l, part_text(fxi_json_text(fxi_json_at(v, i))));
    return part_alt(&l);
}

// Calls have a mark: without one, a text of the form might be taken for a call.
static void add_formed(grammar_builder *b, part_list *l)
{
    part_list either = {0}, text = {0};
    add_start(b, l);
    part_list *const to = b->calls ? &text : l;
    if (has_channels(b)) add_marked_text(b, to, fxi_reason_format_named("harmony")->spelled_text);
    append_part(b, to, form_part(b));
    if (!b->calls) return;
    append_part(b, &either, part_seq(&text));
    append_part(b, &either, calls_part(b, b->calls->bare ? b->calls->open[0] : NULL));
    append_part(b, l, part_alt(&either));
}

// Whether what follows a section cannot be taken for one more call of it.
static bool is_closed(const fxi_call_format *f)
{
    const char *end = f->spelling.last[0] ? f->spelling.last : f->spelling.after;
    if (f->body != FXI_BODY_OBJECT && !f->again[0]) return true;
    for (size_t i = 0; i < COUNT(f->close) && f->close[i]; i++)
        if (fxi_str_ends_in(fxi_str_of(end), f->close[i])) return true;
    return false;
}

static void add_marked_answer(grammar_builder *b, part_list *l)
{
    part_list section = {0};
    const fx_part text = free_part(b, b->calls->open, COUNT(b->calls->open));
    add_start(b, l);
    append_part(b, l, text);
    append_part(b, &section, calls_part(b, NULL));
    if (!b->par->parallel_calls || !is_closed(b->calls)) {
        append_part(b, l, part_maybe(b, part_seq(&section)));
        return;
    }
    append_part(b, &section, text);
    append_part(b, l, part_repeat(b, part_seq(&section), 0, FX_PART_NO_MAX));
}

// Text does not begin as calls do, nor as reasoning, after which calls might come.
static void add_bare_answer(grammar_builder *b, part_list *l)
{
    const fxi_call_format *f = b->calls;
    const char *begins = f->bare == '{' ? "^\\s*\\{" : "^\\s*\\[";
    part_list not = {0}, text = {0}, either = {0};
    add_spelled_marks(b, &not, f->open, COUNT(f->open));
    if (b->reasoning) add_spelled_marks(b, &not, b->reasoning->open, COUNT(b->reasoning->open));
    append_part(b, &not, part_regex(begins));
    append_part(b, &text, (fx_part){.kind = FX_PART_STRING, .part = not .part, .n_part = not .n});
    if (f->open[0]) append_part(b, &text, part_maybe(b, calls_part(b, f->open[0])));
    append_part(b, &either, part_seq(&text));
    append_part(b, &either, calls_part(b, NULL));
    add_start(b, l);
    append_part(b, l, part_alt(&either));
}

// {<|channel|>NAME<|message|>..<|end|><|start|>assistant} a message, or calls.
static void add_channel_answer(grammar_builder *b, part_list *l)
{
    part_list message = {0}, more = {0}, last = {0};
    add_marked_text(b, &message, "<|channel|>");
    append_part(b, &message, part_regex("analysis|commentary|final"));
    add_marked_text(b, &message, "<|message|>");
    append_part(b, &message, message_part(b));
    append_part(b, &more, part_seq(&message));
    add_marked_text(b, &more, "<|end|><|start|>assistant");
    append_part(b, l, part_repeat(b, part_seq(&more), 0, FX_PART_NO_MAX));
    append_part(b, &last, part_seq(&message));
    append_part(b, &last, calls_part(b, NULL));
    append_part(b, l, part_alt(&last));
}

static void add_answer(grammar_builder *b, part_list *l)
{
    if (b->par->must_call) {
        add_start(b, l);
        append_part(b, l, calls_part(b, NULL));
    } else if (b->par->form.field)
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
static bool look_at_prompt(grammar_builder *b, fx_error *err)
{
    const fxi_output_spec spec = {.reasoning = b->reasoning};
    const fx_chat_request q = fxi_params_chat(b->par);
    char *text = NULL;
    size_t n = 0;
    if (!b->reasoning || b->reasoning->channels) return true;
    if (fx_chat_request_text(b->eng, &q, &text, &n, err) != FX_OK) return false;
    b->opened = fxi_output_parser_opens_reasoning(&spec, text, n);
    free(text);
    return true;
}

static fx_status compile_answer(grammar_builder *b, fx_grammar **out, fx_error *err)
{
    part_list l = {0};
    add_answer(b, &l);
    *err = (fx_error){FX_ENOMEM, "out of memory"};
    const fx_part root = l.n == 1 ? l.part[0] : part_seq(&l);
    const fx_status st = b->no_memory ? FX_ENOMEM : fx_grammar_compile(b->eng, &root, out, err);
    fxi_arena_free(&b->arena);
    b->schema = NULL; // its text was there
    return st;
}

// Of a form and tools together, the form is to blame if it does not compile alone.
static bool fail_compile(grammar_builder *b, const fx_error *e, fxi_http_error *err)
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
    grammar_builder b = {.par = par,
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
