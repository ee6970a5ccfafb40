// api_form.c - fields that say what the answer must look like: response_format, vLLM's
// structured_outputs and guided_*, llama.cpp's grammar and json_schema. A request has at most one
// form, which a worker compiles for the engine (tool_grammar.c).
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "server/request/api_fields.h"

#define MAX_CHOICES   10000
#define SCHEMA_SHAPES "an object, true or false"

// ---- reading ------------------------------------------------------------------------------------

// Notes the form of the answer, which no other field may have given.
static bool take_form(fxi_parse *p, const char *field, fx_part_kind kind, const fxi_json *v)
{
    fxi_form *form = &p->par->form;
    if (form->field)
        return fxi_bad_value(p, field, "'%s' and '%s' both say what the answer must look like",
                             form->field, field);
    *form = (fxi_form){.field = field, .kind = kind, .value = v};
    return true;
}

static bool is_schema(const fxi_json *v)
{
    return fxi_json_is_object(v) || fxi_json_is_bool(v);
}

// A schema, or its text: that is parsed here.
static bool take_schema(fxi_parse *p, const char *field, const fxi_json *v)
{
    fxi_params *par = p->par;
    if (is_schema(v)) return take_form(p, field, FX_PART_SCHEMA, v);
    if (!fxi_json_is_string(v)) return fxi_bad_type(p, field, SCHEMA_SHAPES " or its text");
    if (!take_form(p, field, FX_PART_SCHEMA, v)) return false;
    if (!fxi_json_field(&par->form.doc, par->charge, field, fxi_json_string(v), p->err))
        return false;
    par->form.value = par->form.doc.root;
    return is_schema(par->form.value) || fxi_bad_type(p, field, SCHEMA_SHAPES);
}

static bool take_choice(fxi_parse *p, const char *field, const fxi_json *v)
{
    const size_t n = fxi_json_array_size(v);
    if (!fxi_json_is_array(v)) return fxi_bad_type(p, field, "an array of strings");
    if (!n || n > MAX_CHOICES)
        return fxi_bad_value(p, field, "'%s' must have at least 1 and at most %d members", field,
                             MAX_CHOICES);
    for (size_t i = 0; i < n; i++)
        if (!fxi_json_is_string(fxi_json_at(v, i)))
            return fxi_bad_type(p, field, "an array of strings");
    return take_form(p, field, FX_PART_ALT, v);
}

static bool take_kind(fxi_parse *p, const char *field, fx_part_kind kind, const fxi_json *v)
{
    if (kind == FX_PART_SCHEMA) return take_schema(p, field, v);
    if (kind == FX_PART_ALT) return take_choice(p, field, v);
    if (!fxi_json_is_string(v)) return fxi_bad_type(p, field, "a string");
    if (!fxi_json_string(v).n) return fxi_bad_value(p, field, "'%s' is empty", field);
    return take_form(p, field, kind, v);
}

// ---- fields -------------------------------------------------------------------------------------

// An empty text or list asks for nothing.
bool fxi_set_guided(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    const fx_part_kind kind = (fx_part_kind)f->at;
    const bool has_value = kind == FX_PART_SCHEMA || fxi_json_string(v).n || fxi_json_array_size(v);
    return !has_value || take_kind(p, f->name, kind, v);
}

// v: what asks for a form of its `type`; `schema`: its member `where`, which json_schema needs.
static bool take_format(fxi_parse *p, const char *field, const fxi_json *v, const fxi_json *schema,
                        const char *where)
{
    const char *type = fxi_json_text(fxi_json_get(v, "type"));
    if (!type) return fxi_bad_value(p, field, "'%s' needs a 'type'", field);
    if (!strcmp(type, "text")) return true;
    if (!strcmp(type, "json_object")) return take_form(p, field, FX_PART_JSON, v);
    if (strcmp(type, "json_schema") != 0)
        return fxi_bad_value(
            p, field, "the type of '%s' must be one of: text json_object json_schema", field);
    if (!is_schema(schema))
        return fxi_bad_value(p, field, "'%s' needs a %s that is %s", field, where, SCHEMA_SHAPES);
    return take_form(p, field, FX_PART_SCHEMA, schema);
}

bool fxi_set_response_format(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    const fxi_json *schema = fxi_json_get(fxi_json_get(v, "json_schema"), "schema");
    return take_format(p, f->name, v, schema, "'json_schema' with a 'schema'");
}

// {"format": {"type", "schema", ..}, ..}.
bool fxi_set_text_format(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    const fxi_json *format = fxi_json_get(v, "format");
    (void)f;
    return !format || fxi_json_is_null(format) ||
           take_format(p, "text.format", format, fxi_json_get(format, "schema"), "'schema'");
}

static bool read_output(fxi_parse *p, const char *field, const char *key, const fxi_json *v)
{
    static const struct {
        const char *key;
        fx_part_kind kind;
    } rows[] = {{"json", FX_PART_SCHEMA},
                {"regex", FX_PART_REGEX},
                {"grammar", FX_PART_RULES},
                {"choice", FX_PART_ALT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].key, key)) return take_kind(p, field, rows[i].kind, v);
    if (!strcmp(key, "json_object") && fxi_json_is_true(v))
        return take_form(p, field, FX_PART_JSON, v);
    return fxi_json_is_false(v) ||
           fxi_bad_value(p, field, "'%s' has a member '%.*s' that is not supported", field,
                         FXI_UTF8_HEAD(key, 40));
}

bool fxi_set_structured_outputs(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    for (fxi_json_iter it = fxi_json_members(v); fxi_json_next(&it);) {
        if (!fxi_json_is_null(it.value) && !read_output(p, f->name, it.key, it.value)) return false;
    }
    return true;
}

// ---- whether an answer may, must or must not call tools -----------------------------------------

static bool is_function(const fxi_json *v)
{
    const char *type = fxi_json_text(fxi_json_get(v, "type"));
    return type && !strcmp(type, "function");
}

enum { MAX_ALLOWED = 256 };

// {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}, or these two beside the type.
static bool take_allowed(fxi_parse *p, const fxi_json *v)
{
    const fxi_json *inner = fxi_json_get(v, "allowed_tools");
    const fxi_json *tools = fxi_json_get(inner ? inner : v, "tools");
    const char *mode = fxi_json_text(fxi_json_get(inner ? inner : v, "mode"));
    if (!mode || (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0))
        return fxi_bad_value(p, "tool_choice.mode", "'mode' must be one of: auto required");
    if (!fxi_json_array_size(tools) || fxi_json_array_size(tools) > MAX_ALLOWED)
        return fxi_bad_type(p, "tool_choice.tools", "an array of 1 to 256 functions");
    for (size_t i = 0; i < fxi_json_array_size(tools); i++) {
        const fxi_json *tool = fxi_json_at(tools, i);
        if (!is_function(tool) || !fxi_tool_name(tool))
            return fxi_bad_type(p, "tool_choice.tools", "an array of functions with a name");
    }
    p->par->allowed_tools = tools;
    p->par->must_call = !strcmp(mode, "required");
    return true;
}

// A function, or those that are allowed.
bool fxi_set_tool_choice(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    if (fxi_json_is_string(v)) {
        p->par->hide_tools = !strcmp(fxi_json_text(v), "none");
        p->par->must_call = !strcmp(fxi_json_text(v), "required");
        return true;
    }
    const char *type = fxi_json_text(fxi_json_get(v, "type"));
    if (type && !strcmp(type, "allowed_tools")) return take_allowed(p, v);
    if (!is_function(v))
        return fxi_bad_value(p, f->name, "the type of '%s' must be one of: function allowed_tools",
                             f->name);
    p->par->must_call = true;
    p->par->only_tool = fxi_tool_name(v);
    if (!p->par->only_tool) return fxi_bad_type(p, "tool_choice.function.name", "a string");
    return true;
}

// ---- whether a grammar can say the calls --------------------------------------------------------

enum { MAX_TOOL_NAME = 200 };

// A name is spelled in a grammar between quotes or marks.
static bool check_name(fxi_parse *p, size_t i, const fxi_json *tool)
{
    const char *name = fxi_tool_name(tool);
    bool plain = *name != 0 && strlen(name) <= MAX_TOOL_NAME;
    for (const char *c = name; *c; c++)
        plain &= (unsigned char)*c > ' ' && !strchr("\"\\{}[]<>'`,;|", *c);
    if (plain) return true;
    return fxi_bad_value(p, fxi_place_at("tools[%zu].function.name", i).text,
                         "a tool whose calls follow a grammar needs a name of at most %d bytes "
                         "without spaces, quotes, brackets and ,;|",
                         MAX_TOOL_NAME);
}

// Where calls must be made, a plain list can say what the model's format cannot. Counting
// tokens makes no calls.
static bool check_sayable(fxi_parse *p, size_t i, const fxi_json *tool)
{
    char why[160];
    fxi_params *par = p->par;
    const fxi_call_format *f = fxi_params_calls(par);
    const bool strict = par->must_call || fxi_tool_is_strict(tool);
    if (!f || fxi_tool_is_sayable(f, tool, strict, why, sizeof why)) return true;
    par->plain_calls = par->must_call;
    if (par->must_call) return true;
    return fxi_bad_value(p, fxi_place_at("tools[%zu].function", i).text,
                         "in the model's format '%s', %s", f->name, why);
}

// ---- the list of tools --------------------------------------------------------------------------

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// A call says which tool it means by its name alone.
static bool check_names_differ(fxi_parse *p)
{
    const size_t n = fxi_json_array_size(p->par->tools);
    const char **name = malloc((n + 1) * sizeof *name);
    bool ok = name || fxi_no_memory(p);
    for (size_t i = 0; ok && i < n; i++) name[i] = fxi_tool_name(fxi_json_at(p->par->tools, i));
    if (ok) qsort(name, n, sizeof *name, compare_names);
    for (size_t i = 1; ok && i < n; i++)
        ok = strcmp(name[i - 1], name[i]) != 0 ||
             fxi_bad_value(p, "tools", "two tools are named '%.*s'", FXI_UTF8_HEAD(name[i], 64));
    free(name);
    return ok;
}

static bool check_allowed(fxi_parse *p)
{
    const fxi_params *par = p->par;
    for (size_t i = 0; i < fxi_json_array_size(par->allowed_tools); i++) {
        const char *name = fxi_tool_name(fxi_json_at(par->allowed_tools, i));
        if (!fxi_tools_include(par->tools, name))
            return fxi_bad_value(p, "tool_choice", "there is no tool '%.*s'",
                                 FXI_UTF8_HEAD(name, 64));
    }
    return true;
}

bool fxi_tools_check(fxi_parse *p)
{
    const fxi_params *par = p->par;
    const bool may = fxi_params_calls(par) && (par->form.field || fxi_tools_are_strict(par));
    size_t n_wanted = 0;
    if (!check_names_differ(p) || !check_allowed(p)) return false;
    if (!par->must_call && !may) return true;
    if (par->must_call && par->form.field)
        return fxi_bad_value(p, "tool_choice",
                             "'%s' and a 'tool_choice' that wants a call exclude "
                             "each other",
                             par->form.field);
    for (size_t i = 0; i < fxi_json_array_size(par->tools); i++) {
        const fxi_json *tool = fxi_json_at(par->tools, i);
        if (!fxi_tool_is_wanted(par, tool)) continue;
        if (!check_name(p, i, tool) || !check_sayable(p, i, tool)) return false;
        n_wanted++;
    }
    if (n_wanted || !par->must_call) return true;
    if (par->only_tool)
        return fxi_bad_value(p, "tool_choice", "there is no tool '%.*s'",
                             FXI_UTF8_HEAD(par->only_tool, 64));
    return fxi_bad_value(p, "tool_choice", "'tool_choice' wants a call, but there are no 'tools'");
}
