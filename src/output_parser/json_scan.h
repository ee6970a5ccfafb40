// json_scan.h - one JSON value (RFC 8259), checked byte by byte as a model writes it.
#ifndef FXI_JSON_SCAN_H
#define FXI_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"

typedef enum fxi_scan_step {
    FXI_SCAN_MORE,   // the value continues
    FXI_SCAN_DONE,   // it ends with this byte
    FXI_SCAN_BEFORE, // it ended before this byte: a number
    FXI_SCAN_BAD,    // not JSON, or deeper than FXI_SCAN_DEPTH
} fxi_scan_step;

enum { FXI_SCAN_DEPTH = 128 };

typedef struct fxi_json_scan {  // all zero: before the value
    char close[FXI_SCAN_DEPTH]; // what ends each level, } or ]
    uint8_t depth, state;
    uint8_t n_hex;    // of a \u escape: digits to come
    bool in_key;      // the string is an object's key
    const char *word; // what is left of true, false or null
} fxi_json_scan;

// White space of JSON.
static inline bool fxi_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// White space before the value is part of it. Control characters within strings are accepted,
// because models write them; fxi_json_scan_in_text tells where they stand.
fxi_scan_step fxi_json_scan_byte(fxi_json_scan *s, char c);
// Whether the byte to come lies within a string.
bool fxi_json_scan_in_text(const fxi_json_scan *s);
// Whether text[0..n) is one JSON value, with white space around it.
bool fxi_json_scan_all(const char *text, size_t n);

// Appends the inside of a string, s[0..n), with its escapes decoded. Broken escapes stay as they
// are. False: out of memory.
bool fxi_json_unescape(fxi_buf *out, const char *s, size_t n);

enum { FXI_ESCAPE_BYTES = 8 };

// Writes a byte as it stands within a string, with an escape if it needs one; returns how many
// bytes that takes.
size_t fxi_json_escape(char c, char out[FXI_ESCAPE_BYTES]);

#endif
