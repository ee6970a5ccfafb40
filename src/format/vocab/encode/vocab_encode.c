// vocab_encode.c - text to ids: special tokens are split off; the text between them goes through
// the norm steps and on to the split steps.
#include <stdlib.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_encode.h"

enum { MAX_TEXT_BYTES = 1 << 28 }; // norm steps make it longer, and positions in it have 32 bits

static fx_status encode_late(fxi_encode_job *j, fxi_str text)
{
    fxi_norm_how how = {.late = true, .space = j->space, .front = j->front};
    FX_TRY(fxi_norm_run(&j->v->norms, how, text, &j->late, &text, j->err));
    j->front = 0;
    return fxi_split_encode(j, text.p, text.n, j->late.front);
}

static fx_status encode_gap(fxi_encode_job *j, fxi_str text)
{
    fxi_norm_how how = {.space = j->space, .front = j->front};
    FX_TRY(fxi_norm_run(&j->v->norms, how, text, &j->early, &text, j->err));
    j->front = j->early.front;
    return fxi_special_walk(j, j->normalized, text, NULL, encode_late);
}

// If only some bytes may be part of control tokens, the tokens are searched for in the text as
// given: norm steps do not track where bytes came from.
static fx_status encode_text(fxi_encode_job *j, fxi_str text, const char *own, bool control)
{
    const fxi_special_set raw = own ? FXI_RAW_ANY : control ? FXI_RAW_CONTROL : FXI_RAW_USER;
    j->normalized = control && !own ? FXI_NORM_CONTROL : FXI_NORM_USER;
    return fxi_special_walk(j, raw, text, own, encode_gap);
}

static void free_job(fxi_encode_job *j)
{
    fxi_norm_work_free(&j->early);
    fxi_norm_work_free(&j->late);
    fxi_matcher_free(j->matcher);
    for (size_t i = 0; j->change && i < j->v->n_split; i++) fxi_norm_work_free(&j->change[i]);
    free(j->change);
    free(j->sym);
    free(j->heap);
    free(j->best);
    free(j->known);
}

fx_status fxi_vocab_encode_marked(const fxi_vocab *v, const char *text, const char *own,
                                  size_t n_bytes, unsigned flags, fxi_ids *out, fx_error *err)
{
    if (n_bytes > MAX_TEXT_BYTES)
        return fxi_fail(err, FX_EINVAL, "a text of %zu bytes is too long", n_bytes);
    size_t bad = fxi_utf8_check(text, n_bytes);
    if (bad < n_bytes) return fxi_fail(err, FX_EINVAL, "bad UTF-8 at byte %zu", bad);
    if (!n_bytes) return FX_OK;
    fxi_encode_job j = {.v = v, .out = out, .err = err};
    j.n_before = out->n;
    fxi_utf8_at(text, n_bytes, &j.front);
    j.space = flags & FXI_ENCODE_SPACE;
    if (!v->loses_text) FX_TRY(fxi_encode_check_max(&j, n_bytes));
    fxi_word_remember(&j, n_bytes);
    fx_status st = encode_text(&j, (fxi_str){text, n_bytes}, own, flags & FXI_ENCODE_CONTROL);
    if (st == FX_OK) st = fxi_encode_check_max(&j, 0);
    if (st != FX_OK) out->n = j.n_before;
    free_job(&j);
    return st;
}

fx_status fxi_vocab_encode(const fxi_vocab *v, const char *text, size_t n_bytes, unsigned flags,
                           fxi_ids *out, fx_error *err)
{
    return fxi_vocab_encode_marked(v, text, NULL, n_bytes, flags, out, err);
}
