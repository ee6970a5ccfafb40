// radix_letters.h - a prefix tree for tests in which tokens are letters and chunks are named by a
// letter and a position.
//
// In group g, "B3" is chunk 3 of series B: what a sequence of series B holds at position 3. All of
// them are created from the start. A tree is written as text: "ab[A0](cd[A1] x[B1])" is a node for
// ab that holds A0, and below it one for cd and one for x. With more groups their chunks follow
// after a bar, "-" where one is missing: "ab[A0|A0 -]".
#ifndef RTREE_LETTERS_H
#define RTREE_LETTERS_H

#include "failing_calloc.h"
#include "vtensor/tree/radix_node.h"

enum { N_SERIES = 8, N_POSITION = 64, MAX_LETTER = 32 };

extern vti_geo geo;
extern vti_pset ps;
extern vti_radix *t;
extern vt_domain *d; // open in it from the beginning

// A group of rows or a state, with slices of slice_bytes; `window_tok` as in vt_group.
typedef struct letter_group {
    vt_group_kind kind;
    size_t row_bytes, slice_bytes;
    uint32_t window_tok;
} letter_group;

void tree_open(const letter_group *group, uint32_t n_group, uint32_t block_tok);
void tree_close(void);         // looks that no chunk is held any more
int tree_setup(void **state);  // one group, two tokens to a chunk, blocks of two tokens
int tree_setup4(void **state); // the same with blocks of four tokens
int tree_teardown(void **state);

uint32_t chunk_named(uint32_t group, char series, uint32_t position);

void verify(void); // all invariants, and the references that the pSet counts
// Pushes the letters with the chunks of a series, from position `front` on in windows, with a state
// if there is one. Into any domain, and into d.
vt_status try_push(vt_domain *in, const char *letters, char series, uint32_t front, vti_node **out);
vti_node *push(const char *letters, char series);
vti_node *push_front(const char *letters, char series, uint32_t front);
vti_prefix match(const char *letters); // in d
// The chunks of a match in a group, as text: "A0 B1 -".
const char *chunks_of(vti_prefix prefix, uint32_t group);
void retain(vti_node *n, uint8_t priority, bool pinned, uint64_t until_ms, uint64_t now_ms);
const char *tree_of(const vt_domain *of);
char last_letter(const vti_node *n);
uint64_t n_evictable(void);
uint64_t n_in(vt_chunk_state state);

#define assert_tree(want) assert_string_equal(want, tree_of(d))

static inline vt_domain_stats stats_of_domain(const vt_domain *of)
{
    vt_domain_stats st = {.struct_bytes = sizeof st};
    vt_domain_get_stats(of, &st);
    return st;
}

#endif
