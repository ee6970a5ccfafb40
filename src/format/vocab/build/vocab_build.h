// vocab_build.h - builds a vocabulary from a spec.
#ifndef FXI_FORMAT_VOCAB_BUILD_H
#define FXI_FORMAT_VOCAB_BUILD_H

#include "format/vocab/encode/vocab_tables.h"
#include "format/vocab/spec/vocab_spec.h"

// Makes the spec a part of the vocabulary: *s is empty afterwards, on errors too. Errors:
// FX_EFORMAT (ids out of range, a pattern that PCRE2 refuses, no tokens, ..), FX_ENOMEM. A
// character that no token can spell fails when it is encoded.
fx_status fxi_vocab_build(fxi_vocab_spec *s, fxi_vocab **out, fx_error *err);

// ---- vocab_tokens.c -----------------------------------------------------------------------------

enum { FXI_MAX_PIECE_BYTES = 4096 }; // published ones have at most a few hundred

int fxi_piece_byte(fxi_str piece); // the byte that <0xNN> stands for, -1 for other pieces
// The type a token is used as, given the declared one.
fxi_token_type fxi_token_settle_type(const fxi_vocab_spec *s, const fxi_token *t);
// Sets t->text, what the token adds to a text. False: out of memory.
bool fxi_token_decode(fxi_vocab_spec *s, fxi_token *t);

// A token as the model sees a text, with its spaces as marks, or as bytes; the key of v->by_word.
static inline fxi_str fxi_token_word(const void *vocab, int32_t id)
{
    const fxi_vocab *v = vocab;
    const fxi_token *t = &v->spec.tok[id];
    return v->spec.spelling == FXI_SPELL_PRINTABLE ? t->text : t->piece;
}

// Makes v->start_text, and the texts of tokens that are not the first. Pre: tokens are made. False:
// out of memory.
bool fxi_join_make(fxi_vocab *v);

// Makes v->merges, and symbols for characters that are no token. Pre: tokens and by_word
// are made. Errors: FX_EFORMAT (a merge of unknown ids, too many long tokens), FX_ENOMEM.
fx_status fxi_merges_make(fxi_vocab *v, fx_error *err);

#endif
