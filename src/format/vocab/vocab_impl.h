// vocab_impl.h - what vocab_build.c builds and the encoders read, by the file that defines it.
#ifndef FXI_FORMAT_VOCAB_IMPL_H
#define FXI_FORMAT_VOCAB_IMPL_H

#include "format/vocab/vocab_spec.h"

// A space as vocabularies of spelling MARKS write it: U+2581.
#define FXI_SPACE_MARK       "\xE2\x96\x81"
#define FXI_SPACE_MARK_BYTES 3

// ---- vocab_lookup.c: strings to ids -------------------------------------------------------------

// Open addressing; the seed is random, so that no file can be made to collide.
typedef struct fxi_index {
    struct fxi_index_slot {
        uint32_t tag; // of the hash
        int32_t id;   // -1: empty
    } * slot;         // [mask + 1]
    uint64_t mask, seed;
    size_t n;
    fxi_str (*key)(const void *of, int32_t id);
    const void *of;
} fxi_index;

// Empty, with room for n ids. `key` says what an id is found by, as long as the index lives.
bool fxi_index_make(fxi_index *x, size_t n, fxi_str (*key)(const void *of, int32_t id),
                    const void *of);
void fxi_index_free(fxi_index *x);
bool fxi_index_put(fxi_index *x, int32_t id); // of equal keys, the last is found
int32_t fxi_index_find(const fxi_index *x, const char *p, size_t n); // -1: none

uint64_t fxi_seed(void); // random, for hash tables

static inline uint64_t fxi_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15u) * (b | 1);
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

// An index over the pieces of a spec, which must outlive it. Of equal pieces, a normal token's is
// found rather than a user-defined or control token's, which is spelled in another way.
bool fxi_spec_index(const fxi_vocab_spec *s, fxi_index *x);

// ---- vocab_trie.c: all entries that a text begins with ------------------------------------------

typedef struct fxi_trie_node {
    uint32_t child; // the first; the others follow, ascending by label
    uint16_t n_child;
    int32_t id; // of the entry that ends here; -1: none does
} fxi_trie_node;

typedef struct fxi_trie { // node 0 is the root; all zero: empty
    fxi_trie_node *node;
    uint8_t *label; // [n] the byte that leads to a node
    uint32_t n;
    uint32_t root[256]; // the root's children by their bytes; 0: none
} fxi_trie;

typedef struct fxi_entry {
    fxi_str key;
    int32_t id;
} fxi_entry;

// Sorts the entries; of equal keys, the highest id is found. Empty keys are left out.
bool fxi_trie_make(fxi_trie *t, fxi_entry *e, size_t n);
void fxi_trie_free(fxi_trie *t);
// The child of a node by a byte; 0: there is none (the root is nobody's child).
static inline uint32_t fxi_trie_step(const fxi_trie *t, uint32_t node, uint8_t byte)
{
    if (!node) return t->root[byte];
    uint32_t lo = t->node[node].child, hi = lo + t->node[node].n_child;
    while (hi - lo > 4) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->label[mid] <= byte)
            lo = mid;
        else
            hi = mid;
    }
    for (; lo < hi; lo++)
        if (t->label[lo] == byte) return lo;
    return 0;
}

// ---- vocab_chars.c: characters -----------------------------------------------------------------

// Unicode's White_Space; letters, marks, decimal digits and connectors.
bool fxi_cp_is_space(int32_t cp);
bool fxi_cp_is_word(int32_t cp);
// The character that ends before s[n]; pre: valid UTF-8, n > 0.
int32_t fxi_cp_before(const char *s, size_t n, size_t *n_bytes);

// ---- vocab_regex.c: PCRE2 -----------------------------------------------------------------------

typedef struct fxi_regex fxi_regex;     // immutable: any thread may match with it
typedef struct fxi_matcher fxi_matcher; // what one thread needs to match

// `bytes`: each byte is a character. Errors: FX_EFORMAT (the pattern and what is wrong with it),
// FX_ENOMEM.
fx_status fxi_regex_compile(fxi_str pattern, bool bytes, fxi_regex **out, fx_error *err);
void fxi_regex_free(fxi_regex *re);
fxi_matcher *fxi_matcher_new(void); // NULL when memory is short
void fxi_matcher_free(fxi_matcher *m);

typedef struct fxi_match {
    size_t from, to; // bytes; from = SIZE_MAX: there is no more
} fxi_match;

// The first match in s[0..n) from byte `at` on. Unless the pattern is of bytes, s is valid UTF-8.
// Errors: FX_EINVAL (the pattern takes too many steps on this text), FX_ENOMEM.
fx_status fxi_regex_next(const fxi_regex *re, fxi_matcher *m, const char *s, size_t n, size_t at,
                         fxi_match *out, fx_error *err);

// ---- vocab_norm.c, vocab_nf.c, vocab_charsmap.c: norm steps -------------------------------------

enum { FXI_MAX_NORM_BYTES = 1 << 30 }; // of a text after any step; a step stops where it has more

typedef struct fxi_norm_step {
    fxi_norm_kind kind;
    fxi_str from, to; // in the vocabulary's pool
    fxi_regex *regex; // of REPLACE_REGEX
    bool late;
} fxi_norm_step;

// What running norm steps needs; one thread's.
typedef struct fxi_norm_work {
    fxi_buf a, b; // a step reads one and writes the other
    int32_t *cp;  // code points of a run that a normal form is made of
    size_t cap_cp;
    fxi_matcher *matcher;
} fxi_norm_work;

typedef struct fxi_norm_how {
    bool late;  // the late steps, otherwise the others
    bool space; // FXI_NORM_PREPEND and its kin are done
    bool first; // the text is the very first
} fxi_norm_how;

// Takes a text through the steps; *out points into it or into w, until the next call with w.
// Errors: FX_EINVAL (a pattern that takes too many steps; too long a result), FX_ENOMEM.
fx_status fxi_norm_run(const fxi_vocab *v, fxi_norm_how how, fxi_str text, fxi_norm_work *w,
                       fxi_str *out, fx_error *err);
void fxi_norm_work_free(fxi_norm_work *w);

// Appends `text` in a normal form; *same: it is in that form already, and nothing was appended.
bool fxi_nf_append(fxi_norm_kind form, fxi_str text, fxi_norm_work *w, fxi_buf *out, bool *same);

// Whether these bytes are a map that fxi_charsmap_append can go by.
bool fxi_charsmap_check(fxi_str map);
// Words that `kept` has (it may be empty) are left as they are.
bool fxi_charsmap_append(fxi_str map, const fxi_trie *kept, fxi_str text, fxi_buf *out);

// ---- vocab_special.c: tokens that are split off a text ------------------------------------------

typedef struct fxi_specials {
    fxi_trie trie;
    uint8_t pair[65536 / 8]; // some token here begins with these two bytes
} fxi_specials;

typedef enum fxi_special_set {
    FXI_RAW_USER,    // looked for before the norm steps
    FXI_RAW_CONTROL, // control tokens too
    FXI_RAW_ANY,     // and those control tokens that are `normalized`
    FXI_NORM_USER,   // looked for after the norm steps that are not late
    FXI_NORM_CONTROL,
    FXI_N_SPECIAL_SET
} fxi_special_set;

// ---- vocab_merges.c: which pairs of symbols become what, and in which order ---------------------

// Symbols are ids of tokens and, from n on, characters that are no token but part of pieces.
typedef struct fxi_pair {
    uint64_t key;  // left symbol << 32 | right symbol
    uint32_t rank; // the lowest goes first
    int32_t to;    // -1: empty
} fxi_pair;

typedef struct fxi_merges {
    fxi_pair *slot;        // open addressing; [mask + 1]
    uint64_t mask, factor; // a random odd factor: no file can be made to collide
    unsigned shift;
    uint64_t *sieve; // one bit for several slots: most pairs that do not merge are told by it, and
    unsigned sieve_shift; // it stays in a cache where the table does not
    uint64_t *meets; // a set of pairs of characters: where two that are not in it stand side by
                     // side, nothing ever merges across
    unsigned meets_shift;
} fxi_merges;

fx_status fxi_merges_make(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err);

static inline uint64_t fxi_pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

// False: these two do not merge. True: they may.
static inline bool fxi_pair_sieve(const fxi_merges *m, uint64_t key)
{
    const uint64_t bit = key * m->factor >> m->sieve_shift;
    return m->sieve[bit >> 6] >> (bit & 63) & 1;
}

// The slot of a pair, or the empty one where it would go.
static inline fxi_pair *fxi_pair_slot(const fxi_merges *m, uint64_t key)
{
    uint64_t i = key * m->factor >> m->shift;
    while (m->slot[i].to >= 0 && m->slot[i].key != key) i = (i + 1) & m->mask;
    return &m->slot[i];
}

// The bit of `meets` for two characters.
static inline uint64_t fxi_meets_bit(const fxi_merges *m, uint32_t a, uint32_t b)
{
    return ((uint64_t)a << 21 ^ b) * 0x9E3779B97F4A7C15u >> m->meets_shift;
}

// ---- the vocabulary -----------------------------------------------------------------------------

typedef struct fxi_token {
    const char *piece, *text; // as stored; as decoded. Both in the vocabulary's pool
    uint32_t n_piece, n_text; // bytes
    double score;
    uint8_t type; // fxi_token_type
    bool ends;    // ends a generation
    bool merges;  // comes out of the model: neither control, unknown nor byte token
    bool eats_left, eats_right, whole_word;
} fxi_token;

struct fxi_vocab {
    int32_t n, n_sym; // tokens; symbols
    fxi_token *token; // [n_sym]
    char *pool;
    fxi_vocab_kind kind;
    fxi_spelling spelling;
    bool unit_bytes, byte_fallback, fuse_unknown, whole_words, sums_float;
    bool adds_bos, adds_eos, adds_space, strips_space, strips_spaces;
    int32_t bos, eos, unk; // -1: none
    fxi_index by_piece;    // tokens as stored
    fxi_index by_word;     // those that merge, as the model sees a text; symbols
    int32_t unit[256];     // the symbol that is this one byte; -1: none
    int32_t byte_id[256];  // -1: the vocabulary has no such byte token
    fxi_merges merges;     // of kinds SCORES and MERGES
    fxi_trie words;        // of kind UNIGRAM
    double unknown_score;
    fxi_specials *special[FXI_N_SPECIAL_SET]; // NULL: there are none
    fxi_trie kept; // user-defined tokens that SentencePiece's map of characters leaves as they are
    fxi_norm_step *norm;
    size_t n_norm;
    struct fxi_split_step {
        fxi_regex *regex;
        fxi_split_how how;
        bool invert, bytes;
    } * split;
    size_t n_split;
};

// A token as the model sees a text: with its spaces as marks, or as bytes.
static inline fxi_str fxi_token_word(const fxi_vocab *v, int32_t id)
{
    const fxi_token *t = &v->token[id];
    return v->spelling == FXI_SPELL_PRINTABLE ? (fxi_str){t->text, t->n_text}
                                              : (fxi_str){t->piece, t->n_piece};
}

// ---- vocab_token.c: one token -------------------------------------------------------------------

int fxi_byte_of_piece(fxi_str piece); // the byte that <0xNN> stands for, -1 for other pieces
// The type we go by, given the one declared.
fxi_token_type fxi_settle_type(const fxi_vocab *v, const fxi_spec_token *t);
// Writes what the token adds to a text at dst, at most n_piece bytes.
void fxi_token_decode(const fxi_vocab *v, fxi_token *t, char *dst);

// ---- encoding -----------------------------------------------------------------------------------

typedef struct fxi_symbol {
    int32_t id; // -1: none; DEAD: joined to the one on its left
    int32_t to; // what merging with the next gives
    uint32_t rank, prev, next, at;
} fxi_symbol;

typedef struct fxi_best { // the best way to a place in a text
    double score;
    uint32_t from; // where its last piece begins
    int32_t id;    // of that piece; -1: a character without one
} fxi_best;

typedef struct fxi_known_word fxi_known_word;

typedef struct fxi_job { // one call of fxi_vocab_encode
    const fxi_vocab *v;
    bool space, at_start;
    fxi_special_set normalized; // which are looked for after the norm steps
    fxi_ids *out;
    size_t n_before; // ids in *out that were there
    fx_error *err;
    bool after_unknown; // the last id put is the unknown token of this word
    fxi_norm_work early, late;
    fxi_matcher *matcher;
    fxi_symbol *sym; // of a long word
    uint64_t *heap;
    size_t cap_sym;
    uint32_t n_sym;
    size_t n_heap;
    fxi_best *best; // of kind UNIGRAM
    size_t cap_best;
    fxi_known_word *known; // [known_mask + 1]; words of this text and their ids
    size_t known_mask;
} fxi_job;

// vocab_encode.c
fx_status fxi_put(fxi_job *j, int32_t id);
// A character without a piece: its byte tokens or the unknown token.
fx_status fxi_put_unknown(fxi_job *j, const char *p, size_t n);
fx_status fxi_encode_word(fxi_job *j, const char *p, size_t n);

// vocab_split.c: cuts a text by the split steps and encodes the words.
fx_status fxi_split_encode(fxi_job *j, const char *p, size_t n);
// vocab_merge.c, vocab_unigram.c: the model. Pre: n > 0.
fx_status fxi_merge_word(fxi_job *j, const char *p, size_t n);
// Bytes up to the first place where nothing merges across, or n. Pre: n > 0, units are characters.
size_t fxi_merge_cut(const fxi_vocab *v, const char *p, size_t n);
fx_status fxi_unigram_word(fxi_job *j, const char *p, size_t n);

// vocab_special.c: finds the tokens of a set in a text, puts their ids and gives what lies between
// to `gap`. Bytes of *own: NULL, or which may be part of control tokens.
fx_status fxi_special_walk(fxi_job *j, fxi_special_set set, fxi_str text, const char *own,
                           fx_status (*gap)(fxi_job *j, fxi_str text));
fx_status fxi_specials_make(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err);
void fxi_specials_free(fxi_vocab *v);

#endif
