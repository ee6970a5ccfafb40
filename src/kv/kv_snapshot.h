// kv_snapshot.h - where a manager's memory is at one moment: the lists that fxi_kv_collect fills.
//
// The lists end at the limits of snapshot_rows.h; the counts go on. So what collecting costs beyond
// one look at the state of every chunk is bounded, however many prefixes and sequences there are.
#ifndef FXI_KV_SNAPSHOT_H
#define FXI_KV_SNAPSHOT_H

#include "base/text/buf.h"
#include "flexinfer/snapshot_rows.h"
#include "kv/kv.h"

// A list in a buffer.
#define FXI_ROWS(type, buf)  ((type *)(void *)(buf)->p)
#define FXI_N_ROW(type, buf) ((buf)->n / sizeof(type))

typedef struct fxi_kv_snapshot {
    // The caller's: the sequences whose segments are wanted, and room for how many runs each has.
    const fxi_kv_seq *const *seq; // [n_seq]
    uint32_t *n_run;              // [n_seq] 0 at first
    int n_seq;

    // The manager's; all zero at first.
    uint32_t n_group;
    fx_chunk_group group[FX_MAX_CHUNK_GROUP];
    uint64_t n_chunk[FX_N_CHUNK_STATE]; // all chunks, by state
    uint64_t n_all_node;                // all recorded nodes
    fxi_buf chunk;                      // of fx_chunk_run, by first
    fxi_buf segment;                    // of fx_segment_run, one sequence after the other
    fxi_buf node;                       // of fx_prefix_node, by id
    bool has_failed;                    // no memory: the lists are incomplete
} fxi_kv_snapshot;

// For managers. Where several devices share the cache, each has groups of its own, those of device
// 0 first; nodes are those of device 0, their bytes times the number of devices.
void fxi_kv_snapshot_add_group(fxi_kv_snapshot *to, uint64_t chunk_bytes, int chunk_tok,
                               int device);
// Each chunk once; neighbours of one state as one call or several.
void fxi_kv_snapshot_add_chunks(fxi_kv_snapshot *to, int group, uint64_t first, uint32_t n,
                                unsigned state);
// Segments of seq[i], by group and position; the sequences by i.
void fxi_kv_snapshot_add_segments(fxi_kv_snapshot *to, int i, int group, uint32_t at,
                                  uint64_t chunk, uint32_t n);
// False: the list is full, and no further node is taken.
bool fxi_kv_snapshot_add_node(fxi_kv_snapshot *to, const fx_prefix_node *node);

// Sorts rows by their first member, a uint64_t.
void fxi_snapshot_sort_rows(fxi_buf *list, size_t row_bytes);
// Brings lists into their order.
void fxi_kv_snapshot_sort(fxi_kv_snapshot *to);
void fxi_kv_snapshot_free(fxi_kv_snapshot *s); // the lists, not what is the caller's

#endif
