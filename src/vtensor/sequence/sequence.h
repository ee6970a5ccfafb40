// sequence.h - shared by the files that implement vtensor.h; grouped by the defining file, the
// lowest first.
#ifndef VTI_SEQUENCE_H
#define VTI_SEQUENCE_H

#include "vtensor/verbs/verbs.h"

// seq_swap.c
vt_status vti_swap_init(vti_swap *sw, const vt_config *cfg, size_t chunk_bytes); // VT_ENOMEM
void vti_swap_free(vti_swap *sw);
void vti_swap_forget(vt_seq *s); // returns the sequence's slots

// seq_tail.c
// Bytes of the tail chunk in each view if the sequence may not write after them yet (the chunk is
// shared, or holds stale rows); 0: it may.
size_t vti_tail_blocked(const vt_seq *s);
// Makes it writable. If the tail was shared, there is then room for the chunks up to n_chunk, too.
vt_status vti_tail_make_writable(vt_seq *s, size_t tail_bytes, uint32_t n_chunk);
// The prefixes that hold the chunk mapped at a position get a copy of its first size_bytes instead,
// in a tree region. Pre: they are on the path that ends in `node`; there is room for a chunk.
vt_status vti_tail_copy_to_tree(vt_manager *m, const vti_span *sp, vti_node *node,
                                uint32_t position, size_t size_bytes);
// Whether the prefixes that hold a chunk are all on the path that ends in `node`, and n_user spans
// hold it.
bool vti_tail_held_by_path(const vt_manager *m, const vti_node *node, uint32_t position,
                           uint32_t region, uint32_t n_user);

// seq_life.c
// Creates a sequence of length 0. Does not count VT_NOSPACE. Errors: as vti_span_take.
vt_status vti_seq_make(vt_manager *m, uint32_t expect_tok, uint32_t n_alias, vt_seq **out);
void vti_seq_set_len(vt_seq *s, uint32_t len_tok);
void vti_seq_set_node(vt_seq *s, vti_node *node); // references it; NULL: none

// seq_extend.c
// Gets chunks for len_tok tokens; the length stays. Does not count VT_NOSPACE. Errors: as
// vt_seq_extend.
vt_status vti_seq_grow(vt_seq *s, uint32_t len_tok);

#endif
