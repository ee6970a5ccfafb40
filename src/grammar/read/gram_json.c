// gram_json.c - JSON's values, made of each other.
#include "grammar/read/gram_json.h"

#include "grammar/read/gram_chars.h"
#include "grammar/read/gram_regex.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static uint32_t text_of(fxi_gram *g, const char *s)
{
    return fxi_gram_text(g, s, strlen(s));
}

static uint32_t any_times(fxi_gram *g, uint32_t node)
{
    return fxi_gram_repeat(g, node, 0, FXI_GRAM_NO_MAX);
}

static uint32_t make_optional(fxi_gram *g, uint32_t node)
{
    return fxi_gram_repeat(g, node, 0, 1);
}

static fx_status add_string(fxi_gram *g, uint32_t *out, fx_error *err)
{
    fxi_char_set set = {0};
    uint32_t c = 0;
    const bool ok =
        fxi_char_set_add(&set, 1, 0x10FFFF) && fxi_gram_chars(g, &set, FXI_SPELL_JSON, &c);
    fxi_char_set_free(&set);
    if (!ok) return fxi_fail(err, FX_ENOMEM, "out of memory");
    const uint32_t part[] = {text_of(g, "\""), any_times(g, c), text_of(g, "\"")};
    *out = fxi_gram_seq(g, part, COUNT_OF(part));
    return FX_OK;
}

// open, and perhaps items with commas between them, close; space around each.
static uint32_t list_of(fxi_gram *g, const char *open, const char *close, uint32_t item,
                        uint32_t space)
{
    const uint32_t comma = text_of(g, ",");
    const uint32_t next[] = {comma, space, item, space};
    const uint32_t more = any_times(g, fxi_gram_seq(g, next, COUNT_OF(next)));
    const uint32_t items[] = {item, space, more};
    const uint32_t all = make_optional(g, fxi_gram_seq(g, items, COUNT_OF(items)));
    const uint32_t part[] = {text_of(g, open), space, all, text_of(g, close)};
    return fxi_gram_seq(g, part, COUNT_OF(part));
}

static void add_values(fxi_gram *g, fxi_gram_json *j)
{
    const uint32_t rule = fxi_gram_rule_add(g, fxi_str_of("a JSON value"));
    j->value = fxi_gram_ref(g, rule);
    const uint32_t member[] = {j->string, j->space, text_of(g, ":"), j->space, j->value};
    j->object = list_of(g, "{", "}", fxi_gram_seq(g, member, COUNT_OF(member)), j->space);
    j->array = list_of(g, "[", "]", j->value, j->space);
    const uint32_t way[] = {j->object,         j->array,           j->string,
                            j->number,         text_of(g, "true"), text_of(g, "false"),
                            text_of(g, "null")};
    fxi_gram_rule_define(g, rule, fxi_gram_alt(g, way, COUNT_OF(way)));
}

fx_status fxi_gram_json_add(fxi_gram *g, fxi_gram_json *j, fx_error *err)
{
    const struct {
        const char *pattern;
        uint32_t *node;
    } part[] = {
        {"(?: |\n[ \t]{0,20})?", &j->space},
        {"-?(?:0|[1-9][0-9]{0,14})", &j->integer},
        {"-?(?:0|[1-9][0-9]{0,14})(?:\\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?", &j->number}};
    for (size_t i = 0; i < COUNT_OF(part); i++)
        FX_TRY(
            fxi_gram_regex(g, fxi_str_of(part[i].pattern), 0, FXI_SPELL_UTF8, part[i].node, err));
    FX_TRY(add_string(g, &j->string, err));
    add_values(g, j);
    return FX_OK;
}
