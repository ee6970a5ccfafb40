// experts.c - a mixture of experts: each row goes through the few experts that its router chooses.
//
//   route    row -> n_used experts and the weights of their results
//   place    the chosen rows of expert 0, of expert 1, .. side by side: a product per expert
//   run      all experts' products in one go (compute.h)
//   combine  the weighted sum of a row's places, in the order of the router's numbers
//
// A row's result depends on no other row: the products' bits do not depend on how many rows they
// have, and the sum has one order.
#include <math.h>
#include <string.h>

#include "model/blocks/pass.h"

// ---- routing -----------------------------------------------------------------------------------

static void route_row(void *arg, int row)
{
    const fxi_pass *p = arg;
    const fxi_rules *r = &p->m->rules;
    const fxi_scratch *s = &p->m->s;
    const float *bias = p->layer->experts->router.b;
    const size_t at = (size_t)row * (size_t)r->n_used;
    float *x = s->router + (size_t)row * (size_t)r->n_expert;
    if (bias) p->m->model.k->add(x, bias, r->n_expert);
    fxi_route_experts(x, r->n_expert, r->n_used, r->route, s->chosen + at, s->share + at);
    if (r->expert_scale != 1) p->m->model.k->scale(s->share + at, r->expert_scale, r->n_used);
}

// ---- places ------------------------------------------------------------------------------------

// Gives every choice its place: those of an expert lie side by side, in the order of rows.
static void place_choices(const fxi_pass *p)
{
    const fxi_rules *r = &p->m->rules;
    const fxi_scratch *s = &p->m->s;
    const int n = p->n_row * r->n_used;
    memset(s->expert0, 0, ((size_t)r->n_expert + 1) * sizeof *s->expert0);
    for (int i = 0; i < n; i++) s->expert0[s->chosen[i] + 1]++;
    for (int e = 0; e < r->n_expert; e++) s->expert0[e + 1] += s->expert0[e];
    for (int i = 0; i < n; i++) {
        s->place[i] = s->expert0[s->chosen[i]]++; // now the end of those placed
        s->place_row[s->place[i]] = i / r->n_used;
    }
    for (int e = r->n_expert; e > 0; e--) s->expert0[e] = s->expert0[e - 1];
    s->expert0[0] = 0;
}

static void copy_numbers(void *dst, const void *src, size_t to, size_t from, size_t n, size_t bytes)
{
    memcpy((char *)dst + to * n * bytes, (const char *)src + from * n * bytes, n * bytes);
}

static void gather_place(void *arg, int place)
{
    const fxi_pass *p = arg;
    const fxi_scratch *s = &p->m->s;
    const size_t n = (size_t)p->m->model.shape.dim, to = (size_t)place;
    const size_t from = (size_t)s->place_row[place];
    if (s->ex) copy_numbers(s->ex, s->h, to, from, n, sizeof(float));
    if (!s->ex_q || !p->q8) return;
    copy_numbers(s->ex_q, s->act_q, to, from, n, 1);
    copy_numbers(s->ex_d, s->act_d, to, from, n / FXI_Q8_0_ELEMS, sizeof(float));
    copy_numbers(s->ex_sum, s->act_sum, to, from, n / 16, sizeof(int32_t));
}

// ---- the experts -------------------------------------------------------------------------------

static const float *expert_bias(const fxi_expert_linear *l, int e)
{
    return l->b ? l->b + (size_t)e * (size_t)l->w[e].n_out : NULL;
}

static int expert_places(const fxi_pass *p, int e)
{
    return p->m->s.expert0[e + 1] - p->m->s.expert0[e];
}

// Lists the experts that have rows. Returns their number.
static int list_experts(const fxi_pass *p)
{
    const fxi_experts *x = p->layer->experts;
    const fxi_scratch *s = &p->m->s;
    int n = 0;
    for (int e = 0; e < p->m->rules.n_expert; e++) {
        const int row0 = s->expert0[e], n_tok = expert_places(p, e);
        if (!n_tok) continue;
        s->part[n] =
            (fxi_ffn_part){x->gate.w ? &x->gate.w[e] : NULL, &x->up.w[e], expert_bias(&x->gate, e),
                           expert_bias(&x->up, e),           row0,        n_tok};
        s->job[n++] = (fxi_linear_job){
            &x->down.w[e], s->ex_out + (size_t)row0 * (size_t)p->m->model.shape.dim, row0, n_tok};
    }
    return n;
}

static void run_chosen(fxi_pass *p)
{
    fxi_transformer *m = p->m;
    const fxi_scratch *s = &m->s;
    const fxi_act a = {.x = s->ex, .q = s->ex_q, .d = s->ex_d, .sum = s->ex_sum};
    const fxi_act mid = {.x = s->mid, .q = s->mid_q, .d = s->mid_d, .sum = s->mid_sum};
    place_choices(p);
    fxi_compute_rows(&m->compute, p->n_row * m->rules.n_used, gather_place, p);
    const int n = list_experts(p);
    const bool q8 = fxi_linear_reads_q8(&p->layer->experts->down.w[0]);
    fxi_compute_ffn(&m->compute, &(fxi_ffn_pass){.a = &a,
                                                 .part = s->part,
                                                 .n_part = n,
                                                 .n_tok = p->n_row,
                                                 .act = m->rules.act,
                                                 .y = q8 ? NULL : s->mid,
                                                 .q8 = &mid,
                                                 .scratch = s->ffn});
    fxi_compute_linear(&m->compute, &mid, s->job, n);
}

// ---- the sum -----------------------------------------------------------------------------------

static void add_weighted(const fxi_pass *p, float *h, float *y, const float *bias, float by)
{
    const fxi_kernels *k = p->m->model.k;
    const int dim = p->m->model.shape.dim;
    if (bias) k->add(y, bias, dim);
    k->add_scaled(h, y, by, dim);
}

static float shared_weight(const fxi_pass *p, int row)
{
    if (!p->layer->experts->sh_gate.data) return 1;
    return (float)(1 / (1 + exp(-(double)p->m->s.sh_gate[row])));
}

static void combine_row(void *arg, int row)
{
    const fxi_pass *p = arg;
    const fxi_experts *x = p->layer->experts;
    const fxi_scratch *s = &p->m->s;
    const size_t dim = (size_t)p->m->model.shape.dim, n_used = (size_t)p->m->rules.n_used;
    float *h = s->h + (size_t)row * dim;
    memset(h, 0, dim * sizeof *h);
    for (size_t at = (size_t)row * n_used; at < (size_t)(row + 1) * n_used; at++)
        add_weighted(p, h, s->ex_out + (size_t)s->place[at] * dim,
                     expert_bias(&x->down, s->chosen[at]), s->share[at]);
    if (x->shared.up.w.data)
        add_weighted(p, h, s->sh_out + (size_t)row * dim, x->shared.down.b, shared_weight(p, row));
}

void fxi_experts_run(fxi_pass *p)
{
    fxi_transformer *m = p->m;
    const fxi_experts *x = p->layer->experts;
    const fxi_act h = fxi_pass_act(p, m->s.h);
    const fxi_linear_job job[] = {{&x->router.w, m->s.router, 0, p->n_row},
                                  {&x->sh_gate, m->s.sh_gate, 0, p->n_row}};
    fxi_compute_linear(&m->compute, &h, job, x->sh_gate.data ? 2 : 1);
    fxi_pass_rows(p, route_row);
    if (x->shared.up.w.data) fxi_feed_dense(p, &x->shared, &h, m->s.sh_out);
    run_chosen(p);
    fxi_pass_rows(p, combine_row);
    p->branch = (fxi_branch){NULL, &p->layer->ffn_out};
}
