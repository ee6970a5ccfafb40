// parts.h - a bench as a program: its options, and its parts, by name.
#ifndef BENCH_PARTS_H
#define BENCH_PARTS_H

#include <stdbool.h>

#include "base/option/opt.h"

struct bench; // each bench has its own

typedef struct bench_part {
    const char *name;
    void (*run)(struct bench *b);
} bench_part;

typedef struct bench_program {
    const char *name;
    const fxi_opt_table *table; // of struct bench
    const bench_part *part;
    int n_part;
} bench_program;

// Reads the options into *b. only: the one in *b that lists parts, with commas between their names;
// NULL: all. False: the program ends with *status: help was asked for, or an option is wrong, which
// stderr says.
bool parts_begin(const bench_program *p, int argc, char **argv, struct bench *b,
                 const char *const *only, int *status);
void parts_run(const bench_program *p, const char *only, struct bench *b);

#endif
