// pool.h - one pool of threads for all numeric work.
//
// A job is `n_task` calls fn(arg, task), 0 <= task < n_task, which the threads, the caller
// included, take from one atomic counter. Which thread runs a task is undefined: results must not
// depend on it. Idle workers spin for some microseconds after a job (the next one of a forward pass
// is near), then sleep on a condition variable.
#ifndef FXI_BASE_POOL_H
#define FXI_BASE_POOL_H

#include "base/fail.h"

typedef struct fxi_pool fxi_pool;

// CPU cores that this process may run on; 1 where the system does not say.
int fxi_usable_cores(void);

typedef void fxi_task_fn(void *arg, int task);

// n_thread (1 to 4096) counts the caller: n_thread - 1 workers are started. Errors: FX_EINVAL,
// FX_ENOMEM.
fx_status fxi_pool_create(int n_thread, fxi_pool **out, fx_error *err);
void fxi_pool_destroy(fxi_pool *pool); // NULL is allowed. Pre: no job is running

int fxi_pool_n_thread(const fxi_pool *pool);

// Runs a job; returns when all its tasks are done. One caller at a time; not from inside a task.
void fxi_pool_run(fxi_pool *pool, fxi_task_fn *fn, void *arg, int n_task);

#endif
