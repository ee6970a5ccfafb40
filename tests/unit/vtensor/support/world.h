// world.h - a manager on a chosen backend, beside a slow and obvious reference: for each sequence
// an array with every byte of its tokens.
//
//   manager -> fault backend -> host or fake backend
//
// On the host the bytes are compared. The fake has none, only clean and dirty pages: there the test
// checks that a chunk is clean when a sequence gets it.
#ifndef VT_TEST_WORLD_H
#define VT_TEST_WORLD_H

#include <stdbool.h>

#include "vmm_fake.h"
#include "vmm_fault.h"
#include "vtensor/vtensor.h"

enum { WORLD_MAX_SEQ = 32 };

typedef struct world_setup {
    bool host;
    vt_layout layout;
    uint32_t n_plane;
    size_t row_bytes;
    uint32_t max_tok, max_seq;
    uint64_t budget_chunks; // 0: as much as all sequences can use
    uint64_t spare_chunks;  // UINT64_MAX: all
    uint64_t max_runs;      // fake only; 0: no limit
    uint64_t swap_chunks;   // 0: no swap
} world_setup;

typedef struct world_seq {
    vt_seq *s; // NULL: this place is free
    uint32_t len_tok;
    uint8_t *bytes; // [n_plane, max_tok, row_bytes] what must be read
} world_seq;

typedef struct world {
    world_setup setup;
    vt_manager *m;
    vt_vmm *fault;
    vt_vmm *inner;
    vt_fake_report end; // what the fake said when it was closed
    uint64_t rng;
    uint32_t n_seq;
    world_seq seq[WORLD_MAX_SEQ];
} world;

// Errors end the test.
void world_open(world *w, const world_setup *setup, uint64_t seed);
void world_close(world *w); // and nothing may be left, and no breach found, in the fake

uint64_t world_draw(world *w, uint64_t below);

// The operations, on the manager and, if they answer VT_OK, on the reference. What a sequence gets
// is checked at once. `which` is a place of w->seq.
vt_status world_create(world *w, uint32_t which);
vt_status world_extend(world *w, uint32_t which, uint32_t len_tok);
void world_write(world *w, uint32_t which); // random bytes into a random part of its tokens
void world_release(world *w, uint32_t which);

// What extend must answer if no call fails.
vt_status world_foresee(const world *w, uint32_t which, uint32_t len_tok);

// Every byte of every sequence, vt_check and the gauges of vt_get_stats against the reference.
void world_verify(world *w);

vt_stats world_stats(const world *w);

// Spare chunks, but for those that live sequences have mapped after their tokens.
uint64_t world_spare(const world *w);

// A plain manager of 2 planes x 128 bytes, 100 tokens, 2 sequences and 1 MiB, on the host by
// default.
vt_config world_small_config(void);

#endif
