// figures.c - clocks, samples and goals.
#include "figures.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

static double clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

double thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

double process_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void sleep_ms(double ms)
{
    const double s = floor(ms / 1e3);
    const struct timespec t = {(time_t)s, (long)((ms - s * 1e3) * 1e6)};
    nanosleep(&t, NULL);
}

void die(const char *format, ...)
{
    va_list ap;
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

void *need(void *p)
{
    if (!p) die("no memory");
    return p;
}

void samples_add(samples *s, double v)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->v = need(realloc(s->v, s->cap * sizeof *s->v));
    }
    s->v[s->n++] = v;
}

void samples_join(samples *s, const samples *more)
{
    for (size_t i = 0; i < more->n; i++) samples_add(s, more->v[i]);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_at(samples *s, double quantile)
{
    if (s->n == 0) return NAN;
    qsort(s->v, s->n, sizeof *s->v, compare_doubles);
    size_t i = (size_t)((double)s->n * quantile);
    return s->v[i < s->n ? i : s->n - 1];
}

// How many samples may lie on one side of the median with a probability above 2.5 %: the sums of
// the binomial distribution.
static size_t rare_count(size_t n)
{
    double p = pow(0.5, (double)n), sum = p;
    size_t k = 0;
    for (; sum <= 0.025 && k < n; k++) {
        p *= (double)(n - k) / (double)(k + 1);
        sum += p;
    }
    return k ? k - 1 : 0;
}

double samples_bound(samples *s, bool greatest)
{
    const size_t i = rare_count(s->n);
    (void)samples_at(s, 0);
    return s->n ? s->v[greatest ? s->n - 1 - i : i] : NAN;
}

void samples_clear(samples *s)
{
    s->n = 0;
}

void samples_free(samples *s)
{
    free(s->v);
    *s = (samples){0};
}

static void print_verdict(FILE *to, const char *what, double is, double wanted, const char *unit,
                          bool good)
{
    fprintf(to, "  %-12s  %s: ", isnan(is) ? "not measured" : good ? "pass" : "FAIL", what);
    if (!isnan(is)) fprintf(to, "%.4g %s, ", is, unit);
    fprintf(to, "goal %.4g %s\n", wanted, unit);
}

void goal(FILE *to, const char *what, double is, double most, const char *unit)
{
    print_verdict(to, what, is, most, unit, is <= most);
}

void goal_least(FILE *to, const char *what, double is, double least, const char *unit)
{
    print_verdict(to, what, is, least, unit, is >= least);
}
