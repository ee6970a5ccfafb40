// vocab_hf_nul.c - NUL bytes in the keys of a JSON file, which jansson refuses: pieces are byte
// strings, and some vocabularies have one that is a NUL.
//
// In a copy of the file, "\u0000" in a key becomes the escape of a character that the file does not
// have. Readers of keys change it back.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "format/vocab/read/hf/vocab_hf.h"

enum { ESCAPE_BYTES = 6, FIRST_MARK = 0xE000, N_MARK = 64 }; // private use

static const char nul_escape[] = "\\u0000";

// Whether a character is in the file, as bytes or as an escape.
static bool has_character(fxi_str json, const char *utf8, const char *escape)
{
    if (memmem(json.p, json.n, utf8, 3)) return true;
    const char *at = json.p, *end = json.p + json.n;
    while ((at = memmem(at, (size_t)(end - at), "\\u", 2))) {
        if (end - at >= ESCAPE_BYTES && !strncasecmp(at, escape, ESCAPE_BYTES)) return true;
        at += 2;
    }
    return false;
}

static bool choose_mark(fxi_str json, char utf8[4], char escape[8])
{
    for (unsigned i = 0; i < N_MARK; i++) {
        const unsigned cp = FIRST_MARK + i;
        snprintf(utf8, 4, "%c%c%c", (int)(0xE0 | cp >> 12), (int)(0x80 | (cp >> 6 & 63)),
                 (int)(0x80 | (cp & 63)));
        snprintf(escape, 8, "\\u%04X", cp & 0xFFFF);
        if (!has_character(json, utf8, escape)) return true;
    }
    return false;
}

// The end of the string whose first byte is at `at`: its quote, or the file's end.
static size_t string_end(fxi_str json, size_t at)
{
    while (at < json.n && json.p[at] != '"') at += json.p[at] == '\\' ? 2 : 1;
    return at < json.n ? at : json.n;
}

static bool is_key(fxi_str json, size_t quote)
{
    size_t at = quote + 1;
    while (at < json.n && json.p[at] && strchr(" \t\r\n", json.p[at])) at++;
    return at < json.n && json.p[at] == ':';
}

static void mark_string(char *p, size_t n, const char *escape)
{
    for (size_t i = 0; i < n; i += p[i] == '\\' ? 2 : 1)
        if (n - i >= ESCAPE_BYTES && !memcmp(p + i, nul_escape, ESCAPE_BYTES))
            memcpy(p + i, escape, ESCAPE_BYTES);
}

bool fxi_hf_hide_nul(fxi_str *json, fxi_buf *copy, char mark[4])
{
    char escape[8];
    *mark = 0;
    if (!memmem(json->p, json->n, nul_escape, ESCAPE_BYTES)) return true;
    if (!choose_mark(*json, mark, escape)) {
        *mark = 0;
        return true;
    }
    if (!fxi_buf_add(copy, json->p, json->n)) return false;
    *json = (fxi_str){copy->p, copy->n};
    for (size_t at = 0, end; at < json->n; at = end + 1) {
        const char *quote = memchr(json->p + at, '"', json->n - at);
        if (!quote) break;
        const size_t from = (size_t)(quote - json->p) + 1;
        end = string_end(*json, from);
        if (is_key(*json, end)) mark_string(copy->p + from, end - from, escape);
    }
    return true;
}

bool fxi_hf_show_nul(const char mark[4], fxi_str *key, fxi_buf *room)
{
    if (!*mark || !memmem(key->p, key->n, mark, 3)) return true;
    fxi_buf_clear(room);
    for (size_t i = 0; i < key->n;) {
        const bool is = key->n - i >= 3 && !memcmp(key->p + i, mark, 3);
        if (!fxi_buf_add(room, is ? "" : key->p + i, 1)) return false;
        i += is ? 3 : 1;
    }
    *key = (fxi_str){room->p, room->n};
    return true;
}
