// pooling.h - the rows of a text's tokens become one vector, its embedding, as the model's file
// says: their mean, or the first or last of them; multiplied with a matrix, if it has one; then
// divided by its length. Of a pair of texts the first or last row becomes a score.
//
// A text may come in several batches: its rows are added in order, so that the result does not
// depend on how it was divided. Pure functions; any thread.
#ifndef FXI_MODEL_POOLING_H
#define FXI_MODEL_POOLING_H

#include "model/model.h"

// "mean", "first", "last", "rank"; "" for FXI_POOL_NONE.
const char *fxi_pooling_name(fxi_pooling p);
// The one of this name; "cls" is "first". FX_EINVAL: there is none.
fx_status fxi_pooling_find(const char *name, fxi_pooling *out, fx_error *err);

// How many of the last rows of n_tok tokens are needed. is_last: the text ends with them.
int fxi_pooling_rows(const fxi_model_shape *s, int n_tok, bool is_last);

// Numbers of the vector of a text; dim of them are its sum.
size_t fxi_pooling_room(const fxi_model_shape *s);

// Adds n rows [n][dim], of the tokens up to one before position end, to sum[dim], which is all zero
// before the first.
void fxi_pooling_add(const fxi_model_shape *s, const float *rows, int n, int end, float *sum);

// sum, of fxi_pooling_room numbers, becomes the first n_dim numbers of the embedding of a text of
// n_tok tokens, divided by their length if is_unit. False: they are not all finite.
bool fxi_pooling_finish(const fxi_model_shape *s, int n_tok, int n_dim, bool is_unit, float *sum);

// sum[0] becomes the score of a pair of texts. Pre: FXI_POOL_RANK. False: it is not finite.
bool fxi_pooling_score(const fxi_model_shape *s, float *sum);

#endif
