// results.h - rows of results, shared by the benches whose parts measure many things: a name, then
// cells; as a table, and as CSV with the columns section,case,model,what,value,unit.
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include <stdbool.h>

#include "figures.h"

typedef struct results {
    FILE *table, *csv;    // NULL: not wanted
    char model_name[128]; // a column of the CSV
    const char *section;  // of the rows
    char row[80];         // name of the current row
} results;

// The table goes to stdout, the CSV to the file at csv_path. NULL: no CSV; "-": the CSV to stdout,
// and no table. False: the file cannot be written.
bool results_open(results *r, const char *csv_path);
bool results_close(results *r); // false: not everything could be written

void section(results *r, const char *name, const char *title);
void row_begin(results *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void row_cell(results *r, const char *what, double value, const char *unit);
// The median of the repeats, with their minimum and maximum. Empties s.
void row_spread(results *r, const char *what, samples *s, const char *unit);
// The median of the repeats, with the interval that samples_bound gives. Empties s.
void row_interval(results *r, const char *what, samples *s, const char *unit);
void row_end(results *r);

#endif
