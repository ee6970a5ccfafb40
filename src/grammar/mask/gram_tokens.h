// gram_tokens.h - the tokens of a vocabulary by their bytes, as tries.
//
// Most tokens are made of characters that a grammar does not tell apart where it allows any text.
// So tokens are in slices, by the characters that they are made of. A slice knows its tokens of up
// to n characters as a mask: where n characters of its kind may follow, all of them may, and
// nothing is walked (gram_slice.c). The last slice has all other tokens.
//
// Many of the others begin with such characters, too: words and a quote, letters and a full stop.
// Tails are these tokens without the characters that they begin with: where any such characters
// may follow, only tails are walked, and many tokens have the same. Tokens that end within a
// character are known with those that end behind it.
#ifndef FXI_GRAMMAR_TOKENS_H
#define FXI_GRAMMAR_TOKENS_H

#include "base/fail.h"
#include "grammar/mask/gram_trie.h"

enum {
    FXI_SLICE_WORDS = 2, // letters and digits of ASCII
    FXI_SLICE_MARKED,    // behind one other character that may stand in a JSON string as it is
    FXI_SLICE_PRINTED,   // all such characters of ASCII
    FXI_SLICE_CHARS_ALL, // and all characters beyond ASCII
    FXI_SLICE_REST,
    FXI_N_SLICE,
    FXI_SLICE_CHARS = 32, // of a token, at most
};

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
    uint32_t upto[128][FXI_SLICE_CHARS + 1]; // of a mark: where in id those of up to 0, 1, ..
                                             // characters end
} fxi_token_marks;

typedef struct fxi_gram_tokens { // immutable: any thread may read it
    fxi_token_slice slice[FXI_N_SLICE];
    uint64_t *chars_mask; // as the masks of slices: of all slices that have one, together, and
                          // with tokens that end within a character
    fxi_token_tails word_tails; // of the tokens of FXI_SLICE_PRINTED, behind letters and digits
    fxi_token_tails char_tails; // of the rest, behind any characters
    fxi_token_marks marks;
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

// Whether a byte of ASCII is a character of the slice. FXI_SLICE_CHARS_ALL has all characters
// beyond ASCII, too.
bool fxi_slice_has(size_t slice, uint8_t ascii);

#endif
