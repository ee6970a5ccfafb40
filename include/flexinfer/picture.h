// picture.h - a window into a running engine: its KV memory, its sequences, its prefixes and its
// queue at one moment, as plain data.
//
//     fx_picture_begin(eng);                            // somebody looks from now on
//     fx_engine_on_picture(eng, tell_thread, thread);   // or asks from time to time
//     ...
//     const fx_picture *p = fx_picture_get(eng, last);  // NULL: nothing newer than number `last`
//     if (p) show(p), last = p->number;
//     fx_picture_unref(p);
//     ...
//     fx_picture_end(eng);                              // nobody looks any more
//
// What it shows:
//
//   chunks     the units of physical memory, each with a state. A chunk keeps its name while it
//              has memory
//   spans      a sequence's cache: segments at successive positions, each backed by a chunk.
//              Several spans may have the same chunk
//   nodes      the tree of recorded prefixes
//   requests   those that run, wait, or are in the swap
//   stats      what fx_engine_stats returns after the same turn
//
// It holds numbers only: no text, no token, no name of a tenant. Items of lists have no padding, so
// that they can be compared byte by byte.
//
// Cost. While somebody looks, the engine takes a picture after a turn, at most every 100 ms, and so
// seldom that all they cost is at most 1/FX_PICTURE_SHARE of the time: taking them, and what
// whoever shows them says that this costs. There are two accounts. What goes on all the time,
// pictures and their changes (fx_picture_charge), is paid for before the next picture is taken.
// What comes once with those who begin to look, the first picture and whole ones
// (fx_picture_charge_whole), is paid for over time, out of half of the share; the other half then
// goes on with changes. While nobody looks the engine does nothing.
//
// A picture never changes once it is taken; it is freed with its last reference. All functions may
// be called from any thread.
#ifndef FLEXINFER_PICTURE_H
#define FLEXINFER_PICTURE_H

#include "flexinfer/flexinfer.h"

#ifdef __cplusplus
extern "C" {
#endif

// X(name): the states of a chunk.
//   absent    no memory; no picture has such a chunk
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

// Neighbouring chunks of one state: first, first + 1, .. first + n - 1.
typedef struct fx_chunk_run {
    uint64_t first;
    uint32_t n;
    uint16_t group; // their shape: fx_picture.group
    uint16_t state; // FX_CHUNK_*
} fx_chunk_run;

// Neighbouring segments of a span: position at + i is backed by chunk + i.
typedef struct fx_segment_run {
    uint64_t chunk;
    uint32_t at, n;
    uint64_t group; // positions are counted in each group from 0
} fx_segment_run;

// The cache of one sequence. Positions that no run names are backed by nothing: a window has passed
// them, or the manager does not say.
typedef struct fx_span {
    uint64_t request; // fx_submit's id
    uint32_t choice;
    uint32_t n_tok;        // tokens in the cache
    size_t first_run;      // its segments: fx_picture.segment[first_run .. + n_run)
    uint32_t n_run;        // in the order of groups and positions
    uint32_t n_generating; // 1: it generates tokens; 0: it computes its prompt
} fx_span;

// A block of recorded tokens, after those of its parent.
typedef struct fx_prefix_node {
    uint64_t id;     // grows with each new node
    uint64_t parent; // 0: it begins a prefix
    uint64_t domain; // prefixes are shared within one domain
    uint64_t held_bytes;
    uint32_t n_tok, n_seq; // n_seq: sequences whose recorded part ends here
} fx_prefix_node;

// Neighbouring nodes of the list. Pictures that follow each other share the blocks in which nothing
// has changed.
enum { FX_NODE_BLOCK = 128 };
typedef struct fx_node_block {
    size_t n; // at least 1
    fx_prefix_node node[FX_NODE_BLOCK];
} fx_node_block;

// X(name): the states of a request.
#define FX_REQUEST_STATES(X) X(waiting) X(running) X(leaving) X(away) X(coming)

#define FX_NAME_REQUEST_STATE(name) FX_REQUEST_##name,
enum { FX_REQUEST_STATES(FX_NAME_REQUEST_STATE) FX_N_REQUEST_STATE };
#undef FX_NAME_REQUEST_STATE

typedef struct fx_request_view {
    uint64_t id;
    uint64_t submit_us;             // by the clock of fx_picture.at_us
    uint32_t state;                 // FX_REQUEST_*
    uint32_t place;                 // in the queue, from 1; 0: it has been admitted
    uint32_t n_prompt, n_generated; // tokens; generated of all its sequences
    uint32_t n_cached;              // prompt tokens found in the cache
    uint32_t n_seq;                 // choices or beams,
    uint32_t max_tok;               // each of which generates so many tokens at most
    int32_t priority;
} fx_request_view;

// Chunks of one shape on one device. Where several devices share the cache out, each has chunks of
// its own for every position of a span: segments of its groups.
typedef struct fx_chunk_group {
    uint64_t chunk_bytes;
    uint32_t chunk_tok; // tokens that one holds, rounded down; 0: a state, which has no tokens
    uint32_t device;    // of those that the engine runs on, from 0
} fx_chunk_group;

enum { FX_MAX_CHUNK_GROUP = 32 };

typedef struct fx_picture {
    uint64_t number;     // counts the pictures of an engine from 1
    uint64_t at_us;      // when it was taken, by the engine's clock
    const char *manager; // the KV manager's name; static
    fx_stats stats;
    uint32_t n_group; // 0: the manager shows no chunks
    fx_chunk_group group[FX_MAX_CHUNK_GROUP];
    const fx_chunk_run *chunk; // [n_chunk_run] by first
    size_t n_chunk_run;
    const fx_span *span; // [n_span] by request, then choice
    size_t n_span;
    const fx_segment_run *segment; // [n_segment_run]
    size_t n_segment_run;
    const fx_node_block *const *node; // [n_node_block] by id: parents come first
    size_t n_node_block, n_node;      // n_node: in all blocks
    const fx_request_view *request;   // [n_request] by id
    size_t n_request;
} fx_picture;

// Somebody looks, and no longer; each begin needs its end. After a begin the engine takes a picture
// at once, even if it is idle. What changes while it is idle is in a picture, too.
void fx_picture_begin(fx_engine *eng);
void fx_picture_end(fx_engine *eng);

enum { FX_PICTURE_SHARE = 125 };

// The CPU time of other threads that the newest picture took: the next one is taken so much later.
// Without it, only the engine thread's own time counts.
void fx_picture_charge(fx_engine *eng, uint64_t us);
// The same for whole pictures, as those get who have none: paid for over time.
void fx_picture_charge_whole(fx_engine *eng, uint64_t us);
// For how long no whole picture is to be made, because too much is still to be paid for; 0: one may
// be made now, for all who wait.
uint64_t fx_picture_whole_wait_us(fx_engine *eng);
// Has a picture taken once one is due, even if the engine is idle and nothing has changed.
void fx_picture_want(fx_engine *eng);

// The newest picture, with a reference for the caller, if its number is greater than `after`; NULL:
// there is none, or nobody looks.
const fx_picture *fx_picture_get(fx_engine *eng, uint64_t after);
void fx_picture_ref(const fx_picture *p); // one more; NULL is allowed, here and below
void fx_picture_unref(const fx_picture *p);

// Has `fn` called on the engine's thread after each picture. It must not block. One at a time; fn
// NULL: none. When this returns, the function set before is not running and will not be called
// again. Not from a callback.
void fx_engine_on_picture(fx_engine *eng, void (*fn)(void *ud), void *ud);

// "absent", ..; "waiting", ..; "?" for other values. Static.
const char *fx_chunk_state_name(unsigned state);
const char *fx_request_state_name(unsigned state);

#ifdef __cplusplus
}
#endif
#endif
