// vocab_lookup.h - what readers, builder and encoder look things up with: properties of characters,
// a hash index from strings to ids, a trie that finds every entry that a text begins with, and
// regular expressions.
//
// The index hashes with a key, so that no file can force collisions.
//
// Regular expressions are matched by PCRE2, within limits of time and memory.
#ifndef FXI_FORMAT_VOCAB_LOOKUP_H
#define FXI_FORMAT_VOCAB_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/keyed/hash.h"
#include "base/text/str.h"

// ---- characters, by Unicode ---------------------------------------------------------------------

bool fxi_cp_is_space(int32_t cp); // property White_Space
bool fxi_cp_is_word(int32_t cp);  // a letter, mark, number or connector

// The character that ends at s[n - 1], and its length. Pre: s[0..n) is valid UTF-8, n > 0.
int32_t fxi_cp_before(const char *s, size_t n, size_t *n_bytes);

// ---- the index ----------------------------------------------------------------------------------

typedef struct fxi_index {
    fxi_hash_index ids; // each plus 1
    fxi_secret secret;
    fxi_str (*key)(const void *of, int32_t id);
    const void *of;
} fxi_index;

// An empty index. key(of, id) returns the string that finds an id, the same one as long as the
// index lives.
fxi_index fxi_index_make(fxi_str (*key)(const void *of, int32_t id), const void *of);
void fxi_index_free(fxi_index *x);
bool fxi_index_put(fxi_index *x, int32_t id); // the last of equal keys is found; false: no memory
int32_t fxi_index_find(const fxi_index *x, const char *p, size_t n); // -1: none

// ---- the trie -----------------------------------------------------------------------------------

typedef struct fxi_trie_node {
    uint32_t child; // the first; the others follow, ascending by label
    uint16_t n_child;
    uint8_t label; // the byte that leads here
    int32_t id;    // the entry that ends here; -1: none does
} fxi_trie_node;

typedef struct fxi_trie { // node 0 is the root; all zero: empty
    fxi_trie_node *node;
    uint32_t n;
    uint32_t root[256]; // the root's children by their bytes; 0: none
} fxi_trie;

typedef struct fxi_trie_entry {
    fxi_str key;
    int32_t id;
} fxi_trie_entry;

// Sorts the entries in place; keys need not outlive the call. Of equal keys the highest id is
// found; empty keys are left out. False: out of memory, *t is empty.
bool fxi_trie_make(fxi_trie *t, fxi_trie_entry *e, size_t n);
void fxi_trie_free(fxi_trie *t);

// The child of a node by a byte; 0: none (node 0, the root, is never a child).
static inline uint32_t fxi_trie_step(const fxi_trie *t, uint32_t node, uint8_t byte)
{
    if (!node) return t->root[byte];
    uint32_t lo = t->node[node].child, hi = lo + t->node[node].n_child;
    while (hi - lo > 4) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->node[mid].label <= byte)
            lo = mid;
        else
            hi = mid;
    }
    for (; lo < hi; lo++)
        if (t->node[lo].label == byte) return lo;
    return 0;
}

// ---- regular expressions ------------------------------------------------------------------------

typedef struct fxi_regex fxi_regex;     // immutable: any thread may match with it
typedef struct fxi_matcher fxi_matcher; // what one thread needs to match

// Errors: FX_EFORMAT (the pattern and what is wrong with it), FX_ENOMEM. `bytes`: each byte is a
// character, otherwise pattern and text are UTF-8.
fx_status fxi_regex_compile(fxi_str pattern, bool bytes, fxi_regex **out, fx_error *err);
void fxi_regex_free(fxi_regex *re); // NULL is allowed

fxi_matcher *fxi_matcher_new(void); // NULL: out of memory
void fxi_matcher_free(fxi_matcher *m);

typedef struct fxi_regex_match {
    size_t from, to; // bytes; from = SIZE_MAX: no match
} fxi_regex_match;

typedef struct fxi_regex_walk { // the matches in s[0..n), from left to right
    const fxi_regex *re;
    fxi_matcher *m;
    const char *s;
    size_t n;
    size_t at, last; // where the search goes on; the end of the match before it, if
    bool matched;    // there was one
} fxi_regex_walk;

// The next match; from = SIZE_MAX: none. An empty one directly after a match is skipped. Unless the
// pattern is one of bytes, s must be valid UTF-8. Errors: FX_EINVAL (the pattern takes too many
// steps on this text), FX_ENOMEM.
fx_status fxi_regex_next(fxi_regex_walk *w, fxi_regex_match *out, fx_error *err);

#endif
