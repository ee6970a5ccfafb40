// vocab_build.h - builds a vocabulary from a spec.
#ifndef FXI_FORMAT_VOCAB_BUILD_H
#define FXI_FORMAT_VOCAB_BUILD_H

#include "format/vocab/encode/vocab_tables.h"
#include "format/vocab/spec/vocab_spec.h"

// The spec may be freed afterwards. Errors: FX_EFORMAT (ids out of range, a pattern that PCRE2
// refuses, no tokens, ..), FX_ENOMEM. A character that no token can spell fails when it is encoded.
fx_status fxi_vocab_build(const fxi_vocab_spec *s, fxi_vocab **out, fx_error *err);

// ---- vocab_tokens.c -----------------------------------------------------------------------------

int fxi_piece_byte(fxi_str piece); // the byte that <0xNN> stands for, -1 for other pieces
// The type a token is used as, given the declared one.
fxi_token_type fxi_token_settle_type(const fxi_vocab *v, const fxi_spec_token *t);
// Writes what the token adds to a text at dst, at most n_piece bytes, and sets t->text, t->n_text.
void fxi_token_decode(const fxi_vocab *v, fxi_token *t, char *dst);

// A token as the model sees a text: with its spaces as marks, or as bytes.
static inline fxi_str fxi_token_word(const fxi_vocab *v, int32_t id)
{
    const fxi_token *t = &v->token[id];
    return v->spelling == FXI_SPELL_PRINTABLE ? (fxi_str){t->text, t->n_text}
                                              : (fxi_str){t->piece, t->n_piece};
}

// Makes v->start_text, and the texts of tokens that are not the first. Takes at most twice
// the bytes of all pieces and one more for each from the pool. Pre: tokens are made. False: out of
// memory.
bool fxi_join_make(fxi_vocab *v, const fxi_vocab_spec *s, char **pool);

// Makes v->merges, and symbols for characters that are no token. Pre: tokens and by_word
// are made. Errors: FX_EFORMAT (a merge of unknown ids, too many long tokens), FX_ENOMEM.
fx_status fxi_merges_make(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err);

#endif
