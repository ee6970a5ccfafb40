// victim.c - one client's requests, alone and beside each kind of abuser: how long they take, and
// whether any fails.
#include <time.h>

#include "bench_serve.h"

typedef struct victim_sum {
    samples first_ms, whole_ms;
    int n_failed;
} victim_sum;

static void run_victim(bench *b, victim_sum *v)
{
    work w;
    pass p;
    work_make(&w, b, 1, b->size.n_victim);
    pass_init(&p, &w);
    http_pass(b, &w, &p);
    for (size_t i = 0; i < p.first_ms.n; i++) samples_add(&v->first_ms, p.first_ms.v[i]);
    for (size_t i = 0; i < p.whole_ms.n; i++) samples_add(&v->whole_ms, p.whole_ms.v[i]);
    v->n_failed += p.n_failed;
    pass_free(&p, &w);
    work_free(&w);
}

// Abusers run at the lowest priority, so the first one may be late.
static void await_abuser(const abuser *a)
{
    const struct timespec one_look = {0, 10000000}, until_there = {0, 200000000};
    for (int i = 0; i < 1000 && !a->n_begun; i++) nanosleep(&one_look, NULL);
    nanosleep(&until_there, NULL);
}

static void run_beside(bench *b, const abuse *kind, victim_sum *v, int *n_abuse)
{
    abuser a;
    abuser_start(&a, kind, &b->srv);
    await_abuser(&a);
    run_victim(b, v);
    abuser_stop(&a);
    *n_abuse += a.n_begun;
}

static void victim_row(bench *b, const char *name, victim_sum *v, double own_ms)
{
    const double p99 = samples_at(&v->whole_ms, 0.99);
    row_begin(&b->out, "%s", name);
    row_cell(&b->out, "n", (double)v->whole_ms.n, "requests");
    row_cell(&b->out, "failed", v->n_failed, "requests");
    row_cell(&b->out, "first token p50", samples_at(&v->first_ms, 0.5), "ms");
    row_cell(&b->out, "first token p99", samples_at(&v->first_ms, 0.99), "ms");
    row_cell(&b->out, "answer p50", samples_at(&v->whole_ms, 0.5), "ms");
    row_cell(&b->out, "answer p99", p99, "ms");
    if (isnan(own_ms)) return;
    row_cell(&b->out, "p99 over its own", p99 / own_ms, "x");
    b->found.victim = fmax(b->found.victim, p99 / own_ms);
}

static void end_victim(bench *b, victim_sum *v)
{
    row_end(&b->out);
    samples_free(&v->first_ms), samples_free(&v->whole_ms);
}

void bench_victim(bench *b)
{
    victim_sum own = {.n_failed = 0};
    section(&b->out, "victim", "one client's requests beside abusers");
    for (int r = 0; r < b->size.n_repeat; r++) run_victim(b, &own);
    const double own_ms = samples_at(&own.whole_ms, 0.99);
    victim_row(b, "alone", &own, NAN);
    end_victim(b, &own);
    for (int i = 0; i < b->size.n_abuse && i < n_abuse_kind; i++) {
        victim_sum v = {.n_failed = 0};
        int n_abuse = 0;
        for (int r = 0; r < b->size.n_repeat; r++) run_beside(b, &abuses[i], &v, &n_abuse);
        victim_row(b, abuses[i].name, &v, own_ms);
        row_cell(&b->out, "abuses", n_abuse, "connections");
        end_victim(b, &v);
    }
}
