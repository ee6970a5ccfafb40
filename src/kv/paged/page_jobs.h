// page_jobs.h - the bytes of pages on their way between a block of the pool and a slot of the swap,
// one page at a time, beside the manager's owner: by a thread, or inside fxi_kv_step.
//
// A job belongs to a slot, so a slot has one at most:
//
//   FREE --post--> WAITS --its turn--> RUNS --> DONE --take_done--> FREE
//                    +--withdraw--> FREE
//
// The thread gets jobs that name a block and a slot, and gives back a status and a time. It sees
// neither pages nor sequences, only what has been fixed since the manager was opened. It alone
// calls what swaps, so a slot that is free again is dropped by a job, too (FXI_PAGE_DROP), behind
// all others; nobody asks how that ended, so it is FREE at once.
#ifndef FXI_KV_PAGE_JOBS_H
#define FXI_KV_PAGE_JOBS_H

#include "kv/pool/kv_pool.h"

#include <pthread.h>

// What is done with a page's bytes.
typedef enum fxi_page_way { FXI_PAGE_STAYS, FXI_PAGE_OUT, FXI_PAGE_IN, FXI_PAGE_DROP } fxi_page_way;

typedef enum fxi_page_job_state {
    FXI_PAGE_JOB_FREE,
    FXI_PAGE_JOB_WAITS,
    FXI_PAGE_JOB_RUNS,
    FXI_PAGE_JOB_DONE
} fxi_page_job_state;

typedef struct fxi_page_job {
    uint8_t way, state;
    uint32_t page;  // the owner's
    uint32_t block; // not of FXI_PAGE_DROP
    fx_status st;   // of one that is done, as the time that it took
    uint64_t ns;
    uint32_t prev, next; // slots in the queue that it is in
} fxi_page_job;

typedef struct fxi_page_queue {
    uint32_t first, last;
} fxi_page_queue;

typedef struct fxi_page_jobs {
    pthread_t thread;
    bool has_thread;
    uint64_t now[FXI_MAX_RANK]; // the owner's last mark: what the devices have been given to do
    uint64_t *ticket;           // [n_slot][n_rank] what they must have done before a job
    uint64_t *sum;              // [n_slot][n_rank] of the bytes in the swap; the thread's
    fxi_kv_copies copies;       // the thread's
    pthread_mutex_t mu;         // guards all below, but not the other fields of a FREE job
    pthread_cond_t posted, ended;
    bool stops;
    fxi_page_job *job; // [n_slot]
    fxi_page_queue moves, drops, done;
} fxi_page_jobs;

#endif
