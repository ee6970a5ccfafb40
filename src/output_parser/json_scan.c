// json_scan.c - a machine of states: each takes a byte and names the next one.
#include "output_parser/json_scan.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "base/text/utf8.h"

// What comes next, after white space up to S_COLON.
enum {
    S_VALUE,
    S_FIRST_ITEM, // after [: a value, or ]
    S_FIRST_KEY,  // after {: a key, or }
    S_KEY,
    S_COLON,
    S_AFTER, // a comma, or the end of what the value lies in
    // Within a string, a word or a number, after:
    S_TEXT,
    S_ESCAPE,
    S_HEX,
    S_WORD,
    S_MINUS,
    S_ZERO,
    S_INT,
    S_POINT,
    S_FRACTION,
    S_E,
    S_E_SIGN,
    S_EXPONENT
};

static fxi_scan_step scan_go_to(fxi_json_scan *s, int state)
{
    s->state = (uint8_t)state;
    return FXI_SCAN_MORE;
}

// A value has ended with this byte.
static fxi_scan_step end_value(fxi_json_scan *s)
{
    s->state = S_AFTER;
    return s->depth ? FXI_SCAN_MORE : FXI_SCAN_DONE;
}

static fxi_scan_step open_level(fxi_json_scan *s, char close)
{
    if (s->depth == FXI_SCAN_DEPTH) return FXI_SCAN_BAD;
    s->close[s->depth++] = close;
    return scan_go_to(s, close == '}' ? S_FIRST_KEY : S_FIRST_ITEM);
}

static fxi_scan_step close_level(fxi_json_scan *s)
{
    s->depth--;
    return end_value(s);
}

static fxi_scan_step scan_value(fxi_json_scan *s, char c)
{
    s->in_key = false;
    if (c == '{' || c == '[') return open_level(s, c == '{' ? '}' : ']');
    if (c == '"') return scan_go_to(s, S_TEXT);
    if (c == '-') return scan_go_to(s, S_MINUS);
    if (c >= '0' && c <= '9') return scan_go_to(s, c == '0' ? S_ZERO : S_INT);
    s->word = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : NULL;
    return s->word ? scan_go_to(s, S_WORD) : FXI_SCAN_BAD;
}

static fxi_scan_step scan_after(fxi_json_scan *s, char c)
{
    if (!s->depth) return FXI_SCAN_BEFORE;
    if (fxi_is_blank(c)) return FXI_SCAN_MORE;
    const char close = s->close[s->depth - 1];
    if (c == ',') return scan_go_to(s, close == '}' ? S_KEY : S_VALUE);
    return c == close ? close_level(s) : FXI_SCAN_BAD;
}

// Inside a number, which ends before the first byte that is not part of it.
static fxi_scan_step scan_number(fxi_json_scan *s, char c)
{
    const bool is_digit = c >= '0' && c <= '9', is_e = c == 'e' || c == 'E';
    switch (s->state) {
    case S_MINUS: return is_digit ? scan_go_to(s, c == '0' ? S_ZERO : S_INT) : FXI_SCAN_BAD;
    case S_POINT: return is_digit ? scan_go_to(s, S_FRACTION) : FXI_SCAN_BAD;
    case S_E_SIGN: return is_digit ? scan_go_to(s, S_EXPONENT) : FXI_SCAN_BAD;
    case S_E:
        if (c == '+' || c == '-') return scan_go_to(s, S_E_SIGN);
        return is_digit ? scan_go_to(s, S_EXPONENT) : FXI_SCAN_BAD;
    default: break;
    }
    if (is_digit && s->state != S_ZERO) return FXI_SCAN_MORE;
    if (is_e && s->state != S_EXPONENT) return scan_go_to(s, S_E);
    if (c == '.' && s->state == S_FRACTION) return FXI_SCAN_BAD;
    if (c == '.' && s->state != S_EXPONENT) return scan_go_to(s, S_POINT);
    s->state = S_AFTER;
    return scan_after(s, c);
}

fxi_scan_step fxi_json_scan_byte(fxi_json_scan *s, char c)
{
    if (s->state <= S_COLON && fxi_is_blank(c)) return FXI_SCAN_MORE;
    switch (s->state) {
    case S_VALUE: return scan_value(s, c);
    case S_FIRST_ITEM: return c == ']' ? close_level(s) : scan_value(s, c);
    case S_FIRST_KEY:
    case S_KEY:
        if (c == '}' && s->state == S_FIRST_KEY) return close_level(s);
        s->in_key = true;
        return c == '"' ? scan_go_to(s, S_TEXT) : FXI_SCAN_BAD;
    case S_COLON: return c == ':' ? scan_go_to(s, S_VALUE) : FXI_SCAN_BAD;
    case S_AFTER: return scan_after(s, c);
    case S_TEXT:
        if (c == '\\') return scan_go_to(s, S_ESCAPE);
        if (c != '"') return FXI_SCAN_MORE;
        return s->in_key ? scan_go_to(s, S_COLON) : end_value(s);
    case S_ESCAPE:
        s->n_hex = 4;
        if (c == 'u') return scan_go_to(s, S_HEX);
        return c && strchr("\"\\/bfnrt", c) ? scan_go_to(s, S_TEXT) : FXI_SCAN_BAD;
    case S_HEX:
        if (fxi_hex_digit(c) < 0) return FXI_SCAN_BAD;
        return --s->n_hex ? FXI_SCAN_MORE : scan_go_to(s, S_TEXT);
    case S_WORD:
        if (c != *s->word) return FXI_SCAN_BAD;
        return *++s->word ? FXI_SCAN_MORE : end_value(s);
    default: return scan_number(s, c);
    }
}

bool fxi_json_scan_in_text(const fxi_json_scan *s)
{
    return s->state == S_TEXT || s->state == S_ESCAPE || s->state == S_HEX;
}

bool fxi_json_scan_all(const char *text, size_t n)
{
    fxi_json_scan s = {0};
    fxi_scan_step step = FXI_SCAN_MORE;
    size_t i = 0;
    for (; i < n && step == FXI_SCAN_MORE; i++) {
        if (fxi_json_scan_in_text(&s) && (unsigned char)text[i] < 0x20) return false;
        step = fxi_json_scan_byte(&s, text[i]);
    }
    if (step == FXI_SCAN_MORE) return fxi_json_scan_byte(&s, ' ') == FXI_SCAN_BEFORE;
    if (step == FXI_SCAN_BEFORE) i--; // the byte after a number
    while (i < n && fxi_is_blank(text[i])) i++;
    return step != FXI_SCAN_BAD && i == n;
}

// ---- strings ------------------------------------------------------------------------------------

// The code unit at s[0..n), "\uXXXX"; -1: there is none.
static int32_t code_unit(const char *s, size_t n)
{
    int32_t v = 0;
    if (n < 6 || s[0] != '\\' || s[1] != 'u') return -1;
    for (int i = 2; i < 6; i++) {
        if (fxi_hex_digit(s[i]) < 0) return -1;
        v = v * 16 + fxi_hex_digit(s[i]);
    }
    return v;
}

static bool add_code(fxi_buf *out, int32_t c)
{
    char utf8[4];
    if (c >= 0xd800 && c < 0xe000) c = 0xfffd; // half a pair
    return fxi_buf_add(out, utf8, fxi_utf8_put(utf8, (uint32_t)c));
}

// Adds the character of the escape at s[0..n). *n_used: its bytes.
static bool add_escape(fxi_buf *out, const char *s, size_t n, size_t *n_used)
{
    static const char plain[] = "\"\"\\\\//b\bf\fn\nr\rt\t"; // pairs: letter, byte
    const int32_t high = code_unit(s, n), low = high < 0 ? -1 : code_unit(s + 6, n - 6);
    const bool pair = high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 && low < 0xe000;
    *n_used = pair ? 12 : high >= 0 ? 6 : 2;
    if (pair) return add_code(out, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
    if (high >= 0) return add_code(out, high);
    for (size_t i = 0; n > 1 && i + 2 < sizeof plain; i += 2)
        if (s[1] == plain[i]) return fxi_buf_add(out, &plain[i + 1], 1);
    *n_used = 1;
    return fxi_buf_add(out, s, 1);
}

bool fxi_json_unescape(fxi_buf *out, const char *s, size_t n)
{
    for (size_t i = 0, n_used; i < n; i += n_used) {
        const char *stop = memchr(s + i, '\\', n - i);
        n_used = stop ? (size_t)(stop - (s + i)) : n - i;
        if (!(n_used ? fxi_buf_add(out, s + i, n_used) : add_escape(out, s + i, n - i, &n_used)))
            return false;
    }
    return true;
}

size_t fxi_json_escape(char c, char out[FXI_ESCAPE_BYTES])
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = c ? strchr(from, c) : NULL;
    if (at) return (size_t)snprintf(out, FXI_ESCAPE_BYTES, "\\%c", to[at - from]);
    if ((unsigned char)c < 0x20) return (size_t)snprintf(out, FXI_ESCAPE_BYTES, "\\u%04x", c);
    out[0] = c;
    return 1;
}
