// host_states.c - recurrent layers with states on the host: the gated delta rule and Mamba-2
// (fxi_mixer).
//
//   store  each row's input of the convolution, its keys and the logarithm of its decay go to the
//          cache; then each head walks through its sequence: u of every token, and the state where
//          a block ends
//   mix    the results of the rows that remain, head by head, and their norms
//
// Rows of one block that are neighbours are a run, which a head reads in one call.
#include <math.h>
#include <string.h>

#include "model/host/host.h"

#define L2_EPS 1e-6f

// ---- where things are --------------------------------------------------------------------------

static const fxi_recurrence *recurrence_of(const fxi_host *h)
{
    return &h->m->rules.recurrence;
}

// The row of token `pos` in the layer's plane.
static float *cache_row(const fxi_host *h, const fxi_batch_seq *seq, int pos)
{
    const fxi_kv_view *view = &seq->views.group[h->layer->kv_group];
    return (float *)fxi_kv_row(view, h->layer->kv_layer, pos);
}

// The states of all heads after the block of token `pos`.
static float *block_state(const fxi_host *h, const fxi_batch_seq *seq, int pos)
{
    const fxi_kv_view *view = &seq->views.group[h->layer->state_group];
    return fxi_kv_state(view, h->layer->kv_layer, pos);
}

static int key_group_of(const fxi_recurrence *r, int head)
{
    return r->is_tiled ? head % r->n_group : head / (r->n_head / r->n_group);
}

// Tokens of one block, from position `pos` on, through one head; without inputs and results.
static fxi_recur head_call(const fxi_host *h, const fxi_batch_seq *seq, int head, int pos,
                           int n_tok)
{
    const fxi_recurrence *r = recurrence_of(h);
    const int block0 = pos - pos % FXI_RECUR_TOK;
    float *row = cache_row(h, seq, block0);
    const size_t state = (size_t)head * (size_t)r->n_key * (size_t)r->n_value;
    return (fxi_recur){.n_key = r->n_key,
                       .n_value = r->n_value,
                       .n_column = r->n_value,
                       .first = pos - block0,
                       .n_tok = n_tok,
                       .state = block0 ? block_state(h, seq, block0 - 1) + state : NULL,
                       .k = row + r->key_at + key_group_of(r, head) * r->n_key,
                       .u = row + r->u_at + head * r->n_value,
                       .g = row + r->g_at + head,
                       .row_step =
                           seq->views.group[h->layer->kv_group].tok_stride_bytes / sizeof(float),
                       .in_step = (size_t)r->n_channel};
}

// ---- rows --------------------------------------------------------------------------------------

static void keep_input(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_layer *l = h->layer;
    const struct {
        const fxi_affine *w;
        float *y;
    } all[] = {{&l->q, h->s.q}, {&l->k, h->s.k}, {&l->v, h->s.v}, {&l->gate, h->s.gate}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const int n = all[i].w->w.n_out;
        if (all[i].w->b) h->compute.k->add(all[i].y + (size_t)row * (size_t)n, all[i].w->b, n);
    }
    const size_t n = (size_t)recurrence_of(h)->n_channel;
    float *to = cache_row(h, h->s.tok_seq[row], h->s.tok_pos[row]);
    memcpy(to, h->s.k + (size_t)row * n, n * sizeof *to);
}

// x = silu(conv(c)), in the place of c.
static void convolve_row(const fxi_host *h, int row, float *x)
{
    const fxi_taps *w = &h->layer->conv;
    const int n = recurrence_of(h)->n_channel, first = h->s.tok_pos[row] - w->n_tap + 1;
    const float *tap[FXI_MAX_TAP];
    for (int i = 0; i < w->n_tap; i++)
        tap[i] = first + i < 0 ? NULL : cache_row(h, h->s.tok_seq[row], first + i);
    h->compute.k->conv(
        &(fxi_conv){.n_tap = w->n_tap, .n_channel = n, .w = w->w, .b = w->b, .x = tap, .y = x});
    h->compute.k->act[FXI_ACT_SILU](x, n, x);
}

// Makes runs of n numbers `length` long.
static void set_lengths(const fxi_host *h, float *x, int n_run, int n, float length)
{
    float w[FXI_RECUR_MAX_KEY]; // of an RMS norm, which divides by the root of the mean square
    for (int i = 0; i < n; i++) w[i] = length / sqrtf((float)n);
    for (int i = 0; i < n_run; i++, x += n) h->compute.k->rms_norm(x, w, n, L2_EPS / (float)n, x);
}

static void prepare_delta(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_recurrence *r = recurrence_of(h);
    const fxi_kernels *k = h->compute.k;
    const fxi_states *s = &h->layer->states;
    const int n_keys = r->n_group * r->n_key;
    float *x = h->s.k + (size_t)row * (size_t)r->n_channel;
    float *factor = h->s.v + (size_t)row * (size_t)r->n_head;
    float *to = cache_row(h, h->s.tok_seq[row], h->s.tok_pos[row]), *g = to + r->g_at;
    convolve_row(h, row, x);
    set_lengths(h, x + r->q_channel, r->n_group, r->n_key, 1 / sqrtf((float)r->n_key));
    set_lengths(h, x + r->k_channel, r->n_group, r->n_key, 1);
    memcpy(to + r->key_at, x + r->k_channel, (size_t)n_keys * sizeof *to);
    k->act[FXI_ACT_SIGMOID](factor, r->n_head, factor);
    memcpy(g, h->s.gate + (size_t)row * (size_t)r->n_head, (size_t)r->n_head * sizeof *g);
    k->add(g, s->dt, r->n_head);
    k->gate[FXI_ACT_SOFTPLUS](g, s->decay, r->n_head, g);
}

// The values of all heads are known before the state: u is theirs.
static void prepare_ssm(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_recurrence *r = recurrence_of(h);
    const fxi_kernels *k = h->compute.k;
    const fxi_states *s = &h->layer->states;
    float *x = h->s.k + (size_t)row * (size_t)r->n_channel;
    float *dt = h->s.v + (size_t)row * (size_t)r->n_head;
    float *to = cache_row(h, h->s.tok_seq[row], h->s.tok_pos[row]), *u = to + r->u_at;
    convolve_row(h, row, x);
    memcpy(to + r->key_at, x + r->k_channel, (size_t)(r->n_group * r->n_key) * sizeof *to);
    k->add(dt, s->dt, r->n_head);
    k->act[FXI_ACT_SOFTPLUS](dt, r->n_head, dt);
    memcpy(to + r->g_at, dt, (size_t)r->n_head * sizeof *to);
    k->multiply(to + r->g_at, s->decay, r->n_head);
    memcpy(u, x + r->v_channel, (size_t)(r->n_head * r->n_value) * sizeof *u);
    for (int i = 0; i < r->n_head; i++) k->scale(u + i * r->n_value, dt[i], r->n_value);
}

static void norm_results(const fxi_host *h, float *x, int n)
{
    const fxi_rownorm *w = &h->layer->states.norm;
    for (int i = 0; w->w && i < n / w->n; i++)
        h->compute.k->rms_norm(x + i * w->n, w->w + i * w->step, w->n, h->m->rules.eps,
                               x + i * w->n);
}

static void finish_delta(void *arg, int row)
{
    const fxi_host *h = arg;
    const int n = h->layer->o.w.n_in;
    const size_t at = fxi_host_place(h, row) * (size_t)n;
    norm_results(h, h->s.att + at, n);
    h->compute.k->gate[FXI_ACT_SILU](h->s.q + at, h->s.att + at, n, h->s.att + at);
}

static void finish_ssm(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_recurrence *r = recurrence_of(h);
    const fxi_kernels *k = h->compute.k;
    const int n = h->layer->o.w.n_in;
    const size_t place = fxi_host_place(h, row), at = place * (size_t)n;
    const float *value = h->s.k + place * (size_t)r->n_channel + r->v_channel;
    float *att = h->s.att + at;
    for (int i = 0; i < r->n_head; i++)
        k->add_scaled(att + i * r->n_value, value + i * r->n_value, h->layer->states.skip[i],
                      r->n_value);
    k->gate[FXI_ACT_SILU](h->s.q + at, att, n, att);
    norm_results(h, att, n);
}

static const struct rows_of {
    fxi_row_fn *prepare, *finish;
    bool is_delta;
} rows_of[] = {[FXI_MIX_DELTA] = {prepare_delta, finish_delta, true},
               [FXI_MIX_SSM] = {prepare_ssm, finish_ssm, false}};

// ---- heads -------------------------------------------------------------------------------------

// A head of one sequence, through the tokens of the batch, block by block. row: of the first token.
static void advance_head(const fxi_host *h, const fxi_batch_seq *seq, int row, int head)
{
    const fxi_recurrence *r = recurrence_of(h);
    const fxi_kernels *k = h->compute.k;
    const size_t state = (size_t)head * (size_t)r->n_key * (size_t)r->n_value;
    const int end = seq->pos + seq->n_tok;
    for (int pos = seq->pos, n; pos < end; pos += n, row += n) {
        const int left = FXI_RECUR_TOK - pos % FXI_RECUR_TOK;
        n = end - pos < left ? end - pos : left;
        fxi_recur c = head_call(h, seq, head, pos, n);
        float *g = (float *)c.g;
        for (size_t t = (size_t)c.first; t < (size_t)(c.first + n); t++)
            if (t) g[t * c.row_step] += g[(t - 1) * c.row_step];
        c.x = h->s.k + (size_t)row * c.in_step + r->v_channel + head * r->n_value;
        c.b = h->s.v + (size_t)row * (size_t)r->n_head + head;
        c.b_step = (size_t)r->n_head;
        if (rows_of[h->layer->mixer].is_delta) k->recur_update(&c);
        if (n == left) k->recur_state(&c, block_state(h, seq, pos) + state);
    }
}

static void advance_item(void *arg, int item)
{
    const fxi_host *h = arg;
    const int n_head = recurrence_of(h)->n_head, n = item / n_head;
    int row = 0;
    for (int i = 0; i < n; i++) row += h->batch->seq[i].n_tok;
    advance_head(h, &h->batch->seq[n], row, item % n_head);
}

void fxi_host_states_store(fxi_host *h)
{
    const fxi_batch *b = h->batch;
    fxi_host_each_row(h, keep_input);
    fxi_host_each_row(h, rows_of[h->layer->mixer].prepare);
    fxi_compute_rows(&h->compute, b->n_seq * recurrence_of(h)->n_head, advance_item, h);
}

// ---- results -----------------------------------------------------------------------------------

// Lists the runs of the rows that remain. Returns their number.
static int list_runs(const fxi_host *h)
{
    int n = 0;
    for (int row = 0; row < h->n_row; row++) {
        const size_t at = fxi_host_place(h, row);
        const int pos = h->s.tok_pos[at];
        const bool goes_on = row && pos % FXI_RECUR_TOK && fxi_host_place(h, row - 1) + 1 == at &&
                             h->s.tok_seq[at - 1] == h->s.tok_seq[at];
        if (!goes_on) h->s.run[n++] = row;
    }
    h->s.run[n] = h->n_row;
    return n;
}

static void read_head(void *arg, int item)
{
    const fxi_host *h = arg;
    const fxi_recurrence *r = recurrence_of(h);
    const int head = item % r->n_head, *run = h->s.run + item / r->n_head;
    const size_t at = fxi_host_place(h, run[0]);
    fxi_recur c = head_call(h, h->s.tok_seq[at], head, h->s.tok_pos[at], run[1] - run[0]);
    c.x = h->s.k + at * c.in_step + r->q_channel + key_group_of(r, head) * r->n_key;
    c.out_step = (size_t)(r->n_head * r->n_value);
    c.out = h->s.att + at * c.out_step + head * r->n_value;
    h->compute.k->recur_read(&c);
}

void fxi_host_states_mix(fxi_host *h)
{
    fxi_compute_rows(&h->compute, list_runs(h) * recurrence_of(h)->n_head, read_head, h);
    fxi_host_each_row(h, rows_of[h->layer->mixer].finish);
}
