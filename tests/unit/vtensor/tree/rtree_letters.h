// rtree_letters.h - a prefix tree for tests in which tokens are letters and regions are A to H,
// with all their chunks created from the start.
//
// A tree is written as text: "abc[A0 A1](def[A1 A2] x[B1])" is a node for abc that holds the chunks
// of region A at positions 0 and 1, and below it one for def and one for x.
#ifndef RTREE_LETTERS_H
#define RTREE_LETTERS_H

#include "vtensor/tree/rtree_node.h"

enum { N_REGION = 8, N_POSITION = 16 };

extern vti_geo geo;
extern vti_pset ps;
extern vti_rtree *t;
extern vt_domain *d; // open in it from the beginning

// The linker sends all calls of calloc through a count-down: at 0 they fail; UINT64_MAX: never.
extern uint64_t n_alloc_left;

void tree_open(size_t stride_bytes, size_t slice_bytes);
void tree_close(void);        // looks that no chunk is held any more
int tree_setup(void **state); // two tokens to a chunk
int tree_teardown(void **state);

void verify(void); // all invariants, and the references that the pSet counts
vt_status try_push(vt_domain *in, const char *letters, char region, vti_node **out);
vti_node *push(const char *letters, char region); // into d
vti_prefix match(const char *letters);            // in d
void retain(vti_node *n, uint8_t priority, bool pinned, uint64_t until_ms, uint64_t now_ms);
const char *tree_of(const vt_domain *of);
uint32_t n_node(char region, uint32_t position); // references to the chunk

#define assert_tree(want) assert_string_equal(want, tree_of(d))
#define TREE_TEST(fn)     cmocka_unit_test_setup_teardown(fn, tree_setup, tree_teardown)

#endif
