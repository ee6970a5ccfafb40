// schema_ref.c - references within a schema: JSON pointers (RFC 6901) behind "#", and anchors.
#include <stdlib.h>

#include "grammar/schema/schema_parts.h"

#include "base/text/utf8.h"

static int digit_of_hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The next step of a pointer: %XX, ~0 and ~1 are what they stand for. False: out of memory.
static bool take_pointer_step(const char **at, fxi_buf *out)
{
    fxi_buf_clear(out);
    if (!fxi_buf_reserve(out, 1)) return false;
    for (; **at && **at != '/'; ++*at) {
        char c = **at;
        if (c == '%' && digit_of_hex((*at)[1]) >= 0 && digit_of_hex((*at)[2]) >= 0) {
            c = (char)(digit_of_hex((*at)[1]) << 4 | digit_of_hex((*at)[2]));
            *at += 2;
        }
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) c = *++*at == '0' ? '~' : '/';
        if (!fxi_buf_add(out, &c, 1)) return false;
    }
    return true;
}

// NULL: nothing is there.
static const json_t *step_into(const json_t *v, const char *step)
{
    char *end;
    if (json_is_object(v)) return json_object_get(v, step);
    if (!json_is_array(v) || !*step) return NULL;
    const unsigned long i = strtoul(step, &end, 10);
    return *end ? NULL : json_array_get(v, i);
}

// Below v, the schema with this anchor; NULL: there is none. *n_look: values looked at.
static const json_t *find_anchor(const json_t *v, const char *name, size_t *n_look)
{
    const char *key;
    json_t *member;
    const json_t *found = NULL;
    const char *own = json_string_value(json_object_get(v, "$anchor"));
    ++*n_look;
    if (own && !strcmp(own, name)) return v;
    json_object_foreach((json_t *)v, key, member)
    {
        if (!found && strcmp(key, "const") != 0 && strcmp(key, "enum") != 0)
            found = find_anchor(member, name, n_look);
    }
    for (size_t i = 0; !found && i < json_array_size(v); i++)
        found = find_anchor(json_array_get(v, i), name, n_look);
    return found;
}

fx_status fxi_schema_at(fxi_schema *r, const char *at, const json_t **out)
{
    fxi_buf step = {0};
    const json_t *v = r->root;
    bool ok = true;
    while (ok && v && *at == '/') {
        at++;
        ok = take_pointer_step(&at, &step);
        if (ok) v = step_into(v, step.p ? step.p : "");
    }
    fxi_buf_free(&step);
    *out = v;
    return ok ? FX_OK : fxi_fail(r->err, FX_ENOMEM, "out of memory");
}

fx_status fxi_schema_resolve(fxi_schema *r, const json_t *schema, const json_t **out)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    size_t n_look = 0;
    *out = NULL;
    if (ref[0] != '#')
        return fxi_schema_refuse(r, schema, "a \"$ref\" to another document (\"%.*s\")",
                                 FXI_UTF8_HEAD(ref, 100));
    if (!ref[1] || ref[1] == '/')
        FX_TRY(fxi_schema_at(r, ref + 1, out));
    else
        *out = find_anchor(r->root, ref + 1, &n_look);
    FX_TRY(fxi_schema_work(r, n_look / FXI_SCHEMA_LOOKS));
    if (json_is_object(*out) || json_is_boolean(*out)) return FX_OK;
    return fxi_schema_refuse(r, schema, "\"$ref\" names \"%.*s\", which is not there",
                             FXI_UTF8_HEAD(ref, 100));
}
