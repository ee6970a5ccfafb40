// gram_tokens.h - the tokens of a vocabulary by their bytes, as tries in depth-first order: what
// begins with a prefix is one run of nodes, which a walk leaves out by one jump.
//
// Most tokens are made of characters that a grammar does not tell apart where it allows any text.
// So tokens are in slices, by the characters that they are made of. A slice knows its tokens of up
// to n characters as a mask: where n characters of its kind may follow, all of them may, and
// nothing is walked (gram_slice.c). The last slice has all other tokens.
#ifndef FXI_GRAMMAR_TOKENS_H
#define FXI_GRAMMAR_TOKENS_H

#include "base/fail.h"
#include "base/text/str.h"

enum {
    FXI_N_SLICE = 6,
    FXI_SLICE_REST = FXI_N_SLICE - 1,
    FXI_SLICE_CHARS = 32, // of a token, at most
};

typedef struct fxi_token_node {
    uint32_t end;      // the node behind this one and all that begin with it
    uint32_t id, n_id; // in the slice's id: the tokens that are spelled so
    uint16_t depth;    // bytes up to and with this one
    uint8_t byte;      // the last of them
} fxi_token_node;

typedef struct fxi_token_slice {
    fxi_token_node *node; // [n_node]
    uint32_t *id;         // [n_id] ascending by their bytes
    size_t n_node, n_id;
    uint64_t *mask; // [FXI_SLICE_CHARS][n_word] tokens of up to 1, 2, .. characters; NULL: the rest
} fxi_token_slice;

typedef struct fxi_gram_tokens { // immutable: any thread may read it
    fxi_token_slice slice[FXI_N_SLICE];
    size_t n_vocab, n_word, max_depth; // n_word: of a mask
    char *text;                        // the bytes of all tokens, by id
    uint32_t *at;                      // [n_vocab + 1] where in text those of a token begin
} fxi_gram_tokens;

// token[i] is what token i adds to a text; those of no bytes and of 64 KiB and more are left out: a
// mask never allows them. The bytes need not outlive the call. Errors: FX_EINVAL (4 GiB of bytes),
// FX_ENOMEM.
fx_status fxi_gram_tokens_make(fxi_gram_tokens *t, const fxi_str *token, size_t n_vocab,
                               fx_error *err);
void fxi_gram_tokens_free(fxi_gram_tokens *t); // all zero is allowed

// What it adds to a text. Pre: id < n_vocab.
static inline fxi_str fxi_gram_token_bytes(const fxi_gram_tokens *t, uint32_t id)
{
    return (fxi_str){t->text + t->at[id], t->at[id + 1] - t->at[id]};
}

// Whether a byte of ASCII is a character of the slice. Slice FXI_SLICE_REST - 1 has all characters
// beyond ASCII, too.
bool fxi_slice_has(size_t slice, uint8_t ascii);

#endif
