// compute_ffn.c - the first half of a feed-forward block: two layers, joined by SwiGLU into what
// the next layer reads.
//
// An item is a range of panels of gate and the same range of up, a whole number of blocks of 32
// outputs. Both are computed for a chunk of tokens into the thread's scratch, which fits the
// second-level cache, and joined and rounded there: [n_tok][n_ffn] of gate or up is never written.
#include "model/compute.h"

#include <stdatomic.h>

#include "kernels/linear.h"

#define CHUNK_TOK 128
#define MAX_PANEL 16
#define MAX_OUT   (MAX_PANEL * FXI_PANEL)

typedef struct ffn_job {
    const fxi_compute *c;
    const fxi_ffn_pass *pass;
    int n_panel, panels_per_item, n_item;
    atomic_int next; // the next item to take
} ffn_job;

// A chunk of tokens and the outputs of an item.
typedef struct ffn_part {
    int tok0, n_tok;
    int out0, n_out;
    float *gate, *up; // [n_tok][n_out] in the scratch
} ffn_part;

static size_t chunk_floats(int max_tok)
{
    return (size_t)(max_tok < CHUNK_TOK ? max_tok : CHUNK_TOK) * MAX_OUT;
}

size_t fxi_compute_ffn_scratch(const fxi_compute *c, int max_tok)
{
    return 2 * chunk_floats(max_tok) * (size_t)fxi_pool_n_thread(c->pool);
}

// Computes the part's panels of a layer into y.
static void compute_layer(const ffn_job *job, const ffn_part *part, const fxi_linear *w, float *y)
{
    const size_t at = (size_t)part->tok0 * (size_t)w->n_in;
    const fxi_act *a = job->pass->a;
    const fxi_act tokens = {
        .x = a->x + at, .q = a->q + at, .d = a->d + at / FXI_Q_BLOCK, .sum = a->sum + at / 16};
    const fxi_linear panels = {.type = w->type,
                               .n_in = w->n_in,
                               .n_out = part->n_out,
                               .data = fxi_linear_panel(w, part->out0 / FXI_PANEL)};
    job->c->k->linear[w->type](&panels, &tokens, part->n_tok, 0, fxi_linear_n_panel(part->n_out), y,
                               (size_t)part->n_out);
}

static void join_layers(const ffn_job *job, const ffn_part *part)
{
    const fxi_ffn_pass *p = job->pass;
    const fxi_kernels *k = job->c->k;
    const size_t n = (size_t)part->n_out, n_ffn = (size_t)p->gate->n_out;
    for (int t = 0; t < part->n_tok; t++) {
        const size_t at = (size_t)(part->tok0 + t) * n_ffn + (size_t)part->out0;
        float *gate = part->gate + (size_t)t * n, *y = p->y ? p->y + at : gate;
        k->gate[FXI_ACT_SILU](gate, part->up + (size_t)t * n, part->n_out, y);
        if (!p->y)
            k->quant_q8(y, part->n_out, p->q8->q + at, p->q8->d + at / FXI_Q_BLOCK,
                        p->q8->sum + at / 16);
    }
}

static void run_item(const ffn_job *job, int item, float *scratch)
{
    const int n_ffn = job->pass->gate->n_out, most = job->panels_per_item * FXI_PANEL;
    ffn_part part = {.out0 = item * most, .gate = scratch};
    part.n_out = n_ffn - part.out0 < most ? n_ffn - part.out0 : most;
    for (; part.tok0 < job->pass->n_tok; part.tok0 += part.n_tok) {
        const int left = job->pass->n_tok - part.tok0;
        part.n_tok = left < CHUNK_TOK ? left : CHUNK_TOK;
        part.up = scratch + part.n_tok * part.n_out;
        compute_layer(job, &part, job->pass->gate, part.gate);
        compute_layer(job, &part, job->pass->up, part.up);
        join_layers(job, &part);
    }
}

// One task per thread, so that each has its own scratch. Items are taken one by one.
static void ffn_task(void *arg, int task)
{
    ffn_job *job = arg;
    float *scratch = job->pass->scratch + 2 * (size_t)task * chunk_floats(job->pass->n_tok);
    int item;
    while ((item = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->n_item)
        run_item(job, item, scratch);
}

void fxi_compute_ffn(const fxi_compute *c, const fxi_ffn_pass *pass)
{
    const int n_thread = fxi_pool_n_thread(c->pool);
    ffn_job job = {.c = c, .pass = pass, .n_panel = fxi_linear_n_panel(pass->gate->n_out)};
    job.panels_per_item = fxi_compute_panels(c, job.n_panel, pass->n_tok, MAX_PANEL);
    job.n_item = (job.n_panel + job.panels_per_item - 1) / job.panels_per_item;
    atomic_init(&job.next, 0);
    fxi_pool_run(c->pool, ffn_task, &job, job.n_item < n_thread ? job.n_item : n_thread);
}
