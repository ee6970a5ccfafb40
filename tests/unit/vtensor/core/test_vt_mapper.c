// test_vt_mapper.c - the queue of jobs and its thread. `index` identifies a job. The tests control
// what a step does: it logs the job, waits at a gate if the test has closed one, and sets the
// status that the test has asked for.
#include "assert_vt.h"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vtensor/core/mapper.h"

enum { MAX_JOB = 8, MAX_LOG = 512 };

static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool closed;  // the gate
    bool at_gate; // somebody waits there
    uint64_t log[MAX_LOG];
    uint32_t n_log;
    uint64_t fails; // the job with this index fails, as a device does
} bench = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static vti_mapper_thread *mp;

// A job with what the tests need.
typedef struct test_job {
    vti_job base; // first
    uint64_t index, fence, generation;
    vt_status st;
    uint32_t n_view;
    uint32_t n_step; // steps that are left; 0: it has one
} test_job;

static test_job jobs[MAX_LOG];

// The linker sends the mapper's and this file's calls here.
static atomic_bool no_memory, no_thread;
static atomic_uint n_thread;

void *__real_calloc(size_t n, size_t size_bytes);
void *__wrap_calloc(size_t n, size_t size_bytes);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

void *__wrap_calloc(size_t n, size_t size_bytes)
{
    return no_memory ? NULL : __real_calloc(n, size_bytes);
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    if (no_thread) return EAGAIN;
    n_thread++;
    return __real_pthread_create(t, attr, fn, arg);
}

static bool run_job(void *ctx, vti_job *base)
{
    test_job *job = (test_job *)base;
    pthread_mutex_lock(&bench.mu);
    bench.log[bench.n_log++] = job->index;
    bench.at_gate = true;
    pthread_cond_broadcast(&bench.changed);
    while (bench.closed) pthread_cond_wait(&bench.changed, &bench.mu);
    bench.at_gate = false;
    job->st = job->index == bench.fails ? VT_EDEVICE : VT_OK;
    job->n_view = ctx == &bench ? 7 : 0;
    bool has_more = job->n_step > 0 && --job->n_step > 0;
    pthread_mutex_unlock(&bench.mu);
    return has_more;
}

static void gate_set(bool closed)
{
    pthread_mutex_lock(&bench.mu);
    bench.closed = closed;
    pthread_cond_broadcast(&bench.changed);
    pthread_mutex_unlock(&bench.mu);
}

static void gate_await(void)
{
    pthread_mutex_lock(&bench.mu);
    while (!bench.at_gate) pthread_cond_wait(&bench.changed, &bench.mu);
    pthread_mutex_unlock(&bench.mu);
}

static void start(uint32_t max_job, bool threaded)
{
    memset(jobs, 0, sizeof jobs);
    for (uint32_t i = 0; i < MAX_LOG; i++) jobs[i].index = i;
    bench.closed = bench.at_gate = false;
    bench.n_log = 0;
    bench.fails = UINT64_MAX;
    assert_int_equal(vti_mapper_start(max_job, threaded, run_job, &bench, &mp), VT_OK);
    assert_non_null(mp);
}

static void stop(void)
{
    vti_mapper_stop(mp);
    mp = NULL;
}

VT_FIXTURE(teardown)
{
    no_memory = no_thread = false;
    gate_set(false);
    stop();
}

static void post(uint32_t i, uint32_t deadline)
{
    jobs[i].base.deadline = deadline;
    assert_true(vti_mapper_post(mp, &jobs[i].base));
}

// Posts a job and returns when it runs and stands at the gate.
static void post_and_hold(uint32_t i)
{
    gate_set(true);
    post(i, 0);
    gate_await();
}

static void wait_ok(uint32_t i)
{
    vti_mapper_wait(mp, &jobs[i].base);
    assert_int_equal(jobs[i].base.state, VTI_JOB_FREE);
    assert_int_equal(jobs[i].st, VT_OK);
    assert_int_equal(jobs[i].n_view, 7);
}

static void expect_log(const uint64_t *want, uint32_t n)
{
    assert_int_equal(bench.n_log, n);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(bench.log[i], want[i]);
}

// Waits until the thread has no more to do. No job may stand at a closed gate.
static void settle(void)
{
    while (vti_mapper_pending(mp) > 0) sched_yield();
}

static const uint32_t deadlines[] = {9, 2, 7, 2, 0, UINT32_MAX, 2};
static const uint64_t by_deadline[] = {5, 2, 4, 7, 3, 1, 6};

enum { N_DEADLINE = sizeof deadlines / sizeof deadlines[0] };

FX_TEST(test_the_nearest_deadline_is_first_then_the_first_posted)
{
    start(MAX_JOB, true);
    post_and_hold(0);
    for (uint32_t i = 0; i < N_DEADLINE; i++) post(i + 1, deadlines[i]);
    assert_int_equal(vti_mapper_pending(mp), 1 + N_DEADLINE);
    gate_set(false);
    for (uint32_t i = 0; i <= N_DEADLINE; i++) wait_ok(i);
    assert_int_equal(bench.log[0], 0);
    for (uint32_t i = 0; i < N_DEADLINE; i++) assert_int_equal(bench.log[i + 1], by_deadline[i]);
    assert_int_equal(vti_mapper_pending(mp), 0);
}

FX_TEST(test_done_jobs_are_taken_in_the_order_they_were_done)
{
    start(MAX_JOB, true);
    post_and_hold(0);
    for (uint32_t i = 0; i < N_DEADLINE; i++) post(i + 1, deadlines[i]);
    assert_null(vti_mapper_take(mp));
    gate_set(false);
    settle();
    wait_ok(7); // out of the middle
    assert_ptr_equal(vti_mapper_take(mp), &jobs[0].base);
    for (uint32_t i = 0; i < N_DEADLINE; i++) {
        if (by_deadline[i] == 7) continue;
        vti_job *job = vti_mapper_take(mp);
        assert_ptr_equal(job, &jobs[by_deadline[i]].base);
        assert_int_equal(job->state, VTI_JOB_FREE);
    }
    assert_null(vti_mapper_take(mp));
}

FX_TEST(test_a_queued_job_can_be_taken_back)
{
    start(MAX_JOB, true);
    post(0, 0);
    settle();
    post_and_hold(1);
    post(2, 5), post(3, 4), post(4, 3);
    assert_false(vti_mapper_claim(mp, &jobs[3].base));
    assert_int_equal(jobs[3].base.state, VTI_JOB_FREE);
    assert_int_equal(vti_mapper_pending(mp), 3);
    gate_set(false);
    wait_ok(2), wait_ok(4), wait_ok(1), wait_ok(0);
    expect_log((uint64_t[]){0, 1, 4, 2}, 4);
    post(3, 0); // and it can be posted again
    wait_ok(3);
}

FX_TEST(test_the_queue_is_bounded)
{
    start(4, true);
    post(0, 0);
    settle();
    post_and_hold(1);
    post(2, 0), post(3, 0);
    assert_false(vti_mapper_post(mp, &jobs[4].base)); // one done, one running, two queued
    assert_int_equal(jobs[4].base.state, VTI_JOB_FREE);
    assert_false(vti_mapper_claim(mp, &jobs[2].base));
    post(4, 0);
    assert_false(vti_mapper_post(mp, &jobs[2].base));
    assert_ptr_equal(vti_mapper_take(mp), &jobs[0].base);
    post(2, 0);
    assert_false(vti_mapper_post(mp, &jobs[0].base));
    gate_set(false);
    settle();
    assert_false(vti_mapper_post(mp, &jobs[0].base)); // four done
    wait_ok(3);
    post(0, 0);
    wait_ok(0), wait_ok(1), wait_ok(2), wait_ok(4);
    expect_log((uint64_t[]){0, 1, 3, 4, 2, 0}, 6);
}

// Opens the gate after a while, from beside.
static void *open_later(void *arg)
{
    usleep(20000);
    gate_set(false);
    return arg;
}

static pthread_t gate_open_later(void)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, open_later, NULL), 0);
    return t;
}

FX_TEST(test_a_job_can_be_waited_for_in_every_state)
{
    start(MAX_JOB, true);
    post_and_hold(0);
    post(1, 1), post(2, 2);
    pthread_t t = gate_open_later();
    wait_ok(1); // was queued
    pthread_join(t, NULL);
    wait_ok(0); // done before
    settle();
    wait_ok(2);
    post_and_hold(3);
    t = gate_open_later();
    wait_ok(3); // was running
    pthread_join(t, NULL);
}

FX_TEST(test_a_failure_reaches_the_waiter_and_the_thread_goes_on)
{
    start(MAX_JOB, true);
    bench.fails = 1;
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 3; i++) post(i, i);
        vti_mapper_wait(mp, &jobs[1].base);
        assert_int_equal(jobs[1].st, VT_EDEVICE);
        wait_ok(0), wait_ok(2);
    }
    post(1, 0);
    settle();
    assert_ptr_equal(vti_mapper_take(mp), &jobs[1].base);
    assert_int_equal(jobs[1].st, VT_EDEVICE);
}

FX_TEST(test_stop_waits_for_the_running_job_and_drops_the_rest)
{
    start(MAX_JOB, true);
    post(0, 0);
    settle();
    post_and_hold(1);
    post(2, 0), post(3, 0);
    pthread_t t = gate_open_later();
    stop();
    assert_int_equal(jobs[1].n_view, 7);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(jobs[i].base.state, VTI_JOB_FREE);
    expect_log((uint64_t[]){0, 1}, 2);
    pthread_join(t, NULL);
}

FX_TEST(test_a_mapper_may_stop_at_once_and_none_may_be_stopped)
{
    for (int i = 0; i < 100; i++) {
        start(MAX_JOB, true);
        if (i % 2) post(0, 0);
        stop();
        assert_int_equal(jobs[0].base.state, VTI_JOB_FREE);
    }
    vti_mapper_stop(NULL);
}

FX_TEST(test_without_a_thread_the_owner_works)
{
    uint32_t before = n_thread;
    start(MAX_JOB, false);
    assert_int_equal(n_thread, before);
    assert_false(vti_mapper_work(mp));
    for (uint32_t i = 0; i < N_DEADLINE; i++) post(i + 1, deadlines[i]);
    assert_null(vti_mapper_take(mp));
    assert_int_equal(bench.n_log, 0);
    assert_true(vti_mapper_work(mp)); // 5
    wait_ok(1);                       // the last but one in line
    assert_int_equal(vti_mapper_pending(mp), N_DEADLINE - 2);
    assert_false(vti_mapper_claim(mp, &jobs[4].base));
    while (vti_mapper_work(mp)) continue;
    expect_log((uint64_t[]){5, 1, 2, 7, 3, 6}, 6);
    assert_int_equal(vti_mapper_pending(mp), 0);
    wait_ok(3); // done already
    assert_ptr_equal(vti_mapper_take(mp), &jobs[5].base);
    assert_ptr_equal(vti_mapper_take(mp), &jobs[2].base);
    post(4, 0); // queued, and 7 and 6 done, when it stops
}

FX_TEST(test_with_a_thread_the_owner_does_not_work)
{
    start(MAX_JOB, true);
    post_and_hold(0);
    post(1, 0);
    assert_false(vti_mapper_work(mp));
    assert_int_equal(vti_mapper_pending(mp), 2);
    gate_set(false);
}

// ---- Steps

static void post_steps(uint32_t i, uint64_t deadline, uint32_t n_step)
{
    jobs[i].n_step = n_step;
    post(i, (uint32_t)deadline);
}

FX_TEST(test_a_more_urgent_job_is_run_between_two_steps)
{
    start(MAX_JOB, true);
    gate_set(true);
    post_steps(0, 5, 3);
    gate_await();
    post_steps(1, 4, 2);
    post(2, 6);
    post(3, 5); // as urgent as the first, but posted later
    gate_set(false);
    for (uint32_t i = 0; i < 4; i++) wait_ok(i);
    expect_log((uint64_t[]){0, 1, 1, 0, 0, 3, 2}, 7);
}

// A long job among many short ones of the same deadline goes on when they are posted after it, and
// the short ones that are more urgent wait for one step each at most.
FX_TEST(test_no_job_waits_longer_than_a_step_for_a_less_urgent_one)
{
    enum { N_LONG = 60 };
    start(MAX_JOB, true);
    gate_set(true);
    post_steps(0, 9, N_LONG);
    gate_await();
    for (uint32_t i = 1; i < 6; i++) post(i, 1);
    gate_set(false);
    for (uint32_t i = 1; i < 6; i++) wait_ok(i);
    wait_ok(0);
    for (uint32_t i = 1; i < 6; i++) assert_int_equal(bench.log[i], i); // after the one step
    assert_int_equal(bench.n_log, N_LONG + 5);
}

FX_TEST(test_the_owner_works_step_by_step_too)
{
    start(MAX_JOB, false);
    post_steps(0, 1, 3);
    post_steps(1, 2, 2);
    wait_ok(1); // the less urgent: one step for each time that it is chosen
    expect_log((uint64_t[]){1, 1}, 2);
    assert_true(vti_mapper_work(mp));
    expect_log((uint64_t[]){1, 1, 0, 0, 0}, 5);
    wait_ok(0);
    assert_false(vti_mapper_work(mp));
}

FX_TEST(test_a_claimed_job_comes_back_after_the_step_that_runs)
{
    start(MAX_JOB, true);
    gate_set(true);
    post_steps(0, 0, 100);
    gate_await();
    post(1, 7);
    pthread_t t = gate_open_later();
    assert_false(vti_mapper_claim(mp, &jobs[0].base)); // running
    assert_int_equal(jobs[0].base.state, VTI_JOB_FREE);
    assert_int_equal(jobs[0].n_step, 99);
    pthread_join(t, NULL);
    wait_ok(1); // the thread goes on with the others
    expect_log((uint64_t[]){0, 1}, 2);
    post_steps(0, 0, 99); // and it can be posted again
    wait_ok(0);
    assert_int_equal(bench.n_log, 101);
}

FX_TEST(test_a_thread_that_is_held_begins_no_step)
{
    start(MAX_JOB, true);
    jobs[0].n_step = 2;
    post_and_hold(0);
    assert_false(vti_mapper_hold(mp, true));
    post(1, 2);
    gate_set(false);
    assert_false(vti_mapper_claim(mp, &jobs[0].base)); // after its first step
    expect_log((uint64_t[]){0}, 1);
    assert_true(vti_mapper_hold(mp, false));
    wait_ok(1);
    expect_log((uint64_t[]){0, 1}, 2);
}

FX_TEST(test_a_job_can_be_claimed_in_every_state)
{
    start(MAX_JOB, true);
    post(0, 0);
    settle();
    post_and_hold(1);
    post(2, 5);
    assert_true(vti_mapper_claim(mp, &jobs[0].base));  // done
    assert_false(vti_mapper_claim(mp, &jobs[2].base)); // queued
    assert_int_equal(jobs[2].base.state, VTI_JOB_FREE);
    pthread_t t = gate_open_later();
    assert_true(vti_mapper_claim(mp, &jobs[1].base)); // running its last step
    pthread_join(t, NULL);
    expect_log((uint64_t[]){0, 1}, 2);
    assert_null(vti_mapper_take(mp));
    assert_int_equal(vti_mapper_pending(mp), 0);
    stop();
    start(MAX_JOB, false); // without a thread nothing runs but what the owner runs
    post_steps(3, 0, 2);
    assert_false(vti_mapper_claim(mp, &jobs[3].base));
    post_steps(3, 0, 2);
    assert_true(vti_mapper_work(mp));
    assert_true(vti_mapper_claim(mp, &jobs[3].base));
}

FX_TEST(test_stop_leaves_a_job_between_two_steps)
{
    start(MAX_JOB, true);
    gate_set(true);
    post_steps(0, 0, 100);
    gate_await();
    post(1, 0);
    pthread_t t = gate_open_later();
    stop();
    pthread_join(t, NULL);
    assert_int_equal(jobs[0].base.state, VTI_JOB_FREE);
    assert_int_equal(jobs[1].base.state, VTI_JOB_FREE);
    // The gate may have been passed before the thread was told to stop.
    assert_true(jobs[0].n_step < 100);
    assert_int_equal(bench.n_log, 100 - jobs[0].n_step);
}

// Whatever is taken from wherever in the queue, the rest stays in order.
FX_TEST(test_taking_jobs_back_keeps_the_order)
{
    enum { N = 200 };
    uint64_t seed = 7;
    for (int round = 0; round < 50; round++) {
        start(N, false);
        uint32_t n_left = N;
        for (uint32_t i = 0; i < N; i++) post(i, (uint32_t)next_random(&seed) % 40);
        for (uint32_t i = 0; i < N; i++)
            if (next_random(&seed) % 2) n_left -= !vti_mapper_claim(mp, &jobs[i].base);
        while (vti_mapper_work(mp)) continue;
        assert_int_equal(bench.n_log, n_left);
        for (uint32_t i = 1; i < n_left; i++) {
            const vti_job *a = &jobs[bench.log[i - 1]].base, *b = &jobs[bench.log[i]].base;
            assert_true(a->deadline < b->deadline ||
                        (a->deadline == b->deadline && a->order < b->order));
        }
        stop();
    }
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long n_sleep(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_nvcsw;
}

// A thread that spins uses up as much time as passes; half of that is more than any noise. One that
// looks again each few milliseconds falls asleep as often: more than the owner does here.
FX_TEST(test_an_idle_thread_sleeps)
{
    start(MAX_JOB, true);
    post(0, 0);
    wait_ok(0);
    long n_before = n_sleep();
    double cpu_before = seconds(CLOCK_PROCESS_CPUTIME_ID), before = seconds(CLOCK_MONOTONIC);
    usleep(300000);
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
    assert_true(cpu < 0.5 * (seconds(CLOCK_MONOTONIC) - before));
    assert_in_range(n_sleep() - n_before, 0, 20);
    post(1, 0);
    wait_ok(1);
}

static sigset_t thread_mask;
static char thread_name[16];

static bool run_look(void *ctx, vti_job *base)
{
    test_job *job = (test_job *)base;
    (void)ctx;
    pthread_sigmask(SIG_BLOCK, NULL, &thread_mask);
    pthread_getname_np(pthread_self(), thread_name, sizeof thread_name);
    job->st = VT_OK;
    return false;
}

FX_TEST(test_the_thread_has_a_name_and_takes_no_signals)
{
    static const int sent[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPROF, SIGUSR1, SIGCHLD};
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    memset(jobs, 0, sizeof jobs);
    assert_int_equal(vti_mapper_start(1, true, run_look, NULL, &mp), VT_OK);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_true(sigismember(&mask, SIGUSR2));
    post(0, 0);
    vti_mapper_wait(mp, &jobs[0].base);
    assert_string_equal(thread_name, "vtensor-mapper");
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        assert_true(sigismember(&thread_mask, sent[i]));
        assert_false(sigismember(&mask, sent[i])); // the owner's is as before
    }
    assert_false(sigismember(&thread_mask, SIGSEGV)); // a fault of its own is not swallowed
    assert_false(sigismember(&thread_mask, SIGBUS));
}

FX_TEST(test_where_nothing_can_be_had_nothing_is_left)
{
    vti_mapper_thread *none = (vti_mapper_thread *)&bench;
    no_memory = true;
    assert_int_equal(vti_mapper_start(4, false, run_job, &bench, &none), VT_ENOMEM);
    assert_null(none);
    assert_int_equal(vti_mapper_start(4, true, run_job, &bench, &none), VT_ENOMEM);
    no_memory = false;
    no_thread = true;
    none = (vti_mapper_thread *)&bench;
    assert_int_equal(vti_mapper_start(4, true, run_job, &bench, &none), VT_ENOMEM);
    assert_null(none);
    assert_int_equal(vti_mapper_start(4, false, run_job, &bench, &none), VT_OK);
    vti_mapper_stop(none);
}

#ifndef NDEBUG
static void misuse_post_twice(void)
{
    post(0, 0);
    (void)vti_mapper_post(mp, &jobs[0].base);
}

static void misuse_wait_free(void)
{
    vti_mapper_wait(mp, &jobs[0].base);
}

static bool run_waits_for_itself(void *ctx, vti_job *job)
{
    (void)ctx;
    vti_mapper_wait(mp, job);
    return false;
}

static void misuse_claim_free(void)
{
    (void)vti_mapper_claim(mp, &jobs[0].base);
}

static void misuse_wait_in_run(void)
{
    vti_mapper_thread *own;
    if (vti_mapper_start(1, false, run_waits_for_itself, NULL, &own) != VT_OK) return;
    mp = own;
    post(0, 0);
    vti_mapper_work(mp);
}

FX_TEST(test_misuse_is_asserted)
{
    static void (*const misuse[])(void) = {misuse_post_twice, misuse_wait_free, misuse_claim_free,
                                           misuse_wait_in_run};
    start(MAX_JOB, false);
    for (size_t i = 0; i < sizeof misuse / sizeof misuse[0]; i++) {
        pid_t child = fork();
        if (child == 0) {
            setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
            signal(SIGABRT, SIG_DFL);
            close(STDERR_FILENO);
            misuse[i]();
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) fail_msg("misuse %zu", i);
    }
}
#endif

// The storm: one owner does anything, in any order, with jobs that take nothing or a while. What is
// counted for every job: times posted, run, cancelled and delivered.
enum { N_STORM = 48, STORM_ROOM = 32, STORM_STEPS = 100000 };

typedef struct storm_job {
    uint32_t n_posted, n_cancelled, n_delivered;
    _Atomic uint32_t n_run; // steps of this posting
    uint32_t expected_st;
    bool posted;
} storm_job;

static storm_job storm[N_STORM];

// A few hundred of them sleep, 100 us each.
static bool run_storm(void *ctx, vti_job *base)
{
    test_job *job = (test_job *)base;
    (void)ctx;
    uint32_t n_run = ++storm[job->index].n_run;
    uint32_t delay = job->fence % 64;
    if (delay == 0) usleep(100);
    if (delay < 16) sched_yield();
    job->st = (vt_status)(job->fence >> 8 & 3);
    job->n_view = (uint32_t)job->generation;
    return n_run < job->n_step;
}

static void storm_post(uint64_t *seed)
{
    uint32_t i = (uint32_t)next_random(seed) % N_STORM, n_posted = 0;
    if (storm[i].posted) return;
    for (uint32_t k = 0; k < N_STORM; k++) n_posted += storm[k].posted;
    jobs[i].base.deadline = (uint32_t)next_random(seed) % 5;
    jobs[i].fence = next_random(seed);
    jobs[i].generation = storm[i].n_posted;
    jobs[i].n_step = 1 + (uint32_t)next_random(seed) % 3;
    storm[i].n_run = 0;
    storm[i].expected_st = jobs[i].fence >> 8 & 3;
    bool ok = vti_mapper_post(mp, &jobs[i].base);
    assert_int_equal(ok, n_posted < STORM_ROOM);
    storm[i].posted = ok;
    storm[i].n_posted += ok;
}

static void storm_delivered(uint32_t i)
{
    assert_true(storm[i].posted);
    assert_int_equal(jobs[i].base.state, VTI_JOB_FREE);
    assert_int_equal(jobs[i].st, storm[i].expected_st);
    assert_int_equal(jobs[i].n_view, storm[i].n_posted - 1); // the outcome of this posting
    storm[i].posted = false;
    storm[i].n_delivered++;
    assert_int_equal(storm[i].n_run, jobs[i].n_step);
}

static void storm_wait(uint64_t *seed)
{
    uint32_t i = (uint32_t)next_random(seed) % N_STORM;
    if (!storm[i].posted || next_random(seed) % 4) return;
    vti_mapper_wait(mp, &jobs[i].base);
    storm_delivered(i);
}

static void storm_claim(uint64_t *seed)
{
    uint32_t i = (uint32_t)next_random(seed) % N_STORM;
    if (!storm[i].posted || next_random(seed) % 2) return;
    if (vti_mapper_claim(mp, &jobs[i].base)) {
        storm_delivered(i);
        return;
    }
    assert_int_equal(jobs[i].base.state, VTI_JOB_FREE);
    assert_true(storm[i].n_run < jobs[i].n_step);
    storm[i].posted = false;
    storm[i].n_cancelled++;
}

static void storm_take(uint64_t *seed)
{
    (void)seed;
    test_job *job = (test_job *)vti_mapper_take(mp);
    if (job) storm_delivered((uint32_t)job->index);
}

FX_TEST(test_every_outcome_is_delivered_once)
{
    static void (*const ops[])(uint64_t *) = {storm_post,  storm_post, storm_take,
                                              storm_claim, storm_wait, storm_claim};
    uint64_t seed = 20240715;
    memset(storm, 0, sizeof storm);
    start(STORM_ROOM, true);
    stop();
    assert_int_equal(vti_mapper_start(STORM_ROOM, true, run_storm, NULL, &mp), VT_OK);
    for (int i = 0; i < STORM_STEPS; i++)
        ops[next_random(&seed) % (sizeof ops / sizeof ops[0])](&seed);
    for (uint32_t i = 0; i < N_STORM; i += 2)
        if (storm[i].posted) vti_mapper_wait(mp, &jobs[i].base), storm_delivered(i);
    settle();
    for (test_job *job; (job = (test_job *)vti_mapper_take(mp)) != NULL;)
        storm_delivered((uint32_t)job->index);
    uint32_t n_delivered = 0, n_cancelled = 0;
    for (uint32_t i = 0; i < N_STORM; i++) {
        const storm_job *s = &storm[i];
        assert_false(s->posted);
        assert_int_equal(s->n_posted, s->n_delivered + s->n_cancelled);
        n_delivered += s->n_delivered, n_cancelled += s->n_cancelled;
    }
    assert_true(n_delivered > 1000 && n_cancelled > 1000);
}

FX_RUN_EACH(test_vt_mapper, NULL, teardown)
