// variables.c - fields that stand for variables of the chat template: how much the model should
// reason. Each family reads a name of its own; templates ignore what they do not know.
#include <string.h>

#include "server/request/dialect/dialect.h"

static bool take_effort(fxi_parse *p, const char *param, const char *effort)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(words[i], effort)) p->par->effort = words[i];
    return p->par->effort ||
           fxi_bad_value(p, param, "'%s' must be one of: none minimal low medium high xhigh",
                         param);
}

// {"effort": "low" ..}; "none": the model should not reason.
bool fxi_set_reasoning(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const json_t *effort = json_object_get(v, "effort");
    (void)f;
    if (!effort || json_is_null(effort)) return true;
    if (!json_is_string(effort)) return fxi_bad_type(p, "reasoning.effort", "a string");
    return take_effort(p, "reasoning.effort", json_string_value(effort));
}

// {"type": "enabled" | "adaptive" | "disabled"}.
bool fxi_set_thinking(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    static const char *const words[] = {"disabled", "enabled", "adaptive"};
    const char *type = json_string_value(json_object_get(v, "type"));
    for (size_t i = 0; type && i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(words[i], type)) p->par->thinking = i ? 1 : -1;
    return p->par->thinking ||
           fxi_bad_value(p, f->name, "the type of '%s' must be one of: enabled adaptive disabled",
                         f->name);
}

static bool add_own(fxi_buf *b, const json_t *kwargs)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)kwargs, key, v)
    {
        json_t *const name = json_string(key);
        const bool ok = name && fxi_json_value(b, name) && fxi_buf_str(b, ":") &&
                        fxi_json_value(b, v) && fxi_buf_str(b, ",");
        json_decref(name);
        if (!ok) return false;
    }
    return true;
}

// The client's own variables come last: of equal names they count.
static bool write_variables(const fxi_params *par, fxi_buf *b)
{
    const bool thinks = par->thinking > 0;
    bool ok = fxi_buf_str(b, "{");
    if (par->effort) ok = ok && fxi_buf_fmt(b, "\"reasoning_effort\":\"%s\",", par->effort);
    if (par->thinking)
        ok = ok && fxi_buf_fmt(b, "\"enable_thinking\":%s,\"thinking\":%s,",
                               thinks ? "true" : "false", thinks ? "true" : "false");
    ok = ok && add_own(b, par->kwargs);
    if (ok) b->p[b->n - 1] = '}';
    return ok;
}

bool fxi_variables_convert(fxi_parse *p)
{
    fxi_params *par = p->par;
    fxi_buf b = {0};
    if (par->effort && !strcmp(par->effort, "none") && !par->thinking) par->thinking = -1;
    if (!par->effort && !par->thinking) return true;
    bool ok = write_variables(par, &b) || fxi_no_memory(p);
    ok = ok && fxi_json_body(&par->made_kwargs, par->charge, b.p, b.n, p->err);
    if (ok) par->kwargs = par->made_kwargs.root;
    fxi_buf_free(&b);
    return ok;
}
