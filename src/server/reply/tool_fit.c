// tool_fit.c - what the tools of a request say of a call: whether there is such a tool, whether a
// value without quotes is text, and whether arguments fit the tool's schema.
//
// JSON without marks is a call only if it fits, so this judge need not be complete: it reads the
// keywords that tell a call from other JSON, and others say nothing.
#include <math.h>
#include <string.h>

#include "server/reply/api_reply.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

const char *fxi_tool_name(const fxi_json *tool)
{
    const fxi_json *function = fxi_json_get(tool, "function");
    return fxi_json_text(fxi_json_get(function ? function : tool, "name"));
}

bool fxi_tools_include(const fxi_json *list, const char *name)
{
    size_t i = 0;
    while (i < fxi_json_array_size(list) && strcmp(fxi_tool_name(fxi_json_at(list, i)), name) != 0)
        i++;
    return i < fxi_json_array_size(list);
}

bool fxi_tools_write(fxi_buf *b, const fxi_json *tools, const fxi_json *only)
{
    bool ok = fxi_buf_str(b, "["), has_some = false;
    for (size_t i = 0; ok && i < fxi_json_array_size(tools); i++) {
        const fxi_json *tool = fxi_json_at(tools, i);
        if (only && !fxi_tools_include(only, fxi_tool_name(tool))) continue;
        ok = fxi_buf_str(b, has_some ? "," : "") && fxi_json_value(b, tool);
        has_some = true;
    }
    return ok && fxi_buf_str(b, "]");
}

static const fxi_json *find_function(const fxi_json *tools, const char *name, size_t n)
{
    for (fxi_json_iter it = fxi_json_items(tools); fxi_json_next(&it);) {
        const fxi_json *f = fxi_json_get(it.value, "function");
        const fxi_json *v = fxi_json_get(f, "name");
        if (fxi_json_string(v).n == n && !memcmp(fxi_json_text(v), name, n)) return f;
    }
    return NULL;
}

bool fxi_tools_has(void *ud, const char *name, size_t n)
{
    return find_function(ud, name, n) != NULL;
}

// ---- parameters ---------------------------------------------------------------------------------

// Of a list of types: text, if nothing that is written otherwise stands beside it.
static fxi_param_kind kind_of_types(const fxi_json *types)
{
    fxi_param_kind kind = FXI_PARAM_UNKNOWN;
    for (size_t i = 0; i < fxi_json_array_size(types); i++) {
        const char *type = fxi_json_text(fxi_json_at(types, i));
        if (!type || !strcmp(type, "null")) continue;
        if (strcmp(type, "string") != 0) return FXI_PARAM_OTHER;
        kind = FXI_PARAM_TEXT;
    }
    return kind;
}

static fxi_param_kind kind_of_schema(const fxi_json *schema)
{
    const fxi_json *type = fxi_json_get(schema, "type"), *words = fxi_json_get(schema, "enum");
    if (fxi_json_is_array(type)) return kind_of_types(type);
    if (fxi_json_is_string(type))
        return strcmp(fxi_json_text(type), "string") ? FXI_PARAM_OTHER : FXI_PARAM_TEXT;
    for (size_t i = 0; i < fxi_json_array_size(words); i++)
        if (!fxi_json_is_string(fxi_json_at(words, i))) return FXI_PARAM_UNKNOWN;
    return fxi_json_array_size(words) ? FXI_PARAM_TEXT : FXI_PARAM_UNKNOWN;
}

fxi_param_kind fxi_tools_param(void *ud, const char *name, size_t n, const char *param,
                               size_t n_param)
{
    const fxi_json *parameters = fxi_json_get(find_function(ud, name, n), "parameters");
    const fxi_json *properties = fxi_json_get(parameters, "properties");
    return kind_of_schema(fxi_json_getn(properties, param, n_param));
}

// ---- arguments ----------------------------------------------------------------------------------

static bool is_of_type(const char *type, const fxi_json *v)
{
    static const struct {
        const char *name;
        fxi_json_type a, b;
    } types[] = {
        {"string", FXI_JSON_STRING, FXI_JSON_STRING}, {"number", FXI_JSON_INT, FXI_JSON_REAL},
        {"integer", FXI_JSON_INT, FXI_JSON_REAL}, // if it is whole
        {"boolean", FXI_JSON_BOOL, FXI_JSON_BOOL},    {"object", FXI_JSON_OBJECT, FXI_JSON_OBJECT},
        {"array", FXI_JSON_ARRAY, FXI_JSON_ARRAY},    {"null", FXI_JSON_NULL, FXI_JSON_NULL}};
    const fxi_json_type is = fxi_json_type_of(v);
    for (size_t i = 0; i < COUNT(types); i++) {
        if (strcmp(types[i].name, type) != 0) continue;
        const bool is_whole = fxi_json_number(v) == floor(fxi_json_number(v));
        return (is == types[i].a || is == types[i].b) && (strcmp(type, "integer") != 0 || is_whole);
    }
    return true;
}

static bool is_of_types(const fxi_json *type, const fxi_json *v)
{
    bool fits = !fxi_json_array_size(type);
    if (fxi_json_is_string(type)) return is_of_type(fxi_json_text(type), v);
    for (size_t i = 0; !fits && i < fxi_json_array_size(type); i++) {
        const char *one = fxi_json_text(fxi_json_at(type, i));
        fits = !one || is_of_type(one, v);
    }
    return fits;
}

// Texts alone: other constants are rare, and what they are is a matter of notation.
static bool is_of_words(const fxi_json *words, const fxi_json *v)
{
    bool fits = !fxi_json_array_size(words) || !fxi_json_is_string(v);
    for (size_t i = 0; !fits && i < fxi_json_array_size(words); i++)
        fits = fxi_json_is_string(fxi_json_at(words, i)) &&
               !fxi_str_compare(fxi_json_string(fxi_json_at(words, i)), fxi_json_string(v));
    return fits;
}

// As deep as the request and the answer nest, both of which are bounded.
static bool fits_schema(const fxi_json *schema, const fxi_json *v)
{
    const fxi_json *properties = fxi_json_get(schema, "properties");
    const fxi_json *required = fxi_json_get(schema, "required"),
                   *items = fxi_json_get(schema, "items");
    const bool is_closed = fxi_json_is_false(fxi_json_get(schema, "additionalProperties"));
    bool fits = !fxi_json_is_false(schema) && is_of_types(fxi_json_get(schema, "type"), v) &&
                is_of_words(fxi_json_get(schema, "enum"), v);
    for (size_t i = 0; fits && fxi_json_is_object(v) && i < fxi_json_array_size(required); i++) {
        const fxi_str name = fxi_json_string(fxi_json_at(required, i));
        fits = !name.p || fxi_json_getn(v, name.p, name.n);
    }
    for (fxi_json_iter it = fxi_json_members(v); fits && fxi_json_next(&it);) {
        const fxi_json *of = fxi_json_getn(properties, it.key, it.key_bytes);
        fits = of ? fits_schema(of, it.value) : !is_closed;
    }
    for (size_t i = 0; fits && items && i < fxi_json_array_size(v); i++)
        fits = fits_schema(items, fxi_json_at(v, i));
    return fits;
}

fxi_args_fit fxi_tools_fit(void *ud, const char *name, size_t n, const char *args, size_t n_args)
{
    static const fxi_json_rules rules = {
        .max_depth = FXI_JSON_MAX_DEPTH, .max_value = FXI_JSON_MAX_VALUE, .nul_texts = true};
    const fxi_json *function = find_function(ud, name, n);
    const fxi_json *parameters = fxi_json_get(function, "parameters");
    fxi_json_doc doc = {0};
    const fx_status st = fxi_json_parse(&doc, (fxi_str){args, n_args}, &rules, NULL);
    const bool fits = function && st == FX_OK && fxi_json_is_object(doc.root) &&
                      fits_schema(parameters, doc.root);
    fxi_json_doc_free(&doc);
    return st == FX_ENOMEM ? FXI_ARGS_NO_MEMORY : fits ? FXI_ARGS_FIT : FXI_ARGS_BAD;
}
