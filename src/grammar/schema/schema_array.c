// schema_array.c - arrays: elements by position, then all others, between brackets.
#include "grammar/schema/schema_parts.h"

enum { MAX_PREFIX = 4096 };

fx_status fxi_schema_element(fxi_schema *r, const fxi_schema_set *list, size_t at,
                             fxi_schema_bag *out)
{
    for (size_t i = 0; i < list->n; i++) {
        const json_t *prefix = json_object_get(list->at[i], "prefixItems"),
                     *items = json_object_get(list->at[i], "items"),
                     *s = at < json_array_size(prefix) ? json_array_get(prefix, at) : items;
        if (s) FX_TRY(fxi_schema_put(r, out, s));
    }
    return FX_OK;
}

static size_t longest_prefix(const fxi_schema_set *list)
{
    size_t n = 0;
    const json_t *v;
    for (const json_t *s = NULL; (s = fxi_schema_next(list, "prefixItems", s, &v));)
        if (json_array_size(v) > n) n = json_array_size(v);
    return n;
}

static fx_status element_node(fxi_schema *r, const fxi_schema_set *list, size_t at, uint32_t *node)
{
    fxi_schema_bag b = {0};
    FX_TRY(fxi_schema_element(r, list, at, &b));
    return fxi_schema_node(r, &b.set, node);
}

static uint32_t mark_of(fxi_schema *r, const char *s)
{
    return fxi_gram_text(r->g, s, strlen(s));
}

// What may follow when there are `n` elements: n of the prefix at most, the others by `items`.
static fx_status others_node(fxi_schema *r, const fxi_schema_set *list, uint32_t n, uint32_t min,
                             uint32_t max, uint32_t *node)
{
    uint32_t item = 0;
    FX_TRY(element_node(r, list, n, &item));
    const uint32_t first[] = {item, r->json->space},
                   next[] = {mark_of(r, ","), r->json->space, item, r->json->space};
    const uint32_t left = max == FXI_GRAM_NO_MAX ? max : max - n, least = min > n ? min - n : 0;
    if (n) {
        *node = fxi_gram_repeat(r->g, fxi_gram_seq(r->g, next, 4), least, left);
        return FX_OK;
    }
    const uint32_t most_more = left == FXI_GRAM_NO_MAX ? left : left ? left - 1 : 0;
    const uint32_t more =
        fxi_gram_repeat(r->g, fxi_gram_seq(r->g, next, 4), least ? least - 1 : 0, most_more);
    const uint32_t part[] = {fxi_gram_seq(r->g, first, 2), more};
    *node = fxi_gram_repeat(r->g, fxi_gram_seq(r->g, part, 2), least > 0, left > 0);
    return FX_OK;
}

// From the last element of the prefix to the first: each is followed by nothing or by the next.
static fx_status elements_node(fxi_schema *r, const fxi_schema_set *list, uint32_t min,
                               uint32_t max, uint32_t *node)
{
    const size_t n_prefix = longest_prefix(list);
    const uint32_t n = n_prefix < max ? (uint32_t)n_prefix : max;
    if (n == max)
        *node = fxi_gram_text(r->g, NULL, 0);
    else
        FX_TRY(others_node(r, list, n, min, max, node));
    for (uint32_t i = n; i-- > 0;) {
        uint32_t item = 0;
        FX_TRY(element_node(r, list, i, &item));
        const uint32_t part[] = {mark_of(r, i ? "," : ""), i ? r->json->space : mark_of(r, ""),
                                 item, r->json->space, *node};
        *node = fxi_gram_repeat(r->g, fxi_gram_seq(r->g, part, 5), i < min, 1);
    }
    return FX_OK;
}

fx_status fxi_schema_arrays(fxi_schema *r, const fxi_schema_set *list, fxi_schema_ways *w)
{
    const uint32_t min = fxi_schema_least(list, "minItems"),
                   max = fxi_schema_most(list, "maxItems");
    uint32_t all = 0;
    if (min > max) return FX_OK;
    if (longest_prefix(list) > MAX_PREFIX)
        return fxi_schema_refuse(r, list->at[0], "\"prefixItems\" of more than %d", MAX_PREFIX);
    FX_TRY(elements_node(r, list, min, max, &all));
    const uint32_t part[] = {mark_of(r, "["), r->json->space, all, mark_of(r, "]")};
    return fxi_schema_way(r, w, fxi_gram_seq(r->g, part, 4));
}
