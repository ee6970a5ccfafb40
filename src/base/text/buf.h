// buf.h - a growable byte buffer. All zero is empty and valid; one owner, no locking.
#ifndef FXI_BASE_BUF_H
#define FXI_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct fxi_buf {
    char *p; // NULL while cap is 0; otherwise p[n] is always 0, so that text can be read as a C
             // string
    size_t n, cap;
} fxi_buf;

// These return false, and leave the buffer as it was, when out of memory.
bool fxi_buf_reserve(fxi_buf *b, size_t more_bytes);
size_t fxi_buf_cap_for(size_t n_bytes); // the `cap` of a buffer that has grown to n_bytes
bool fxi_buf_add(fxi_buf *b, const void *src, size_t n_bytes);
bool fxi_buf_str(fxi_buf *b, const char *s);
__attribute__((format(printf, 2, 3))) bool fxi_buf_fmt(fxi_buf *b, const char *fmt, ...);

void fxi_buf_drop_front(fxi_buf *b, size_t n_bytes); // pre: n_bytes <= b->n
void fxi_buf_clear(fxi_buf *b);                      // empties it, keeps its memory
void fxi_buf_free(fxi_buf *b);                       // all zero again

#endif
