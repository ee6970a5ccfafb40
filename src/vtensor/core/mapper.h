// mapper.h - a thread that runs jobs for the owner of a manager, and the queue between them.
//
// A job is plain data and belongs to the owner; while it is posted (QUEUED, RUNNING or DONE) only
// the mapper touches its fields. The owner posts it, may claim it back, or waits
// until it is done; a job that is DONE stays so until the owner takes it. The queue is bounded and
// ordered by deadline, the nearest first, then by the order of posting.
//
// A job is run in steps, so that it never holds up a more urgent one for longer than a step: after
// each one the queue may put the job back and run another first.
//
// The thread sleeps on a condition while there is nothing to do. No lock is held while a job runs.
#ifndef VTI_MAPPER_H
#define VTI_MAPPER_H

#include <stdbool.h>
#include <stdint.h>

#include "vtensor/status.h"

typedef enum vti_job_state {
    VTI_JOB_FREE = 0, // with the owner
    VTI_JOB_QUEUED,
    VTI_JOB_RUNNING,
    VTI_JOB_DONE
} vti_job_state;

// What the queue knows of a job. The owner's struct begins with it; the task and its outcome
// follow.
typedef struct vti_job {
    uint64_t deadline;              // set by the owner, constant while posted: the nearest is first
    vti_job_state state;            // guarded by the queue's lock while posted, as what follows is
    uint64_t order;                 // of posting
    struct vti_job *before, *after; // in the list of its state
    bool is_long; // set by the owner: without a thread, vti_mapper_work runs one step of it only
} vti_job;

typedef struct vti_mapper_thread vti_mapper_thread;

// Performs one step of a job. True: more steps are left, and it will be called again.
typedef bool vti_job_run(void *ctx, vti_job *job);

// Starts the thread if `threaded`; otherwise jobs wait for vti_mapper_work. `run` is called without
// any lock. Errors: VT_ENOMEM (also if no thread can be started). On error *out is NULL.
vt_status vti_mapper_start(uint32_t max_job, bool threaded, vti_job_run *run, void *ctx,
                           vti_mapper_thread **out);

// Waits for the running step, drops the queued ones, ends the thread. Jobs that were queued, or
// DONE and not taken, become FREE. NULL is allowed.
void vti_mapper_stop(vti_mapper_thread *mp);

// Queues a job whose state is FREE. False: max_job are posted and not taken yet.
bool vti_mapper_post(vti_mapper_thread *mp, vti_job *job);

// Takes a job back as soon as no step of it is running. True: it is done; false: it was queued, and
// some of its steps may have been run. Waits for one step at most. Pre: posted.
bool vti_mapper_claim(vti_mapper_thread *mp, vti_job *job);

// While the owner holds the thread, it begins no step. Waits for none that is running. Returns
// whether it was held before, so that the caller can restore that.
bool vti_mapper_hold(vti_mapper_thread *mp, bool hold);

// Waits until the job is done and takes it: its state is then FREE. Without a thread, runs it first
// if it is queued. Pre: posted; the thread is not held.
void vti_mapper_wait(vti_mapper_thread *mp, vti_job *job);

// Takes the job that finished first; NULL if none is done. Never waits for a job.
vti_job *vti_mapper_take(vti_mapper_thread *mp);

// Without a thread: runs the most urgent queued job, or a step of it if it is long; false: none is
// queued. With a thread: does nothing and returns false.
bool vti_mapper_work(vti_mapper_thread *mp);

// For tests: how many jobs are queued or running.
uint32_t vti_mapper_pending(vti_mapper_thread *mp);

#endif
