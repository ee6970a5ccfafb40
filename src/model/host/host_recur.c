// host_recur.c - the steps of recurrent layers on the host (fxi_mixer).
//
// The first step of a layer sees all rows of the pass and writes to the cache, the second reads it
// for the rows that remain. What they read there depends on a row's position alone (kv_view.h), so
// a result does not depend on where a pass begins.
#include "model/host/host.h"

#include <string.h>

// The row of token `pos` in a recurrent layer's plane.
static float *recur_row(const fxi_host *h, const fxi_batch_seq *seq, int pos)
{
    const fxi_kv_view *view = &seq->views.group[h->layer->kv_group];
    return (float *)fxi_kv_row(view, h->layer->kv_layer, pos);
}

// ---- short convolutions ------------------------------------------------------------------------

static void store_conv_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_layer *l = h->layer;
    const fxi_kernels *k = h->compute.k;
    const int n = l->k.w.n_out;
    float *key = h->s.k + (size_t)row * (size_t)n, *value = h->s.v + (size_t)row * (size_t)n;
    if (l->k.b) k->add(key, l->k.b, n);
    if (l->v.b) k->add(value, l->v.b, n);
    k->multiply(key, value, n);
    memcpy(recur_row(h, h->s.tok_seq[row], h->s.tok_pos[row]), key, (size_t)n * sizeof *key);
}

static void mix_conv_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_layer *l = h->layer;
    const fxi_kernels *k = h->compute.k;
    const int n = l->q.w.n_out, n_tap = l->conv.n_tap;
    const size_t place = fxi_host_place(h, row);
    const int first = h->s.tok_pos[place] - n_tap + 1;
    const float *x[FXI_MAX_TAP];
    float *query = h->s.q + place * (size_t)n, *att = h->s.att + place * (size_t)n;
    for (int tap = 0; tap < n_tap; tap++)
        x[tap] = first + tap < 0 ? NULL : recur_row(h, h->s.tok_seq[place], first + tap);
    if (l->q.b) k->add(query, l->q.b, n);
    k->conv(&(fxi_conv){
        .n_tap = n_tap, .n_channel = n, .w = l->conv.w, .b = l->conv.b, .x = x, .y = att});
    k->multiply(att, query, n);
}

// ---- all mixers --------------------------------------------------------------------------------

static void store_conv(fxi_host *h)
{
    fxi_host_each_row(h, store_conv_row);
}

static void mix_conv(fxi_host *h)
{
    fxi_host_each_row(h, mix_conv_row);
}

static const struct mixer {
    void (*store)(fxi_host *h);
    void (*mix)(fxi_host *h);
} mixers[] = {[FXI_MIX_CONV] = {store_conv, mix_conv},
              [FXI_MIX_DELTA] = {fxi_host_states_store, fxi_host_states_mix},
              [FXI_MIX_SSM] = {fxi_host_states_store, fxi_host_states_mix}};

fx_status fxi_host_recur_store(fxi_device *d, const fxi_layer *l, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    h->layer = l;
    mixers[l->mixer].store(h);
    return FX_OK;
}

fx_status fxi_host_recur(fxi_device *d, const fxi_layer *l, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    h->layer = l;
    mixers[l->mixer].mix(h);
    fxi_host_finish_att(h, l);
    return FX_OK;
}
