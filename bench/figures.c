#include "figures.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void *need(void *p)
{
    if (p) return p;
    fprintf(stderr, "bench: no memory\n");
    exit(1);
}

void samples_add(samples *s, double v)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->v = need(realloc(s->v, s->cap * sizeof *s->v));
    }
    s->v[s->n++] = v;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_at(samples *s, double quantile)
{
    if (s->n == 0) return NAN;
    qsort(s->v, s->n, sizeof *s->v, by_size);
    size_t i = (size_t)((double)s->n * quantile);
    return s->v[i < s->n ? i : s->n - 1];
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

void goal(FILE *to, const char *what, double is, double most, const char *unit)
{
    const char *verdict = isnan(is) ? "not measured" : is <= most ? "pass" : "FAIL";
    fprintf(to, "  %-12s  %s: ", verdict, what);
    if (!isnan(is)) fprintf(to, "%.4g %s, ", is, unit);
    fprintf(to, "goal %.4g %s\n", most, unit);
}
