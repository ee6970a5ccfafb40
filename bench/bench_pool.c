// bench_pool - the cost of the thread pool: jobs whose tasks do nothing.
//
//   bench_pool [--threads N] [--jobs N]
//
// CSV on stdout: tasks,threads,n_task,apart_us,p10_ns,median_ns,p99_ns, for 1 to N threads
// (default: one per usable core). Tasks are
//
//     empty   a fast caller may run them all before a worker wakes up
//     meet    each waits until all have begun, so every thread takes part, as in a model's layer
//
// `apart_us` is how long the caller does other work between two jobs. 0 measures the barrier
// between two steps of a forward pass (a hundred jobs, divided); after the longest the workers
// sleep.
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/pool.h"
#include "figures.h"

#define IN_A_ROW 100

typedef struct pool_bench {
    fxi_pool *pool;
    const char *name;
    fxi_task_fn *task;
    int n_task, n_job;
    double apart_ns;
    samples took_ns; // of a job
    _Alignas(64) atomic_int n_begun;
} pool_bench;

static void empty_task(void *arg, int task)
{
    (void)arg;
    (void)task;
}

// n_begun never decreases: the last task of a job makes it a multiple of n_task.
static void meet_task(void *arg, int task)
{
    pool_bench *b = arg;
    (void)task;
    int n = 1 + atomic_fetch_add(&b->n_begun, 1);
    int all = (n + b->n_task - 1) / b->n_task * b->n_task;
    while (atomic_load(&b->n_begun) < all) sched_yield();
}

static void jobs_in_a_row(pool_bench *b)
{
    for (int i = 0; i < b->n_job; i += IN_A_ROW) {
        double start = now_ns();
        for (int j = 0; j < IN_A_ROW; j++) fxi_pool_run(b->pool, b->task, b, b->n_task);
        samples_add(&b->took_ns, (now_ns() - start) / IN_A_ROW);
    }
}

static void jobs_apart(pool_bench *b)
{
    const double budget_ns = 1e9, begin = now_ns();
    for (int i = 0; i < b->n_job && now_ns() - begin < budget_ns; i++) {
        double end = now_ns() + b->apart_ns;
        while (now_ns() < end) {
        }
        double start = now_ns();
        fxi_pool_run(b->pool, b->task, b, b->n_task);
        samples_add(&b->took_ns, now_ns() - start);
    }
}

static void measure_jobs(pool_bench *b, double apart_us)
{
    b->apart_ns = apart_us * 1e3;
    atomic_store(&b->n_begun, 0);
    samples_clear(&b->took_ns);
    if (apart_us > 0)
        jobs_apart(b);
    else
        jobs_in_a_row(b);
    printf("%s,%d,%d,%g,%.0f,%.0f,%.0f\n", b->name, fxi_pool_n_thread(b->pool), b->n_task, apart_us,
           samples_at(&b->took_ns, 0.1), samples_at(&b->took_ns, 0.5),
           samples_at(&b->took_ns, 0.99));
    fflush(stdout);
}

static void bench_tasks(pool_bench *b, const char *name, fxi_task_fn *task, int n_task)
{
    static const double apart_us[] = {0, 1, 10, 40, 100, 1000};
    b->name = name;
    b->task = task;
    b->n_task = n_task;
    for (size_t i = 0; i < sizeof apart_us / sizeof *apart_us; i++) measure_jobs(b, apart_us[i]);
}

static int bench_threads(int n_thread, int n_job)
{
    fx_error err;
    pool_bench b = {.n_job = n_job};
    if (fxi_pool_create(n_thread, &b.pool, &err) != FX_OK) {
        fprintf(stderr, "bench_pool: %s\n", err.text);
        return 1;
    }
    bench_tasks(&b, "empty", empty_task, n_thread);
    bench_tasks(&b, "empty", empty_task, 8 * n_thread);
    bench_tasks(&b, "meet", meet_task, n_thread);
    fxi_pool_destroy(b.pool);
    samples_free(&b.took_ns);
    return 0;
}

int main(int argc, char **argv)
{
    int n_thread = fxi_usable_cores(), n_job = 20000;
    for (int i = 1; i < argc; i += 2) {
        int v = i + 1 < argc ? atoi(argv[i + 1]) : 0;
        if (v > 0 && !strcmp(argv[i], "--threads"))
            n_thread = v;
        else if (v > 0 && !strcmp(argv[i], "--jobs"))
            n_job = v;
        else
            return fprintf(stderr, "usage: bench_pool [--threads N] [--jobs N]\n"), 1;
    }
    printf("tasks,threads,n_task,apart_us,p10_ns,median_ns,p99_ns\n");
    for (int n = 1; n <= n_thread; n++)
        if (bench_threads(n, n_job)) return 1;
    return 0;
}
