// test_pool.c - every task of every job runs exactly once, and its effects are visible to the
// caller afterwards: the counters are not atomic, so the thread sanitizer detects missing ordering.
#include <stdlib.h>
#include <time.h>

#include "base/system/pool.h"
#include "unit/cmocka_all.h"

typedef struct job {
    int *count; // [n_task]
    int round;
} job;

static void count_task(void *arg, int task)
{
    job *j = arg;
    j->count[task] += 1 + (j->round & 1);
}

static fxi_pool *pool_of(int n_thread)
{
    fxi_pool *p = NULL;
    assert_int_equal(fxi_pool_create(n_thread, &p, NULL), FX_OK);
    assert_int_equal(fxi_pool_n_thread(p), n_thread);
    return p;
}

static void run_and_check(fxi_pool *p, int n_task)
{
    job j = {calloc((size_t)n_task + 1, sizeof(int)), 0};
    fxi_pool_run(p, count_task, &j, n_task);
    for (int i = 0; i < n_task; i++) assert_int_equal(j.count[i], 1);
    assert_int_equal(j.count[n_task], 0);
    free(j.count);
}

FX_TEST(test_each_task_once)
{
    static const int sizes[] = {0, 1, 2, 3, 4, 5, 7, 64, 1000, 65535, 65536, 140000};
    for (int n_thread = 1; n_thread <= 9; n_thread += n_thread < 4 ? 1 : 5) {
        fxi_pool *p = pool_of(n_thread);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) run_and_check(p, sizes[i]);
        fxi_pool_destroy(p);
    }
}

// Many jobs in a row, each reading what the one before wrote (here: the same counters).
FX_TEST(test_tiny_jobs)
{
    for (int n_thread = 2; n_thread <= 5; n_thread += 3) {
        fxi_pool *p = pool_of(n_thread);
        int count[7] = {0};
        job j = {count, 0};
        for (; j.round < 4000; j.round++) fxi_pool_run(p, count_task, &j, 2 + j.round % 6);
        int want[7] = {0};
        for (int r = 0; r < 4000; r++)
            for (int t = 0; t < 2 + r % 6; t++) want[t] += 1 + (r & 1);
        assert_memory_equal(count, want, sizeof want);
        fxi_pool_destroy(p);
    }
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static void slow_task(void *arg, int task)
{
    if (task % 2) pause_ms(2);
    count_task(arg, task);
}

// Workers fall asleep between jobs, and the caller while it waits for a slow one.
FX_TEST(test_sleepers_wake)
{
    fxi_pool *p = pool_of(3);
    int count[4] = {0};
    job j = {count, 0};
    for (int i = 0; i < 10; i++) {
        pause_ms(2);
        fxi_pool_run(p, slow_task, &j, 4);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(count[i], 10);
    fxi_pool_destroy(p);
}

FX_TEST(test_create_and_destroy)
{
    for (int i = 0; i < 50; i++) fxi_pool_destroy(pool_of(1 + i % 4));
    fxi_pool_destroy(NULL);
}

FX_TEST(test_bad_counts_are_refused)
{
    fxi_pool *p = NULL;
    fx_error err;
    assert_int_equal(fxi_pool_create(0, &p, &err), FX_EINVAL);
    assert_int_equal(fxi_pool_create(-3, &p, &err), FX_EINVAL);
    assert_null(p);
}

FX_RUN(test_pool)
