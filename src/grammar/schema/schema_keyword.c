// schema_keyword.c - the lowest of the files that read a schema: memory and work, the table of
// keywords, lookups in a list of schemas, and references: JSON pointers (RFC 6901) after "#", and
// anchors.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/buf.h"
#include "base/text/utf8.h"
#include "grammar/schema/schema_impl.h"

enum { SLAB_BYTES = 16 << 10, WORK_PER_INTERSECTION = 100, PAIRS_PER_WORK = 4 };

// ---- memory and work ----------------------------------------------------------------------------

void *fxi_schema_alloc(fxi_schema *r, size_t n, size_t elem_bytes)
{
    void *p = r->failed ? NULL : fxi_arena_take(&r->arena, n * elem_bytes, SLAB_BYTES);
    if (fxi_schema_need(r, p)) memset(p, 0, n * elem_bytes);
    return p;
}

bool fxi_schema_need(fxi_schema *r, bool got)
{
    if (!got && !r->failed) r->failed = fxi_fail_memory(r->err);
    return got;
}

bool fxi_schema_grow(fxi_schema *r, void *list, size_t elem_bytes, size_t n, size_t *cap)
{
    void **at = list;
    if (n < *cap || r->failed) return !r->failed;
    const size_t want = 2 * *cap + 4;
    void *more = fxi_schema_alloc(r, want, elem_bytes);
    if (!more) return false;
    if (n) memcpy(more, *at, n * elem_bytes);
    *at = more;
    *cap = want;
    return true;
}

void fxi_schema_charge(fxi_schema *r, size_t n)
{
    if ((r->n_work += n) > FXI_SCHEMA_MAX_WORK && !r->failed)
        r->failed =
            fxi_fail(r->err, FX_EINVAL, "schema: its alternatives are too many to be written down");
}

void fxi_schema_charge_pairs(fxi_schema *r, size_t n, size_t n_pair)
{
    fxi_schema_charge(r, n * WORK_PER_INTERSECTION + n_pair / PAIRS_PER_WORK);
}

bool fxi_schema_has(const fxi_schema_set *s, const fxi_json *schema)
{
    size_t i = 0;
    while (i < s->n && s->at[i] != schema) i++;
    return i < s->n;
}

void fxi_schema_put(fxi_schema *r, fxi_schema_bag *b, const fxi_json *schema)
{
    if (fxi_json_is_bool(schema)) schema = fxi_json_bool(fxi_json_is_true(schema)); // one of each
    if (fxi_schema_has(&b->set, schema)) return;
    if (fxi_schema_grow(r, &b->set.at, sizeof *b->set.at, b->set.n, &b->cap))
        b->set.at[b->set.n++] = schema;
}

void fxi_schema_add_alt(fxi_schema *r, fxi_schema_alts *alts, uint32_t node)
{
    if (fxi_schema_grow(r, &alts->node, sizeof *alts->node, alts->n, &alts->cap))
        alts->node[alts->n++] = node;
}

// ---- where a schema stands ----------------------------------------------------------------------

// Finds `what` by its address below v and writes the path to it.
static bool find_schema_path(const fxi_json *v, const fxi_json *what, fxi_buf *path)
{
    const size_t n = path->n;
    if (v == what) return true;
    for (fxi_json_iter it = fxi_json_items(v); fxi_json_next(&it);) {
        const bool named =
            it.key ? fxi_buf_fmt(path, "/%s", it.key) : fxi_buf_fmt(path, "/%zu", it.i);
        if (named && find_schema_path(it.value, what, path)) return true;
        path->n = n;
    }
    return false;
}

void fxi_schema_refuse(fxi_schema *r, const fxi_json *at, const char *fmt, ...)
{
    char what[300];
    fxi_buf path = {0};
    va_list ap;
    if (r->failed) return;
    va_start(ap, fmt);
    fxi_utf8_vprint(what, sizeof what, fmt, ap);
    va_end(ap);
    const bool found = fxi_buf_str(&path, "#") && find_schema_path(r->root, at, &path);
    r->failed = fxi_fail(r->err, FX_EINVAL, "schema: %s at %.*s", what,
                         FXI_UTF8_HEAD(found ? path.p : "#", 160));
    fxi_buf_free(&path);
}

// ---- checks -------------------------------------------------------------------------------------

static const struct type_row {
    const char *name;
    unsigned types;
} type_rows[] = {
    {"null", FXI_SCHEMA_NULL},     {"boolean", FXI_SCHEMA_BOOL},
    {"number", FXI_SCHEMA_NUMBER}, {"integer", FXI_SCHEMA_NUMBER | FXI_SCHEMA_WHOLE},
    {"string", FXI_SCHEMA_STRING}, {"array", FXI_SCHEMA_ARRAY},
    {"object", FXI_SCHEMA_OBJECT},
};

static const struct type_row *find_type(const fxi_json *name)
{
    for (size_t i = 0; fxi_json_is_string(name) && i < sizeof type_rows / sizeof *type_rows; i++)
        if (!strcmp(type_rows[i].name, fxi_json_text(name))) return &type_rows[i];
    return NULL;
}

static bool is_schema_value(const fxi_json *v)
{
    return fxi_json_is_object(v) || fxi_json_is_bool(v);
}

static bool each_is(const fxi_json *list, bool (*is)(const fxi_json *v))
{
    bool ok = fxi_json_is_array(list) || fxi_json_is_object(list);
    for (fxi_json_iter it = fxi_json_items(list); ok && fxi_json_next(&it);) ok = is(it.value);
    return ok;
}

static bool is_type_name(const fxi_json *v)
{
    return find_type(v) != NULL;
}

static bool is_count_value(const fxi_json *v)
{
    const double d = fxi_json_number(v);
    return fxi_json_is_number(v) && d >= 0 && d == floor(d);
}

static bool is_schema_list(const fxi_json *v)
{
    return fxi_json_array_size(v) && each_is(v, is_schema_value);
}

static bool is_schema_map(const fxi_json *v)
{
    return fxi_json_is_object(v) && each_is(v, is_schema_value);
}

static bool is_string_list(const fxi_json *v)
{
    return fxi_json_is_array(v) && each_is(v, fxi_json_is_string);
}

static bool is_type_value(const fxi_json *v)
{
    return is_type_name(v) || (fxi_json_array_size(v) && each_is(v, is_type_name));
}

// What a keyword's value must be.
static const struct value_kind {
    bool (*is)(const fxi_json *v);
    const char *want;
} a_schema = {is_schema_value, "must be a schema"},
  schema_list = {is_schema_list, "must list schemas"},
  schema_map = {is_schema_map, "must be an object of schemas"},
  a_string = {fxi_json_is_string, "must be a string"},
  string_list = {is_string_list, "must list strings"},
  a_number = {fxi_json_is_number, "must be a number"},
  a_count = {is_count_value, "must be an integer of at least 0"},
  a_list = {fxi_json_is_array, "must be an array"},
  a_type = {is_type_value, "must be the name of a type, or list such names"},
  only_false = {fxi_json_is_false, "is not supported"}, unknown = {NULL, "is not supported"};

static const struct keyword_row {
    const char *name;
    const struct value_kind *value; // NULL: any, of an annotation or `const`
} keyword_rows[] = {
    {"type", &a_type},
    {"enum", &a_list},
    {"const", NULL},
    {"anyOf", &schema_list},
    {"oneOf", &schema_list},
    {"allOf", &schema_list},
    {"$ref", &a_string},
    {"minimum", &a_number},
    {"maximum", &a_number},
    {"exclusiveMinimum", &a_number},
    {"exclusiveMaximum", &a_number},
    {"multipleOf", &a_number},
    {"minLength", &a_count},
    {"maxLength", &a_count},
    {"pattern", &a_string},
    {"format", &a_string},
    {"prefixItems", &schema_list},
    {"items", &a_schema},
    {"minItems", &a_count},
    {"maxItems", &a_count},
    {"uniqueItems", &only_false},
    {"properties", &schema_map},
    {"patternProperties", &schema_map},
    {"additionalProperties", &a_schema},
    {"required", &string_list},
    {"minProperties", &a_count},
    {"maxProperties", &a_count},
    {"$defs", &schema_map},
    {"definitions", &schema_map},
    {"$anchor", &a_string},
    {"$schema", NULL},
    {"$id", NULL},
    {"id", NULL}, // of draft 4
    {"$comment", NULL},
    {"$vocabulary", NULL},
    {"title", NULL},
    {"description", NULL},
    {"default", NULL},
    {"examples", NULL},
    {"example", NULL},
    {"deprecated", NULL},
    {"readOnly", NULL},
    {"writeOnly", NULL},
    {"contentEncoding", NULL},
    {"contentMediaType", NULL},
    {"contentSchema", NULL},
    {"discriminator", NULL},
};

enum { N_KEYWORD = sizeof keyword_rows / sizeof *keyword_rows };

void fxi_schema_check(fxi_schema *r, const fxi_json *schema)
{
    for (fxi_json_iter it = fxi_json_members(schema); fxi_json_next(&it);) {
        size_t k = 0;
        while (k < N_KEYWORD && strcmp(keyword_rows[k].name, it.key) != 0) k++;
        if (k == N_KEYWORD && !strncmp(it.key, "x-", 2)) continue;
        const struct value_kind *kind = k < N_KEYWORD ? keyword_rows[k].value : &unknown;
        if (kind && (kind == &unknown || !kind->is(it.value)))
            fxi_schema_refuse(r, schema, "\"%.*s\" %s", FXI_UTF8_HEAD(it.key, 60), kind->want);
    }
    if (schema != r->root && fxi_json_get(schema, "$id"))
        fxi_schema_refuse(r, schema, "\"$id\" inside of a schema is not supported");
}

// ---- lists --------------------------------------------------------------------------------------

static unsigned types_of_schema(const fxi_json *schema)
{
    const fxi_json *type = fxi_json_get(schema, "type");
    unsigned all = 0, plain = 0;
    if (!type) return FXI_SCHEMA_ALL;
    if (fxi_json_is_string(type)) return find_type(type)->types;
    for (size_t i = 0; i < fxi_json_array_size(type); i++) {
        const unsigned one = find_type(fxi_json_at(type, i))->types;
        all |= one;
        if (!(one & FXI_SCHEMA_WHOLE)) plain |= one;
    }
    return plain & FXI_SCHEMA_NUMBER ? all & ~(unsigned)FXI_SCHEMA_WHOLE : all;
}

unsigned fxi_schema_types_of(const fxi_schema_set *list)
{
    unsigned types = FXI_SCHEMA_ALL, whole = 0;
    for (size_t i = 0; i < list->n; i++) {
        const unsigned one = types_of_schema(list->at[i]);
        types &= one;
        whole |= one & FXI_SCHEMA_WHOLE;
    }
    return types | (types & FXI_SCHEMA_NUMBER ? whole : 0);
}

const fxi_json *fxi_schema_next(const fxi_schema_set *list, const char *keyword,
                                const fxi_json *before, const fxi_json **value)
{
    size_t i = 0;
    while (before && list->at[i++] != before) continue;
    for (; i < list->n; i++)
        if ((*value = fxi_json_get(list->at[i], keyword))) return list->at[i];
    return NULL;
}

static uint32_t count_of(const fxi_json *v)
{
    const double d = fxi_json_number(v);
    return d < FXI_GRAM_NO_MAX ? (uint32_t)d : FXI_GRAM_NO_MAX;
}

uint32_t fxi_schema_least(const fxi_schema_set *list, const char *keyword)
{
    uint32_t least = 0;
    const fxi_json *v;
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, keyword, s, &v));)
        if (count_of(v) > least) least = count_of(v);
    return least;
}

uint32_t fxi_schema_most(const fxi_schema_set *list, const char *keyword)
{
    uint32_t most = FXI_GRAM_NO_MAX;
    const fxi_json *v;
    for (const fxi_json *s = NULL; (s = fxi_schema_next(list, keyword, s, &v));)
        if (count_of(v) < most) most = count_of(v);
    return most;
}

// ---- references ---------------------------------------------------------------------------------

// Takes the next step of a pointer; decodes %XX, ~0 and ~1. False: out of memory.
static bool take_pointer_step(const char **at, fxi_buf *out)
{
    fxi_buf_clear(out);
    if (!fxi_buf_reserve(out, 1)) return false;
    for (; **at && **at != '/'; ++*at) {
        char c = **at;
        if (c == '%' && fxi_hex_digit((*at)[1]) >= 0 && fxi_hex_digit((*at)[2]) >= 0) {
            c = (char)(fxi_hex_digit((*at)[1]) << 4 | fxi_hex_digit((*at)[2]));
            *at += 2;
        }
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) c = *++*at == '0' ? '~' : '/';
        if (!fxi_buf_add(out, &c, 1)) return false;
    }
    return true;
}

// The schema with this anchor, v or below it; NULL: there is none. *n_look: values looked at.
static const fxi_json *find_anchor(const fxi_json *v, const char *name, size_t *n_look)
{
    const fxi_json *found = NULL;
    const char *own = fxi_json_text(fxi_json_get(v, "$anchor"));
    ++*n_look;
    if (own && !strcmp(own, name)) return v;
    for (fxi_json_iter it = fxi_json_items(v); !found && fxi_json_next(&it);)
        if (!it.key || (strcmp(it.key, "const") != 0 && strcmp(it.key, "enum") != 0))
            found = find_anchor(it.value, name, n_look);
    return found;
}

const fxi_json *fxi_schema_at(fxi_schema *r, const char *at)
{
    fxi_buf step = {0};
    const fxi_json *v = r->root;
    while (v && *at == '/') {
        char *end;
        at++;
        if (!fxi_schema_need(r, take_pointer_step(&at, &step))) break;
        const size_t i = strtoul(step.p, &end, 10);
        v = fxi_json_is_object(v) ? fxi_json_get(v, step.p)
            : step.n && !*end     ? fxi_json_at(v, i)
                                  : NULL;
    }
    fxi_buf_free(&step);
    return v;
}

const fxi_json *fxi_schema_resolve(fxi_schema *r, const fxi_json *schema)
{
    const char *ref = fxi_json_text(fxi_json_get(schema, "$ref"));
    size_t n_look = 0;
    if (r->failed) return NULL;
    if (ref[0] != '#') {
        fxi_schema_refuse(r, schema, "a \"$ref\" to another document (\"%.*s\")",
                          FXI_UTF8_HEAD(ref, 100));
        return NULL;
    }
    const fxi_json *named = !ref[1] || ref[1] == '/' ? fxi_schema_at(r, ref + 1)
                                                     : find_anchor(r->root, ref + 1, &n_look);
    fxi_schema_charge(r, n_look / FXI_SCHEMA_LOOKS);
    if (!is_schema_value(named))
        fxi_schema_refuse(r, schema, "\"$ref\" names \"%.*s\", which is not there",
                          FXI_UTF8_HEAD(ref, 100));
    return named;
}
