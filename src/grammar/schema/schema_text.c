// schema_text.c - strings: length, patterns, formats and names, alone or together.
#include <stdlib.h>

#include "base/text/utf8.h"
#include "grammar/meet/gram_meet.h"
#include "grammar/read/gram_chars.h"
#include "grammar/read/gram_regex.h"
#include "grammar/read/gram_without.h"
#include "grammar/run/gram_auto.h"
#include "grammar/schema/schema_parts.h"

enum { MAX_CONDITION = FXI_SCHEMA_MAX_CONDITION, MAX_MATCH_SET = 1 << 14 };

// ---- one condition ------------------------------------------------------------------------------

static fx_status read_regex(fxi_schema *r, fxi_gram *g, const fxi_schema_text *c,
                            fxi_gram_spelling spelling, uint32_t *node)
{
    fx_error e;
    const char *pattern = c->whole ? c->whole : c->pattern;
    const fx_status st =
        fxi_gram_regex(g, fxi_str_of(pattern), c->whole ? 0 : FXI_GRAM_SEARCH, spelling, node, &e);
    return st == FX_EINVAL ? fxi_schema_refuse(r, c->at, "%.*s", FXI_UTF8_HEAD(e.text, 250))
           : st            ? fxi_schema_no_memory(r)
                           : FX_OK;
}

static fx_status read_length(fxi_schema *r, fxi_gram *g, const fxi_schema_text *c,
                             fxi_gram_spelling spelling, uint32_t *node)
{
    fxi_char_set set = {0};
    uint32_t any = 0;
    const bool ok = fxi_char_set_add(&set, 1, 0x10FFFF) && fxi_gram_chars(g, &set, spelling, &any);
    fxi_char_set_free(&set);
    if (!ok) return fxi_schema_no_memory(r);
    *node = c->min > c->max ? 0 : fxi_gram_repeat(g, any, c->min, c->max);
    return FX_OK;
}

static fx_status read_name_list(fxi_schema *r, fxi_gram *g, const fxi_schema_text *c,
                                fxi_gram_spelling spelling, uint32_t *node)
{
    uint32_t *way = fxi_schema_take(r, c->n_name, sizeof *way);
    if (!way) return fxi_schema_no_memory(r);
    for (size_t i = 0; i < c->n_name; i++)
        if (!fxi_gram_spell(g, fxi_str_of(c->name[i]), spelling, &way[i]))
            return fxi_schema_no_memory(r);
    *node = fxi_gram_alt(g, way, c->n_name);
    return FX_OK;
}

static fx_status read_condition(fxi_schema *r, fxi_gram *g, const fxi_schema_text *c,
                                fxi_gram_spelling spelling, uint32_t *node)
{
    if (c->whole || c->pattern) return read_regex(r, g, c, spelling, node);
    if (c->n_name) return read_name_list(r, g, c, spelling, node);
    if (c->n_mark) return fxi_gram_without(g, c->mark, c->n_mark, node, r->err);
    return read_length(r, g, c, spelling, node);
}

// ---- several ------------------------------------------------------------------------------------

static fx_status meet_conditions(fxi_schema *r, const fxi_schema_text *cond, size_t n,
                                 uint32_t *node)
{
    static const fxi_schema_text any = {.max = FXI_GRAM_NO_MAX};
    fxi_meet_part part[MAX_CONDITION + 1] = {{.root = 0}};
    fx_status st = FX_OK;
    fx_error e = {0};
    size_t first = 0, n_part = 0, n_pair;
    while (first < n && cond[first].is_not) first++;
    st = read_condition(r, &part[0].form, first < n ? &cond[first] : &any, r->spelling,
                        &part[0].root);
    n_part++;
    for (size_t i = 0; !st && i < n; i++) {
        if (i == first) continue;
        part[n_part].is_not = cond[i].is_not;
        st = read_condition(r, &part[n_part].form, &cond[i], r->spelling, &part[n_part].root);
        n_part++;
    }
    if (st) {
        for (size_t i = 0; i < n_part; i++) fxi_gram_free(&part[i].form);
        return st;
    }
    st = fxi_gram_meet_all(r->g, part, n_part, node, &n_pair, &e);
    return st == FX_EINVAL ? fxi_schema_refuse(r, cond[0].at, "conditions on a text: %.*s",
                                               FXI_UTF8_HEAD(e.text, 200))
           : st            ? fxi_schema_no_memory(r)
                           : fxi_schema_met(r, n_part, n_pair);
}

fx_status fxi_schema_texts(fxi_schema *r, const fxi_schema_text *cond, size_t n, uint32_t *node)
{
    static const fxi_schema_text any = {.max = FXI_GRAM_NO_MAX};
    if (n > MAX_CONDITION)
        return fxi_schema_refuse(r, cond[0].at, "more than %d conditions on a text", MAX_CONDITION);
    if (n > 1 || (n && cond[0].is_not)) return meet_conditions(r, cond, n, node);
    return read_condition(r, r->g, n ? cond : &any, r->spelling, node);
}

// ---- whether a text is such ---------------------------------------------------------------------

static fx_status run_text(const fxi_gram *g, const char *text, bool *out, fx_error *err)
{
    fxi_auto *a;
    FX_TRY(fxi_auto_make(g, MAX_MATCH_SET, &a, err));
    fx_status st = FX_OK;
    uint32_t at = fxi_auto_start(a);
    for (; !st && *text; text++) st = fxi_auto_step(a, at, (uint8_t)*text, &at, err);
    *out = !st && fxi_auto_is_final(a, at);
    fxi_auto_free(a);
    return st;
}

fx_status fxi_schema_matches(fxi_schema *r, const fxi_schema_text *cond, const char *text,
                             bool *out)
{
    fxi_gram g = {0};
    uint32_t node = 0;
    fx_status st = read_condition(r, &g, cond, FXI_SPELL_UTF8, &node);
    if (!st) st = fxi_gram_finish(&g, node, r->err);
    if (!st) st = run_text(&g, text, out, r->err);
    fxi_gram_free(&g);
    if (!st) *out = *out != cond->is_not;
    return st;
}

// ---- strings ------------------------------------------------------------------------------------

// Up to MAX_CONDITION + 1 of them: more than there may be.
fx_status fxi_schema_conditions(fxi_schema *r, const fxi_schema_set *list, fxi_schema_text *cond,
                                size_t *n)
{
    const json_t *v;
    const uint32_t min = fxi_schema_least(list, "minLength"),
                   max = fxi_schema_most(list, "maxLength");
    for (const json_t *s = NULL;
         (s = fxi_schema_next(list, "pattern", s, &v)) && *n <= MAX_CONDITION;)
        cond[(*n)++] = (fxi_schema_text){.at = s, .pattern = json_string_value(v)};
    for (const json_t *s = NULL;
         (s = fxi_schema_next(list, "format", s, &v)) && *n <= MAX_CONDITION;) {
        const char *whole = fxi_regex_of_format(json_string_value(v));
        if (!whole)
            return fxi_schema_refuse(r, s, "the format \"%.*s\" is not supported",
                                     FXI_UTF8_HEAD(json_string_value(v), 60));
        cond[(*n)++] = (fxi_schema_text){.at = s, .whole = whole};
    }
    if ((min || max != FXI_GRAM_NO_MAX) && *n <= MAX_CONDITION)
        cond[(*n)++] = (fxi_schema_text){.at = list->at[0], .min = min, .max = max};
    return FX_OK;
}

fx_status fxi_schema_strings(fxi_schema *r, const fxi_schema_set *list, fxi_schema_ways *w)
{
    fxi_schema_text cond[MAX_CONDITION + 1];
    size_t n = 0;
    uint32_t text = 0;
    FX_TRY(fxi_schema_conditions(r, list, cond, &n));
    if (!n) return fxi_schema_way(r, w, r->json->string);
    FX_TRY(fxi_schema_texts(r, cond, n, &text));
    const uint32_t part[] = {fxi_gram_text(r->g, "\"", 1), text, fxi_gram_text(r->g, "\"", 1)};
    return fxi_schema_way(r, w, fxi_gram_seq(r->g, part, 3));
}
