// gram_tokens.h - the tokens of a vocabulary by their bytes, as tries.
//
// Most tokens are made of characters that a grammar does not distinguish where it allows any text.
// So tokens are divided into slices, by the characters they are made of. A slice keeps its tokens
// of up to n characters as a mask: where any n characters of its kind may follow, all of them may,
// and nothing is walked (masks.c). The last slice has all other tokens.
//
// Many of the others begin with such characters: words and a quote, letters and a full stop. A tail
// is such a token without the characters it begins with. Where any such characters may follow, only
// tails are walked, and many tokens share one. Tokens that end within a character are kept with
// those that end after it.
#ifndef FXI_GRAMMAR_TOKENS_H
#define FXI_GRAMMAR_TOKENS_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/text/str.h"

// ---- tries --------------------------------------------------------------------------------------
//
// Byte strings as a trie in depth-first order: the strings with a common prefix are one run of
// nodes, which a walk skips in one jump.

typedef struct fxi_token_node {
    uint32_t end;      // the first node after this one and all below it
    uint32_t id, n_id; // in the trie's id: tokens spelled so
    uint16_t depth;    // bytes up to and including this one
    uint8_t byte;      // the last of them
} fxi_token_node;

typedef struct fxi_token_trie { // immutable once it is made
    fxi_token_node *node;       // [n_node]
    uint32_t *id;               // [n_id] ascending by their bytes
    size_t n_node, n_id;
    uint32_t root[256]; // the first node of each byte; FXI_TRIE_NONE: there is none
} fxi_token_trie;

#define FXI_TRIE_NONE UINT32_MAX

// Where the ids of a node and of all below it end; they begin at its id.
static inline uint32_t fxi_trie_ids_end(const fxi_token_trie *t, const fxi_token_node *x)
{
    return x->end < t->n_node ? t->node[x->end].id : (uint32_t)t->n_id;
}

// ---- slices -------------------------------------------------------------------------------------

enum {
    FXI_SLICE_LOWER,
    FXI_SLICE_CAPITALS,  // and digits
    FXI_SLICE_WORDS,     // letters and digits of ASCII
    FXI_SLICE_MARKED,    // words after one other character that may stand in a JSON string as it is
    FXI_SLICE_PRINTED,   // all such characters of ASCII
    FXI_SLICE_CHARS_ALL, // and all characters beyond ASCII
    FXI_SLICE_REST,
    FXI_N_SLICE,
    FXI_SLICE_CHARS = 32, // of a token, at most
};

// Whether a byte of ASCII is a character of the slice. FXI_SLICE_CHARS_ALL has all characters
// beyond ASCII, too.
bool fxi_slice_has(size_t slice, uint8_t ascii);

typedef struct fxi_token_slice {
    fxi_token_trie trie;
    uint64_t *mask; // [FXI_SLICE_CHARS][n_word] tokens of up to 1, 2, .. characters; NULL: the rest
} fxi_token_slice;

typedef struct fxi_token_tails {
    fxi_token_trie after[FXI_SLICE_CHARS + 1]; // 0, 1, .. characters
    fxi_token_trie any;                        // any number of them
} fxi_token_tails;

typedef struct fxi_token_marks { // the tokens of FXI_SLICE_MARKED, the shortest of a mark first
    uint32_t *id;
    uint32_t upto[128][FXI_SLICE_CHARS + 1]; // of a mark: where in id its tokens of up to 0, 1, ..
                                             // characters end
} fxi_token_marks;

typedef struct fxi_gram_tokens { // immutable: any thread may read it
    fxi_token_slice slice[FXI_N_SLICE];
    uint64_t
        *chars_mask; // the masks of all slices together, and tokens that end within a character
    fxi_token_tails word_tails; // of the tokens of FXI_SLICE_PRINTED, after letters and digits
    fxi_token_tails char_tails; // of the rest, after any characters
    fxi_token_marks marks;
    size_t n_vocab, n_word, max_depth; // n_word: of a mask
    char *text;                        // the bytes of all tokens, by id
    uint32_t *at;                      // [n_vocab + 1] where in text those of a token begin
} fxi_gram_tokens;

// token[i] is what token i adds to a text. A mask never allows tokens of no bytes or of 64 KiB and
// more. The bytes need not outlive the call. Errors: FX_EINVAL (4 GiB of bytes), FX_ENOMEM.
fx_status fxi_gram_tokens_make(fxi_gram_tokens *t, const fxi_str *token, size_t n_vocab,
                               fx_error *err);
void fxi_gram_tokens_free(fxi_gram_tokens *t); // all zero is allowed

// What the token adds to a text. Pre: id < n_vocab.
static inline fxi_str fxi_gram_token_bytes(const fxi_gram_tokens *t, uint32_t id)
{
    return (fxi_str){t->text + t->at[id], t->at[id + 1] - t->at[id]};
}

#endif
