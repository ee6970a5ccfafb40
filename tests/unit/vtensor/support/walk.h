// walk.h - whether vt_chunk_each, vt_seq_each and vt_seq_map show what a snapshot shows.
#ifndef VT_TEST_WALK_H
#define VT_TEST_WALK_H

#include "vtensor/vtensor.h"

void walk_verify(const vt_manager *m, const vt_snapshot *snap); // taken just now

#endif
