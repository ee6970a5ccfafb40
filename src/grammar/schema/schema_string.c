// schema_string.c - strings: length, patterns, formats and names, alone or together.
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "grammar/automaton/gram_auto.h"
#include "grammar/automaton/gram_intersect.h"
#include "grammar/schema/schema_impl.h"
#include "grammar/syntax/gram_parts.h"
#include "grammar/syntax/gram_regex.h"

enum { MAX_MATCH_SET = 1 << 14, LAST_CHAR = 0x10FFFF };

// ---- formats ------------------------------------------------------------------------------------
//
// Each matches only what the standard that defines it allows, and of that what people write.

#define YEAR  "[0-9]{4}"
#define LEAP  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DAY31 "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
#define DAY30 "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
#define DAY28 "02-(?:0[1-9]|1[0-9]|2[0-8])"
#define DATE  "(?:" YEAR "-(?:" DAY31 "|" DAY30 "|" DAY28 ")|" LEAP "-02-29)"
#define HOUR  "(?:[01][0-9]|2[0-3])"
#define SIXTY "[0-5][0-9]"
#define TIME  HOUR ":" SIXTY ":" SIXTY "(?:\\.[0-9]{1,18})?(?:[Zz]|[+-]" HOUR ":" SIXTY ")"
#define HEX   "[0-9A-Fa-f]"
#define BYTE  "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4  BYTE "\\." BYTE "\\." BYTE "\\." BYTE
#define GROUP HEX "{1,4}"
#define LAST  "(?:" GROUP ":" GROUP "|" IPV4 ")"
#define IPV6                                                                                  \
    "(?:(?:" GROUP ":){6}" LAST "|::(?:" GROUP ":){5}" LAST "|(?:" GROUP ")?::(?:" GROUP      \
    ":){4}" LAST "|(?:(?:" GROUP ":){0,1}" GROUP ")?::(?:" GROUP ":){3}" LAST "|(?:(?:" GROUP \
    ":){0,2}" GROUP ")?::(?:" GROUP ":){2}" LAST "|(?:(?:" GROUP ":){0,3}" GROUP ")?::" GROUP \
    ":" LAST "|(?:(?:" GROUP ":){0,4}" GROUP ")?::" LAST "|(?:(?:" GROUP ":){0,5}" GROUP      \
    ")?::" GROUP "|(?:(?:" GROUP ":){0,6}" GROUP ")?::)"
#define X     "[A-Za-z0-9]"
#define Y     "[A-Za-z0-9-]"
// No hyphens in the third and fourth place, which mark encoded labels (RFC 5890). At most 253 bytes
// in all.
#define FIRST X "(?:" X "|" Y X "(?:" Y "{0,59}" X ")?|" Y "-" X "(?:" Y "{0,58}" X ")?)?"
#define LABEL X "(?:" X "|" Y X "(?:" Y "{0,33}" X ")?|" Y "-" X "(?:" Y "{0,32}" X ")?)?"
#define HOST  FIRST "(?:\\." LABEL "){0,5}"
// At most 64 characters before the @.
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define PCT   "%" HEX HEX
#define CHAR  "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define USER  "(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" PCT ")*@"
#define NAME  "(?:[A-Za-z0-9._~!$&'()*+,;=-]|" PCT ")*"
#define TAIL  "(?:\\?(?:" CHAR "|[/?])*)?(?:#(?:" CHAR "|[/?])*)?"
#define WAY   "(?:/" CHAR "*)*"
#define NET   "//(?:" USER ")?(?:" NAME "|\\[" IPV6 "\\])(?::[0-9]{0,5})?" WAY
#define ROOT  "/(?:" CHAR "+" WAY ")?"
#define URI   "[A-Za-z][A-Za-z0-9+.-]*:(?:" NET "|" ROOT "|" CHAR "+" WAY ")?" TAIL
#define PART  "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" PCT ")"

static const struct format_row {
    const char *name, *pattern;
} format_rows[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "[Tt]" TIME},
    {"duration",
     "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|"
     "[0-9]{1,9}D)(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
     "[0-9]{1,9}S))?|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
     "[0-9]{1,9}S))"},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
    {"email", ATOM "{1,40}(?:\\." ATOM "{1,11}){0,2}@" HOST},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uri", URI},
    {"uri-reference", "(?:" URI "|(?:" NET "|" ROOT "|" PART "+" WAY ")?" TAIL ")"},
    {"json-pointer", "(?:/(?:[^/~]|~[01])*)*"},
};

const char *fxi_schema_format(const char *name)
{
    for (size_t i = 0; i < sizeof format_rows / sizeof *format_rows; i++)
        if (!strcmp(format_rows[i].name, name)) return format_rows[i].pattern;
    return NULL;
}

// ---- one condition ------------------------------------------------------------------------------

static const fxi_schema_text any_text = {.max = FXI_GRAM_NO_MAX};

static uint32_t read_regex(fxi_schema *r, fxi_gram *g, const fxi_schema_text *c,
                           fxi_gram_spelling spelling)
{
    fx_error e;
    uint32_t node = 0;
    const char *pattern = c->whole ? c->whole : c->pattern;
    const unsigned flags = c->whole ? 0 : FXI_GRAM_SEARCH;
    if (fxi_gram_regex(g, fxi_str_of(pattern), flags, spelling, &node, &e))
        fxi_schema_refuse(r, c->at, "%.*s", FXI_UTF8_HEAD(e.text, 250));
    return node;
}

static uint32_t read_name_list(fxi_schema *r, fxi_gram *g, const fxi_schema_text *c,
                               fxi_gram_spelling spelling)
{
    uint32_t *alt = fxi_schema_alloc(r, c->n_name, sizeof *alt);
    for (size_t i = 0; alt && i < c->n_name; i++)
        alt[i] = fxi_gram_spell(g, fxi_str_of(c->name[i]), spelling);
    return alt ? fxi_gram_alt(g, alt, c->n_name) : 0;
}

static uint32_t read_condition(fxi_schema *r, fxi_gram *g, const fxi_schema_text *c,
                               fxi_gram_spelling spelling)
{
    uint32_t node = 0;
    if (r->failed) return 0;
    if (c->whole || c->pattern) return read_regex(r, g, c, spelling);
    if (c->n_name) return read_name_list(r, g, c, spelling);
    if (c->n_mark) {
        r->failed = fxi_gram_without(g, c->mark, c->n_mark, &node, r->err);
        return node;
    }
    const uint32_t any = fxi_gram_char_range(g, 1, LAST_CHAR, spelling);
    return c->min > c->max ? 0 : fxi_gram_repeat(g, any, c->min, c->max);
}

// ---- several conditions -------------------------------------------------------------------------

static uint32_t intersect_conditions(fxi_schema *r, const fxi_schema_text *cond, size_t n)
{
    fxi_intersect_part part[FXI_SCHEMA_MAX_CONDITION + 1] = {{.root = 0}};
    fx_error e = {0};
    uint32_t node = 0;
    size_t first = 0, n_part = 1, n_pair;
    while (first < n && cond[first].is_not) first++;
    part[0].root = read_condition(r, &part[0].g, first < n ? &cond[first] : &any_text, r->spelling);
    for (size_t i = 0; i < n; i++) {
        if (i == first) continue;
        part[n_part].is_not = cond[i].is_not;
        part[n_part].root = read_condition(r, &part[n_part].g, &cond[i], r->spelling);
        n_part++;
    }
    if (r->failed) {
        for (size_t i = 0; i < n_part; i++) fxi_gram_free(&part[i].g);
        return 0;
    }
    const fx_status st = fxi_gram_intersect(r->g, part, n_part, &node, &n_pair, &e);
    if (st == FX_EINVAL)
        fxi_schema_refuse(r, cond[0].at, "conditions on a text: %.*s", FXI_UTF8_HEAD(e.text, 200));
    else if (fxi_schema_need(r, !st))
        fxi_schema_charge_pairs(r, n_part, n_pair);
    return node;
}

uint32_t fxi_schema_texts(fxi_schema *r, const fxi_schema_text *cond, size_t n)
{
    if (n > FXI_SCHEMA_MAX_CONDITION) {
        fxi_schema_refuse(r, cond[0].at, "more than %d conditions on a text",
                          FXI_SCHEMA_MAX_CONDITION);
        return 0;
    }
    if (n > 1 || (n && cond[0].is_not)) return intersect_conditions(r, cond, n);
    return read_condition(r, r->g, n ? cond : &any_text, r->spelling);
}

// ---- matching a text ----------------------------------------------------------------------------

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

bool fxi_schema_matches(fxi_schema *r, const fxi_schema_text *cond, const char *text)
{
    fxi_gram g = {0};
    bool does = false;
    const uint32_t node = read_condition(r, &g, cond, FXI_SPELL_UTF8);
    if (!r->failed) r->failed = fxi_gram_finish(&g, node, r->err);
    if (!r->failed) r->failed = run_text(&g, text, &does, r->err);
    fxi_gram_free(&g);
    return does != cond->is_not;
}

// ---- strings ------------------------------------------------------------------------------------

size_t fxi_schema_conditions(fxi_schema *r, const fxi_schema_set *list, fxi_schema_text *cond)
{
    const fxi_json *v;
    size_t n = 0;
    const uint32_t min = fxi_schema_least(list, "minLength"),
                   max = fxi_schema_most(list, "maxLength");
    for (const fxi_json *s = NULL;
         (s = fxi_schema_next(list, "pattern", s, &v)) && n <= FXI_SCHEMA_MAX_CONDITION;)
        cond[n++] = (fxi_schema_text){.at = s, .pattern = fxi_json_text(v)};
    for (const fxi_json *s = NULL;
         (s = fxi_schema_next(list, "format", s, &v)) && n <= FXI_SCHEMA_MAX_CONDITION;) {
        const char *whole = fxi_schema_format(fxi_json_text(v));
        if (!whole)
            fxi_schema_refuse(r, s, "the format \"%.*s\" is not supported",
                              FXI_UTF8_HEAD(fxi_json_text(v), 60));
        cond[n++] = (fxi_schema_text){.at = s, .whole = whole};
    }
    if ((min || max != FXI_GRAM_NO_MAX) && n <= FXI_SCHEMA_MAX_CONDITION)
        cond[n++] = (fxi_schema_text){.at = list->at[0], .min = min, .max = max};
    return n;
}

void fxi_schema_strings(fxi_schema *r, const fxi_schema_set *list, fxi_schema_alts *alts)
{
    fxi_schema_text cond[FXI_SCHEMA_MAX_CONDITION + 1];
    const size_t n = fxi_schema_conditions(r, list, cond);
    const uint32_t quote = n ? fxi_gram_str(r->g, "\"") : 0;
    fxi_schema_add_alt(r, alts,
                       n ? FXI_SEQ_OF(r->g, quote, fxi_schema_texts(r, cond, n), quote)
                         : r->json->string);
}
