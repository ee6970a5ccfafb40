// compute.c - rows, linear layers and the first half of feed-forward blocks, in parallel.
#include "model/host/compute.h"

#include "kernels/linear.h"

#define MAX_PANEL 32 // of a range, in large batches

// ---- ranges of panels --------------------------------------------------------------------------

#define SMALL_TOK 32 // up to this many tokens, reading the weights dominates
#define UNIT      4  // panels that kernels work on together

static int between_units(int n, int least, int most)
{
    n = n / UNIT * UNIT;
    return n < least ? least : n > most ? most : n;
}

void fxi_ranges_init(fxi_panel_ranges *r, const fxi_compute *c, int n_panel, int period, int n_tok,
                     int most)
{
    const int n_thread = fxi_pool_n_thread(c->pool);
    *r = (fxi_panel_ranges){.n_panel = n_panel, .period = period, .n_share = 4 * n_thread};
    atomic_init(&r->next, 0);
    r->least = n_tok <= SMALL_TOK ? UNIT : between_units(n_panel / (4 * n_thread), UNIT, most);
    r->most = n_tok <= SMALL_TOK ? n_panel : r->least;
}

static int range_end(const fxi_panel_ranges *r, int first)
{
    const int whole = first / r->period * r->period + r->period;
    const int end = first + between_units((r->n_panel - first) * 3 / r->n_share, r->least, r->most);
    return end < whole ? end : whole;
}

bool fxi_ranges_take(fxi_panel_ranges *r, int *first, int *end)
{
    *first = atomic_load_explicit(&r->next, memory_order_relaxed);
    do {
        if (*first >= r->n_panel) return false;
        *end = range_end(r, *first);
    } while (!atomic_compare_exchange_weak_explicit(&r->next, first, *end, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

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

// ---- feed-forward ------------------------------------------------------------------------------
//
// Two layers, joined into what the next one reads, for one block or many experts. A thread takes a
// range of panels of gate and the same range of up, a whole number of blocks of 32 outputs. Both
// are computed for a chunk of tokens into the thread's scratch, which fits the second-level cache,
// and joined and rounded there: [n_tok][n_ffn] of gate or up is never written.

#define CHUNK_TOK    128
#define CHUNK_PANEL  16                                    // of CHUNK_TOK tokens; more of fewer
#define CHUNK_FLOATS (CHUNK_TOK * CHUNK_PANEL * FXI_PANEL) // of gate, and of up

typedef struct ffn_job {
    const fxi_compute *c;
    const fxi_ffn_pass *pass;
    int n_panel; // of each part
    fxi_panel_ranges ranges;
} ffn_job;

// A chunk of tokens and outputs of a part.
typedef struct ffn_chunk {
    const fxi_ffn_part *of;
    int tok0, n_tok;
    int out0, n_out;
    float *gate, *up; // [n_tok][n_out] in the scratch
} ffn_chunk;

size_t fxi_compute_ffn_scratch(const fxi_compute *c)
{
    return 2 * (size_t)CHUNK_FLOATS * (size_t)fxi_pool_n_thread(c->pool);
}

// Computes the chunk's panels of a layer into y.
static void compute_layer(const ffn_job *job, const ffn_chunk *part, const fxi_linear *w,
                          const float *bias, float *y)
{
    const fxi_kernels *k = job->c->k;
    const fxi_act tokens = fxi_act_from(job->pass->a, part->of->row0 + part->tok0, w->n_in);
    const fxi_linear panels = fxi_linear_part(w, part->out0, part->n_out);
    k->linear[w->type](&panels, &tokens, part->n_tok, 0, fxi_linear_n_panel(part->n_out), y,
                       (size_t)part->n_out);
    for (int t = 0; bias && t < part->n_tok; t++)
        k->add(y + (size_t)t * (size_t)part->n_out, bias + part->out0, part->n_out);
}

static void join_layers(const ffn_job *job, const ffn_chunk *part)
{
    const fxi_ffn_pass *p = job->pass;
    const fxi_kernels *k = job->c->k;
    const size_t n = (size_t)part->n_out, n_ffn = (size_t)part->of->up->n_out;
    for (int t = 0; t < part->n_tok; t++) {
        const size_t row = (size_t)(part->of->row0 + part->tok0 + t);
        const size_t at = row * n_ffn + (size_t)part->out0;
        float *up = part->up + (size_t)t * n, *y = p->y ? p->y + at : up;
        if (part->of->gate)
            k->gate[p->act](part->gate + (size_t)t * n, up, part->n_out, y);
        else
            k->act[p->act](up, part->n_out, y);
        if (!p->y)
            k->quant_q8(y, part->n_out, p->q8->q + at, p->q8->d + at / FXI_Q_BLOCK,
                        p->q8->sum + at / 16);
    }
}

static void run_chunk(const ffn_job *job, ffn_chunk *part)
{
    const fxi_ffn_part *of = part->of;
    part->up = part->gate + part->n_tok * part->n_out;
    if (of->gate) compute_layer(job, part, of->gate, of->gate_bias, part->gate);
    compute_layer(job, part, of->up, of->up_bias, part->up);
    join_layers(job, part);
}

// The outputs from out0 on, up to end, of all tokens of a part.
static void run_outputs(const ffn_job *job, const fxi_ffn_part *of, int out0, int end,
                        float *scratch)
{
    ffn_chunk part = {.of = of, .out0 = out0, .n_out = end - out0, .gate = scratch};
    for (; part.tok0 < of->n_tok; part.tok0 += part.n_tok) {
        const int left = of->n_tok - part.tok0;
        part.n_tok = left < CHUNK_TOK ? left : CHUNK_TOK;
        run_chunk(job, &part);
    }
}

// The panels from `first` to `end` of all parts, which belong to one of them, in as few steps as
// the scratch allows.
static void run_range(const ffn_job *job, int first, int end, float *scratch)
{
    const fxi_ffn_part *of = &job->pass->part[first / job->n_panel];
    const int n_ffn = of->up->n_out, n_tok = of->n_tok < CHUNK_TOK ? of->n_tok : CHUNK_TOK;
    const int out0 = first % job->n_panel * FXI_PANEL, rest = (end - first) * FXI_PANEL;
    const int out1 = n_ffn - out0 < rest ? n_ffn : out0 + rest;
    const int most = CHUNK_FLOATS / (n_tok ? n_tok : 1) / (4 * FXI_PANEL) * (4 * FXI_PANEL);
    for (int at = out0, to; at < out1; at = to) {
        to = out1 - at < most ? out1 : at + most;
        run_outputs(job, of, at, to, scratch);
    }
}

// One task per thread, so that each has its own scratch.
static void ffn_task(void *arg, int task)
{
    ffn_job *job = arg;
    float *scratch = job->pass->scratch + 2 * (size_t)task * CHUNK_FLOATS;
    for (int first, end; fxi_ranges_take(&job->ranges, &first, &end);)
        run_range(job, first, end, scratch);
}

void fxi_compute_ffn(const fxi_compute *c, const fxi_ffn_pass *pass)
{
    ffn_job job = {.c = c, .pass = pass, .n_panel = fxi_linear_n_panel(pass->part[0].up->n_out)};
    fxi_ranges_init(&job.ranges, c, job.n_panel * pass->n_part, job.n_panel, pass->n_tok,
                    CHUNK_PANEL);
    fxi_pool_run(c->pool, ffn_task, &job, fxi_pool_n_thread(c->pool));
}
