// busywork.c - the work of a step beside the manager's: reads of more memory than a cache holds.
#include <stdlib.h>

#include "bench_vtensor.h"

enum { PIECE = 1 << 14 };

static volatile uint64_t read_sum; // keeps the reads from being optimised away

busywork busywork_open(void)
{
    busywork bw = {.n = (size_t)8 << 20};
    bw.v = need(calloc(bw.n, sizeof *bw.v));
    for (size_t i = 0; i < bw.n; i += 64) bw.v[i] = i;
    return bw;
}

void busywork_run(const busywork *bw, double ms)
{
    double end = now_ns() + ms * 1e6;
    for (size_t at = 0; now_ns() < end; at = (at + PIECE) % bw->n) {
        uint64_t sum = 0;
        for (size_t i = 0; i < PIECE; i++) sum += bw->v[at + i];
        read_sum = sum;
    }
}

void busywork_free(busywork *bw)
{
    free(bw->v);
    *bw = (busywork){0};
}
