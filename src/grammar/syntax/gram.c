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

// Whether n more elements fit after `have`.
static bool fits_more(fxi_gram *g, size_t have, size_t n)
{
    if (!g->broken && (n > FXI_GRAM_MAX_SIZE || have > FXI_GRAM_MAX_SIZE - n))
        g->broken = FX_EINVAL;
    return !g->broken;
}

// Makes room for one more element of *array.
static bool grow_array(fxi_gram *g, void *array, size_t elem_bytes, size_t n, size_t *cap)
{
    if (fits_more(g, n, 1) && !fxi_grow(array, elem_bytes, n, cap)) g->broken = FX_ENOMEM;
    return !g->broken;
}

static uint32_t make_node(fxi_gram *g, fxi_gram_node node)
{
    if (!g->n_node && node.kind != FXI_GRAM_NEVER)
        make_node(g, (fxi_gram_node){.kind = FXI_GRAM_NEVER});
    if (!grow_array(g, &g->node, sizeof *g->node, g->n_node, &g->cap_node)) return 0;
    g->node[g->n_node] = node;
    return (uint32_t)g->n_node++;
}

static bool store_bytes(fxi_gram *g, const void *bytes, size_t n)
{
    if (fits_more(g, g->text.n, n) && n && !fxi_buf_add(&g->text, bytes, n)) g->broken = FX_ENOMEM;
    return !g->broken;
}

uint32_t fxi_gram_text(fxi_gram *g, const void *bytes, size_t n)
{
    const uint32_t at = (uint32_t)g->text.n;
    if (!store_bytes(g, bytes, n)) return 0;
    return make_node(g, (fxi_gram_node){.kind = FXI_GRAM_TEXT, .at = at, .n = (uint32_t)n});
}

uint32_t fxi_gram_set(fxi_gram *g, const fxi_byte_set *s)
{
    if (!grow_array(g, &g->set, sizeof *g->set, g->n_set, &g->cap_set)) return 0;
    g->set[g->n_set] = *s;
    return make_node(g, (fxi_gram_node){.kind = FXI_GRAM_SET, .at = (uint32_t)g->n_set++});
}

static uint32_t make_list(fxi_gram *g, fxi_gram_kind kind, const uint32_t *node, size_t n)
{
    const uint32_t at = (uint32_t)g->n_kid;
    for (size_t i = 0; i < n; i++) {
        if (!grow_array(g, &g->kid, sizeof *g->kid, g->n_kid, &g->cap_kid)) return 0;
        g->kid[g->n_kid++] = node[i];
    }
    return make_node(g, (fxi_gram_node){.kind = (uint8_t)kind, .at = at, .n = (uint32_t)n});
}

uint32_t fxi_gram_seq(fxi_gram *g, const uint32_t *node, size_t n)
{
    if (n == 0) return fxi_gram_text(g, NULL, 0);
    return n == 1 ? node[0] : make_list(g, FXI_GRAM_SEQ, node, n);
}

uint32_t fxi_gram_alt(fxi_gram *g, const uint32_t *node, size_t n)
{
    return n == 1 ? node[0] : make_list(g, FXI_GRAM_ALT, node, n);
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
    if (!store_bytes(g, name.p, name.n)) return 0;
    if (!grow_array(g, &g->rule, sizeof *g->rule, g->n_rule, &g->cap_rule)) return 0;
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

void fxi_node_list_add(fxi_node_list *l, uint32_t node)
{
    l->failed = l->failed || !fxi_grow(&l->node, sizeof *l->node, l->n, &l->cap);
    if (!l->failed) l->node[l->n++] = node;
}

uint32_t fxi_gram_list(fxi_gram *g, fxi_gram_kind kind, fxi_node_list *l)
{
    if (l->failed && !g->broken) g->broken = FX_ENOMEM;
    const uint32_t node = (kind == FXI_GRAM_SEQ ? fxi_gram_seq : fxi_gram_alt)(g, l->node, l->n);
    free(l->node);
    *l = (fxi_node_list){0};
    return node;
}

// ---- checks -------------------------------------------------------------------------------------

typedef enum node_property { NULLABLE, PRODUCTIVE } node_property;

static bool has_property(const fxi_gram *g, uint32_t node, node_property p)
{
    return p == NULLABLE ? g->node[node].nullable : g->node[node].productive;
}

// Whether a node has the property, given what is known of the nodes it is made of.
static bool find_property(const fxi_gram *g, const fxi_gram_node *x, node_property p)
{
    const uint32_t *kid = g->kid + x->at;
    uint32_t i = 0;
    switch (x->kind) {
    case FXI_GRAM_TEXT: return p == PRODUCTIVE || x->n == 0;
    case FXI_GRAM_SET: return p == PRODUCTIVE && fxi_byte_any(&g->set[x->at]);
    case FXI_GRAM_SEQ:
        while (i < x->n && has_property(g, kid[i], p)) i++;
        return i == x->n;
    case FXI_GRAM_ALT:
        while (i < x->n && !has_property(g, kid[i], p)) i++;
        return i < x->n;
    case FXI_GRAM_REPEAT: return x->min == 0 || has_property(g, x->at, p);
    case FXI_GRAM_REF: return has_property(g, g->rule[x->at].node, p);
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
            const bool nullable = find_property(g, x, NULLABLE);
            const bool productive = find_property(g, x, PRODUCTIVE);
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

void fxi_char_set_add(fxi_char_set *s, uint32_t lo, uint32_t hi)
{
    s->failed = s->failed || !fxi_grow(&s->range, sizeof *s->range, s->n, &s->cap);
    if (!s->failed) s->range[s->n++] = (fxi_char_range){lo, hi};
}

void fxi_char_set_join(fxi_char_set *s, const fxi_char_set *more)
{
    s->failed = s->failed || more->failed;
    for (size_t i = 0; i < more->n; i++) fxi_char_set_add(s, more->range[i].lo, more->range[i].hi);
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

void fxi_char_set_invert(fxi_char_set *s)
{
    fxi_char_set other = {.failed = s->failed};
    uint32_t from = 0;
    sort_ranges(s);
    for (size_t i = 0; i < s->n; i++) {
        if (s->range[i].lo > from) fxi_char_set_add(&other, from, s->range[i].lo - 1);
        from = s->range[i].hi + 1;
    }
    if (from <= LAST_CHAR) fxi_char_set_add(&other, from, LAST_CHAR);
    free(s->range);
    *s = other;
}

// ---- nodes --------------------------------------------------------------------------------------

// The characters lo..hi, a product of byte ranges.
static void add_product(fxi_gram *g, fxi_node_list *alts, uint32_t lo, uint32_t hi)
{
    char a[4], b[4];
    uint32_t node[4];
    const size_t n = fxi_utf8_put(a, lo);
    fxi_utf8_put(b, hi);
    for (size_t i = 0; i < n; i++) {
        fxi_byte_set s = {0};
        for (unsigned x = (uint8_t)a[i]; x <= (uint8_t)b[i]; x++) fxi_byte_put(&s, (uint8_t)x);
        node[i] = fxi_gram_set(g, &s);
    }
    fxi_node_list_add(alts, fxi_gram_seq(g, node, n));
}

// The characters lo..hi, with n_tail continuation bytes each.
static void add_tails(fxi_gram *g, fxi_node_list *alts, uint32_t lo, uint32_t hi, int n_tail)
{
    for (int i = 1; i <= n_tail; i++) {
        const uint32_t tail = (1u << 6 * i) - 1;
        if ((lo & ~tail) == (hi & ~tail)) break;
        const uint32_t next = lo & tail             ? (lo | tail) + 1
                              : (hi & tail) != tail ? hi & ~tail
                                                    : 0; // where the range is split
        if (!next) continue;
        add_tails(g, alts, lo, next - 1, n_tail);
        add_tails(g, alts, next, hi, n_tail);
        return;
    }
    add_product(g, alts, lo, hi);
}

static const char short_escapes[0x20] = {
    ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
static const char hex_digits[] = "0123456789abcdef";

static bool must_escape(uint8_t c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

// Escapes with the same beginning are one alternative: a state has a stack for each alternative.
static void add_escapes(fxi_gram *g, fxi_node_list *alts, const char *begin,
                        const fxi_byte_set *last)
{
    if (fxi_byte_any(last))
        fxi_node_list_add(alts, FXI_SEQ_OF(g, fxi_gram_str(g, begin), fxi_gram_set(g, last)));
}

// The characters lo..hi of ASCII: to *single, or with escapes to *alts.
static void add_ascii(fxi_gram *g, fxi_node_list *alts, fxi_byte_set *single, uint32_t lo,
                      uint32_t hi, fxi_gram_spelling spelling)
{
    fxi_byte_set brief = {{0}}, code[2] = {{{0}}};
    for (uint32_t c = lo; c <= hi; c++) {
        if (spelling != FXI_SPELL_JSON || !must_escape((uint8_t)c))
            fxi_byte_put(single, (uint8_t)c);
        else if (c >= 0x20 || short_escapes[c])
            fxi_byte_put(&brief, (uint8_t)(c < 0x20 ? short_escapes[c] : (char)c));
        else
            fxi_byte_put(&code[c >> 4], (uint8_t)hex_digits[c & 15]);
    }
    add_escapes(g, alts, "\\", &brief);
    add_escapes(g, alts, "\\u000", &code[0]);
    add_escapes(g, alts, "\\u001", &code[1]);
}

uint32_t fxi_gram_chars(fxi_gram *g, fxi_char_set *s, fxi_gram_spelling spelling)
{
    static const struct {
        uint32_t lo, hi;
        int n_tail;
    } length[] = {{0, 0x7F, 0},
                  {0x80, 0x7FF, 1},
                  {0x800, FIRST_SURROGATE - 1, 2},
                  {LAST_SURROGATE + 1, 0xFFFF, 2},
                  {0x10000, LAST_CHAR, 3}};
    fxi_byte_set single = {0}; // characters of one byte
    fxi_node_list alts = {.failed = s->failed};
    sort_ranges(s);
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < sizeof length / sizeof *length; k++) {
            const uint32_t lo = s->range[i].lo > length[k].lo ? s->range[i].lo : length[k].lo;
            const uint32_t hi = s->range[i].hi < length[k].hi ? s->range[i].hi : length[k].hi;
            if (lo > hi) continue;
            if (length[k].n_tail)
                add_tails(g, &alts, lo, hi, length[k].n_tail);
            else
                add_ascii(g, &alts, &single, lo, hi, spelling);
        }
    if (fxi_byte_any(&single)) fxi_node_list_add(&alts, fxi_gram_set(g, &single));
    fxi_char_set_free(s);
    return fxi_gram_list(g, FXI_GRAM_ALT, &alts);
}

uint32_t fxi_gram_char_range(fxi_gram *g, uint32_t lo, uint32_t hi, fxi_gram_spelling spelling)
{
    fxi_char_set set = {0};
    fxi_char_set_add(&set, lo, hi);
    return fxi_gram_chars(g, &set, spelling);
}

uint32_t fxi_gram_spell(fxi_gram *g, fxi_str text, fxi_gram_spelling spelling)
{
    fxi_node_list parts = {0};
    size_t from = 0;
    for (size_t i = 0; i < text.n; i++) {
        const uint8_t c = (uint8_t)text.p[i];
        if (spelling != FXI_SPELL_JSON || !must_escape(c)) continue;
        const char letter = c < 0x20 ? short_escapes[c] : (char)c;
        const char brief[] = {'\\', letter, 0},
                   code[] = {'\\', 'u', '0', '0', hex_digits[c >> 4], hex_digits[c & 15], 0};
        if (from < i) fxi_node_list_add(&parts, fxi_gram_text(g, text.p + from, i - from));
        fxi_node_list_add(&parts, fxi_gram_str(g, letter ? brief : code));
        from = i + 1;
    }
    if (from < text.n) fxi_node_list_add(&parts, fxi_gram_text(g, text.p + from, text.n - from));
    return fxi_gram_list(g, FXI_GRAM_SEQ, &parts);
}
