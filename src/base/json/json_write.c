// json_write.c - values as text: text that needs no escape is copied in whole runs.
#include "base/json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_check

// The escape of an ASCII byte, or NULL if it stands for itself. buf holds at least 7 bytes.
static const char *escape_of(unsigned char c, char *buf)
{
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) return NULL;
    static const char short_of[] = "b\bf\fn\nr\rt\t\"\"\\\\"; // pairs: letter, byte
    for (size_t i = 0; i + 2 < sizeof short_of; i += 2) {
        if ((unsigned char)short_of[i + 1] != c) continue;
        buf[0] = '\\', buf[1] = short_of[i], buf[2] = 0;
        return buf;
    }
    static const char hex[] = "0123456789abcdef";
    memcpy(buf, "\\u00", 4);
    buf[4] = hex[c >> 4], buf[5] = hex[c & 15], buf[6] = 0;
    return buf;
}

// s[0..n) is valid UTF-8.
static bool add_valid(fxi_buf *b, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        char buf[8];
        const char *esc = escape_of((unsigned char)s[i], buf);
        if (!esc) continue;
        if (!fxi_buf_add(b, s + from, i - from) || !fxi_buf_str(b, esc)) return false;
        from = i + 1;
    }
    return fxi_buf_add(b, s + from, n - from);
}

bool fxi_json_str(fxi_buf *b, const char *s, size_t n_bytes)
{
    if (!fxi_buf_add(b, "\"", 1)) return false;
    while (n_bytes) {
        size_t good = fxi_utf8_check(s, n_bytes);
        if (!add_valid(b, s, good)) return false;
        s += good, n_bytes -= good;
        if (!n_bytes) break;
        if (!fxi_buf_str(b, "\xef\xbf\xbd")) return false;
        s++, n_bytes--;
    }
    return fxi_buf_add(b, "\"", 1);
}

bool fxi_json_cstr(fxi_buf *b, const char *s)
{
    return s ? fxi_json_str(b, s, strlen(s)) : fxi_buf_str(b, "null");
}

bool fxi_json_float(fxi_buf *b, float v)
{
    char text[32];
    if (isnan(v)) return fxi_buf_str(b, "null");
    if (isinf(v)) return fxi_buf_str(b, v < 0 ? "-9999.0" : "9999.0");
    snprintf(text, sizeof text, "%.9g", (double)v);
    return fxi_buf_str(b, text) && (strpbrk(text, ".e") || fxi_buf_str(b, ".0"));
}

// The shortest digits that read as the same number, with a fraction or an exponent.
static bool add_real(fxi_buf *b, double d)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d) break;
    }
    return fxi_buf_str(b, text) && (strpbrk(text, ".e") || fxi_buf_str(b, ".0"));
}

static bool add_items(fxi_buf *b, const fxi_json *v)
{
    const bool is_object = fxi_json_is_object(v);
    bool ok = fxi_buf_str(b, is_object ? "{" : "[");
    for (fxi_json_iter it = fxi_json_items(v); ok && fxi_json_next(&it);) {
        ok = !it.i || fxi_buf_str(b, ",");
        if (it.key) ok = ok && fxi_json_str(b, it.key, it.key_bytes) && fxi_buf_str(b, ":");
        ok = ok && fxi_json_value(b, it.value);
    }
    return ok && fxi_buf_str(b, is_object ? "}" : "]");
}

bool fxi_json_value(fxi_buf *b, const fxi_json *v)
{
    const fxi_str s = fxi_json_string(v);
    switch (fxi_json_type_of(v)) {
    case FXI_JSON_BOOL: return fxi_buf_str(b, fxi_json_is_true(v) ? "true" : "false");
    case FXI_JSON_INT: return fxi_buf_fmt(b, "%lld", (long long)fxi_json_int(v));
    case FXI_JSON_REAL: return add_real(b, fxi_json_number(v));
    case FXI_JSON_STRING: return fxi_json_str(b, s.p, s.n);
    case FXI_JSON_ARRAY:
    case FXI_JSON_OBJECT: return add_items(b, v);
    default: return fxi_buf_str(b, "null");
    }
}

static bool add_argument(fxi_buf *b, char kind, va_list *ap)
{
    const fxi_buf *bytes;
    fxi_str text;
    switch (kind) {
    case 'q': return fxi_json_cstr(b, va_arg(*ap, const char *));
    case 't': text = va_arg(*ap, fxi_str); return fxi_json_str(b, text.p, text.n);
    case 's': return fxi_buf_str(b, va_arg(*ap, const char *));
    case 'b': bytes = va_arg(*ap, const fxi_buf *); return fxi_buf_add(b, bytes->p, bytes->n);
    case 'v': return fxi_json_value(b, va_arg(*ap, const fxi_json *));
    case 'd': return fxi_buf_fmt(b, "%d", va_arg(*ap, int));
    case 'l': return fxi_buf_fmt(b, "%lld", va_arg(*ap, long long));
    case 'z': return fxi_buf_fmt(b, "%zu", va_arg(*ap, size_t));
    case 'u': return fxi_buf_fmt(b, "%" PRIu32, va_arg(*ap, uint32_t));
    case 'w': return fxi_buf_fmt(b, "%" PRIu64, va_arg(*ap, uint64_t));
    default: return fxi_json_float(b, (float)va_arg(*ap, double));
    }
}

bool fxi_json_fmt(fxi_buf *b, const char *pattern, ...)
{
    bool ok = true;
    va_list ap;
    va_start(ap, pattern);
    for (const char *p = pattern; ok && *p; p++) {
        const size_t n = strcspn(p, "'%");
        ok = fxi_buf_add(b, p, n);
        p += n;
        if (!*p) break;
        ok = ok && (*p == '%' ? add_argument(b, *++p, &ap) : fxi_buf_str(b, "\""));
    }
    va_end(ap);
    return ok;
}
