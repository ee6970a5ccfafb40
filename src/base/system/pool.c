// pool.c - how tasks are handed out. One 64-bit word, the ticket, says whether there is work:
//
//     | job number (32) | n_task (16) | next task (16) |
//
// A thread takes task `next` by a compare-and-swap of the ticket to next + 1, and only while next <
// n_task. Success proves that the job it saw is still running (its task was not taken, so the job
// is not done, so the caller has not started another): the job's fn and arg, read before the swap,
// are the right ones. A worker that was descheduled finds a used-up ticket and goes back to sleep;
// no thread waits for it. The caller waits for n_done == n_task only.
//
// Sleeping: a sleeper raises its flag under the lock and then checks the word it waits for once
// more; a thread that changes that word checks the flag afterwards. Both are sequentially
// consistent, so one of them sees the other.
#include "base/system/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/system/clock.h"

#define MAX_TASK   0xffff // of one ticket
#define SPIN_S     50e-6  // an idle thread spins this long before it sleeps
#define SPIN_BATCH 32     // pauses between two readings of the clock

// Cache lines by their writers: the job, its progress, what is written only when a thread sleeps
// or the pool ends, and the lock.
struct fxi_pool {
    _Alignas(64) _Atomic uint64_t ticket;
    _Atomic(fxi_task_fn *) fn; // fn, arg, first: written by the caller between jobs
    _Atomic(void *) arg;
    _Atomic int first; // number of the ticket's task 0

    _Alignas(64) _Atomic int n_done;

    _Alignas(64) _Atomic int n_sleep; // workers that sleep on `work`
    _Atomic bool caller_sleeps;       // on `done`
    _Atomic bool stop;
    bool spins;
    int n_worker;

    _Alignas(64) pthread_mutex_t mu; // for sleeping only
    pthread_cond_t work, done;
    pthread_t worker[];
};

int fxi_usable_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_task(uint64_t ticket)
{
    return (ticket & 0xffff) < (ticket >> 16 & 0xffff);
}

// Takes a task of the current job, if any is left, and runs it; *n_task: tasks of that job.
static bool run_one_task(fxi_pool *p, int *n_task)
{
    uint64_t t = atomic_load(&p->ticket);
    while (has_task(t)) {
        fxi_task_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
        int first = atomic_load_explicit(&p->first, memory_order_relaxed);
        if (!atomic_compare_exchange_strong(&p->ticket, &t, t + 1)) continue;
        fn(arg, first + (int)(t & 0xffff));
        *n_task = (int)(t >> 16 & 0xffff);
        return true;
    }
    return false;
}

// Runs tasks while there are any, then reports them as done together: until then their job cannot
// end, so all of them belong to one job.
static void pool_work(fxi_pool *p)
{
    int n_mine = 0, n_task = 0;
    while (run_one_task(p, &n_task)) n_mine++;
    if (!n_mine) return;
    int n_done = n_mine + atomic_fetch_add(&p->n_done, n_mine);
    if (n_done == n_task && atomic_load(&p->caller_sleeps)) {
        pthread_mutex_lock(&p->mu);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->mu);
    }
}

static bool worker_ready(fxi_pool *p)
{
    return has_task(atomic_load(&p->ticket)) || atomic_load(&p->stop);
}

static bool caller_ready(fxi_pool *p)
{
    return atomic_load(&p->n_done) == (int)(atomic_load(&p->ticket) >> 16 & 0xffff);
}

// True as soon as ready(p) is; false after SPIN_S.
static bool pool_spin(fxi_pool *p, bool (*ready)(fxi_pool *))
{
    if (ready(p)) return true;
    if (!p->spins) return false;
    for (double end = fxi_now_s() + SPIN_S; fxi_now_s() < end;)
        for (int i = 0; i < SPIN_BATCH; i++) {
            if (ready(p)) return true;
            cpu_pause();
        }
    return false;
}

static void *worker_main(void *arg)
{
    fxi_pool *p = arg;
    while (!atomic_load(&p->stop)) {
        pool_work(p);
        if (pool_spin(p, worker_ready)) continue;
        pthread_mutex_lock(&p->mu);
        atomic_fetch_add(&p->n_sleep, 1);
        while (!worker_ready(p)) pthread_cond_wait(&p->work, &p->mu);
        atomic_fetch_sub(&p->n_sleep, 1);
        pthread_mutex_unlock(&p->mu);
    }
    return NULL;
}

static void wake_workers(fxi_pool *p)
{
    if (!atomic_load(&p->n_sleep)) return;
    pthread_mutex_lock(&p->mu);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mu);
}

static void run_ticket(fxi_pool *p, fxi_task_fn *fn, void *arg, int first, int n_task)
{
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&p->first, first, memory_order_relaxed);
    atomic_store(&p->n_done, 0);
    uint64_t job = (atomic_load(&p->ticket) >> 32) + 1;
    atomic_store(&p->ticket, job << 32 | (uint64_t)n_task << 16);
    wake_workers(p);
    pool_work(p);
    if (pool_spin(p, caller_ready)) return;
    pthread_mutex_lock(&p->mu);
    atomic_store(&p->caller_sleeps, true);
    while (!caller_ready(p)) pthread_cond_wait(&p->done, &p->mu);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->mu);
}

void fxi_pool_run(fxi_pool *p, fxi_task_fn *fn, void *arg, int n_task)
{
    if (!p->n_worker || n_task == 1) {
        for (int i = 0; i < n_task; i++) fn(arg, i);
        return;
    }
    for (int first = 0; first < n_task; first += MAX_TASK) {
        int n = n_task - first;
        run_ticket(p, fn, arg, first, n < MAX_TASK ? n : MAX_TASK);
    }
}

int fxi_pool_n_thread(const fxi_pool *p)
{
    return p->n_worker + 1;
}

void fxi_pool_destroy(fxi_pool *p)
{
    if (!p) return;
    atomic_store(&p->stop, true);
    wake_workers(p);
    for (int i = 0; i < p->n_worker; i++) pthread_join(p->worker[i], NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->mu);
    free(p);
}

fx_status fxi_pool_create(int n_thread, fxi_pool **out, fx_error *err)
{
    if (n_thread < 1 || n_thread > 4096)
        return fxi_fail(err, FX_EINVAL, "%d threads: must be 1 to 4096", n_thread);
    const size_t size = sizeof(fxi_pool) + (size_t)(n_thread - 1) * sizeof(pthread_t);
    fxi_pool *p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!p) return fxi_fail(err, FX_ENOMEM, "out of memory for %d threads", n_thread);
    *p = (fxi_pool){.spins = n_thread <= fxi_usable_cores()};
    pthread_mutex_init(&p->mu, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    for (; p->n_worker < n_thread - 1; p->n_worker++) {
        if (!pthread_create(&p->worker[p->n_worker], NULL, worker_main, p)) continue;
        fxi_pool_destroy(p);
        return fxi_fail(err, FX_ENOMEM, "cannot start %d threads", n_thread);
    }
    *out = p;
    return FX_OK;
}
