// api_set.c - setters of plain values, and of fields whose effect is not supported: their neutral
// values are accepted, any other is refused by name.
#include <string.h>

#include "server/request/api_fields.h"

// ---- plain values -----------------------------------------------------------------------------

static int64_t whole_of(const json_t *v)
{
    return json_is_integer(v) ? json_integer_value(v) : (int64_t)json_real_value(v);
}

static void *member_of(fxi_parse *p, const fxi_field *f)
{
    return (char *)p->par + f->at;
}

bool fxi_set_integer(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(int64_t *)member_of(p, f) = whole_of(v);
    return true;
}

bool fxi_set_number(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(double *)member_of(p, f) = json_number_value(v);
    return true;
}

bool fxi_set_bool(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(bool *)member_of(p, f) = json_is_true(v);
    return true;
}

bool fxi_set_text(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(const char **)member_of(p, f) = json_string_value(v);
    return true;
}

bool fxi_set_json(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(const json_t **)member_of(p, f) = v;
    return true;
}

bool fxi_set_seed(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    p->par->has_seed = true;
    return fxi_set_integer(p, f, v);
}

bool fxi_set_early_stop(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)f;
    p->par->early_stop = json_is_string(v) ? FX_STOP_NEVER
                         : json_is_true(v) ? FX_STOP_EARLY
                                           : FX_STOP_HEURISTIC;
    return true;
}

bool fxi_set_encoding(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)f;
    p->par->base64 = !strcmp(json_string_value(v), "base64");
    return true;
}

bool fxi_set_nothing(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)p, (void)f, (void)v;
    return true;
}

bool fxi_set_model(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    p->par->model = fxi_limits_model(p->lim, json_string_value(v));
    return p->par->model || fxi_limits_no_model(p->lim, f->name, json_string_value(v), p->err);
}

bool fxi_set_suffix(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (!json_string_length(v)) return true;
    p->par->suffix = v;
    return p->lim->infill || fxi_not_supported(p, f->name);
}

// ---- fields that are not supported -------------------------------------------------------------

static bool only_if(fxi_parse *p, const fxi_field *f, bool neutral)
{
    return neutral || fxi_not_supported(p, f->name);
}

bool fxi_only_false(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return only_if(p, f, json_is_false(v));
}

bool fxi_only_zero(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return only_if(p, f, json_number_value(v) == 0);
}

bool fxi_only_empty(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    bool empty = json_is_array(v)    ? !json_array_size(v)
                 : json_is_object(v) ? !json_object_size(v)
                                     : json_is_string(v) && !json_string_length(v);
    return only_if(p, f, empty);
}

bool fxi_only_absent(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)v;
    return only_if(p, f, false);
}

bool fxi_only_free_choice(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return only_if(p, f, json_is_string(v) && strcmp(json_string_value(v), "required") != 0);
}
