// vocab_impl.h - what vocab.c builds and vocab_encode.c reads.
#ifndef FXI_FORMAT_VOCAB_IMPL_H
#define FXI_FORMAT_VOCAB_IMPL_H

#include "format/vocab/vocab_spec.h"

typedef struct fxi_token {
    const char *piece, *text; // as stored; as decoded. Both in the vocabulary's pool
    uint32_t n_piece, n_text; // bytes
    float score;
    uint8_t type; // fxi_token_type
    bool ends;    // ends a generation
    bool merges;  // may come out of merging characters: neither control, unknown nor byte token
} fxi_token;

// Tokens that are split off a text before it is merged, by the bytes they are spelled with,
// ascending.
typedef struct fxi_specials {
    int32_t *id;
    size_t n;
    bool first[256]; // some token here begins with this byte
} fxi_specials;

struct fxi_vocab {
    int32_t n;
    fxi_token *token; // [n]
    char *pool;
    uint32_t max_piece_bytes; // of tokens that merge
    int32_t *slot;            // open addressing: id or -1; [slot_mask + 1]
    uint64_t slot_mask, hash_seed;
    int32_t byte_id[256];  // -1: the vocabulary has no such byte token
    int32_t bos, eos, unk; // -1: none
    bool adds_bos, adds_space;
    bool cuts_at_space; // no piece that merges crosses from a character to a space behind it: words
                        // merge apart
    fxi_specials user, all; // user-defined tokens; these and the control tokens
};

// A space as vocabularies of this kind write it: U+2581.
#define FXI_SPACE_MARK       "\xE2\x96\x81"
#define FXI_SPACE_MARK_BYTES 3

#endif
