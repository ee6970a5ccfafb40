// vocab_encode.h - one call of fxi_vocab_encode: vocab_encode.c finds special tokens and words,
// vocab_norm.c changes the text between them, vocab_models.c takes words through the model.
#ifndef FXI_FORMAT_VOCAB_ENCODE_H
#define FXI_FORMAT_VOCAB_ENCODE_H

#include "base/fail.h"
#include "format/vocab/encode/vocab_tables.h"

typedef struct fxi_merge_symbol fxi_merge_symbol; // vocab_models.c
typedef struct fxi_unigram_best fxi_unigram_best; // vocab_models.c
typedef struct fxi_known_word fxi_known_word;     // vocab_encode.c

typedef struct fxi_encode_job {
    const fxi_vocab *v;
    bool space;
    size_t front;               // as in fxi_norm_how, for the next stretch
    fxi_special_set normalized; // the set to look for after the norm steps
    fxi_ids *out;
    size_t n_before; // ids that *out held before the call
    fx_error *err;
    bool after_unknown; // the last id appended is the unknown token of this word
    fxi_norm_work early, late;
    fxi_norm_work *change; // [v->n_split] of the steps FXI_SPLIT_CHANGE
    fxi_matcher *matcher;
    fxi_merge_symbol *sym; // the symbols of a word
    uint64_t *heap;
    size_t cap_sym;
    uint32_t n_sym;
    size_t n_heap;
    fxi_unigram_best *best; // kind UNIGRAM
    size_t cap_best;
    fxi_known_word *known; // [known_mask + 1]; words of this text and their ids
    size_t known_mask;
} fxi_encode_job;

// Appends an id to the output. Errors: FX_ENOMEM.
static inline fx_status fxi_encode_put(fxi_encode_job *j, int32_t id)
{
    j->after_unknown = false;
    if (fxi_ids_add(j->out, id)) return FX_OK;
    return fxi_fail_memory(j->err);
}

// A word through the model. Pre: n > 0.
fx_status fxi_merge_word(fxi_encode_job *j, const char *p, size_t n);
fx_status fxi_unigram_word(fxi_encode_job *j, const char *p, size_t n);
fx_status fxi_pieces_word(fxi_encode_job *j, const char *p, size_t n);
// Bytes up to the first place where nothing merges across, or n. Pre: n > 0, units are characters.
size_t fxi_merge_cut(const fxi_vocab *v, const char *p, size_t n);

#endif
