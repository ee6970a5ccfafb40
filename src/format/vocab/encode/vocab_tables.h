// vocab_tables.h - a built vocabulary: its spec, and the tables that encoding and decoding read.
// The builder fills them; they are immutable from then on, and any thread may read them.
#ifndef FXI_FORMAT_VOCAB_TABLES_H
#define FXI_FORMAT_VOCAB_TABLES_H

#include "format/vocab.h"
#include "format/vocab/encode/vocab_norm.h"
#include "format/vocab/lookup/vocab_lookup.h"
#include "format/vocab/spec/vocab_spec.h"

// ---- merges: which pairs of symbols become what, and in which order -----------------------------
//
// A symbol is the id of a token or, from n on, a character that is no token but part of pieces.

typedef struct fxi_merge_pair {
    uint64_t key;  // left symbol << 32 | right symbol
    uint32_t rank; // the lowest merges first
    int32_t to;    // -1: an empty slot
} fxi_merge_pair;

typedef struct fxi_merges {
    fxi_merge_pair *slot;  // open addressing; [mask + 1]
    uint64_t mask, factor; // a random odd factor: no file can force collisions
    unsigned shift;
    uint64_t *sieve;      // a bit set over the keys, small enough for a cache that the table does
    unsigned sieve_shift; // not fit in: it rules out most pairs that do not merge
    uint64_t *meets;      // a set of pairs of characters: where two adjacent ones are not in it,
                          // nothing ever merges across
    unsigned meets_shift;
} fxi_merges;

static inline uint64_t fxi_merge_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

// The bit of a key in `sieve`.
static inline uint64_t fxi_merge_sieve_bit(const fxi_merges *m, uint64_t key)
{
    return key * m->factor >> m->sieve_shift;
}

// False: these two do not merge. True: they may.
static inline bool fxi_merge_sieve(const fxi_merges *m, uint64_t key)
{
    const uint64_t bit = fxi_merge_sieve_bit(m, key);
    return m->sieve[bit >> 6] >> (bit & 63) & 1;
}

// The slot of a pair, or the empty one where it would go.
static inline fxi_merge_pair *fxi_merge_slot(const fxi_merges *m, uint64_t key)
{
    uint64_t i = key * m->factor >> m->shift;
    while (m->slot[i].to >= 0 && m->slot[i].key != key) i = (i + 1) & m->mask;
    return &m->slot[i];
}

// The bit of two characters in `meets`.
static inline uint64_t fxi_merge_meets_bit(const fxi_merges *m, uint32_t a, uint32_t b)
{
    return ((uint64_t)a << 21 ^ b) * 0x9E3779B97F4A7C15u >> m->meets_shift;
}

// ---- special tokens: split off a text before the model sees it ----------------------------------

typedef struct fxi_specials {
    fxi_trie trie;
    uint8_t pair[65536 / 8]; // bit set: some token of the set begins with these two bytes
} fxi_specials;

typedef enum fxi_special_set {
    FXI_RAW_USER,    // user-defined tokens, looked for before the norm steps
    FXI_RAW_CONTROL, // control tokens too
    FXI_RAW_ANY,     // and those control tokens that are `normalized`
    FXI_NORM_USER,   // user-defined tokens, looked for after the norm steps that are not late
    FXI_NORM_CONTROL,
    FXI_N_SPECIAL_SET
} fxi_special_set;

// ---- the vocabulary -----------------------------------------------------------------------------

struct fxi_vocab {
    fxi_vocab_spec spec;  // without its merges; spec.tok has n_sym elements
    int32_t n, n_sym;     // tokens; symbols
    bool drops_unknown;   // kind MERGES: a character without a piece leaves no trace
    fxi_index by_piece;   // tokens as stored
    fxi_index by_word;    // tokens that merge, as the model sees a text; symbols
    int32_t unit[256];    // the symbol that is this one byte; -1: none
    int32_t byte_id[256]; // the byte token; -1: none
    fxi_merges merges;    // kinds SCORES and MERGES
    fxi_trie words;       // kinds UNIGRAM and WORDS
    fxi_trie inside;      // kind WORDS: pieces that continue a word, without their prefix
    size_t longest;       // bytes of the longest token; 0: a word's length says nothing of its
                          // tokens, because unknown characters fuse or vanish
    bool loses_text;      // norm or split steps, or tokens that eat spaces, may shorten a text
    bool looks_front;     // fxi_norm_how.front has an effect
    double unknown_score; // kind UNIGRAM
    fxi_specials *special[FXI_N_SPECIAL_SET]; // NULL: there are none
    fxi_str *start_text; // [n] what a token adds at the beginning of a text; NULL: as elsewhere
};

#endif
