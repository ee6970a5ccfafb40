// http_reply.h - the answer to an HTTP/1.1 request, read piece by piece as a client does:
// status, the headers that a client acts on, and the body without its framing (RFC 9112).
//
//     fxi_http_reply r = {0};
//     do receive(piece, &n); while (fxi_http_reply_add(&r, piece, n, &body) == FXI_REPLY_MORE);
//     fxi_http_reply_free(&r);
//
// Nothing of the other side is trusted: heads are bounded, lengths are checked.
#ifndef FXI_BASE_HTTP_REPLY_H
#define FXI_BASE_HTTP_REPLY_H

#include <stdint.h>

#include "base/text/buf.h"

typedef enum fxi_reply_state {
    FXI_REPLY_MORE,   // there is more to come
    FXI_REPLY_WHOLE,  // all of it has been read
    FXI_REPLY_BROKEN, // it is not HTTP/1.x, or a head of more than 16 KiB
    FXI_REPLY_NO_MEMORY,
} fxi_reply_state;

typedef enum fxi_reply_part {
    FXI_REPLY_HEAD,
    FXI_REPLY_LENGTH,     // a body of n_left bytes
    FXI_REPLY_TO_END,     // one that ends with the connection
    FXI_REPLY_CHUNK_SIZE, // a chunked body: a line with the size of a chunk,
    FXI_REPLY_CHUNK,      // n_left bytes of it,
    FXI_REPLY_CHUNK_END,  // the empty line behind them,
    FXI_REPLY_TRAILER,    // lines behind the last one
    FXI_REPLY_DONE,
} fxi_reply_part;

typedef struct fxi_http_reply { // all zero: nothing has been read
    int status;                 // 0: the head is not complete
    bool is_chunked;
    bool is_event_stream; // Content-Type: text/event-stream
    int retry_after_s;    // 0: it says nothing, or a date
    fxi_reply_part part;
    uint64_t n_left;
    fxi_buf line; // of the head, or around chunks: what has come of it
} fxi_http_reply;

// Reads a piece and appends what it has of the body to *body. n 0: the connection has been closed.
// Pieces behind a whole answer are ignored.
fxi_reply_state fxi_http_reply_add(fxi_http_reply *r, const char *p, size_t n, fxi_buf *body);
void fxi_http_reply_free(fxi_http_reply *r);

#endif
