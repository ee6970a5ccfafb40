// str.h - a run of bytes owned by someone else.
#ifndef FXI_BASE_STR_H
#define FXI_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct fxi_str { // not NUL-terminated
    const char *p;
    size_t n;
} fxi_str;

// The text without its NUL; lives as long as the text.
static inline fxi_str fxi_str_of(const char *text)
{
    return (fxi_str){text, strlen(text)};
}

// The value of a hexadecimal digit; -1: c is none.
static inline int fxi_hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Whether one of the words of a list, with any of these separators between them, is `word`; letters
// A to Z equal their small ones. list may be NULL.
bool fxi_list_has(const char *list, const char *separators, const char *word);

// FNV-1a, 64 bits: for fingerprints and lanes, not for tables that an enemy may fill.
uint64_t fxi_str_hash(fxi_str s);
int fxi_str_compare(fxi_str a, fxi_str b); // < 0, 0, > 0: by bytes, a prefix before the whole
bool fxi_str_is(fxi_str s, const char *text);
bool fxi_str_is_any(fxi_str s, const char *const *list, size_t n); // one of list[0..n)
bool fxi_str_ends_in(fxi_str s, const char *end);
bool fxi_str_is_plain(fxi_str s, const char *more); // only letters and digits of ASCII, and `more`
// Takes the next line off *rest, without its end (\n or \r\n). False: nothing is left.
bool fxi_str_next_line(fxi_str *rest, fxi_str *line);

#endif
