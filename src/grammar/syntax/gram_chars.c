// gram_chars.c - sets of characters as sequences of byte ranges.
//
// A range of code points of one UTF-8 length is a product of byte ranges if its ends differ only in
// trailing continuation bytes, and those are whole. Other ranges are split until this holds.
#include "grammar/syntax/gram_chars.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"

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
