// bench_vtensor.h - shared by the parts of bench_vtensor: options, a manager to measure, sequences,
// rows of results.
//
// Only the public API and the port of the backends are used. An unexpected failure ends the program
// with a line on stderr and status 1.
#ifndef BENCH_VTENSOR_H
#define BENCH_VTENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench_program.h"
#include "gpu_context.h"
#include "vtensor/vtensor.h"

// The figures that have goals; NaN: not measured.
typedef struct bench_findings {
    double ahead_p99_ns;    // vt_seq_extend into a new chunk that the mapper has prepared
    double churn_p99_ns;    // the same with the budget full of prefixes
    double churn_max_ns;    // the slowest of them, less what the scheduler took
    double churn_system;    // chunks created and destroyed in the steady state
    double guard_share;     // read-only aliases: what they cost of a step
    double match_ns;        // vt_seq_match of the prompt
    double extra_small;     // its whole extra cost, first read included, relative to copying
    double extra_huge;      // the same on huge pages
    double prompt_miscount; // largest difference from 1 prompt + N tails, in bytes
} bench_findings;

typedef struct bench {
    int n_plane_given, row_bytes_given, chunk_kib, n_repeat_given; // options
    float compute_ms_given;
    const char *layout_given, *backend, *csv_path;
    const char *only; // NULL: all parts
    bool quick;
    uint32_t n_plane;
    size_t row_bytes;
    vt_layout layout;
    size_t slice_bytes; // 0: several, or the manager's default
    uint32_t n_repeat;
    double compute_ms; // of each simulated step
    gpu_context *gpu;  // NULL: the host
    results out;
    bench_findings found;
} bench;

// The groups of measurements.
void bench_ops(bench *b);      // ops.c
void bench_alloc(bench *b);    // ops.c
void bench_decode(bench *b);   // decoding.c
void bench_churn(bench *b);    // decoding.c
void bench_fork(bench *b);     // sharing.c
void bench_match(bench *b);    // sharing.c
void bench_vmas(bench *b);     // sharing.c
void bench_physical(bench *b); // sharing.c
void bench_trim(bench *b);     // sharing.c
void bench_calls(bench *b);    // sharing.c
void bench_scale(bench *b);    // scale.c

// ---- vtensor_world.c: managers and sequences

void must(vt_status st, const char *what);

// A manager of its own for each measurement.
typedef struct world {
    const bench *b;
    vt_manager *m;
    vt_vmm *vmm; // the manager's
    vt_domain *d;
    uint32_t n_view;    // spans of addresses per sequence
    size_t token_bytes; // of all planes
    size_t slice_bytes;
    uint32_t chunk_tok; // whole tokens in a chunk, 1 at least
} world;

// 0 selects a default. huge_bytes: size of reserved huge pages; 0: plain pages.
typedef struct world_size {
    size_t slice_bytes;
    uint32_t max_tok, max_seq;
    uint64_t swap_bytes, budget_bytes, spare_low_bytes;
    size_t huge_bytes;
    bool no_guard;
} world_size;

bool world_open(world *w, const bench *b, world_size size); // false: no slices of this size
void world_close(world *w);
void world_settle(world *w); // waits until the mapper has done all that a step gives it
void world_empty(world *w);  // the same, and releases spare chunks. Pre: no sequence is alive
vt_stats world_stats(const world *w);
uint64_t world_resident(const world *w); // resident bytes according to the system
uint64_t world_mappings(const world *w); // mappings according to the system

vt_seq *seq_new(world *w, uint32_t len_tok);
void seq_fill(const world *w, vt_seq *s, uint32_t len_tok, int value); // the first len_tok rows
uint64_t seq_read(const world *w, const vt_seq *s, uint32_t len_tok);  // host only
void seq_copy(const world *w, vt_seq *to, const vt_seq *from, uint32_t len_tok); // host only
uint32_t *random_tokens(uint64_t seed, uint32_t n);                              // free() it

// ---- vtensor_world.c: the other work of a step

typedef struct busywork {
    uint64_t *v;
    size_t n;
} busywork;

busywork busywork_open(void);
void busywork_run(const busywork *bw, double ms); // reads memory
void busywork_free(busywork *bw);

// Times an operation and counts the backend's calls.
typedef struct meter {
    const world *w;
    samples ns;
    uint64_t n_map, n_unmap, n_create, n_destroy;
    vt_stats before;
    double start_ns;
} meter;

void meter_start(meter *mt);
void meter_stop(meter *mt);

// ---- vtensor_world.c: rows of results, with the bytes of a slice, and a size that grows from row
// to row: a column of the CSV, 0 in other rows

void slice_row(bench *b, size_t slice_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void slice_row_at(bench *b, size_t slice_bytes, uint64_t n, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void row_meter(bench *b, meter *mt, const char *name); // a whole row; empties the meter
void row_times(bench *b, samples *ns, bool has_p99);   // cells p50 and max, and p99, in us

#endif
