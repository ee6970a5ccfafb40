// gram_tokens.h - the tokens of a vocabulary by their bytes, as a trie in depth-first order: what
// begins with a prefix is one run of nodes, which a walk leaves out by one jump.
#ifndef FXI_GRAMMAR_TOKENS_H
#define FXI_GRAMMAR_TOKENS_H

#include "base/fail.h"
#include "base/text/str.h"

typedef struct fxi_token_node {
    uint32_t end;      // the node behind this one and all that begin with it
    uint32_t id, n_id; // in fxi_gram_tokens.id: the tokens that are spelled so
    uint16_t depth;    // bytes up to and with this one
    uint8_t byte;      // the last of them
} fxi_token_node;

typedef struct fxi_gram_tokens { // immutable: any thread may read it
    fxi_token_node *node;        // [n_node]
    uint32_t *id;                // [n_id] ascending by their bytes
    size_t n_node, n_id;
    size_t n_vocab, max_depth;
    char *text;   // the bytes of all tokens, by id
    uint32_t *at; // [n_vocab + 1] where in text those of a token begin
} fxi_gram_tokens;

// token[i] is what token i adds to a text; those of no bytes and of 64 KiB and more are left out: a
// mask never allows them. The bytes need not outlive the call. Errors: FX_EINVAL (4 GiB of
// bytes), FX_ENOMEM.
fx_status fxi_gram_tokens_make(fxi_gram_tokens *t, const fxi_str *token, size_t n_vocab,
                               fx_error *err);
void fxi_gram_tokens_free(fxi_gram_tokens *t); // all zero is allowed

// What it adds to a text. Pre: id < n_vocab.
static inline fxi_str fxi_gram_token_bytes(const fxi_gram_tokens *t, uint32_t id)
{
    return (fxi_str){t->text + t->at[id], t->at[id + 1] - t->at[id]};
}

#endif
