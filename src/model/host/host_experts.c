// host_experts.c - a mixture of experts: each row goes through the few experts that its router
// chooses.
//
//   route    row -> n_used experts and the weights of their results
//   place    the chosen rows of expert 0, of expert 1, .. side by side: a product per expert
//   run      all experts' products in one go (compute.h)
//   combine  the weighted sum of a row's places, in the order of the router's numbers
//
// A row's result depends on no other row: the products' bits do not depend on how many rows they
// have, and the sum has one order.
#include <string.h>

#include "model/host/host.h"

// ---- routing -----------------------------------------------------------------------------------

static void route_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_rules *r = &h->m->rules;
    const fxi_host_buffers *s = &h->s;
    const float *bias = h->experts->router.b;
    const size_t at = (size_t)row * (size_t)r->n_used;
    float *x = s->router + (size_t)row * (size_t)r->n_expert;
    if (bias) h->compute.k->add(x, bias, r->n_expert);
    fxi_route_experts(x, r->n_expert, r->n_used, r->route, s->chosen + at, s->share + at);
    if (r->expert_scale != 1) h->compute.k->scale(s->share + at, r->expert_scale, r->n_used);
}

// ---- places ------------------------------------------------------------------------------------

// Gives every choice its place: those of an expert lie side by side, in the order of rows.
static void place_choices(const fxi_host *h)
{
    const fxi_rules *r = &h->m->rules;
    const fxi_host_buffers *s = &h->s;
    const int n = h->n_row * r->n_used;
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
    const fxi_host *h = arg;
    const fxi_host_buffers *s = &h->s;
    const size_t n = (size_t)h->m->model.shape.dim, to = (size_t)place;
    const size_t from = (size_t)s->place_row[place];
    if (s->ex) copy_numbers(s->ex, s->h, to, from, n, sizeof(float));
    if (!s->ex_q || !h->has_q8) return;
    copy_numbers(s->ex_q, s->act_q, to, from, n, 1);
    copy_numbers(s->ex_d, s->act_d, to, from, n / FXI_Q8_0_ELEMS, sizeof(float));
    copy_numbers(s->ex_sum, s->act_sum, to, from, n / 16, sizeof(int32_t));
}

// ---- the experts -------------------------------------------------------------------------------

static const float *expert_bias(const fxi_expert_linear *l, int e)
{
    return l->b ? l->b + (size_t)e * (size_t)l->w[e].n_out : NULL;
}

// Lists the experts that have rows. Returns their number.
static int list_experts(const fxi_host *h)
{
    const fxi_experts *x = h->experts;
    const fxi_host_buffers *s = &h->s;
    int n = 0;
    for (int e = 0; e < h->m->rules.n_expert; e++) {
        const int row0 = s->expert0[e], n_tok = s->expert0[e + 1] - row0;
        if (!n_tok) continue;
        s->part[n] =
            (fxi_ffn_part){x->gate.w ? &x->gate.w[e] : NULL, &x->up.w[e], expert_bias(&x->gate, e),
                           expert_bias(&x->up, e),           row0,        n_tok};
        s->job[n++] = (fxi_linear_job){
            &x->down.w[e], s->ex_out + (size_t)row0 * (size_t)h->m->model.shape.dim, row0, n_tok};
    }
    return n;
}

static void run_chosen(fxi_host *h)
{
    const fxi_host_buffers *s = &h->s;
    const fxi_rules *r = &h->m->rules;
    const fxi_act a = {.x = s->ex, .q = s->ex_q, .d = s->ex_d, .sum = s->ex_sum};
    const fxi_act mid = fxi_host_mid(h);
    place_choices(h);
    fxi_compute_rows(&h->compute, h->n_row * r->n_used, gather_place, h);
    const int n = list_experts(h);
    const bool q8 = fxi_linear_reads_q8(&h->experts->down.w[0]);
    fxi_compute_ffn(&h->compute, &(fxi_ffn_pass){.a = &a,
                                                 .part = s->part,
                                                 .n_part = n,
                                                 .n_tok = h->n_row,
                                                 .act = r->act,
                                                 .y = q8 ? NULL : s->mid,
                                                 .q8 = &mid,
                                                 .scratch = s->ffn});
    fxi_compute_linear(&h->compute, &mid, s->job, n);
}

// ---- the sum -----------------------------------------------------------------------------------

static void add_weighted(const fxi_host *h, float *sum, float *y, const float *bias, float by)
{
    const fxi_kernels *k = h->compute.k;
    const int dim = h->m->model.shape.dim;
    if (bias) k->add(y, bias, dim);
    k->add_scaled(sum, y, by, dim);
}

static void combine_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_experts *x = h->experts;
    const fxi_host_buffers *s = &h->s;
    const size_t dim = (size_t)h->m->model.shape.dim, n_used = (size_t)h->m->rules.n_used;
    float *sum = s->h + (size_t)row * dim;
    memset(sum, 0, dim * sizeof *sum);
    for (size_t at = (size_t)row * n_used; at < (size_t)(row + 1) * n_used; at++)
        add_weighted(h, sum, s->ex_out + (size_t)s->place[at] * dim,
                     expert_bias(&x->down, s->chosen[at]), s->share[at]);
    const float by = x->sh_gate.data ? fxi_sigmoid(s->sh_gate[row]) : 1;
    if (x->shared.up.w.data)
        add_weighted(h, sum, s->sh_out + (size_t)row * dim, x->shared.down.b, by);
}

fx_status fxi_host_experts(fxi_device *d, const fxi_experts *x, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    const fxi_act a = fxi_host_act(h, h->s.h);
    const fxi_linear_job job[] = {{&x->router.w, h->s.router, 0, h->n_row},
                                  {&x->sh_gate, h->s.sh_gate, 0, h->n_row}};
    h->experts = x;
    fxi_compute_linear(&h->compute, &a, job, x->sh_gate.data ? 2 : 1);
    fxi_host_rows(h, route_row);
    if (x->shared.up.w.data) {
        const fxi_act mid = fxi_host_mid(h);
        fxi_host_feed(h, &x->shared, &a);
        fxi_compute_linear(&h->compute, &mid,
                           &(fxi_linear_job){&x->shared.down.w, h->s.sh_out, 0, h->n_row}, 1);
    }
    run_chosen(h);
    fxi_host_rows(h, combine_row);
    return FX_OK;
}
