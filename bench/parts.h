// parts.h - the parts of a bench, by name, and the option that chooses some of them.
#ifndef BENCH_PARTS_H
#define BENCH_PARTS_H

#include "base/fail.h" // defines: fx_status, fx_error

struct bench; // each bench has its own

typedef struct bench_part {
    const char *name;
    void (*run)(struct bench *b);
} bench_part;

// only: names with commas between them; NULL: all.
// Errors: FX_EINVAL (a name that no part has).
fx_status parts_check(const bench_part *part, int n_part, const char *only, fx_error *err);
void parts_run(const bench_part *part, int n_part, const char *only, struct bench *b);

#endif
