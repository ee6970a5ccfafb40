// jinja_text.c - strings whose bytes carry marks: making, joining, cutting, searching, characters.
//
// A concatenation leaves room behind its result; one that begins with that result goes on in place,
// so that a text put together from many pieces takes linear time and memory. What is shared that
// way is never overwritten: a string sees its own length only, and only the longest may go on.
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "format/chat/jinja_impl.h"

// ---- growing ------------------------------------------------------------------------------------

static fx_status grow(fxi_jrun *r, fxi_jout *o, size_t more)
{
    if (o->cap - o->n >= more) return FX_OK;
    if (more > r->lim.memory_bytes) return fxi_j_take(r, more, &(void *){NULL});
    size_t cap = 2 * (o->n + more) + 32;
    char *p;
    FX_TRY(fxi_j_take(r, 2 * cap, &p));
    if (o->n) memcpy(p, o->p, o->n);
    if (o->n) memcpy(p + cap, o->own, o->n);
    *o = (fxi_jout){p, p + cap, o->n, cap};
    return FX_OK;
}

static fx_status put(fxi_jrun *r, fxi_jout *o, const char *p, const char *own, int mark, size_t n)
{
    FX_TRY(fxi_j_work(r, n));
    FX_TRY(grow(r, o, n));
    if (!n) return FX_OK;
    memcpy(o->p + o->n, p, n);
    if (own)
        memcpy(o->own + o->n, own, n);
    else
        memset(o->own + o->n, mark, n);
    o->n += n;
    if (o == r->out && o->n > r->lim.output_bytes)
        return fxi_j_fail(r, "writes more than %zu bytes", r->lim.output_bytes);
    return FX_OK;
}

fx_status fxi_jout_part(fxi_jrun *r, fxi_jout *o, const fxi_jstr *s, size_t from, size_t n)
{
    return put(r, o, s->p + from, s->own ? s->own + from : NULL, 0, n);
}

fx_status fxi_jout_add(fxi_jrun *r, fxi_jout *o, const fxi_jstr *s)
{
    return fxi_jout_part(r, o, s, 0, s->n);
}

fx_status fxi_jout_bytes(fxi_jrun *r, fxi_jout *o, const char *p, size_t n, bool own)
{
    return put(r, o, p, NULL, own, n);
}

fx_status fxi_jout_char(fxi_jrun *r, fxi_jout *o, uint32_t c, bool own)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)c, bytes);
    return fxi_jout_bytes(r, o, (const char *)bytes, (size_t)n, own);
}

fx_status fxi_jout_done(fxi_jrun *r, const fxi_jout *o, fxi_jval *out)
{
    return fxi_j_str(r, o->n ? o->p : "", o->own, o->n, out);
}

// ---- making -------------------------------------------------------------------------------------

fx_status fxi_j_str(fxi_jrun *r, const char *p, const char *own, size_t n, fxi_jval *out)
{
    fxi_jstr *s;
    FX_TRY(fxi_j_take(r, sizeof *s, &s));
    *s = (fxi_jstr){.p = p, .own = own, .n = n};
    *out = (fxi_jval){.type = FXI_J_STR, .s = s};
    return FX_OK;
}

fx_status fxi_j_text(fxi_jrun *r, const char *text, bool own, fxi_jval *out)
{
    fxi_jout o = {0};
    FX_TRY(fxi_jout_bytes(r, &o, text, strlen(text), own));
    return fxi_jout_done(r, &o, out);
}

fx_status fxi_j_part(fxi_jrun *r, const fxi_jstr *s, size_t from, size_t n, fxi_jval *out)
{
    return fxi_j_str(r, s->p + from, s->own ? s->own + from : NULL, n, out);
}

fx_status fxi_j_concat(fxi_jrun *r, const fxi_jstr *a, const fxi_jstr *b, fxi_jval *out)
{
    fxi_jout *o = a->room;
    fxi_jstr *s;
    if (!o || a->p != o->p || a->n != o->n) {
        FX_TRY(fxi_j_take(r, sizeof *o, &o));
        *o = (fxi_jout){0};
        FX_TRY(fxi_jout_add(r, o, a));
    }
    FX_TRY(fxi_jout_add(r, o, b));
    FX_TRY(fxi_j_take(r, sizeof *s, &s));
    *s = (fxi_jstr){o->n ? o->p : "", o->own, o->n, o};
    *out = (fxi_jval){.type = FXI_J_STR, .s = s};
    return FX_OK;
}

// ---- comparing and searching --------------------------------------------------------------------

int fxi_j_compare_str(const fxi_jstr *a, const fxi_jstr *b)
{
    return fxi_str_compare((fxi_str){a->p, a->n}, (fxi_str){b->p, b->n});
}

bool fxi_j_str_is(const fxi_jstr *s, const char *text)
{
    return s->n == strlen(text) && !memcmp(s->p, text, s->n);
}

size_t fxi_j_find(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to)
{
    if (from > to || what->n > to - from) return SIZE_MAX;
    const char *p = what->n ? memmem(s->p + from, to - from, what->p, what->n) : s->p + from;
    return p ? (size_t)(p - s->p) : SIZE_MAX;
}

size_t fxi_j_rfind(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to)
{
    if (from > to || what->n > to - from) return SIZE_MAX;
    if (!what->n) return to;
    for (size_t i = to - what->n + 1; i > from; i--)
        if (s->p[i - 1] == what->p[0] && !memcmp(s->p + i - 1, what->p, what->n)) return i - 1;
    return SIZE_MAX;
}

// ---- characters ---------------------------------------------------------------------------------

uint32_t fxi_j_char(const fxi_jstr *s, size_t at, size_t *n_bytes)
{
    return (uint32_t)fxi_utf8_at(s->p + at, s->n - at, n_bytes);
}

bool fxi_j_own(const fxi_jstr *s, size_t at, size_t n)
{
    return s->own && !memchr(s->own + at, 0, n);
}

size_t fxi_j_n_char(const fxi_jstr *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += (s->p[i] & 0xC0) != 0x80;
    return n;
}

size_t fxi_j_byte_of(const fxi_jstr *s, size_t i_char)
{
    size_t at = 0;
    for (; i_char && at < s->n; i_char--) at += (size_t)fxi_utf8_len((unsigned char)s->p[at]);
    return at;
}

bool fxi_j_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool is_in(uint32_t c, utf8proc_category_t from, utf8proc_category_t to)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k >= from && k <= to;
}

bool fxi_j_is_printable(uint32_t c)
{
    return c == ' ' || (!is_in(c, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_CO) &&
                        utf8proc_category((utf8proc_int32_t)c) != UTF8PROC_CATEGORY_CN);
}

bool fxi_j_is_alpha(uint32_t c)
{
    return is_in(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool fxi_j_is_digit(uint32_t c)
{
    return is_in(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_ND);
}

bool fxi_j_is_upper(uint32_t c)
{
    return utf8proc_isupper((utf8proc_int32_t)c);
}

bool fxi_j_is_lower(uint32_t c)
{
    return utf8proc_islower((utf8proc_int32_t)c);
}

bool fxi_j_is_title(uint32_t c)
{
    return is_in(c, UTF8PROC_CATEGORY_LT, UTF8PROC_CATEGORY_LT);
}

fx_status fxi_jout_cased(fxi_jrun *r, fxi_jout *o, uint32_t c, char how, bool own)
{
    utf8proc_int32_t u = (utf8proc_int32_t)c;
    if (c == 0xDF && how != 'l') return fxi_jout_bytes(r, o, how == 'u' ? "SS" : "Ss", 2, own);
    u = how == 'u' ? utf8proc_toupper(u) : how == 'l' ? utf8proc_tolower(u) : utf8proc_totitle(u);
    return fxi_jout_char(r, o, (uint32_t)u, own);
}

// Whether the character at s[at] is to be stripped: one of `chars`, or white space.
static bool goes(const fxi_jstr *s, size_t at, const fxi_jstr *chars, size_t *n)
{
    uint32_t c = fxi_j_char(s, at, n);
    if (!chars) return fxi_j_is_space(c);
    fxi_jstr one = {.p = s->p + at, .n = *n};
    return fxi_j_find(chars, &one, 0, chars->n) != SIZE_MAX;
}

fxi_jstr fxi_j_stripped(const fxi_jstr *s, const fxi_jstr *chars, bool left, bool right)
{
    size_t from = 0, to = s->n, n;
    while (left && from < to && goes(s, from, chars, &n)) from += n;
    while (right && to > from) {
        size_t at = to - 1;
        while ((s->p[at] & 0xC0) == 0x80) at--;
        if (!goes(s, at, chars, &n)) break;
        to = at;
    }
    return (fxi_jstr){.p = s->p + from, .own = s->own ? s->own + from : NULL, .n = to - from};
}
