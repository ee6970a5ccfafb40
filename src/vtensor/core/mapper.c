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
// The state of a job says where it is: QUEUED jobs are in a list with the most urgent first, the
// RUNNING one in `running`, DONE ones in a list in the order in which they ended. Together they are
// at most max_job.
//
// One lock guards all of that and the state of posted jobs. It is not held while a job runs, so the
// owner may post, cancel and take meanwhile.
//
// There are two conditions with at most one sleeper each: the thread waits until a job is queued
// or `stop` is set; the owner waits until one job is DONE, or no longer RUNNING. While the
// owner claims a job the thread begins no step, so that it cannot run the job again before the
// owner has woken up; nor does it while the owner holds it. Both check under the lock, and every
// change is made under the lock and signalled, so no wake-up is lost and nothing polls.
#include "mapper.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

typedef struct job_list {
    vti_job *first, *last;
} job_list;

struct vti_mapper_thread {
    vti_job_run *run;
    void *ctx;
    uint32_t max_job;
    bool threaded;
    pthread_t thread;

    pthread_mutex_t mu; // guards all below, and the state of posted jobs
    pthread_cond_t work, done;
    bool stop;
    bool is_held;      // the owner calls the system, and the thread does not
    uint64_t n_order;  // jobs posted so far
    uint32_t n_posted; // and not taken back
    vti_job *running;  // or NULL
    vti_job *claimed;  // the owner waits until no step of it is running, or NULL
    job_list queue, ended;
};

static bool is_before(const vti_job *a, const vti_job *b)
{
    return a->deadline != b->deadline ? a->deadline < b->deadline : a->order < b->order;
}

// ---- Lists

static void list_insert(job_list *l, vti_job *before, vti_job *job)
{
    job->before = before;
    job->after = before ? before->after : l->first;
    *(before ? &before->after : &l->first) = job;
    *(job->after ? &job->after->before : &l->last) = job;
}

static void list_remove(job_list *l, vti_job *job)
{
    *(job->before ? &job->before->after : &l->first) = job->after;
    *(job->after ? &job->after->before : &l->last) = job->before;
}

// Looks from the end: what is posted later is mostly needed later.
static void queue_add(vti_mapper_thread *mp, vti_job *job)
{
    vti_job *before = mp->queue.last;
    while (before && is_before(job, before)) before = before->before;
    list_insert(&mp->queue, before, job);
    job->state = VTI_JOB_QUEUED;
}

// Back to the owner.
static void job_free(vti_mapper_thread *mp, vti_job *job)
{
    list_remove(job->state == VTI_JOB_DONE ? &mp->ended : &mp->queue, job);
    job->state = VTI_JOB_FREE;
    mp->n_posted--;
}

// ---- Running

// Whether the running job continues with its next step. The lock is held.
static bool job_continues(const vti_mapper_thread *mp, const vti_job *job)
{
    bool is_first = !mp->queue.first || !is_before(mp->queue.first, job);
    bool may_go_on = mp->threaded || !job->is_long;
    return is_first && may_go_on && !mp->stop && !mp->is_held && mp->claimed != job;
}

// Runs a queued job. The lock is held before and after, but not during a step.
static void do_job(vti_mapper_thread *mp, vti_job *job)
{
    bool has_more;
    list_remove(&mp->queue, job);
    mp->running = job;
    job->state = VTI_JOB_RUNNING;
    do {
        pthread_mutex_unlock(&mp->mu);
        has_more = mp->run(mp->ctx, job);
        pthread_mutex_lock(&mp->mu);
    } while (has_more && job_continues(mp, job));
    mp->running = NULL;
    if (has_more) {
        queue_add(mp, job);
    } else {
        list_insert(&mp->ended, mp->ended.last, job);
        job->state = VTI_JOB_DONE;
    }
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
        if (!mp->queue.first || mp->claimed || mp->is_held)
            pthread_cond_wait(&mp->work, &mp->mu);
        else
            do_job(mp, mp->queue.first);
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
    vti_mapper_thread *mp = calloc(1, sizeof *mp);
    if (!mp) return VT_ENOMEM;
    mp->run = run;
    mp->ctx = ctx;
    mp->max_job = max_job;
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
    while (mp->queue.first) job_free(mp, mp->queue.first);
    while (mp->ended.first) job_free(mp, mp->ended.first);
    mapper_free(mp);
}

bool vti_mapper_post(vti_mapper_thread *mp, vti_job *job)
{
    pthread_mutex_lock(&mp->mu);
    assert(job->state == VTI_JOB_FREE);
    bool has_room = mp->n_posted < mp->max_job;
    if (has_room) {
        mp->n_posted++;
        job->order = mp->n_order++;
        queue_add(mp, job);
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
    if (was_held && !hold && mp->queue.first) pthread_cond_signal(&mp->work);
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
    job_free(mp, job);
    pthread_mutex_unlock(&mp->mu);
    return is_done;
}

void vti_mapper_wait(vti_mapper_thread *mp, vti_job *job)
{
    pthread_mutex_lock(&mp->mu);
    assert(job->state != VTI_JOB_FREE);
    while (!mp->threaded && job->state == VTI_JOB_QUEUED) do_job(mp, job);
    assert(mp->threaded || job->state == VTI_JOB_DONE);
    while (job->state != VTI_JOB_DONE) pthread_cond_wait(&mp->done, &mp->mu);
    job_free(mp, job);
    pthread_mutex_unlock(&mp->mu);
}

vti_job *vti_mapper_take(vti_mapper_thread *mp)
{
    pthread_mutex_lock(&mp->mu);
    vti_job *job = mp->ended.first;
    if (job) job_free(mp, job);
    pthread_mutex_unlock(&mp->mu);
    return job;
}

bool vti_mapper_work(vti_mapper_thread *mp)
{
    if (mp->threaded) return false;
    pthread_mutex_lock(&mp->mu);
    bool has_work = mp->queue.first != NULL;
    if (has_work) do_job(mp, mp->queue.first);
    pthread_mutex_unlock(&mp->mu);
    return has_work;
}

uint32_t vti_mapper_pending(vti_mapper_thread *mp)
{
    pthread_mutex_lock(&mp->mu);
    uint32_t n = mp->running != NULL;
    for (const vti_job *job = mp->queue.first; job; job = job->after) n++;
    pthread_mutex_unlock(&mp->mu);
    return n;
}
