// figures.h - shared by all benches: clocks, quantiles of samples, whether a goal is reached, and
// the end of a program that cannot continue.
#ifndef BENCH_FIGURES_H
#define BENCH_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

double now_ns(void);        // since some moment in the past
double thread_cpu_ns(void); // CPU time of the calling thread: what other programs do does not count
double process_cpu_ns(void); // of all threads
void sleep_ms(double ms);

// Ends the program with status 1 and a line on stderr: its name and the text.
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);
void *need(void *p); // p; dies if it is NULL: memory has run out

typedef struct samples {
    double *v;
    size_t n, cap;
} samples;

void samples_add(samples *s, double v);
void samples_join(samples *s, const samples *more);
double samples_at(samples *s, double quantile); // sorts; 0: the least, 0.5: the median, 1: the most
// The least or greatest value that the median of what is sampled may have, with 95 % between the
// two, whatever the distribution (the sign test): a sample itself. Fewer than 6 samples say less.
double samples_bound(samples *s, bool greatest);
void samples_clear(samples *s); // keeps the memory
void samples_free(samples *s);

// Print a line that says pass, FAIL, or not measured (if `is` is NaN): the figure should be at most
// `most`, or at least `least`.
void goal(FILE *to, const char *what, double is, double most, const char *unit);
void goal_least(FILE *to, const char *what, double is, double least, const char *unit);

#endif
