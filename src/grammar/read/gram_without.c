// gram_without.c - the automaton of Aho and Corasick (1975) over characters, written as rules: a
// rule for each beginning of a mark, which goes on with a character and the rule that the text is
// at then. The rules are right-recursive, so that they take no stack.
#include "grammar/read/gram_without.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/read/gram_chars.h"

typedef struct mark_state { // a beginning of a mark; 0: the empty one
    uint32_t c, parent;     // its last character, and the beginning without it
    uint32_t depth;         // characters
    uint32_t back;          // the longest other beginning that it ends with
    bool is_mark;           // it, or what it ends with, is a whole mark
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

// The child of a state by this character; 0: there is none.
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

static fx_status fail_memory(fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

static fx_status add_mark(mark_reader *r, fxi_str mark, fx_error *err)
{
    uint32_t at = 0;
    if (!mark.n) return fxi_fail(err, FX_EINVAL, "a mark that a text must not have is empty");
    if (fxi_utf8_check(mark.p, mark.n) < mark.n)
        return fxi_fail(err, FX_EINVAL, "a mark that a text must not have is not UTF-8");
    for (size_t i = 0, n; i < mark.n; i += n) {
        const uint32_t c = (uint32_t)fxi_utf8_at(mark.p + i, mark.n - i, &n);
        uint32_t next = child_of(r, at, c);
        if (!next) {
            next = (uint32_t)r->n;
            if (!append_state(r, c, at)) return fail_memory(err);
        }
        at = next;
    }
    r->state[at].is_mark = true;
    return FX_OK;
}

// Shorter beginnings first: what a state falls back to is shorter than it.
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

// A way on by the characters of the set, which it frees, to a state.
static bool add_way_on(mark_reader *r, fxi_char_set *set, uint32_t to, uint32_t *node)
{
    uint32_t c = 0;
    const bool ok = fxi_gram_chars(r->g, set, FXI_SPELL_UTF8, &c);
    const uint32_t part[] = {c, fxi_gram_ref(r->g, r->state[to].rule)};
    fxi_char_set_free(set);
    *node = fxi_gram_seq(r->g, part, 2);
    return ok;
}

static bool has_char(const fxi_char_set *s, uint32_t c)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->range[i].lo == c) return true;
    return false;
}

// The characters by which a state goes on to others than the first.
static bool list_chars(const mark_reader *r, uint32_t state, fxi_char_set *out)
{
    for (uint32_t at = state;; at = r->state[at].back) {
        for (uint32_t i = 1; i < r->n; i++)
            if (r->state[i].parent == at && !has_char(out, r->state[i].c) &&
                !fxi_char_set_add(out, r->state[i].c, r->state[i].c))
                return false;
        if (!at) return true;
    }
}

static bool define_state(mark_reader *r, uint32_t state)
{
    fxi_char_set known = {0}, other = {0};
    size_t n_way = 0;
    bool ok = list_chars(r, state, &known) && fxi_char_set_add(&other, 0, 0) &&
              fxi_char_set_join(&other, &known) && fxi_char_set_invert(&other);
    uint32_t *way = calloc(known.n + 2, sizeof *way);
    ok = ok && way;
    if (ok) way[n_way++] = fxi_gram_text(r->g, NULL, 0);
    if (ok) ok = add_way_on(r, &other, 0, &way[n_way++]);
    for (size_t i = 0; ok && i < known.n; i++) {
        const uint32_t c = known.range[i].lo, to = state_after_char(r, state, c);
        fxi_char_set one = {0};
        if (r->state[to].is_mark) continue;
        ok = fxi_char_set_add(&one, c, c) && add_way_on(r, &one, to, &way[n_way++]);
    }
    if (ok) fxi_gram_rule_define(r->g, r->state[state].rule, fxi_gram_alt(r->g, way, n_way));
    fxi_char_set_free(&known);
    fxi_char_set_free(&other);
    free(way);
    return ok;
}

static fx_status make_rules(mark_reader *r, fx_error *err)
{
    find_backs(r);
    for (uint32_t i = 0; i < r->n; i++)
        r->state[i].rule = fxi_gram_rule_add(r->g, fxi_str_of("a text without marks"));
    for (uint32_t i = 0; i < r->n; i++)
        if (!define_state(r, i)) return fail_memory(err);
    return FX_OK;
}

fx_status fxi_gram_without(fxi_gram *g, const fxi_str *mark, size_t n, uint32_t *node,
                           fx_error *err)
{
    mark_reader r = {.g = g};
    fx_status st = append_state(&r, 0, 0) ? FX_OK : fail_memory(err);
    for (size_t i = 0; !st && i < n; i++) st = add_mark(&r, mark[i], err);
    if (!st) st = make_rules(&r, err);
    if (!st) *node = fxi_gram_ref(g, r.state[0].rule);
    free(r.state);
    return st;
}
