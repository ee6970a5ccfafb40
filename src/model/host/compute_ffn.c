// compute_ffn.c - the first half of feed-forward blocks: two layers, joined into what the next one
// reads, for one block or many experts.
//
// An item is a range of panels of gate and the same range of up, a whole number of blocks of 32
// outputs. Both are computed for a chunk of tokens into the thread's scratch, which fits the
// second-level cache, and joined and rounded there: [n_tok][n_ffn] of gate or up is never written.
#include "model/host/compute.h"

#include <stdatomic.h>

#include "kernels/linear.h"

#define CHUNK_TOK 128
#define MAX_PANEL 16
#define MAX_OUT   (MAX_PANEL * FXI_PANEL)

typedef struct ffn_job {
    const fxi_compute *c;
    const fxi_ffn_pass *pass;
    int n_panel, panels_per_item, items_per_part, n_item;
    atomic_int next; // the next item to take
} ffn_job;

// A chunk of tokens and the outputs of an item.
typedef struct ffn_chunk {
    const fxi_ffn_part *of;
    int tok0, n_tok;
    int out0, n_out;
    float *gate, *up; // [n_tok][n_out] in the scratch
} ffn_chunk;

static size_t chunk_floats(int max_tok)
{
    return (size_t)(max_tok < CHUNK_TOK ? max_tok : CHUNK_TOK) * MAX_OUT;
}

size_t fxi_compute_ffn_scratch(const fxi_compute *c, int max_tok)
{
    return 2 * chunk_floats(max_tok) * (size_t)fxi_pool_n_thread(c->pool);
}

// Computes the chunk's panels of a layer into y.
static void compute_layer(const ffn_job *job, const ffn_chunk *part, const fxi_linear *w,
                          const float *bias, float *y)
{
    const fxi_kernels *k = job->c->k;
    const fxi_act tokens = fxi_act_from(job->pass->a, part->of->row0 + part->tok0, w->n_in);
    const fxi_linear panels = {.type = w->type,
                               .n_in = w->n_in,
                               .n_out = part->n_out,
                               .data = fxi_linear_panel(w, part->out0 / FXI_PANEL)};
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

static void run_item(const ffn_job *job, int item, float *scratch)
{
    const fxi_ffn_part *of = &job->pass->part[item / job->items_per_part];
    const int n_ffn = of->up->n_out, most = job->panels_per_item * FXI_PANEL;
    ffn_chunk part = {.of = of, .out0 = item % job->items_per_part * most, .gate = scratch};
    part.n_out = n_ffn - part.out0 < most ? n_ffn - part.out0 : most;
    for (; part.tok0 < of->n_tok; part.tok0 += part.n_tok) {
        const int left = of->n_tok - part.tok0;
        part.n_tok = left < CHUNK_TOK ? left : CHUNK_TOK;
        run_chunk(job, &part);
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
    const int n_thread = fxi_pool_n_thread(c->pool), n_part = pass->n_part;
    ffn_job job = {.c = c, .pass = pass, .n_panel = fxi_linear_n_panel(pass->part[0].up->n_out)};
    job.panels_per_item = fxi_compute_panels(c, job.n_panel * n_part, pass->n_tok, MAX_PANEL);
    job.items_per_part = (job.n_panel + job.panels_per_item - 1) / job.panels_per_item;
    job.n_item = job.items_per_part * n_part;
    atomic_init(&job.next, 0);
    fxi_pool_run(c->pool, ffn_task, &job, job.n_item < n_thread ? job.n_item : n_thread);
}
