// api_prompt.c - `prompt` and `input`: one text, one list of token ids, or several of either.
#include <stdlib.h>

#include "server/request/api_fields.h"

static bool set_prompt_text(fxi_prompt *out, const json_t *v)
{
    out->text = json_string_value(v);
    out->n_bytes = json_string_length(v);
    return true;
}

static bool set_prompt_ids(fxi_parse *p, const fxi_field *f, fxi_prompt *out, const json_t *v)
{
    if (!json_array_size(v)) return fxi_bad_value(p, f->name, "a prompt has no tokens");
    return fxi_read_ids(p, f->name, "all token ids, or all strings", v, &out->ids);
}

static bool add_prompt(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    fxi_prompt *out = &p->par->prompt[p->par->n_prompt++];
    if (json_is_string(v)) return set_prompt_text(out, v);
    if (json_is_array(v)) return set_prompt_ids(p, f, out, v);
    return fxi_bad_type(p, f->name,
                        "a string, an array of strings, of token ids, or of arrays of ids");
}

// str and [int] are one prompt; [str] and [[int]] are one prompt per member. Members must not mix
// text and ids.
bool fxi_set_prompt(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const json_t *first = json_is_array(v) ? json_array_get(v, 0) : NULL;
    bool several = json_is_string(first) || json_is_array(first);
    size_t n = several ? json_array_size(v) : 1;
    if (p->par->n_prompt)
        return fxi_bad_value(p, f->name, "'%s' and '%s' exclude each other", p->par->input,
                             f->name);
    if (n > (size_t)p->lim->max_choice)
        return fxi_bad_value(p, f->name, "at most %d prompts at once", p->lim->max_choice);
    p->par->prompt = calloc(n, sizeof *p->par->prompt);
    if (!p->par->prompt) return fxi_no_memory(p);
    p->par->input = f->name;
    if (!several) return add_prompt(p, f, v);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(v, i);
        if (json_typeof(one) != json_typeof(first))
            return fxi_bad_type(p, f->name, "all token ids, or all strings");
        if (!add_prompt(p, f, one)) return false;
    }
    return true;
}
