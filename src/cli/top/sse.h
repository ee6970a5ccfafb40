// sse.h - server-sent events (WHATWG HTML, "text/event-stream"), taken out of a growing buffer.
#ifndef FXI_CLI_SSE_H
#define FXI_CLI_SSE_H

#include "base/text/buf.h"
#include "base/text/str.h"

typedef struct fxi_sse_event {
    fxi_str name; // "" where it has none
    fxi_str data; // the lines of its data, joined by newlines
} fxi_sse_event;

// Takes the next whole event with data out of in->p[*from ..), and moves *from behind it; comments
// and events without data are skipped. False: none is whole yet. The texts lie in `in` until it is
// changed.
bool fxi_sse_next(fxi_buf *in, size_t *from, fxi_sse_event *out);

#endif
