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
} fxi_gram_tokens;

// token[i] is what token i adds to a text; those of no bytes (control tokens) and of 64 KiB and
// more are left out, so a mask never allows them. The bytes need not outlive the call. Errors:
// FX_ENOMEM.
fx_status fxi_gram_tokens_make(fxi_gram_tokens *t, const fxi_str *token, size_t n_vocab,
                               fx_error *err);
void fxi_gram_tokens_free(fxi_gram_tokens *t); // all zero is allowed

#endif
