// api_form.c - fields that say what the answer must look like: response_format, vLLM's
// structured_outputs and guided_*, llama.cpp's grammar and json_schema. A request has at most one
// form, which a worker compiles for the engine (tools/tool_grammar.c).
#include <string.h>

#include "server/request/api_fields.h"

#include "base/text/utf8.h"

#define MAX_CHOICES   10000
#define SCHEMA_SHAPES "an object, true or false"

// ---- reading ------------------------------------------------------------------------------------

// Notes the form of the answer, which no other field may have given.
static bool take_form(fxi_parse *p, const char *field, fx_part_kind kind, const json_t *v)
{
    fxi_form *form = &p->par->form;
    if (form->field)
        return fxi_bad_value(p, field, "'%s' and '%s' both say what the answer must look like",
                             form->field, field);
    *form = (fxi_form){.field = field, .kind = kind, .value = v};
    return true;
}

static bool is_schema(const json_t *v)
{
    return json_is_object(v) || json_is_boolean(v);
}

// A schema, or its text: that is parsed here.
static bool take_schema(fxi_parse *p, const char *field, const json_t *v)
{
    fxi_params *par = p->par;
    if (is_schema(v)) return take_form(p, field, FX_PART_SCHEMA, v);
    if (!json_is_string(v)) return fxi_bad_type(p, field, SCHEMA_SHAPES " or its text");
    if (!take_form(p, field, FX_PART_SCHEMA, v)) return false;
    if (!fxi_json_field(&par->form.doc, par->charge, field, v, p->err)) return false;
    par->form.value = par->form.doc.root;
    return is_schema(par->form.value) || fxi_bad_type(p, field, SCHEMA_SHAPES);
}

static bool take_text(fxi_parse *p, const char *field, fx_part_kind kind, const json_t *v)
{
    if (!json_is_string(v)) return fxi_bad_type(p, field, "a string");
    if (!json_string_length(v)) return fxi_bad_value(p, field, "'%s' is empty", field);
    return take_form(p, field, kind, v);
}

static bool take_choice(fxi_parse *p, const char *field, const json_t *v)
{
    const size_t n = json_array_size(v);
    if (!json_is_array(v)) return fxi_bad_type(p, field, "an array of strings");
    if (!n || n > MAX_CHOICES)
        return fxi_bad_value(p, field, "'%s' must have at least 1 and at most %d members", field,
                             MAX_CHOICES);
    for (size_t i = 0; i < n; i++)
        if (!json_is_string(json_array_get(v, i)))
            return fxi_bad_type(p, field, "an array of strings");
    return take_form(p, field, FX_PART_ALT, v);
}

// ---- fields -------------------------------------------------------------------------------------

bool fxi_set_guided_json(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return take_schema(p, f->name, v);
}

// An empty text asks for nothing.
bool fxi_set_guided_regex(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return !json_string_length(v) || take_text(p, f->name, FX_PART_REGEX, v);
}

bool fxi_set_guided_grammar(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return !json_string_length(v) || take_text(p, f->name, FX_PART_RULES, v);
}

bool fxi_set_guided_choice(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return !json_array_size(v) || take_choice(p, f->name, v);
}

bool fxi_set_response_format(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!type) return fxi_bad_value(p, f->name, "'%s' needs a 'type'", f->name);
    if (!strcmp(type, "text")) return true;
    if (!strcmp(type, "json_object")) return take_form(p, f->name, FX_PART_JSON, v);
    if (strcmp(type, "json_schema") != 0)
        return fxi_bad_value(
            p, f->name, "the type of '%s' must be one of: text json_object json_schema", f->name);
    const json_t *schema = json_object_get(json_object_get(v, "json_schema"), "schema");
    if (!is_schema(schema))
        return fxi_bad_value(p, f->name, "'%s' needs a 'json_schema' with a 'schema' that is %s",
                             f->name, SCHEMA_SHAPES);
    return take_form(p, f->name, FX_PART_SCHEMA, schema);
}

// {"format": {"type", "schema", ..}, ..}: as response_format, but for one object less.
bool fxi_set_text_format(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const json_t *format = json_object_get(v, "format"),
                 *schema = json_object_get(format, "schema");
    const char *type = json_string_value(json_object_get(format, "type"));
    (void)f;
    if (!format || json_is_null(format)) return true;
    if (!type || strcmp(type, "json_schema") != 0) {
        const fxi_field row = {.name = "text.format"};
        return fxi_set_response_format(p, &row, format);
    }
    if (!is_schema(schema))
        return fxi_bad_value(p, "text.format", "'text.format' needs a 'schema' that is %s",
                             SCHEMA_SHAPES);
    return take_form(p, "text.format", FX_PART_SCHEMA, schema);
}

static bool read_output(fxi_parse *p, const char *field, const char *key, const json_t *v)
{
    if (!strcmp(key, "json")) return take_schema(p, field, v);
    if (!strcmp(key, "regex")) return take_text(p, field, FX_PART_REGEX, v);
    if (!strcmp(key, "grammar")) return take_text(p, field, FX_PART_RULES, v);
    if (!strcmp(key, "choice")) return take_choice(p, field, v);
    if (!strcmp(key, "json_object") && json_is_true(v)) return take_form(p, field, FX_PART_JSON, v);
    return json_is_false(v) ||
           fxi_bad_value(p, field, "'%s' has a member '%.*s' that is not supported", field,
                         FXI_UTF8_HEAD(key, 40));
}

bool fxi_set_structured_outputs(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)v, key, member)
    {
        if (!json_is_null(member) && !read_output(p, f->name, key, member)) return false;
    }
    return true;
}
