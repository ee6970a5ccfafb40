// jinja_input.c - JSON values to a template's values.
#include <string.h>

#include "format/jinja/run/jinja_exec.h"
#include "format/jinja/tree/jinja_str.h"

typedef struct json_source {
    fxi_jrun *r;
    char *marks; // [n_marks] all set: marks for the template's own strings, which share them
    size_t n_marks;
} json_source;

static fx_status input_value(json_source *in, const json_t *j, bool own, fxi_jval *out);

static fx_status marks_for(json_source *in, size_t n, const char **out)
{
    if (in->n_marks < n) {
        FX_TRY(fxi_jrun_take(in->r, n, &in->marks));
        memset(in->marks, 1, n);
        in->n_marks = n;
    }
    *out = in->marks;
    return FX_OK;
}

static fx_status input_text(json_source *in, const char *p, size_t n, bool own, fxi_jval *out)
{
    const char *marks = NULL;
    if (own && n) FX_TRY(marks_for(in, n, &marks));
    return fxi_jstr_make(in->r, p, marks, n, out);
}

static fx_status input_array(json_source *in, const json_t *j, bool own, fxi_jval *out)
{
    const size_t n = json_array_size(j);
    fxi_jval *v;
    FX_TRY(fxi_jrun_take(in->r, n * sizeof *v, &v));
    for (size_t i = 0; i < n; i++) FX_TRY(input_value(in, json_array_get(j, i), own, &v[i]));
    return fxi_jval_make_seq(in->r, FXI_JVAL_LIST, v, n, out);
}

static fx_status input_object(json_source *in, const json_t *j, bool own, fxi_jval *out)
{
    fxi_jpair *e;
    size_t i = 0;
    const char *key;
    json_t *value;
    FX_TRY(fxi_jrun_take(in->r, json_object_size(j) * sizeof *e, &e));
    json_object_foreach((json_t *)j, key, value)
    {
        FX_TRY(input_text(in, key, strlen(key), own, &e[i].key));
        FX_TRY(input_value(in, value, own, &e[i++].value));
    }
    return fxi_jdict_make(in->r, e, i, out);
}

static fx_status input_any(json_source *in, const json_t *j, bool own, fxi_jval *out)
{
    *out = fxi_jval_none();
    switch (json_typeof(j)) {
    case JSON_OBJECT: return input_object(in, j, own, out);
    case JSON_ARRAY: return input_array(in, j, own, out);
    case JSON_STRING: return input_text(in, json_string_value(j), json_string_length(j), own, out);
    case JSON_INTEGER: *out = fxi_jval_int(json_integer_value(j)); break;
    case JSON_REAL: *out = fxi_jval_float(json_real_value(j)); break;
    case JSON_TRUE:
    case JSON_FALSE: *out = fxi_jval_bool(json_is_true(j)); break;
    case JSON_NULL: break;
    }
    out->own = own;
    return FX_OK;
}

static fx_status input_value(json_source *in, const json_t *j, bool own, fxi_jval *out)
{
    FX_TRY(fxi_jrun_enter(in->r));
    fx_status st = input_any(in, j, own, out);
    fxi_jrun_leave(in->r);
    return st;
}

// The roles that published templates know. None spells a control token by itself.
static bool is_role(const fxi_jstr *s)
{
    static const char *const words[] = {"system",      "user",     "assistant",  "tool",
                                        "developer",   "function", "ipython",    "model",
                                        "observation", "context",  "environment"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (fxi_jstr_is(s, words[i])) return true;
    return false;
}

// Marks messages[i].role as the template's own if it is one of these words.
static fx_status own_roles(json_source *in, const fxi_jval *messages)
{
    for (size_t i = 0; messages->type == FXI_JVAL_LIST && i < messages->seq->n; i++) {
        fxi_jval m = messages->seq->v[i];
        for (size_t k = 0; m.type == FXI_JVAL_DICT && k < m.dict->n; k++) {
            const fxi_jpair *e = &m.dict->e[k];
            if (!fxi_jstr_is(e->key.s, "role") || e->value.type != FXI_JVAL_STR) continue;
            if (is_role(e->value.s))
                FX_TRY(marks_for(in, e->value.s->n, &((fxi_jstr *)e->value.s)->own));
        }
    }
    return FX_OK;
}

fx_status fxi_jval_from_json(fxi_jrun *r, const json_t *j, fxi_jinja_whose whose, fxi_jval *out)
{
    json_source in = {.r = r};
    FX_TRY(input_value(&in, j, whose == FXI_JINJA_OWN, out));
    return whose == FXI_JINJA_MESSAGES ? own_roles(&in, out) : FX_OK;
}
