// api_tools.c - what the tools of a request say of their names and parameters: what decides whether
// text without marks is a call, and whether a value without quotes is text; ids of calls.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/number/rng.h"
#include "server/reply/api_reply.h"

static const json_t *find_function(const json_t *tools, const char *name, size_t n)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = json_object_get(json_array_get(tools, i), "function");
        const json_t *v = json_object_get(f, "name");
        if (json_string_length(v) == n && !memcmp(json_string_value(v), name, n)) return f;
    }
    return NULL;
}

bool fxi_tools_has(void *ud, const char *name, size_t n)
{
    return find_function(ud, name, n) != NULL;
}

// Of a list of types: text, if nothing that is written otherwise stands beside it.
static fxi_param_kind kind_of_types(const json_t *types)
{
    fxi_param_kind kind = FXI_PARAM_UNKNOWN;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || !strcmp(type, "null")) continue;
        if (strcmp(type, "string") != 0) return FXI_PARAM_OTHER;
        kind = FXI_PARAM_TEXT;
    }
    return kind;
}

static fxi_param_kind kind_of_schema(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *words = json_object_get(schema, "enum");
    if (json_is_array(type)) return kind_of_types(type);
    if (json_is_string(type))
        return strcmp(json_string_value(type), "string") ? FXI_PARAM_OTHER : FXI_PARAM_TEXT;
    for (size_t i = 0; i < json_array_size(words); i++)
        if (!json_is_string(json_array_get(words, i))) return FXI_PARAM_UNKNOWN;
    return json_array_size(words) ? FXI_PARAM_TEXT : FXI_PARAM_UNKNOWN;
}

fxi_param_kind fxi_tools_param(void *ud, const char *name, size_t n, const char *param,
                               size_t n_param)
{
    const json_t *parameters = json_object_get(find_function(ud, name, n), "parameters");
    const json_t *properties = json_object_get(parameters, "properties");
    return kind_of_schema(json_object_getn(properties, param, n_param));
}

// ---- ids ----------------------------------------------------------------------------------------

static bool is_plain_id(const char *id, size_t n)
{
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";
    for (size_t i = 0; i < n; i++)
        if (!id[i] || !strchr(fine, id[i])) return false;
    return n > 0 && n < FXI_CALL_ID_BYTES;
}

// 9 letters and digits.
static void write_short_id(uint64_t v, char *id)
{
    static const char digit[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for (int i = 0; i < 9; i++, v /= 62) id[i] = digit[v % 62];
    id[9] = 0;
}

void fxi_tools_call_id(const fxi_reply *r, int k, int n, const fxi_answer_event *ev, char *id)
{
    const uint64_t index = (uint64_t)k << 32 | (uint32_t)n, v = fxi_rng_u64(r->seed, 1, index);
    if (is_plain_id(ev->id, ev->n_id))
        snprintf(id, FXI_CALL_ID_BYTES, "%.*s", (int)ev->n_id, ev->id);
    else if (r->spec.calls->short_ids)
        write_short_id(v, id);
    else
        snprintf(id, FXI_CALL_ID_BYTES, "call_%016llx%08x", (unsigned long long)v,
                 (unsigned)fxi_rng_u64(r->seed, 2, index));
}
