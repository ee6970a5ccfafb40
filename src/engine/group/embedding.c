// embedding.c - a text becomes a vector: the rows that its tokens leave are pooled, step by step.
//
// A text may be computed in several steps, and again after a preemption: each row is added once, in
// order, so the vector's bits depend on the text alone.
#include "engine/group/group.h"
#include "model/pooling.h"

// Its first token in this step whose row is not pooled yet.
static int first_row(const fxi_seq *s)
{
    return s->n_pooled > s->n_computed ? s->n_pooled : s->n_computed;
}

int fxi_embedding_n_row(const fxi_seq *s, const fxi_model_shape *shape)
{
    const int end = s->n_computed + s->n_step, n = end - first_row(s);
    return n > 0 ? fxi_pooling_rows(shape, n, end == s->n_tok) : 0;
}

void fxi_embedding_add(fxi_seq *s, const fxi_model_shape *shape, const float *rows, int n_row)
{
    const int end = s->n_computed;
    fxi_pooling_add(shape, rows, n_row, end, s->embd);
    if (end > s->n_pooled) s->n_pooled = end;
}

void fxi_embedding_end(fxi_seq *s, const fxi_model_shape *shape)
{
    const fx_request *req = &s->group->req;
    const int n_dim = req->n_dim ? req->n_dim : shape->dim;
    const bool is_unit =
        req->norm == FX_NORM_MODEL ? shape->has_unit_length : req->norm == FX_NORM_UNIT;
    s->n_embd = n_dim;
    if (fxi_pooling_finish(shape, s->n_tok, n_dim, is_unit, s->embd))
        s->finish = FX_FINISH_STOP;
    else
        fxi_seq_fail(s, "the model computed an embedding that is not made of finite numbers");
}
