// gram_without.h - any text but those with certain marks in it: what stands around the parts of an
// answer that have a form.
#ifndef FXI_GRAMMAR_WITHOUT_H
#define FXI_GRAMMAR_WITHOUT_H

#include "grammar/form/gram_form.h"

// Any UTF-8 text without U+0000, also none, in which none of mark[0..n) occurs; a text may end with
// the beginning of a mark. Errors: FX_EINVAL (an empty mark, bad UTF-8), FX_ENOMEM.
fx_status fxi_gram_without(fxi_gram *g, const fxi_str *mark, size_t n, uint32_t *node,
                           fx_error *err);

#endif
