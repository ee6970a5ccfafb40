// mapper.c - the queue and the thread of mapper.h.
//
// The states of a job, and what moves it:
//
//   FREE    -> QUEUED    vti_mapper_post
//   QUEUED  -> FREE      vti_mapper_claim, vti_mapper_stop
//   QUEUED  -> RUNNING   do_job, before a step
//   RUNNING -> QUEUED    do_job, between two steps: a job is more urgent, or the owner waits
//   RUNNING -> DONE      do_job, after the last step, whatever the outcome
//   DONE    -> FREE      vti_mapper_wait, vti_mapper_claim, vti_mapper_take, vti_mapper_stop
//
// The thread calls do_job (without a thread, the owner does); only the owner calls the others. So
// only the owner makes a job FREE, or moves it out of FREE.
//
// The state of a job says where it is: QUEUED jobs are in a binary heap with the most urgent on
// top, the RUNNING one in `running`, DONE ones in a list in the order in which they ended. Together
// they are at most max_job, so both arrays have room for all.
//
// One lock guards all of that and the state of posted jobs. It is not held while a job runs, so the
// owner may post, cancel and take meanwhile.
//
// There are two conditions with at most one sleeper each: the thread waits until the heap is not
// empty or `stop` is set; the owner waits until one job is DONE, or no longer RUNNING. While the
// owner claims a job the thread begins no step, so that it cannot run the job again before the
// owner has woken up; nor does it while the owner holds it. Both check under the lock, and every
// change is made under the lock and signalled, so no wake-up is lost and nothing polls.
#include "mapper.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct vti_mapper_thread {
    vti_job_run *run;
    void *ctx;
    uint32_t max_job;
    bool threaded;
    pthread_t thread;

    pthread_mutex_t mu; // guards all below, and the state of posted jobs
    pthread_cond_t work, done;
    bool stop;
    bool is_held;     // the owner calls the system, and the thread does not
    uint64_t n_order; // jobs posted so far
    uint32_t n_queued, n_done;
    vti_job *running;        // or NULL
    vti_job *claimed;        // the owner waits until no step of it is running, or NULL
    vti_job **heap, **ended; // [max_job] each: in `slot`
    vti_job *slot[];
};

static bool is_before(const vti_job *a, const vti_job *b)
{
    return a->deadline != b->deadline ? a->deadline < b->deadline : a->order < b->order;
}

static uint32_t find_job(vti_job *const *list, uint32_t n, const vti_job *job)
{
    uint32_t i = 0;
    while (i < n && list[i] != job) i++;
    assert(i < n);
    return i;
}

static void swap_jobs(vti_job **a, vti_job **b)
{
    vti_job *tmp = *a;
    *a = *b;
    *b = tmp;
}

static void heap_sift_up(vti_job **heap, uint32_t i)
{
    for (; i > 0 && is_before(heap[i], heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap_jobs(&heap[i], &heap[(i - 1) / 2]);
}

static void heap_sift_down(vti_job **heap, uint32_t n, uint32_t i)
{
    for (;;) {
        uint32_t first = i, left = 2 * i + 1, right = 2 * i + 2;
        if (left < n && is_before(heap[left], heap[first])) first = left;
        if (right < n && is_before(heap[right], heap[first])) first = right;
        if (first == i) return;
        swap_jobs(&heap[i], &heap[first]);
        i = first;
    }
}

static void heap_push(vti_mapper_thread *mp, vti_job *job)
{
    mp->heap[mp->n_queued] = job;
    heap_sift_up(mp->heap, mp->n_queued++);
}

// The last one fills the gap, and may belong above or below it.
static vti_job *heap_remove(vti_mapper_thread *mp, uint32_t i)
{
    vti_job **heap = mp->heap;
    swap_jobs(&heap[i], &heap[--mp->n_queued]);
    if (i < mp->n_queued) {
        heap_sift_up(heap, i);
        heap_sift_down(heap, mp->n_queued, i);
    }
    return heap[mp->n_queued];
}

static vti_job *done_remove(vti_mapper_thread *mp, uint32_t i)
{
    vti_job **at = mp->ended + i, *job = *at;
    assert(job->state == VTI_JOB_DONE);
    memmove(at, at + 1, (--mp->n_done - i) * sizeof *at);
    job->state = VTI_JOB_FREE;
    return job;
}

// Whether the running job continues with its next step. The lock is held.
static bool job_continues(const vti_mapper_thread *mp, const vti_job *job)
{
    bool is_first = mp->n_queued == 0 || !is_before(mp->heap[0], job);
    bool may_go_on = mp->threaded || !job->is_long;
    return is_first && may_go_on && !mp->stop && !mp->is_held && mp->claimed != job;
}

// Runs the job at place i of the heap. The lock is held before and after, but not during a step.
static void do_job(vti_mapper_thread *mp, uint32_t i)
{
    vti_job *job = heap_remove(mp, i);
    bool has_more;
    mp->running = job;
    job->state = VTI_JOB_RUNNING;
    do {
        pthread_mutex_unlock(&mp->mu);
        has_more = mp->run(mp->ctx, job);
        pthread_mutex_lock(&mp->mu);
    } while (has_more && job_continues(mp, job));
    mp->running = NULL;
    job->state = has_more ? VTI_JOB_QUEUED : VTI_JOB_DONE;
    if (has_more)
        heap_push(mp, job);
    else
        mp->ended[mp->n_done++] = job;
    pthread_cond_signal(&mp->done);
}

static void *mapper_main(void *arg)
{
    vti_mapper_thread *mp = arg;
    (void)pthread_setname_np(pthread_self(), "vtensor-mapper");
    // Work ahead of need can wait: if all cores are busy, the woken thread must not preempt the
    // thread that woke it. It still gets its share.
    const struct sched_param none = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
    pthread_mutex_lock(&mp->mu);
    while (!mp->stop)
        if (mp->n_queued == 0 || mp->claimed || mp->is_held)
            pthread_cond_wait(&mp->work, &mp->mu);
        else
            do_job(mp, 0);
    pthread_mutex_unlock(&mp->mu);
    return NULL;
}

// The thread inherits the mask, so no signal can reach it at any time: signals are for the
// program's own threads, except those that a fault of this thread raises. If they were blocked, the
// system would end the process without calling the handler that reports crashes.
static bool start_thread(vti_mapper_thread *mp)
{
    static const int fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t set, before;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof fault / sizeof fault[0]; i++) sigdelset(&set, fault[i]);
    pthread_sigmask(SIG_SETMASK, &set, &before);
    int rc = pthread_create(&mp->thread, NULL, mapper_main, mp);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0;
}

static void mapper_free(vti_mapper_thread *mp)
{
    pthread_cond_destroy(&mp->done);
    pthread_cond_destroy(&mp->work);
    pthread_mutex_destroy(&mp->mu);
    free(mp);
}

vt_status vti_mapper_start(uint32_t max_job, bool threaded, vti_job_run *run, void *ctx,
                           vti_mapper_thread **out)
{
    *out = NULL;
    vti_mapper_thread *mp = calloc(1, sizeof *mp + 2 * (size_t)max_job * sizeof(vti_job *));
    if (!mp) return VT_ENOMEM;
    mp->run = run;
    mp->ctx = ctx;
    mp->max_job = max_job;
    mp->heap = mp->slot;
    mp->ended = mp->slot + max_job;
    mp->threaded = threaded;
    pthread_mutex_init(&mp->mu, NULL);
    pthread_cond_init(&mp->work, NULL);
    pthread_cond_init(&mp->done, NULL);
    if (threaded && !start_thread(mp)) {
        mapper_free(mp);
        return VT_ENOMEM;
    }
    *out = mp;
    return VT_OK;
}

void vti_mapper_stop(vti_mapper_thread *mp)
{
    if (!mp) return;
    if (mp->threaded) {
        pthread_mutex_lock(&mp->mu);
        mp->stop = true;
        pthread_cond_signal(&mp->work);
        pthread_mutex_unlock(&mp->mu);
        pthread_join(mp->thread, NULL);
    }
    assert(!mp->running);
    for (uint32_t i = 0; i < mp->n_queued; i++) mp->heap[i]->state = VTI_JOB_FREE;
    for (uint32_t i = 0; i < mp->n_done; i++) mp->ended[i]->state = VTI_JOB_FREE;
    mapper_free(mp);
}

static uint32_t n_pending(const vti_mapper_thread *mp)
{
    return mp->n_queued + (mp->running != NULL);
}

bool vti_mapper_post(vti_mapper_thread *mp, vti_job *job)
{
    pthread_mutex_lock(&mp->mu);
    assert(job->state == VTI_JOB_FREE);
    bool has_room = n_pending(mp) + mp->n_done < mp->max_job;
    if (has_room) {
        job->order = mp->n_order++;
        job->state = VTI_JOB_QUEUED;
        heap_push(mp, job);
        if (!mp->is_held) pthread_cond_signal(&mp->work);
    }
    pthread_mutex_unlock(&mp->mu);
    return has_room;
}

bool vti_mapper_hold(vti_mapper_thread *mp, bool hold)
{
    pthread_mutex_lock(&mp->mu);
    const bool was_held = mp->is_held;
    mp->is_held = hold;
    if (was_held && !hold && mp->n_queued > 0) pthread_cond_signal(&mp->work);
    pthread_mutex_unlock(&mp->mu);
    return was_held;
}

bool vti_mapper_claim(vti_mapper_thread *mp, vti_job *job)
{
    pthread_mutex_lock(&mp->mu);
    assert(job->state != VTI_JOB_FREE);
    mp->claimed = job;
    while (job->state == VTI_JOB_RUNNING) pthread_cond_wait(&mp->done, &mp->mu);
    mp->claimed = NULL;
    pthread_cond_signal(&mp->work);
    bool is_done = job->state == VTI_JOB_DONE;
    if (is_done)
        done_remove(mp, find_job(mp->ended, mp->n_done, job));
    else
        heap_remove(mp, find_job(mp->heap, mp->n_queued, job))->state = VTI_JOB_FREE;
    pthread_mutex_unlock(&mp->mu);
    return is_done;
}

void vti_mapper_wait(vti_mapper_thread *mp, vti_job *job)
{
    pthread_mutex_lock(&mp->mu);
    assert(job->state != VTI_JOB_FREE);
    while (!mp->threaded && job->state == VTI_JOB_QUEUED)
        do_job(mp, find_job(mp->heap, mp->n_queued, job));
    assert(mp->threaded || job->state == VTI_JOB_DONE);
    while (job->state != VTI_JOB_DONE) pthread_cond_wait(&mp->done, &mp->mu);
    done_remove(mp, find_job(mp->ended, mp->n_done, job));
    pthread_mutex_unlock(&mp->mu);
}

vti_job *vti_mapper_take(vti_mapper_thread *mp)
{
    pthread_mutex_lock(&mp->mu);
    vti_job *job = mp->n_done > 0 ? done_remove(mp, 0) : NULL;
    pthread_mutex_unlock(&mp->mu);
    return job;
}

bool vti_mapper_work(vti_mapper_thread *mp)
{
    if (mp->threaded) return false;
    pthread_mutex_lock(&mp->mu);
    bool has_work = mp->n_queued > 0;
    if (has_work) do_job(mp, 0);
    pthread_mutex_unlock(&mp->mu);
    return has_work;
}

uint32_t vti_mapper_pending(vti_mapper_thread *mp)
{
    pthread_mutex_lock(&mp->mu);
    uint32_t n = n_pending(mp);
    pthread_mutex_unlock(&mp->mu);
    return n;
}
