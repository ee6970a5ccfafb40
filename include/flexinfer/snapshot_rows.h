// snapshot_rows.h - the rows of a snapshot (snapshot.h) that a KV manager fills: chunks, segments
// and prefix nodes as plain data. Rows have no padding.
#ifndef FLEXINFER_SNAPSHOT_ROWS_H
#define FLEXINFER_SNAPSHOT_ROWS_H

#include <stdint.h>

// X(name): the states of a chunk.
//   absent    no memory; no snapshot has such a chunk
//   spare     memory without a holder, kept for the next sequence
//   owned     one sequence alone holds it
//   shared    a sequence holds it, and other sequences or recorded prefixes
//   cached    recorded prefixes alone hold it
//   swapped   a sequence's rows in the swap: they take no memory
#define FX_CHUNK_STATES(X) X(absent) X(spare) X(owned) X(shared) X(cached) X(swapped)

#define FX_NAME_CHUNK_STATE(name) FX_CHUNK_##name,
enum { FX_CHUNK_STATES(FX_NAME_CHUNK_STATE) FX_N_CHUNK_STATE };
#undef FX_NAME_CHUNK_STATE

// The names of swapped chunks begin here; those of chunks with memory are below.
#define FX_SWAP_CHUNK ((uint64_t)1 << 48)

// The lists of a snapshot end here, whatever there is to list: they bound its size, and the time
// that it takes to make.
enum {
    FX_MAX_CHUNK_RUN = 16384,
    FX_MAX_SEGMENT_RUN = 16384,
    FX_MAX_PREFIX_NODE = 4096,
    FX_MAX_SPAN = 1024,
    FX_MAX_REQUEST_VIEW = 1024,
    FX_MAX_CHUNK_GROUP = 32
};

// Neighbouring chunks of one state: first, first + 1, .. first + n - 1.
typedef struct fx_chunk_run {
    uint64_t first;
    uint32_t n;
    uint16_t group; // their shape: fx_snapshot.group
    uint16_t state; // FX_CHUNK_*
} fx_chunk_run;

// Neighbouring segments of a span: position at + i is backed by chunk + i.
typedef struct fx_segment_run {
    uint64_t chunk;
    uint32_t at, n;
    uint64_t group; // positions are counted in each group from 0
} fx_segment_run;

// A block of recorded tokens, after those of its parent.
typedef struct fx_prefix_node {
    uint64_t id;     // grows with each new node
    uint64_t parent; // 0: it begins a prefix
    uint64_t domain; // prefixes are shared within one domain
    uint64_t held_bytes;
    uint32_t n_tok, n_seq; // n_seq: sequences whose recorded part ends here
} fx_prefix_node;

// Chunks of one shape on one device. Where several devices share the cache, each has chunks of its
// own for every position of a span: segments of its groups.
typedef struct fx_chunk_group {
    uint64_t chunk_bytes;
    uint32_t chunk_tok; // tokens that one holds, rounded down; 0: a state, which has no tokens
    uint32_t device;    // of those that the engine runs on, from 0
} fx_chunk_group;

#endif
