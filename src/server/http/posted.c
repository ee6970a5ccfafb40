// posted.c - the list of jobs that the loop is to look at, and its wake-up.
#include <unistd.h>

#include "server/http/http.h"

void fxi_loop_wake_locked(fxi_loop *l)
{
    const uint64_t one = 1;
    if (l->is_woken || l->wake_fd < 0) return;
    l->is_woken = true;
    const ssize_t n = write(l->wake_fd, &one, sizeof one);
    (void)n; // fails only if the count is full, and then the thread wakes too
}

void fxi_loop_post(fxi_loop *l, fxi_http_job *job, bool now)
{
    pthread_mutex_lock(&l->mu);
    if (!job->is_posted) {
        job->is_posted = true;
        job->next_ready = NULL;
        atomic_fetch_add(&job->refs, 1);
        *l->last_ready = job;
        l->last_ready = &job->next_ready;
    }
    if (now) fxi_loop_wake_locked(l);
    pthread_mutex_unlock(&l->mu);
}

void fxi_loop_wake(fxi_loop *l)
{
    pthread_mutex_lock(&l->mu);
    if (l->first_ready) fxi_loop_wake_locked(l);
    pthread_mutex_unlock(&l->mu);
}

fxi_http_job *fxi_loop_pop(fxi_loop *l)
{
    pthread_mutex_lock(&l->mu);
    fxi_http_job *job = l->first_ready;
    if (job) {
        l->first_ready = job->next_ready;
        if (!l->first_ready) l->last_ready = &l->first_ready;
        job->is_posted = false;
    }
    pthread_mutex_unlock(&l->mu);
    return job;
}
