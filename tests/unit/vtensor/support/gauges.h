// gauges.h - of vt_stats what is held: what a call that fails must leave as it was. Counters have
// moved, and what the call has made stays spare.
#ifndef VT_TEST_GAUGES_H
#define VT_TEST_GAUGES_H

#include "vtensor/vtensor.h"

static inline vt_stats gauges_of(vt_stats st)
{
    return (vt_stats){.budget_bytes = st.budget_bytes,
                      .chunks_owned = st.chunks_owned,
                      .chunks_shared = st.chunks_shared,
                      .chunks_cached = st.chunks_cached,
                      .chunks_swapped = st.chunks_swapped,
                      .live_bytes = st.live_bytes,
                      .slack_bytes = st.slack_bytes,
                      .seqs = st.seqs,
                      .prefix_nodes = st.prefix_nodes,
                      .prefix_tok = st.prefix_tok};
}

#endif
