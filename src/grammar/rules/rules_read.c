// rules_read.c - the statements of a grammar.
#include "grammar/rules/rules.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/read/gram_regex.h"
#include "grammar/rules/rules_parts.h"

static int width_of(fxi_str s)
{
    return s.n > 80 ? 80 : (int)s.n;
}

// ---- directives of Lark -------------------------------------------------------------------------

// NAME or common.NAME, and perhaps -> NAME.
static fx_status import_name(fxi_rule_reader *r, bool may_alias)
{
    uint32_t rule = 0, node = 0;
    const fxi_str name = fxi_rules_take_name(r);
    const char *pattern = fxi_rules_common(name);
    fxi_str own = name;
    if (!pattern)
        return fxi_rules_refuse(r, "\"%.*s\" is not among the terminals that can be imported",
                                width_of(name), name.p);
    fxi_rules_skip(r, false);
    if (may_alias && fxi_rules_take(r, "->")) {
        fxi_rules_skip(r, false);
        own = fxi_rules_take_name(r);
    }
    FX_TRY(fxi_rules_find(r, own, &rule));
    FX_TRY(fxi_gram_regex(r->g, fxi_str_of(pattern), 0, FXI_SPELL_UTF8, &node, r->err));
    fxi_gram_rule_define(r->g, rule, node);
    return FX_OK;
}

// common.NAME, or common (NAME, NAME).
static fx_status read_import(fxi_rule_reader *r)
{
    const fxi_str library = fxi_rules_take_name(r);
    if (!fxi_str_is(library, "common"))
        return fxi_rules_refuse(r, "%%import of \"%.*s\": only `common` can be imported",
                                width_of(library), library.p);
    if (fxi_rules_take(r, ".")) return import_name(r, true);
    fxi_rules_skip(r, false);
    if (!fxi_rules_take(r, "(")) return fxi_rules_refuse(r, "%%import without a name");
    do {
        fxi_rules_skip(r, true);
        FX_TRY(import_name(r, false));
        fxi_rules_skip(r, true);
    } while (fxi_rules_take(r, ","));
    return fxi_rules_take(r, ")") ? FX_OK : fxi_rules_refuse(r, "%%import without \")\"");
}

static fx_status read_ignore(fxi_rule_reader *r)
{
    uint32_t node = 0;
    r->in_terminal = true;
    FX_TRY(fxi_rules_ways(r, &node));
    if (!fxi_grow(&r->ignore, sizeof *r->ignore, r->n_ignore, &r->cap_ignore))
        return fxi_rules_no_memory(r);
    r->ignore[r->n_ignore++] = node;
    return FX_OK;
}

static fx_status read_directive(fxi_rule_reader *r)
{
    const fxi_str name = fxi_rules_take_name(r);
    fxi_rules_skip(r, false);
    r->current = UINT32_MAX;
    if (fxi_str_is(name, "import")) return read_import(r);
    if (fxi_str_is(name, "ignore")) return read_ignore(r);
    return fxi_rules_refuse(r, "%%%.*s is not supported", width_of(name), name.p);
}

// ---- rules --------------------------------------------------------------------------------------

// The mark between a rule's name and its right side; of Lark with a priority in front.
static fx_status read_mark(fxi_rule_reader *r, fxi_str name)
{
    if (r->is_lark && fxi_rules_take(r, ".")) (void)fxi_rules_take_name(r);
    fxi_rules_skip(r, false);
    if (r->is_lark && fxi_rules_is_next(r, "{"))
        return fxi_rules_refuse(r, "a template (%.*s{..}) is not supported", width_of(name),
                                name.p);
    if (fxi_rules_take(r, r->is_lark ? ":" : "::=")) return FX_OK;
    return fxi_rules_refuse(r, "\"%s\" is missing behind \"%.*s\"",
                            r->is_lark ? ":" : "::=", width_of(name), name.p);
}

static fx_status read_rule(fxi_rule_reader *r)
{
    uint32_t rule = 0, node = 0;
    if (r->is_lark && !fxi_rules_take(r, "?")) (void)fxi_rules_take(r, "!");
    const fxi_str name = fxi_rules_take_name(r);
    if (!name.n) return fxi_rules_refuse(r, "\"%c\" where a rule should begin", fxi_rules_next(r));
    FX_TRY(read_mark(r, name));
    FX_TRY(fxi_rules_find(r, name, &rule));
    if (r->g->broken) return FX_OK; // fxi_gram_finish reports it
    if (r->g->rule[rule].defined)
        return fxi_rules_refuse(r, "\"%.*s\" is defined twice", width_of(name), name.p);
    r->in_terminal = fxi_rules_is_terminal(name);
    r->current = rule;
    FX_TRY(fxi_rules_ways(r, &node));
    fxi_gram_rule_define(r->g, rule, node);
    return FX_OK;
}

static fx_status read_statement(fxi_rule_reader *r)
{
    if (r->is_lark && fxi_rules_take(r, "%"))
        FX_TRY(read_directive(r));
    else
        FX_TRY(read_rule(r));
    fxi_rules_skip(r, false);
    if (r->at >= r->s.n || fxi_rules_take(r, "\n")) return FX_OK;
    return fxi_rules_refuse(r, "\"%c\" where a line should end", fxi_rules_next(r));
}

static fx_status read_statements(fxi_rule_reader *r)
{
    for (fxi_rules_skip(r, true); r->at < r->s.n; fxi_rules_skip(r, true))
        FX_TRY(read_statement(r));
    return FX_OK;
}

static fx_status find_start(fxi_rule_reader *r, uint32_t *node)
{
    const char *start = r->is_lark ? "start" : "root";
    for (size_t i = 0; i < r->n_name; i++)
        if (fxi_str_is(r->name[i].name, start)) {
            *node = fxi_gram_ref(r->g, r->name[i].rule);
            return FX_OK;
        }
    return fxi_fail(r->err, FX_EINVAL, "grammar: it has no rule \"%s\"", start);
}

static fx_status read_lark(fxi_rule_reader *r, uint32_t *node)
{
    r->ignored = fxi_gram_rule_add(r->g, fxi_str_of("%ignore"));
    FX_TRY(read_statements(r));
    const uint32_t all = fxi_gram_alt(r->g, r->ignore, r->n_ignore);
    fxi_gram_rule_define(r->g, r->ignored, fxi_gram_repeat(r->g, all, 0, FXI_GRAM_NO_MAX));
    FX_TRY(find_start(r, node));
    const uint32_t part[] = {fxi_gram_ref(r->g, r->ignored), *node};
    *node = fxi_gram_seq(r->g, part, 2);
    return FX_OK;
}

static bool has_mark(fxi_str s, const char *mark)
{
    const size_t n = strlen(mark);
    for (size_t i = 0; i + n <= s.n; i++)
        if (!memcmp(s.p + i, mark, n)) return true;
    return false;
}

fx_status fxi_rules_add(fxi_gram *g, fxi_str text, uint32_t *node, fx_error *err)
{
    fxi_rule_reader r = {.g = g, .s = text, .err = err, .is_lark = !has_mark(text, "::=")};
    const size_t bad = fxi_utf8_check(text.p, text.n);
    fx_status st = FX_OK;
    if (bad < text.n) return fxi_fail(err, FX_EINVAL, "grammar: bad UTF-8 at byte %zu", bad);
    if (r.is_lark) {
        st = read_lark(&r, node);
    } else {
        st = read_statements(&r);
        if (!st) st = find_start(&r, node);
    }
    free(r.name);
    free(r.ignore);
    return st;
}
