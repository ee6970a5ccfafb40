// compute.c - rows and linear layers in parallel.
#include "model/host/compute.h"

#include "model/host/panel_ranges.h"

#define MAX_PANEL 32 // of a range, in large batches

// ---- rows --------------------------------------------------------------------------------------

typedef struct row_job {
    fxi_row_fn *fn;
    void *arg;
    int n_row, rows_per_task;
} row_job;

static void row_task(void *arg, int task)
{
    const row_job *job = arg;
    int end = (task + 1) * job->rows_per_task;
    if (end > job->n_row) end = job->n_row;
    for (int row = task * job->rows_per_task; row < end; row++) job->fn(job->arg, row);
}

void fxi_compute_rows(const fxi_compute *c, int n_row, fxi_row_fn *fn, void *arg)
{
    row_job job = {fn, arg, n_row, 4}; // a row takes microseconds: smaller tasks do not pay
    fxi_pool_run(c->pool, row_task, &job, (n_row + job.rows_per_task - 1) / job.rows_per_task);
}

// ---- linear layers -----------------------------------------------------------------------------

fxi_act fxi_act_from(const fxi_act *a, int row, int n_in)
{
    const size_t at = (size_t)row * (size_t)n_in;
    return (fxi_act){a->x + at, a->q + at, a->d + at / FXI_Q8_0_ELEMS, a->sum + at / 16};
}

typedef struct linear_pass {
    const fxi_compute *c;
    const fxi_act *a;
    const fxi_linear_job *job;
    int n_job;
    fxi_panel_ranges ranges; // over all jobs, one after another
} linear_pass;

static int job_panels(const fxi_linear_job *job)
{
    return job->n_tok ? fxi_linear_n_panel(job->w->n_out) : 0;
}

// Computes those of the panels [first, end) that belong to one job, whose panels begin at `base`.
static void run_job_panels(const linear_pass *p, const fxi_linear_job *job, int base, int first,
                           int end)
{
    int n = job_panels(job);
    int from = first > base ? first - base : 0;
    int to = end < base + n ? end - base : n;
    if (from >= to) return;
    const fxi_act a = fxi_act_from(p->a, job->row0, job->w->n_in);
    p->c->k->linear[job->w->type](job->w, &a, job->n_tok, from, to, job->y, (size_t)job->w->n_out);
}

// One task per thread.
static void linear_task(void *arg, int task)
{
    linear_pass *p = arg;
    (void)task;
    for (int first, end; fxi_ranges_take(&p->ranges, &first, &end);)
        for (int i = 0, base = 0; i < p->n_job && base < end; i++) {
            run_job_panels(p, &p->job[i], base, first, end);
            base += job_panels(&p->job[i]);
        }
}

void fxi_compute_linear(const fxi_compute *c, const fxi_act *a, const fxi_linear_job *job,
                        int n_job)
{
    linear_pass p = {.c = c, .a = a, .job = job, .n_job = n_job};
    int n_tok = 0, n_panel = 0;
    for (int i = 0; i < n_job; i++) {
        n_panel += job_panels(&job[i]);
        if (job[i].n_tok > n_tok) n_tok = job[i].n_tok;
    }
    fxi_ranges_init(&p.ranges, c, n_panel, n_panel, n_tok, MAX_PANEL);
    fxi_pool_run(c->pool, linear_task, &p, fxi_pool_n_thread(c->pool));
}
