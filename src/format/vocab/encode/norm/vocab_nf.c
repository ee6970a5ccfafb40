// vocab_nf.c - Unicode normal forms, by utf8proc, of those stretches of a text that need it.
//
// A character is inert in a form if nothing before it can change it: it neither decomposes nor
// combines with what is on its left. Stretches of inert characters are copied. All others go
// through utf8proc together with the inert character on their left, which they may combine with.
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/norm/vocab_norm.h"

enum {
    MAX_GROWTH = 32, // code points that one becomes: at most 18
    FEW = 16,
    MAX_CLASS = 256
};

static const utf8proc_option_t options[] = {
    [FXI_NORM_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
    [FXI_NORM_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
    [FXI_NORM_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [FXI_NORM_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

static bool does_compose(fxi_norm_kind form)
{
    return form == FXI_NORM_NFC || form == FXI_NORM_NFKC;
}

static bool is_inert(fxi_norm_kind form, int32_t cp)
{
    if (cp < 0x80 || (cp < 0x300 && form == FXI_NORM_NFC)) return true;
    if (cp >= 0xAC00 && cp <= 0xD7A3) return does_compose(form); // Hangul syllables
    if ((cp >= 0x1100 && cp <= 0x11FF) || (cp >= 0xA960 && cp <= 0xA97F) ||
        (cp >= 0xD7B0 && cp <= 0xD7FF)) // Hangul letters
        return false;
    const utf8proc_property_t *p = utf8proc_get_property(cp);
    return p->decomp_seqindex == UINT16_MAX && !p->combining_class &&
           p->category != UTF8PROC_CATEGORY_MN && p->category != UTF8PROC_CATEGORY_MC;
}

// The end of the inert stretch from `at`, which is copied; *end: the end of the active one after
// it.
static size_t find_active(fxi_norm_kind form, fxi_str text, size_t at, size_t *end)
{
    size_t last = at, len, i = at;
    while (i < text.n) {
        size_t n_ascii = fxi_utf8_ascii(text.p + i, text.n - i);
        if (n_ascii) {
            i += n_ascii;
            last = i - 1;
            continue;
        }
        if (!is_inert(form, fxi_utf8_at(text.p + i, text.n - i, &len))) break;
        last = i;
        i += len;
    }
    size_t from = i < text.n ? last : i;
    for (; i < text.n; i += len)
        if (is_inert(form, fxi_utf8_at(text.p + i, text.n - i, &len))) break;
    *end = i;
    return from;
}

static bool reserve_cps(fxi_norm_work *w, size_t n)
{
    if (n <= w->cap_cp) return true;
    size_t cap = n + w->cap_cp;
    int32_t *p = realloc(w->cp, cap * sizeof *p);
    if (!p) return false;
    w->cp = p;
    w->cap_cp = cap;
    return true;
}

static unsigned class_of(int32_t cp)
{
    return cp < 0x300 ? 0 : utf8proc_get_property(cp)->combining_class;
}

// Sorts marks by class, stably, in linear time: a text may be nothing but marks.
static void order_many(int32_t *cp, size_t n, int32_t *scratch)
{
    size_t place[MAX_CLASS + 1] = {0};
    for (size_t i = 0; i < n; i++) place[(class_of(cp[i]) & 255) + 1]++;
    for (size_t c = 0; c < MAX_CLASS; c++) place[c + 1] += place[c];
    for (size_t i = 0; i < n; i++) scratch[place[class_of(cp[i]) & 255]++] = cp[i];
    memcpy(cp, scratch, n * sizeof *cp);
}

static void order_few(int32_t *cp, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k && class_of(cp[k - 1]) > class_of(cp[k]); k--) {
            int32_t swap = cp[k];
            cp[k] = cp[k - 1];
            cp[k - 1] = swap;
        }
}

static void order_marks(int32_t *cp, size_t n, int32_t *scratch)
{
    for (size_t at = 0, end; at < n; at = end + 1) {
        for (end = at; end < n && class_of(cp[end]); end++) continue;
        if (end - at > FEW)
            order_many(cp + at, end - at, scratch);
        else
            order_few(cp + at, end - at);
    }
}

// Decomposes s to w->cp. False: out of memory.
static bool decompose_text(fxi_norm_kind form, fxi_str s, fxi_norm_work *w, size_t *n)
{
    *n = 0;
    for (size_t i = 0, len; i < s.n; i += len) {
        int last = 0;
        int32_t cp = fxi_utf8_at(s.p + i, s.n - i, &len);
        if (!reserve_cps(w, *n + MAX_GROWTH)) return false;
        utf8proc_ssize_t got =
            utf8proc_decompose_char(cp, w->cp + *n, MAX_GROWTH, options[form], &last);
        if (got < 0 || got > MAX_GROWTH) return false;
        *n += (size_t)got;
    }
    return true;
}

static bool append_form(fxi_norm_kind form, fxi_str s, fxi_norm_work *w, fxi_buf *out)
{
    size_t n;
    if (!decompose_text(form, s, w, &n) || !reserve_cps(w, 2 * n)) return false;
    order_marks(w->cp, n, w->cp + n);
    utf8proc_ssize_t left = utf8proc_normalize_utf32(w->cp, (utf8proc_ssize_t)n, options[form]);
    for (utf8proc_ssize_t i = 0; i < left; i++) {
        utf8proc_uint8_t bytes[4];
        if (!fxi_buf_add(out, bytes, (size_t)utf8proc_encode_char(w->cp[i], bytes))) return false;
    }
    return true;
}

bool fxi_nf_append(fxi_norm_kind form, fxi_str text, fxi_norm_work *w, fxi_buf *out, bool *same)
{
    size_t end, from = find_active(form, text, 0, &end);
    *same = from == text.n;
    if (*same) return true;
    if (!fxi_buf_reserve(out, text.n + 1)) return false;
    for (size_t at = 0; at < text.n && out->n <= FXI_MAX_NORM_BYTES; at = end) {
        from = find_active(form, text, at, &end);
        if (!fxi_buf_add(out, text.p + at, from - at) ||
            !append_form(form, (fxi_str){text.p + from, end - from}, w, out))
            return false;
    }
    return true;
}
