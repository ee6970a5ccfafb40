// head.h - a strict reader of HTTP/1.x requests: the head, and the framing of a chunked body.
//
// Two programs in a row, a proxy and this server, that see different ends of a request see
// different requests: what follows becomes one that only one of them has checked. So whatever
// RFC 9112 leaves to the recipient is refused here: lone newlines, folded lines, NULs and other
// control characters, blanks before a colon, several lengths. No sockets, no allocation.
#ifndef FXI_SERVER_HEAD_H
#define FXI_SERVER_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http_error.h"

typedef struct fxi_head {               // all zero: none
    const char *method, *target, *path; // path: the target up to its query, unescaped
    const char *field, *end;            // "name\0value\0" of each header line
    bool is_1_0, keeps_alive;           // keeps_alive: another request may follow
    bool has_body, is_chunked;
    uint64_t n_bytes; // of the body, by Content-Length; UINT64_MAX: more than 64 bits can say
} fxi_head;

// Bytes of the head that begins at text, with the empty line that ends it; 0: there is more to
// come; < 0: a line does not end with CR LF. *n_seen: bytes that a call before has seen, 0 first.
ptrdiff_t fxi_head_find_end(const char *text, size_t n, size_t *n_seen);

// Reads the head text[0..n), which fxi_head_find_end has found. It is changed in place, and *h
// points into it. False: *err says why it is refused (400, 501, 505); *h has what was read before.
bool fxi_head_parse(fxi_head *h, char *text, size_t n, fxi_http_error *err);

// The value of the first header of this name, whatever its case; NULL: there is none.
const char *fxi_head_get(const fxi_head *h, const char *name);

// ---- chunked bodies ---------------------------------------------------------------------------

typedef struct fxi_chunks { // all zero: the first chunk's size comes next
    int at;
    uint64_t n_left;  // of the chunk
    uint32_t n_extra; // bytes of extensions, trailers and leading zeros so far
} fxi_chunks;

typedef enum fxi_chunk_result {
    FXI_CHUNK_MORE, // what has been read was no data
    FXI_CHUNK_DATA, // *n_data bytes at p are data
    FXI_CHUNK_END,  // the body is complete
    FXI_CHUNK_BAD,
    FXI_CHUNK_HUGE, // a size beyond 60 bits
} fxi_chunk_result;

// Reads *n_used of the n > 0 bytes at p: what lies before the next data, or data.
fxi_chunk_result fxi_chunks_read(fxi_chunks *c, const char *p, size_t n, size_t *n_used,
                                 size_t *n_data);

#endif
