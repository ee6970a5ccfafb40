// allocation_sweep.h - requests over HTTP while allocations of the whole process fail: each one
// once, alone or with all later ones. The request that needed it gets an answer that says so; where
// a library needed it, or memory stays short, the connection may end without one. Nothing stays
// charged, and the same request is served when there is memory again.
#ifndef ALLOCATION_SWEEP_H
#define ALLOCATION_SWEEP_H

#include <stddef.h>

#include "flexinfer/flexinfer.h"
#include "server/failing_heap.h"
#include "server/server.h"

typedef struct sweep_row {
    const char *method, *path, *body;
    int status;
    const char *in_body; // of a stream: in its last chunk, or where its client leaves
} sweep_row;

typedef struct sweep {
    fx_engine *eng;
    fxi_server *srv;
    bool (*spares)(void);                  // as in failing_heap
    bool (*is_idle)(const fx_engine *eng); // no request runs or waits
} sweep;

// Returns how many allocations have failed. Fails the test where a request has another outcome.
long sweep_requests(const sweep *s, const sweep_row *row, size_t n_row, bool and_later);

#endif
