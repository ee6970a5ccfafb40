// tool_args.c - the arguments of one call as parts of a grammar, by the body of the format: JSON, a
// tag for each, or Python's keywords. Where the arguments are taken apart, the format must be able
// to name each of them; what it cannot is refused.
#include <stdio.h>
#include <string.h>

#include "server/request/tools/tool_parts.h"

#include "base/text/utf8.h"

enum { MAX_NAME = 200 };

#define WORD_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static const json_t *params_of(const json_t *tool)
{
    const json_t *v = json_object_get(json_object_get(tool, "function"), "parameters");
    return json_is_object(v) ? v : NULL;
}

static const char *name_of(const json_t *tool)
{
    const char *s = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
    return s ? s : "";
}

bool fxi_tool_is_strict(const json_t *tool)
{
    return json_is_true(json_object_get(json_object_get(tool, "function"), "strict"));
}

static bool takes_apart(const fxi_call_format *f)
{
    return f->body == FXI_BODY_TAGS || f->body == FXI_BODY_PYTHON;
}

// ---- what can be said ---------------------------------------------------------------------------

static bool is_word_among(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(word, list[i])) return true;
    return false;
}

// Of an object that is written member by member. Those behind `required` say nothing of a value.
static bool is_sayable_keyword(const char *key)
{
    static const char *const words[] = {"type",     "properties", "additionalProperties",
                                        "required", "$defs",      "definitions",
                                        "$schema",  "$id",        "$comment",
                                        "$anchor",  "title",      "description",
                                        "default",  "examples",   "deprecated",
                                        "readOnly", "writeOnly",  "strict"};
    return !strncmp(key, "x-", 2) || is_word_among(key, words, sizeof words / sizeof words[0]);
}

// Whether the parser finds the end of a parameter's name.
static bool is_sayable_key(const fxi_call_format *f, const char *key)
{
    const size_t n = strlen(key);
    if (!n || n > MAX_NAME) return false;
    if (f->body == FXI_BODY_PYTHON) return !key[strspn(key, WORD_BYTES)];
    return !strpbrk(key, "<>\"\n");
}

static bool check_keys(const fxi_call_format *f, const json_t *params, char *why, size_t n)
{
    const char *key;
    json_t *v;
    json_object_foreach(json_object_get(params, "properties"), key, v)
    {
        if (is_sayable_key(f, key)) continue;
        snprintf(why, n, "no call can name a parameter '%.*s'", FXI_UTF8_HEAD(key, 60));
        return false;
    }
    return true;
}

static bool check_required(const json_t *params, char *why, size_t n)
{
    const json_t *names = json_object_get(params, "required");
    const json_t *properties = json_object_get(params, "properties");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name || json_object_get(properties, name)) continue;
        snprintf(why, n, "'required' names '%.*s', which is none of its 'properties'",
                 FXI_UTF8_HEAD(name, 60));
        return false;
    }
    return true;
}

static bool check_keywords(const json_t *params, char *why, size_t n)
{
    const char *key;
    json_t *v;
    const char *type = json_string_value(json_object_get(params, "type"));
    json_object_foreach((json_t *)params, key, v)
    {
        if (is_sayable_keyword(key)) continue;
        snprintf(why, n, "a call cannot be made to follow '%.*s'", FXI_UTF8_HEAD(key, 60));
        return false;
    }
    if (!json_object_get(params, "type") || (type && !strcmp(type, "object"))) return true;
    snprintf(why, n, "the 'type' of its parameters is not 'object'");
    return false;
}

static bool check_tool_name(const fxi_call_format *f, const char *name, char *why, size_t n)
{
    if (strlen(name) <= MAX_NAME &&
        (f->body != FXI_BODY_PYTHON || !name[strspn(name, WORD_BYTES ".-")]))
        return true;
    snprintf(why, n, "no call can name it");
    return false;
}

bool fxi_tool_is_sayable(const fxi_call_format *calls, const json_t *tool, bool strict, char *why,
                         size_t n)
{
    const json_t *params = params_of(tool);
    if (!check_tool_name(calls, name_of(tool), why, n)) return false;
    if (!strict || !params || !takes_apart(calls)) return true;
    return check_keywords(params, why, n) && check_keys(calls, params, why, n) &&
           check_required(params, why, n);
}

// ---- values -------------------------------------------------------------------------------------

// "/properties/NAME", in which ~, / and % are escaped.
static const char *pointer_to(fxi_tool_builder *b, const char *name)
{
    static const char front[] = "/properties/";
    char *p = fxi_parts_bytes(b, sizeof front + 3 * strlen(name)), *at = p;
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

static fx_part member_part(fxi_tool_builder *b, fx_part_kind kind, const json_t *params,
                           const char *name)
{
    fx_part p = fxi_parts_text(pointer_to(b, name));
    p.kind = kind;
    p.schema = params;
    return p;
}

// Where a value has no lines of its own, a line break at its end would be taken for the tag's.
static fx_part tag_text(fxi_tool_builder *b, fx_part value)
{
    static const char edges[] = "^\\n|\\n$";
    const fxi_call_format *f = b->calls;
    fxi_part_list not = {0};
    fxi_parts_add_spelled(b, &not, &f->value_end, 1);
    if (f->spelling.value_end[0] != '\n') fxi_parts_add(b, &not, fxi_parts_regex(edges));
    value.part = not .part;
    value.n_part = not .n;
    return value;
}

static fx_part tag_value(fxi_tool_builder *b, const json_t *tool, const char *name)
{
    const char *function = name_of(tool);
    const fxi_param_kind kind =
        fxi_tools_param((void *)b->par->tools, function, strlen(function), name, strlen(name));
    if (kind != FXI_PARAM_TEXT) return member_part(b, FX_PART_SCHEMA, params_of(tool), name);
    return tag_text(b, member_part(b, FX_PART_STRING, params_of(tool), name));
}

static bool is_required(const json_t *params, const char *name)
{
    const json_t *names = json_object_get(params, "required");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *s = json_string_value(json_array_get(names, i));
        if (s && !strcmp(s, name)) return true;
    }
    return false;
}

// ---- tags ---------------------------------------------------------------------------------------

static fx_part one_tag(fxi_tool_builder *b, fx_part key, fx_part value)
{
    const fxi_call_spelling *w = &b->calls->spelling;
    fxi_part_list l = {0};
    fxi_parts_add_marked(b, &l, w->key);
    fxi_parts_add(b, &l, key);
    fxi_parts_add_marked(b, &l, w->key_end);
    fxi_parts_add(b, &l, value);
    fxi_parts_add_marked(b, &l, w->value_end);
    return fxi_parts_seq(&l);
}

static void add_tags(fxi_tool_builder *b, fxi_part_list *l, const json_t *tool)
{
    const char *name;
    json_t *v;
    const json_t *params = params_of(tool);
    json_object_foreach(json_object_get(params, "properties"), name, v)
    {
        const fx_part tag = one_tag(b, fxi_parts_text(name), tag_value(b, tool, name));
        fxi_parts_add(b, l, is_required(params, name) ? tag : fxi_parts_maybe(b, tag));
    }
}

// Any parameters: JSON, or text that looks like none, so that it ends where its tag does.
static void add_any_tags(fxi_tool_builder *b, fxi_part_list *l)
{
    static const char key[] = "[^<>\"\\s]{1,64}", like_json[] = "^\\s*[\"{\\[]";
    fxi_part_list value = {0}, not = {0};
    fxi_parts_add(b, &value, (fx_part){.kind = FX_PART_SCHEMA});
    fxi_parts_add_spelled(b, &not, &b->calls->value_end, 1);
    fxi_parts_add(b, &not, fxi_parts_regex(like_json));
    fxi_parts_add(b, &value,
                  (fx_part){.kind = FX_PART_STRING, .part = not .part, .n_part = not .n});
    const fx_part tag = one_tag(b, fxi_parts_regex(key), fxi_parts_alt(&value));
    fxi_parts_add(b, l, fxi_parts_repeat(b, tag, 0, FX_PART_NO_MAX));
}

// ---- Python -------------------------------------------------------------------------------------

static fx_part one_keyword(fxi_tool_builder *b, const char *front, fx_part key, fx_part value,
                           const char *back)
{
    fxi_part_list l = {0};
    fxi_parts_add_marked(b, &l, front);
    fxi_parts_add(b, &l, key);
    fxi_parts_add_marked(b, &l, "=");
    fxi_parts_add(b, &l, value);
    fxi_parts_add_marked(b, &l, back);
    return fxi_parts_seq(&l);
}

// The first required parameter has no comma; those in front of it have theirs behind. Where none is
// required, the last may be missing behind a comma, as Python allows.
static void add_keywords(fxi_tool_builder *b, fxi_part_list *l, const json_t *tool)
{
    const char *name;
    json_t *v;
    const json_t *params = params_of(tool), *all = json_object_get(params, "properties");
    size_t i = 0;
    bool behind = false;
    json_object_foreach((json_t *)all, name, v)
    {
        const bool must = is_required(params, name), is_last = ++i == json_object_size(all);
        const fx_part one = one_keyword(b, behind ? ", " : NULL, fxi_parts_text(name),
                                        member_part(b, FX_PART_SCHEMA, params, name),
                                        behind || must || is_last ? NULL : ", ");
        fxi_parts_add(b, l, must ? one : fxi_parts_maybe(b, one));
        behind |= must;
    }
}

static void add_any_keywords(fxi_tool_builder *b, fxi_part_list *l)
{
    static const char key[] = "[A-Za-z_][A-Za-z0-9_]{0,63}";
    fxi_part_list all = {0};
    const fx_part value = {.kind = FX_PART_SCHEMA};
    fxi_parts_add(b, &all, one_keyword(b, NULL, fxi_parts_regex(key), value, NULL));
    fxi_parts_add(b, &all,
                  fxi_parts_repeat(b, one_keyword(b, ", ", fxi_parts_regex(key), value, NULL), 0,
                                   FX_PART_NO_MAX));
    fxi_parts_add(b, l, fxi_parts_maybe(b, fxi_parts_seq(&all)));
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_json_args(fxi_tool_builder *b, fxi_part_list *l, const json_t *tool, bool strict)
{
    const json_t *params = params_of(tool);
    if (!strict)
        fxi_parts_add(b, l, (fx_part){.kind = FX_PART_JSON});
    else if (!params)
        fxi_parts_add_marked(b, l, "{}");
    else
        fxi_parts_add(b, l, (fx_part){.kind = FX_PART_OBJECT, .schema = params});
}

void fxi_tool_add_args(fxi_tool_builder *b, fxi_part_list *l, const json_t *tool)
{
    const bool strict = b->par->must_call || fxi_tool_is_strict(tool);
    const bool is_python = b->calls->body == FXI_BODY_PYTHON;
    if (!takes_apart(b->calls))
        add_json_args(b, l, tool, strict);
    else if (strict)
        (is_python ? add_keywords : add_tags)(b, l, tool);
    else
        (is_python ? add_any_keywords : add_any_tags)(b, l);
}
