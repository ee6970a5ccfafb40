// work.c - what a forward pass costs: multiply-adds per token, and bytes of weights that it reads.
#include "model/load/loading.h"

// Adds `share` of a layer's work; share < 1: of experts, of which a token goes through a few.
static void count_linear(fxi_model_shape *s, const fxi_linear *w, double share, uint64_t *n_mul)
{
    if (!w->data) return;
    fxi_linear read = *w;
    read.group = 0; // the room of panels that the last group lacks is not read
    *n_mul += (uint64_t)((double)w->n_in * w->n_out * share);
    s->pass_bytes += (uint64_t)((double)fxi_linear_bytes(&read) * share);
}

static void count_ffn(fxi_model_shape *s, const fxi_ffn *f, uint64_t *n_mul)
{
    count_linear(s, &f->gate.w, 1, n_mul);
    count_linear(s, &f->up.w, 1, n_mul);
    count_linear(s, &f->down.w, 1, n_mul);
}

static void count_experts(fxi_transformer *m, const fxi_experts *x, uint64_t *n_mul)
{
    fxi_model_shape *s = &m->model.shape;
    const fxi_linear *all[] = {x->gate.w, x->up.w, x->down.w};
    const double share = m->rules.n_used;
    count_linear(s, &x->router.w, 1, n_mul);
    count_ffn(s, &x->shared, n_mul);
    for (size_t p = 0; p < sizeof all / sizeof *all; p++)
        if (all[p]) count_linear(s, all[p], share, n_mul); // n_used experts of one shape
}

// After the last K and V only the rows that want logits are computed.
void fxi_work_count(fxi_transformer *m)
{
    fxi_model_shape *s = &m->model.shape;
    for (int i = 0; i < s->n_layer; i++) {
        const fxi_layer *l = &m->layer[i];
        uint64_t *n_mul = i < s->n_layer - 1 ? &s->layer_mul : &s->output_mul;
        count_linear(s, &l->q.w, 1, &s->layer_mul);
        count_linear(s, &l->k.w, 1, &s->layer_mul);
        count_linear(s, &l->v.w, 1, &s->layer_mul);
        count_linear(s, &l->o.w, 1, n_mul);
        count_ffn(s, &l->ffn, n_mul);
        if (l->experts) count_experts(m, l->experts, n_mul);
    }
    count_linear(s, &m->embd_in, 1, &s->layer_mul);
    count_linear(s, &m->embd_out, 1, &s->output_mul);
    count_linear(s, &m->output.w, 1, &s->output_mul);
}
