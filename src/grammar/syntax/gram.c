// gram.c - builds a grammar node by node, then finds what must be known before it runs: which nodes
// match the empty string, which match anything at all, and that no rule begins with itself.
//
// Building simplifies the trivial: a sequence or choice of one node is that node, a repeat of zero
// times is the empty text.
//
// The two properties are least fixed points, found by passes over all nodes until nothing changes.
// A node usually follows the nodes it is made of, so few passes suffice. References may point
// ahead, and an adversarial grammar needs a pass per rule, so the number of steps is limited.
//
// A rule that reaches itself before it takes a byte (a = a "x") would be entered forever. A
// depth-first walk over what can be entered without taking a byte finds it.
#include "grammar/syntax/gram.h"
#include "base/system/grow.h"
#include "base/text/utf8.h"

#include <stdlib.h>

enum { MAX_CHECK_STEPS = 100000000 };

void fxi_gram_free(fxi_gram *g)
{
    free(g->node);
    free(g->kid);
    free(g->set);
    free(g->rule);
    fxi_buf_free(&g->text);
    *g = (fxi_gram){0};
}

size_t fxi_gram_n_bytes(const fxi_gram *g)
{
    return g->cap_node * sizeof *g->node + g->cap_kid * sizeof *g->kid +
           g->cap_set * sizeof *g->set + g->cap_rule * sizeof *g->rule + g->text.cap;
}

static uint32_t break_gram(fxi_gram *g, fx_status st)
{
    if (!g->broken) g->broken = st;
    return 0;
}

// Whether n more elements fit after `have`.
static bool fits_more(fxi_gram *g, size_t have, size_t n)
{
    if (g->broken) return false;
    if (n <= FXI_GRAM_MAX_SIZE && have <= FXI_GRAM_MAX_SIZE - n) return true;
    break_gram(g, FX_EINVAL);
    return false;
}

static uint32_t append_node(fxi_gram *g, fxi_gram_node node)
{
    if (!fits_more(g, g->n_node, 1)) return 0;
    if (!fxi_grow(&g->node, sizeof *g->node, g->n_node, &g->cap_node))
        return break_gram(g, FX_ENOMEM);
    g->node[g->n_node] = node;
    return (uint32_t)g->n_node++;
}

static uint32_t make_node(fxi_gram *g, fxi_gram_node node)
{
    if (!g->n_node) append_node(g, (fxi_gram_node){.kind = FXI_GRAM_NEVER});
    return append_node(g, node);
}

static bool store_bytes(fxi_gram *g, const void *bytes, size_t n)
{
    if (!fits_more(g, g->text.n, n)) return false;
    if (!n || fxi_buf_add(&g->text, bytes, n)) return true;
    break_gram(g, FX_ENOMEM);
    return false;
}

uint32_t fxi_gram_text(fxi_gram *g, const void *bytes, size_t n)
{
    const uint32_t at = (uint32_t)g->text.n;
    if (!store_bytes(g, bytes, n)) return 0;
    return make_node(g, (fxi_gram_node){.kind = FXI_GRAM_TEXT, .at = at, .n = (uint32_t)n});
}

uint32_t fxi_gram_set(fxi_gram *g, const fxi_byte_set *s)
{
    if (!fits_more(g, g->n_set, 1)) return 0;
    if (!fxi_grow(&g->set, sizeof *g->set, g->n_set, &g->cap_set)) return break_gram(g, FX_ENOMEM);
    g->set[g->n_set] = *s;
    return make_node(g, (fxi_gram_node){.kind = FXI_GRAM_SET, .at = (uint32_t)g->n_set++});
}

static uint32_t add_list(fxi_gram *g, fxi_gram_kind kind, const uint32_t *node, size_t n)
{
    const uint32_t at = (uint32_t)g->n_kid;
    if (!fits_more(g, g->n_kid, n)) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!fxi_grow(&g->kid, sizeof *g->kid, g->n_kid, &g->cap_kid))
            return break_gram(g, FX_ENOMEM);
        g->kid[g->n_kid++] = node[i];
    }
    return make_node(g, (fxi_gram_node){.kind = (uint8_t)kind, .at = at, .n = (uint32_t)n});
}

uint32_t fxi_gram_seq(fxi_gram *g, const uint32_t *node, size_t n)
{
    if (n == 0) return fxi_gram_text(g, NULL, 0);
    return n == 1 ? node[0] : add_list(g, FXI_GRAM_SEQ, node, n);
}

uint32_t fxi_gram_alt(fxi_gram *g, const uint32_t *node, size_t n)
{
    return n == 1 ? node[0] : add_list(g, FXI_GRAM_ALT, node, n);
}

uint32_t fxi_gram_repeat(fxi_gram *g, uint32_t node, uint32_t min, uint32_t max)
{
    if (max == 0) return fxi_gram_text(g, NULL, 0);
    if (min == 1 && max == 1) return node;
    return make_node(g,
                     (fxi_gram_node){.kind = FXI_GRAM_REPEAT, .at = node, .min = min, .max = max});
}

uint32_t fxi_gram_rule_add(fxi_gram *g, fxi_str name)
{
    const uint32_t at = (uint32_t)g->text.n;
    if (!fits_more(g, g->n_rule, 1) || !store_bytes(g, name.p, name.n)) return 0;
    if (!fxi_grow(&g->rule, sizeof *g->rule, g->n_rule, &g->cap_rule))
        return break_gram(g, FX_ENOMEM);
    g->rule[g->n_rule] = (fxi_gram_rule){.name = at, .n_name = (uint32_t)name.n};
    return (uint32_t)g->n_rule++;
}

void fxi_gram_rule_define(fxi_gram *g, uint32_t rule, uint32_t node)
{
    if (g->broken) return;
    g->rule[rule].node = node;
    g->rule[rule].defined = true;
}

uint32_t fxi_gram_ref(fxi_gram *g, uint32_t rule)
{
    return make_node(g, (fxi_gram_node){.kind = FXI_GRAM_REF, .at = rule});
}

bool fxi_node_list_add(fxi_node_list *l, uint32_t node)
{
    if (!fxi_grow(&l->node, sizeof *l->node, l->n, &l->cap)) return false;
    l->node[l->n++] = node;
    return true;
}

// ---- checks -------------------------------------------------------------------------------------

static bool is_nullable(const fxi_gram *g, const fxi_gram_node *x)
{
    const uint32_t *kid = g->kid + x->at;
    uint32_t i = 0;
    switch (x->kind) {
    case FXI_GRAM_TEXT: return x->n == 0;
    case FXI_GRAM_SEQ:
        while (i < x->n && g->node[kid[i]].nullable) i++;
        return i == x->n;
    case FXI_GRAM_ALT:
        while (i < x->n && !g->node[kid[i]].nullable) i++;
        return i < x->n;
    case FXI_GRAM_REPEAT: return x->min == 0 || g->node[x->at].nullable;
    case FXI_GRAM_REF: return g->node[g->rule[x->at].node].nullable;
    default: return false;
    }
}

static bool is_productive(const fxi_gram *g, const fxi_gram_node *x)
{
    const uint32_t *kid = g->kid + x->at;
    uint32_t i = 0;
    switch (x->kind) {
    case FXI_GRAM_TEXT: return true;
    case FXI_GRAM_SET: return fxi_byte_any(&g->set[x->at]);
    case FXI_GRAM_SEQ:
        while (i < x->n && g->node[kid[i]].productive) i++;
        return i == x->n;
    case FXI_GRAM_ALT:
        while (i < x->n && !g->node[kid[i]].productive) i++;
        return i < x->n;
    case FXI_GRAM_REPEAT: return x->min == 0 || g->node[x->at].productive;
    case FXI_GRAM_REF: return g->node[g->rule[x->at].node].productive;
    default: return false;
    }
}

static fx_status find_properties(fxi_gram *g, fx_error *err)
{
    const size_t pass_steps = g->n_node + g->n_kid;
    size_t n_step = 0;
    for (bool changed = true; changed;) {
        changed = false;
        if ((n_step += pass_steps) > MAX_CHECK_STEPS)
            return fxi_fail(err, FX_EINVAL, "the grammar's rules form chains that are too long");
        for (fxi_gram_node *x = g->node; x < g->node + g->n_node; x++) {
            const bool nullable = is_nullable(g, x), productive = is_productive(g, x);
            changed = changed || nullable != x->nullable || productive != x->productive;
            x->nullable = nullable;
            x->productive = productive;
        }
    }
    return FX_OK;
}

static fx_status fail_rule(const fxi_gram *g, uint32_t rule, const char *what, fx_error *err)
{
    const fxi_gram_rule *r = &g->rule[rule];
    return fxi_fail(err, FX_EINVAL, "rule \"%.*s\" %s", r->n_name > 80 ? 80 : (int)r->n_name,
                    g->text.p + r->name, what);
}

// ---- rules that begin with themselves -----------------------------------------------------------

typedef struct left_step {
    uint32_t node, next; // next: index of the child to visit
} left_step;

enum { UNSEEN, ON_PATH, DONE };
#define NO_NODE UINT32_MAX

// The i-th node that may be entered as soon as x is; NO_NODE: there is none.
static uint32_t entered_with(const fxi_gram *g, const fxi_gram_node *x, uint32_t i)
{
    if (!x->productive) return NO_NODE;
    switch (x->kind) {
    case FXI_GRAM_SEQ:
        if (i >= x->n || (i && !g->node[g->kid[x->at + i - 1]].nullable)) return NO_NODE;
        return g->kid[x->at + i];
    case FXI_GRAM_ALT: return i < x->n ? g->kid[x->at + i] : NO_NODE;
    case FXI_GRAM_REPEAT: return i == 0 ? x->at : NO_NODE;
    case FXI_GRAM_REF: return i == 0 ? g->rule[x->at].node : NO_NODE;
    default: return NO_NODE;
    }
}

// Walks from one node. Every cycle contains a reference: the last one on the path names the rule.
static fx_status walk_left(const fxi_gram *g, uint32_t from, uint8_t *mark, left_step *path,
                           fx_error *err)
{
    size_t n = 0;
    path[n++] = (left_step){from, 0};
    mark[from] = ON_PATH;
    while (n) {
        left_step *s = &path[n - 1];
        const uint32_t to = entered_with(g, &g->node[s->node], s->next++);
        if (to == NO_NODE) {
            mark[s->node] = DONE;
            n--;
        } else if (mark[to] == ON_PATH) {
            while (g->node[path[n - 1].node].kind != FXI_GRAM_REF) n--;
            return fail_rule(g, g->node[path[n - 1].node].at,
                             "begins with itself: left recursion is not supported", err);
        } else if (mark[to] == UNSEEN) {
            mark[to] = ON_PATH;
            path[n++] = (left_step){to, 0};
        }
    }
    return FX_OK;
}

static fx_status check_left(const fxi_gram *g, fx_error *err)
{
    uint8_t *mark = calloc(g->n_node, 1);
    left_step *path = calloc(g->n_node, sizeof *path);
    fx_status st = mark && path ? FX_OK : fxi_fail_memory(err);
    for (uint32_t i = 0; !st && i < g->n_node; i++)
        if (mark[i] == UNSEEN) st = walk_left(g, i, mark, path, err);
    free(mark);
    free(path);
    return st;
}

fx_status fxi_gram_finish(fxi_gram *g, uint32_t root, fx_error *err)
{
    if (g->broken == FX_ENOMEM) return fxi_fail_memory(err);
    if (g->broken)
        return fxi_fail(err, FX_EINVAL, "the grammar has more than %d parts", FXI_GRAM_MAX_SIZE);
    for (uint32_t r = 0; r < g->n_rule; r++)
        if (!g->rule[r].defined) return fail_rule(g, r, "is not defined", err);
    FX_TRY(find_properties(g, err));
    FX_TRY(check_left(g, err));
    if (!g->n_node || !g->node[root].productive)
        return fxi_fail(err, FX_EINVAL, "nothing matches the grammar");
    g->root = root;
    return FX_OK;
}

// ---- sets of characters -------------------------------------------------------------------------

// A range of code points of one UTF-8 length is a product of byte ranges if its ends differ only in
// trailing continuation bytes, and those are whole. Other ranges are split until this holds.

enum { LAST_CHAR = 0x10FFFF, FIRST_SURROGATE = 0xD800, LAST_SURROGATE = 0xDFFF };

void fxi_char_set_free(fxi_char_set *s)
{
    free(s->range);
    *s = (fxi_char_set){0};
}

bool fxi_char_set_add(fxi_char_set *s, uint32_t lo, uint32_t hi)
{
    if (!fxi_grow(&s->range, sizeof *s->range, s->n, &s->cap)) return false;
    s->range[s->n++] = (fxi_char_range){lo, hi};
    return true;
}

bool fxi_char_set_join(fxi_char_set *s, const fxi_char_set *more)
{
    for (size_t i = 0; i < more->n; i++)
        if (!fxi_char_set_add(s, more->range[i].lo, more->range[i].hi)) return false;
    return true;
}

static int compare_ranges(const void *a, const void *b)
{
    const fxi_char_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static void sort_ranges(fxi_char_set *s)
{
    size_t n = 0;
    if (s->n > 1) qsort(s->range, s->n, sizeof *s->range, compare_ranges);
    for (size_t i = 0; i < s->n; i++) {
        const fxi_char_range r = s->range[i];
        if (n && r.lo <= s->range[n - 1].hi + 1)
            s->range[n - 1].hi = r.hi > s->range[n - 1].hi ? r.hi : s->range[n - 1].hi;
        else
            s->range[n++] = r;
    }
    s->n = n;
}

bool fxi_char_set_invert(fxi_char_set *s)
{
    fxi_char_set other = {0};
    uint32_t from = 0;
    bool ok = true;
    sort_ranges(s);
    for (size_t i = 0; ok && i < s->n; i++) {
        if (s->range[i].lo > from) ok = fxi_char_set_add(&other, from, s->range[i].lo - 1);
        from = s->range[i].hi + 1;
    }
    if (ok && from <= LAST_CHAR) ok = fxi_char_set_add(&other, from, LAST_CHAR);
    free(s->range);
    *s = other;
    return ok;
}

// ---- nodes --------------------------------------------------------------------------------------

typedef struct char_alts { // how the set's characters are spelled, so far
    fxi_gram *g;
    fxi_byte_set single; // characters of one byte
    fxi_node_list alts;  // for all others
} char_alts;

// The characters lo..hi, a product of byte ranges.
static bool add_product(char_alts *w, uint32_t lo, uint32_t hi)
{
    char a[4], b[4];
    uint32_t node[4];
    const size_t n = fxi_utf8_put(a, lo);
    fxi_utf8_put(b, hi);
    for (size_t i = 0; i < n; i++) {
        fxi_byte_set s = {0};
        for (unsigned x = (uint8_t)a[i]; x <= (uint8_t)b[i]; x++) fxi_byte_put(&s, (uint8_t)x);
        node[i] = fxi_gram_set(w->g, &s);
    }
    return fxi_node_list_add(&w->alts, fxi_gram_seq(w->g, node, n));
}

// The characters lo..hi, with n_tail continuation bytes each.
static bool add_tails(char_alts *w, uint32_t lo, uint32_t hi, int n_tail)
{
    for (int i = 1; i <= n_tail; i++) {
        const uint32_t tail = (1u << 6 * i) - 1;
        if ((lo & ~tail) == (hi & ~tail)) break;
        if (lo & tail)
            return add_tails(w, lo, lo | tail, n_tail) && add_tails(w, (lo | tail) + 1, hi, n_tail);
        if ((hi & tail) != tail)
            return add_tails(w, lo, (hi & ~tail) - 1, n_tail) &&
                   add_tails(w, hi & ~tail, hi, n_tail);
    }
    return add_product(w, lo, hi);
}

static const char short_escapes[0x20] = {
    ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
static const char hex_digits[] = "0123456789abcdef";

static bool must_escape(uint8_t c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

static bool escape_ascii(char_alts *w, uint8_t c)
{
    const char brief[] = {'\\', (char)(c < 0x20 ? short_escapes[c] : c), 0},
               code[] = {'\\', 'u', '0', '0', hex_digits[c >> 4], hex_digits[c & 15], 0};
    return fxi_node_list_add(&w->alts, fxi_gram_str(w->g, brief[1] ? brief : code));
}

// Escapes with the same beginning are one alternative: a state has a stack for each alternative.
static bool add_escapes(char_alts *w, const char *begin, const fxi_byte_set *last)
{
    if (!fxi_byte_any(last)) return true;
    return fxi_node_list_add(&w->alts,
                             FXI_SEQ_OF(w->g, fxi_gram_str(w->g, begin), fxi_gram_set(w->g, last)));
}

// The characters lo..hi of ASCII.
static bool add_ascii(char_alts *w, uint32_t lo, uint32_t hi, fxi_gram_spelling spelling)
{
    fxi_byte_set brief = {{0}}, code[2] = {{{0}}};
    for (uint32_t c = lo; c <= hi; c++) {
        if (spelling != FXI_SPELL_JSON || !must_escape((uint8_t)c))
            fxi_byte_put(&w->single, (uint8_t)c);
        else if (c >= 0x20 || short_escapes[c])
            fxi_byte_put(&brief, (uint8_t)(c < 0x20 ? short_escapes[c] : (char)c));
        else
            fxi_byte_put(&code[c >> 4], (uint8_t)hex_digits[c & 15]);
    }
    return add_escapes(w, "\\", &brief) && add_escapes(w, "\\u000", &code[0]) &&
           add_escapes(w, "\\u001", &code[1]);
}

static bool add_range(char_alts *w, fxi_char_range r, fxi_gram_spelling spelling)
{
    static const struct {
        uint32_t lo, hi;
        int n_tail;
    } length[] = {{0, 0x7F, 0},
                  {0x80, 0x7FF, 1},
                  {0x800, FIRST_SURROGATE - 1, 2},
                  {LAST_SURROGATE + 1, 0xFFFF, 2},
                  {0x10000, LAST_CHAR, 3}};
    for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
        const uint32_t lo = r.lo > length[i].lo ? r.lo : length[i].lo;
        const uint32_t hi = r.hi < length[i].hi ? r.hi : length[i].hi;
        if (lo > hi) continue;
        if (!(i ? add_tails(w, lo, hi, length[i].n_tail) : add_ascii(w, lo, hi, spelling)))
            return false;
    }
    return true;
}

bool fxi_gram_chars(fxi_gram *g, fxi_char_set *s, fxi_gram_spelling spelling, uint32_t *node)
{
    char_alts w = {.g = g};
    bool ok = true;
    sort_ranges(s);
    for (size_t i = 0; ok && i < s->n; i++) ok = add_range(&w, s->range[i], spelling);
    if (ok && fxi_byte_any(&w.single)) ok = fxi_node_list_add(&w.alts, fxi_gram_set(g, &w.single));
    if (ok) *node = fxi_gram_alt(g, w.alts.node, w.alts.n);
    free(w.alts.node);
    return ok;
}

bool fxi_gram_char_range(fxi_gram *g, uint32_t lo, uint32_t hi, fxi_gram_spelling spelling,
                         uint32_t *node)
{
    fxi_char_range range = {lo, hi};
    fxi_char_set set = {&range, 1, 1};
    return fxi_gram_chars(g, &set, spelling, node);
}

bool fxi_gram_spell(fxi_gram *g, fxi_str text, fxi_gram_spelling spelling, uint32_t *node)
{
    char_alts w = {.g = g};
    size_t from = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < text.n; i++) {
        const uint8_t c = (uint8_t)text.p[i];
        if (spelling != FXI_SPELL_JSON || !must_escape(c)) continue;
        ok = (from == i || fxi_node_list_add(&w.alts, fxi_gram_text(g, text.p + from, i - from))) &&
             escape_ascii(&w, c);
        from = i + 1;
    }
    if (ok && from < text.n)
        ok = fxi_node_list_add(&w.alts, fxi_gram_text(g, text.p + from, text.n - from));
    if (ok) *node = fxi_gram_seq(g, w.alts.node, w.alts.n);
    free(w.alts.node);
    return ok;
}
