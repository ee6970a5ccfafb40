// rules_text.c - the text of a grammar: blanks, comments, names, lines.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/system/grow.h"
#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "grammar/rules/rules_parts.h"

enum { MAX_NAMES = 5000 };

fx_status fxi_rules_refuse(const fxi_rule_reader *r, const char *fmt, ...)
{
    char what[300];
    size_t line = 1;
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(what, sizeof what, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < r->at && i < r->s.n; i++) line += r->s.p[i] == '\n';
    return fxi_fail(r->err, FX_EINVAL, "grammar: %s in line %zu", what, line);
}

fx_status fxi_rules_no_memory(const fxi_rule_reader *r)
{
    return fxi_fail(r->err, FX_ENOMEM, "out of memory");
}

char fxi_rules_next(const fxi_rule_reader *r)
{
    const char c = r->at < r->s.n ? r->s.p[r->at] : 0;
    return c > ' ' && c < 0x7F ? c : '?';
}

bool fxi_rules_is_next(const fxi_rule_reader *r, const char *text)
{
    const size_t n = strlen(text);
    return r->s.n - r->at >= n && !memcmp(r->s.p + r->at, text, n);
}

bool fxi_rules_take(fxi_rule_reader *r, const char *text)
{
    if (!fxi_rules_is_next(r, text)) return false;
    r->at += strlen(text);
    return true;
}

void fxi_rules_skip(fxi_rule_reader *r, bool lines)
{
    for (; r->at < r->s.n; r->at++) {
        if (fxi_rules_is_next(r, r->is_lark ? "//" : "#"))
            while (r->at < r->s.n && r->s.p[r->at] != '\n') r->at++;
        if (r->at == r->s.n) return;
        const char c = r->s.p[r->at];
        if (c != ' ' && c != '\t' && c != '\r' && !(lines && c == '\n')) return;
    }
}

static bool is_rule_name_char(const fxi_rule_reader *r, char c)
{
    const char low = (char)(c | 0x20);
    return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           (c == '-' && !r->is_lark);
}

fxi_str fxi_rules_take_name(fxi_rule_reader *r)
{
    const size_t from = r->at;
    while (r->at < r->s.n && is_rule_name_char(r, r->s.p[r->at])) r->at++;
    return (fxi_str){r->s.p + from, r->at - from};
}

bool fxi_rules_is_terminal(fxi_str name)
{
    size_t i = 0;
    while (i < name.n && name.p[i] == '_') i++;
    return i < name.n && name.p[i] >= 'A' && name.p[i] <= 'Z';
}

fx_status fxi_rules_list(const fxi_rule_reader *r, fxi_rule_list *l, uint32_t node)
{
    if (!fxi_grow(&l->node, sizeof *l->node, l->n, &l->cap)) return fxi_rules_no_memory(r);
    l->node[l->n++] = node;
    return FX_OK;
}

fx_status fxi_rules_find(fxi_rule_reader *r, fxi_str name, uint32_t *rule)
{
    for (size_t i = 0; i < r->n_name; i++)
        if (!fxi_str_compare(r->name[i].name, name)) {
            *rule = r->name[i].rule;
            return FX_OK;
        }
    if (r->n_name == MAX_NAMES) return fxi_rules_refuse(r, "more than %d rules", MAX_NAMES);
    if (!fxi_grow(&r->name, sizeof *r->name, r->n_name, &r->cap_name))
        return fxi_rules_no_memory(r);
    *rule = fxi_gram_rule_add(r->g, name);
    r->name[r->n_name++] = (fxi_rule_name){name, *rule};
    return FX_OK;
}
