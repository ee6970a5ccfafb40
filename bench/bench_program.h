// bench_program.h - a bench as a program: its options, its parts by name, and the rows of its
// results, as a table and as CSV.
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option/opt.h"
#include "figures.h"

struct bench; // each bench has its own

typedef struct bench_part {
    const char *name;
    void (*run)(struct bench *b);
} bench_part;

typedef struct bench_program {
    const char *name;
    const fxi_opt *opt; // [n_opt] with offsets in struct bench
    size_t n_opt;
    const char *env_prefix; // of the variables that set options
    const bench_part *part;
    int n_part;
} bench_program;

// Reads the options into *b. only: the one in *b that lists parts, separated by commas; NULL: all.
// False: the program ends with *status, because help was asked for or an option is wrong, which
// stderr says.
bool parts_begin(const bench_program *p, int argc, char **argv, struct bench *b,
                 const char *const *only, int *status);
void parts_run(const bench_program *p, const char *only, struct bench *b);

// ---- rows: a name, then cells

typedef struct results {
    FILE *table, *csv;   // NULL: not wanted
    char setting[128];   // CSV: the columns between the case and the cell
    char size[24];       // CSV: what follows the cell's unit
    const char *section; // of the rows
    char row[80];        // name of the current row
} results;

// The table goes to stdout, the CSV to the file at csv_path. NULL: no CSV; "-": the CSV to stdout,
// and no table. columns: the CSV's first line. Ends the program if the file cannot be written.
void results_open(results *r, const char *csv_path, const char *columns);
bool results_close(results *r); // false: not everything could be written

void section(results *r, const char *name, const char *title);
void row_begin(results *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void row_cell(results *r, const char *what, double value, const char *unit);
// Each frees s.
void row_spread(results *r, const char *what, samples *s, const char *unit); // median, least, most
void row_interval(results *r, const char *what, samples *s, const char *unit); // samples_bound
void row_end(results *r);

#endif
