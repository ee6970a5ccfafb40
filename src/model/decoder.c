// decoder.c - the forward pass of a transformer: its layers one after the other, as plan.h states
// them.
#include "model/decoder.h"

#include "model/blocks/pass.h"

static void run_branches(fxi_pass *p)
{
    const fxi_layer *l = p->layer;
    fxi_attend_run(p);
    (p->m->rules.is_parallel ? fxi_stream_hold : fxi_stream_next)(p, &l->ffn_in,
                                                                  fxi_feed_reads_q8(l));
    (l->experts ? fxi_experts_run : fxi_feed_run)(p);
}

// What the last norm reads, of the rows that are wanted. False: there are none.
static bool run_layers(fxi_pass *p)
{
    const int n_layer = p->m->model.shape.n_layer;
    fxi_pass_index(p);
    for (p->i_layer = 0; p->i_layer < n_layer; p->i_layer++) {
        p->layer = &p->m->layer[p->i_layer];
        fxi_attend_project(p);
        if (p->i_layer == n_layer - 1) fxi_pass_keep_wanted(p);
        if (!p->n_row) return false;
        run_branches(p);
    }
    return true;
}

fx_status fxi_decoder_forward(fxi_model *model, const fxi_batch *batch, float *logits,
                              fx_error *err)
{
    (void)err; // the host's kernels cannot fail
    fxi_pass p = {.m = (fxi_transformer *)model, .batch = batch};
    if (run_layers(&p)) fxi_stream_finish(&p, logits);
    return FX_OK;
}
