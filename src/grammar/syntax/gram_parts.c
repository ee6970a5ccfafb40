// gram_parts.c - JSON's values, each made of the others; texts without marks.
//
// A text without marks is the automaton of Aho and Corasick (1975) over characters, written as
// rules: a rule for each prefix of a mark, which continues with a character and the rule for the
// prefix that the text then ends with. The rules are right-recursive, so they take no stack.
#include "grammar/syntax/gram_parts.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/syntax/gram.h"
#include "grammar/syntax/gram_regex.h"

enum { LAST_CHAR = 0x10FFFF };

// ---- JSON ---------------------------------------------------------------------------------------

static uint32_t any_times(fxi_gram *g, uint32_t node)
{
    return fxi_gram_repeat(g, node, 0, FXI_GRAM_NO_MAX);
}

// open, perhaps items with commas between them, close; space around each.
static uint32_t list_of(fxi_gram *g, const char *open, const char *close, uint32_t item,
                        uint32_t space)
{
    const uint32_t more = any_times(g, FXI_SEQ_OF(g, fxi_gram_str(g, ","), space, item, space));
    const uint32_t all = fxi_gram_repeat(g, FXI_SEQ_OF(g, item, space, more), 0, 1);
    return FXI_SEQ_OF(g, fxi_gram_str(g, open), space, all, fxi_gram_str(g, close));
}

fx_status fxi_gram_json_add(fxi_gram *g, fxi_gram_json *j, fx_error *err)
{
    const struct {
        const char *pattern;
        uint32_t *node;
    } part[] = {
        {"(?: |\n[ \t]{0,12})?", &j->space},
        {" ?", &j->pad},
        {"-?(?:0|[1-9][0-9]{0,14})", &j->integer},
        {"-?(?:0|[1-9][0-9]{0,14})(?:\\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?", &j->number}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        FX_TRY(
            fxi_gram_regex(g, fxi_str_of(part[i].pattern), 0, FXI_SPELL_UTF8, part[i].node, err));
    const uint32_t c = fxi_gram_char_range(g, 1, LAST_CHAR, FXI_SPELL_JSON);
    j->string = FXI_SEQ_OF(g, fxi_gram_str(g, "\""), any_times(g, c), fxi_gram_str(g, "\""));

    const uint32_t rule = fxi_gram_rule_add(g, fxi_str_of("a JSON value"));
    j->value = fxi_gram_ref(g, rule);
    const uint32_t member =
        FXI_SEQ_OF(g, j->string, j->pad, fxi_gram_str(g, ":"), j->pad, j->value);
    j->object = list_of(g, "{", "}", member, j->space);
    j->array = list_of(g, "[", "]", j->value, j->space);
    fxi_gram_rule_define(g, rule,
                         FXI_ALT_OF(g, j->object, j->array, j->string, j->number,
                                    fxi_gram_str(g, "true"), fxi_gram_str(g, "false"),
                                    fxi_gram_str(g, "null")));
    return FX_OK;
}

// ---- texts without marks ------------------------------------------------------------------------

typedef struct mark_state { // a prefix of a mark; 0: the empty one
    uint32_t c, parent;     // its last character, and the prefix without it
    uint32_t depth;         // characters
    uint32_t back;          // the longest other prefix that it ends with
    bool is_mark;           // it is, or ends with, a whole mark
    uint32_t rule;
} mark_state;

typedef struct mark_reader {
    fxi_gram *g;
    mark_state *state; // [n] parents before their children
    size_t n, cap;
} mark_reader;

static bool append_state(mark_reader *r, uint32_t c, uint32_t parent)
{
    if (!fxi_grow(&r->state, sizeof *r->state, r->n, &r->cap)) return false;
    const uint32_t depth = r->n ? r->state[parent].depth + 1 : 0;
    r->state[r->n++] = (mark_state){.c = c, .parent = parent, .depth = depth};
    return true;
}

// The child of a state for this character; 0: there is none.
static uint32_t child_of(const mark_reader *r, uint32_t state, uint32_t c)
{
    for (uint32_t i = state + 1; i < r->n; i++)
        if (r->state[i].parent == state && r->state[i].c == c) return i;
    return 0;
}

// The state after one more character.
static uint32_t state_after_char(const mark_reader *r, uint32_t state, uint32_t c)
{
    uint32_t to = 0;
    while (!(to = child_of(r, state, c)) && state) state = r->state[state].back;
    return to;
}

static fx_status add_mark(mark_reader *r, fxi_str mark, fx_error *err)
{
    uint32_t at = 0;
    if (!mark.n) return fxi_fail(err, FX_EINVAL, "a mark that a text must not contain is empty");
    if (fxi_utf8_check(mark.p, mark.n) < mark.n)
        return fxi_fail(err, FX_EINVAL, "a mark that a text must not contain is not UTF-8");
    for (size_t i = 0, n; i < mark.n; i += n) {
        const uint32_t c = (uint32_t)fxi_utf8_at(mark.p + i, mark.n - i, &n);
        const uint32_t known = child_of(r, at, c);
        if (!known && !append_state(r, c, at)) return fxi_fail_memory(err);
        at = known ? known : (uint32_t)r->n - 1;
    }
    r->state[at].is_mark = true;
    return FX_OK;
}

// Shorter prefixes first: a state falls back to a shorter one.
static void find_backs(mark_reader *r)
{
    bool found = true;
    for (uint32_t depth = 1; found; depth++) {
        found = false;
        for (uint32_t i = 1; i < r->n; i++) {
            mark_state *s = &r->state[i];
            if (s->depth != depth) continue;
            s->back = s->parent ? state_after_char(r, r->state[s->parent].back, s->c) : 0;
            s->is_mark = s->is_mark || r->state[s->back].is_mark;
            found = true;
        }
    }
}

// Adds the choice that leads to a state by a character of the set, which it frees.
static void add_edge(mark_reader *r, fxi_node_list *alts, fxi_char_set *set, uint32_t to)
{
    const uint32_t c = fxi_gram_chars(r->g, set, FXI_SPELL_UTF8);
    fxi_node_list_add(alts, FXI_SEQ_OF(r->g, c, fxi_gram_ref(r->g, r->state[to].rule)));
}

static bool has_char(const fxi_char_set *s, uint32_t c)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->range[i].lo == c) return true;
    return false;
}

// The characters that lead from a state to others than the first.
static fxi_char_set list_chars(const mark_reader *r, uint32_t state)
{
    fxi_char_set out = {0};
    for (uint32_t at = state;; at = r->state[at].back) {
        for (uint32_t i = 1; i < r->n; i++)
            if (r->state[i].parent == at && !has_char(&out, r->state[i].c))
                fxi_char_set_add(&out, r->state[i].c, r->state[i].c);
        if (!at) return out;
    }
}

static void define_state(mark_reader *r, uint32_t state)
{
    fxi_char_set known = list_chars(r, state), other = {0};
    fxi_node_list alts = {.failed = known.failed};
    fxi_char_set_add(&other, 0, 0);
    fxi_char_set_join(&other, &known);
    fxi_char_set_invert(&other);
    fxi_node_list_add(&alts, fxi_gram_text(r->g, NULL, 0));
    add_edge(r, &alts, &other, 0);
    for (size_t i = 0; i < known.n; i++) {
        const uint32_t c = known.range[i].lo, to = state_after_char(r, state, c);
        fxi_char_set one = {0};
        if (r->state[to].is_mark) continue;
        fxi_char_set_add(&one, c, c);
        add_edge(r, &alts, &one, to);
    }
    fxi_gram_rule_define(r->g, r->state[state].rule, fxi_gram_list(r->g, FXI_GRAM_ALT, &alts));
    fxi_char_set_free(&known);
}

fx_status fxi_gram_without(fxi_gram *g, const fxi_str *mark, size_t n, uint32_t *node,
                           fx_error *err)
{
    mark_reader r = {.g = g};
    fx_status st = append_state(&r, 0, 0) ? FX_OK : fxi_fail_memory(err);
    for (size_t i = 0; !st && i < n; i++) st = add_mark(&r, mark[i], err);
    if (!st) find_backs(&r);
    for (uint32_t i = 0; !st && i < r.n; i++)
        r.state[i].rule = fxi_gram_rule_add(g, fxi_str_of("a text without marks"));
    for (uint32_t i = 0; !st && i < r.n; i++) define_state(&r, i);
    if (!st) *node = fxi_gram_ref(g, r.state[0].rule);
    free(r.state);
    return st;
}
