// jinja_str.c - strings and characters, as Python sees them.
#include "format/jinja/tree/jinja_str.h"

#include <string.h>
#include <utf8proc.h>

#include "base/text/str.h"
#include "base/text/utf8.h"

// ---- comparing and searching --------------------------------------------------------------------

int fxi_jstr_compare(const fxi_jstr *a, const fxi_jstr *b)
{
    return fxi_str_compare((fxi_str){a->p, a->n}, (fxi_str){b->p, b->n});
}

bool fxi_jstr_is(const fxi_jstr *s, const char *text)
{
    return s->n == strlen(text) && !memcmp(s->p, text, s->n);
}

size_t fxi_jstr_find(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to)
{
    if (from > to || what->n > to - from) return SIZE_MAX;
    const char *p = what->n ? memmem(s->p + from, to - from, what->p, what->n) : s->p + from;
    return p ? (size_t)(p - s->p) : SIZE_MAX;
}

size_t fxi_jstr_rfind(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to)
{
    if (from > to || what->n > to - from) return SIZE_MAX;
    if (!what->n) return to;
    for (size_t i = to - what->n + 1; i > from; i--)
        if (s->p[i - 1] == what->p[0] && !memcmp(s->p + i - 1, what->p, what->n)) return i - 1;
    return SIZE_MAX;
}

// ---- characters ---------------------------------------------------------------------------------

uint32_t fxi_jstr_char_at(const fxi_jstr *s, size_t at, size_t *n_bytes)
{
    return (uint32_t)fxi_utf8_at(s->p + at, s->n - at, n_bytes);
}

bool fxi_jstr_owns(const fxi_jstr *s, size_t at, size_t n)
{
    return s->own && !memchr(s->own + at, 0, n);
}

size_t fxi_jstr_count_chars(const fxi_jstr *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += (s->p[i] & 0xC0) != 0x80;
    return n;
}

size_t fxi_jstr_byte_of(const fxi_jstr *s, size_t i_char)
{
    size_t at = 0;
    for (; i_char && at < s->n; i_char--) at += (size_t)fxi_utf8_len((unsigned char)s->p[at]);
    return at;
}

bool fxi_jchar_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool in_categories(uint32_t c, utf8proc_category_t from, utf8proc_category_t to)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k >= from && k <= to;
}

bool fxi_jchar_is_printable(uint32_t c)
{
    return c == ' ' || (!in_categories(c, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_CO) &&
                        utf8proc_category((utf8proc_int32_t)c) != UTF8PROC_CATEGORY_CN);
}

bool fxi_jchar_is_upper(uint32_t c)
{
    return utf8proc_isupper((utf8proc_int32_t)c);
}

bool fxi_jchar_is_lower(uint32_t c)
{
    return utf8proc_islower((utf8proc_int32_t)c);
}

bool fxi_jchar_is_title(uint32_t c)
{
    return in_categories(c, UTF8PROC_CATEGORY_LT, UTF8PROC_CATEGORY_LT);
}

// Whether the character at s[at] is one of `chars` (NULL: white space).
static bool is_stripped(const fxi_jstr *s, size_t at, const fxi_jstr *chars, size_t *n)
{
    uint32_t c = fxi_jstr_char_at(s, at, n);
    if (!chars) return fxi_jchar_is_space(c);
    fxi_jstr one = {.p = s->p + at, .n = *n};
    return fxi_jstr_find(chars, &one, 0, chars->n) != SIZE_MAX;
}

fxi_jstr fxi_jstr_strip(const fxi_jstr *s, const fxi_jstr *chars, bool left, bool right)
{
    size_t from = 0, to = s->n, n;
    while (left && from < to && is_stripped(s, from, chars, &n)) from += n;
    while (right && to > from) {
        size_t at = to - 1;
        while ((s->p[at] & 0xC0) == 0x80) at--;
        if (!is_stripped(s, at, chars, &n)) break;
        to = at;
    }
    return (fxi_jstr){.p = s->p + from, .own = s->own ? s->own + from : NULL, .n = to - from};
}
