// scores_in.c - the texts of /v1/rerank and /v1/score as prompts.
//
//   a cross-encoder      a prompt is a pair of texts: one for each score
//   an embedding model   a prompt is a text: those of the first list, then those of the second
#include <stdlib.h>

#include "server/request/api_fields.h"

// A text, or a list of them; an element may be an object with the member "text".
typedef struct text_list {
    const char *field;
    const fxi_json *value;
    size_t n;
} text_list;

static text_list texts_of(const char *field, const fxi_json *v)
{
    return (text_list){field, v, fxi_json_is_array(v) ? fxi_json_array_size(v) : 1};
}

static const fxi_json *text_in(fxi_parse *p, const text_list *l, size_t i)
{
    const fxi_json *v = fxi_json_is_array(l->value) ? fxi_json_at(l->value, i) : l->value;
    const fxi_json *text = fxi_json_is_object(v) ? fxi_json_get(v, "text") : v;
    if (fxi_json_is_string(text)) return text;
    (void)fxi_bad_type(p, fxi_place_at("%s[%zu]", l->field, i).text,
                       "a string, or an object with a string 'text'");
    return NULL;
}

static bool check_lists(fxi_parse *p, const text_list *first, const text_list *second, size_t n)
{
    if (!first->n || !second->n)
        return fxi_bad_value(p, (first->n ? second : first)->field, "'%s' has no texts",
                             (first->n ? second : first)->field);
    if (first->n != 1 && first->n != second->n)
        return fxi_bad_value(p, first->field,
                             "'%s' must have one text, or as many as '%s', which has %zu",
                             first->field, second->field, second->n);
    if (n <= (size_t)p->lim->max_choice) return true;
    return fxi_bad_value(p, second->field, "at most %d texts at once", p->lim->max_choice);
}

static bool fill_prompt(fxi_parse *p, const text_list *l, size_t i, const char **text,
                        size_t *n_bytes)
{
    const fxi_json *v = text_in(p, l, i);
    *text = fxi_json_text(v);
    *n_bytes = fxi_json_string(v).n;
    return v != NULL;
}

static bool fill_pairs(fxi_parse *p, const text_list *first, const text_list *second)
{
    for (size_t i = 0; i < second->n; i++) {
        fxi_prompt *to = &p->par->prompt[i];
        if (!fill_prompt(p, first, first->n == 1 ? 0 : i, &to->text, &to->n_bytes) ||
            !fill_prompt(p, second, i, &to->second, &to->n_second_bytes))
            return false;
    }
    return true;
}

static bool fill_texts(fxi_parse *p, const text_list *l, fxi_prompt *to)
{
    for (size_t i = 0; i < l->n; i++)
        if (!fill_prompt(p, l, i, &to[i].text, &to[i].n_bytes)) return false;
    return true;
}

bool fxi_scores_convert(fxi_parse *p)
{
    fxi_params *par = p->par;
    const bool reranks = par->api == FXI_API_RERANK;
    const text_list first = texts_of(reranks ? "query" : "text_1", par->first_texts);
    const text_list second = texts_of(reranks ? "documents" : "text_2", par->second_texts);
    const size_t n = p->lim->scores ? second.n : first.n + second.n;
    if (!check_lists(p, &first, &second, n)) return false;
    par->input = second.field;
    par->prompt = calloc(n, sizeof *par->prompt);
    if (!par->prompt) return fxi_no_memory(p);
    par->n_prompt = n;
    par->reply.n_query = (int)first.n;
    par->reply.is_pairs = p->lim->scores;
    if (p->lim->scores) return fill_pairs(p, &first, &second);
    return fill_texts(p, &first, par->prompt) && fill_texts(p, &second, par->prompt + first.n);
}
