// vocab_encode.h - one call of fxi_vocab_encode on its way through the files of this folder:
//
//   vocab_encode.c -> vocab_special.c, vocab_norm.h -> vocab_split.c -> vocab_word.c
//   -> vocab_merge.c or vocab_unigram.c -> vocab_unknown.c
#ifndef FXI_FORMAT_VOCAB_ENCODE_H
#define FXI_FORMAT_VOCAB_ENCODE_H

#include "base/fail.h"
#include "format/vocab/encode/vocab_tables.h"

typedef struct fxi_merge_symbol fxi_merge_symbol; // vocab_merge.c
typedef struct fxi_unigram_best fxi_unigram_best; // vocab_unigram.c
typedef struct fxi_known_word fxi_known_word;     // vocab_word.c

typedef struct fxi_encode_job {
    const fxi_vocab *v;
    bool space;
    size_t front;               // of the next stretch, as in fxi_norm_how
    fxi_special_set normalized; // the set to look for after the norm steps
    fxi_ids *out;
    size_t n_before; // ids that *out held before the call
    fx_error *err;
    bool after_unknown; // the last id appended is the unknown token of this word
    fxi_norm_work early, late;
    fxi_norm_work *change; // [v->n_split] of the steps FXI_SPLIT_CHANGE
    fxi_matcher *matcher;
    fxi_merge_symbol *sym; // of a long word
    uint64_t *heap;
    size_t cap_sym;
    uint32_t n_sym;
    size_t n_heap;
    fxi_unigram_best *best; // of kind UNIGRAM
    size_t cap_best;
    fxi_known_word *known; // [known_mask + 1]; words of this text and their ids
    size_t known_mask;
} fxi_encode_job;

// Appends an id to the output. Errors: FX_ENOMEM.
static inline fx_status fxi_encode_put(fxi_encode_job *j, int32_t id)
{
    j->after_unknown = false;
    if (fxi_ids_add(j->out, id)) return FX_OK;
    return fxi_fail(j->err, FX_ENOMEM, "no memory for the text's tokens");
}

// vocab_unknown.c: whether a character can be spelled by byte tokens.
bool fxi_encode_has_bytes(const fxi_vocab *v, const char *p, size_t n);
// A character without a piece: its byte tokens, or the unknown token. Errors:
// FX_ENOMEM. A vocabulary that has neither drops the character.
fx_status fxi_encode_put_unknown(fxi_encode_job *j, const char *p, size_t n);

// vocab_merge.c, vocab_unigram.c: a word through the model. Pre: n > 0.
fx_status fxi_merge_word(fxi_encode_job *j, const char *p, size_t n);
fx_status fxi_unigram_word(fxi_encode_job *j, const char *p, size_t n);
fx_status fxi_pieces_word(fxi_encode_job *j, const char *p, size_t n); // vocab_pieces.c
// Bytes up to the first place where nothing merges across, or n. Pre: n > 0, units are characters.
size_t fxi_merge_cut(const fxi_vocab *v, const char *p, size_t n);

// vocab_word.c: whether n_bytes more, of a word or of a text that nothing shortens, may still fit
// out->max ids. Errors: FX_ECONTEXT.
fx_status fxi_encode_check_max(const fxi_encode_job *j, size_t n_bytes);
// vocab_word.c: a word, by the model or from memory.
void fxi_word_remember(fxi_encode_job *j, size_t n_bytes); // begins: the text has n_bytes
fx_status fxi_word_encode(fxi_encode_job *j, const char *p, size_t n);

// vocab_split.c: cuts a text by the split steps and encodes the words. front: as in fxi_norm_how.
fx_status fxi_split_encode(fxi_encode_job *j, const char *p, size_t n, size_t front);

// vocab_special.c: finds the tokens of a set in a text, appends their ids, and passes the text
// between them to `gap`. own: NULL, or own[i] nonzero: byte i may be part of a control token.
fx_status fxi_special_walk(fxi_encode_job *j, fxi_special_set set, fxi_str text, const char *own,
                           fx_status (*gap)(fxi_encode_job *j, fxi_str text));

#endif
