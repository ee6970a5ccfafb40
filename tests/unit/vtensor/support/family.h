// family.h - sequences that share chunks, on a chosen backend, beside a slow and obvious reference:
// for each sequence an array of its tokens.
//
//   manager -> fault backend -> host, fake, or the CUDA backend on the stand-in for its driver
//
// The content of a row is a function of its tenant, the tokens up to it, and its plane, that of a
// state a function of all tokens. So every byte of every sequence is known that a window has not
// passed, whether it was written, matched, forked, copied or swapped in. The fake has no bytes:
// there the test checks that rows that a sequence has not written are clean.
//
// A family has one group of planes, where nearly every answer is foreseen, or several groups with
// windows and states, where a match may begin only where something was recorded, and with a state
// only where one was; a router (router.h) follows the events of such a family.
#ifndef VT_TEST_FAMILY_H
#define VT_TEST_FAMILY_H

#include <stdbool.h>

#include "vmm_fake.h"
#include "vmm_fault.h"
#include "vtensor/vtensor.h"

enum {
    FAMILY_MAX_SEQ = 32,
    FAMILY_MAX_TOK = 320,
    FAMILY_N_DOMAIN = 2, // with several groups 1
    FAMILY_MAX_TALE = 300,
    FAMILY_MAX_GROUP = 4,
    FAMILY_MAX_PLANE = 8
};

typedef enum backend { ON_HOST = 0, ON_FAKE, ON_CUDA, N_BACKEND } backend;

typedef struct family_setup {
    const char *name;
    backend backend;
    vt_layout layout;
    uint32_t n_plane;
    size_t row_bytes;
    uint32_t slice_pages; // of the backend's granularity
    uint32_t n_group;     // 0: one of n_plane planes
    vt_group group[FAMILY_MAX_GROUP];
    uint64_t view_planes;
    uint32_t n_seq;         // FAMILY_MAX_SEQ at most
    uint64_t budget_chunks; // UINT64_MAX: no limit
    uint64_t low_chunks;    // spare, at least
    uint64_t high_chunks;   // spare, at most; 0: no limit, UINT64_MAX: none
    uint64_t swap_chunks;   // 0: no swap
    uint64_t max_runs;      // fake only; 0: no limit
    vt_mapper mapper;
    bool device; // fake only: it runs beside us, and steps leave it kernels that read sequences
    bool plain;  // nothing is ever shared or swapped: every answer and sum is foreseen
} family_setup;

// One sequence, as it must be.
typedef struct kin {
    vt_seq *s; // NULL: this place is free
    uint32_t domain;
    uint32_t len_tok;
    uint32_t from_tok;  // tokens from here on may still be computed: their windows are there
    bool is_busy;       // no kernel may read it before it grows
    bool is_moving;     // on its way to the swap or back, when it was last asked
    uint32_t n_pending; // recorded, at the latest when it is released; 0: nothing
    uint32_t tok[FAMILY_MAX_TOK];
} kin;

// Tokens that were recorded, and by what.
typedef struct tale {
    const char *by;   // the name of a step
    uint32_t in_step; // its number
    uint32_t n_tok;
    bool has_end; // the sequence had exactly these tokens
    bool is_sure; // and has ended
    uint32_t tok[FAMILY_MAX_TOK];
} tale;

// What was recorded in a domain.
typedef struct tales {
    uint32_t n;
    bool full;            // there was no room for some
    uint64_t had_evicted; // by the manager, when the first was told
    tale at[FAMILY_MAX_TALE];
} tales;

typedef struct family {
    family_setup setup;
    vt_manager *m;
    vt_vmm *fault, *inner;
    uint32_t n_domain;
    vt_domain *domain[FAMILY_N_DOMAIN];
    vt_fake_report end; // what the fake said when it was closed
    uint32_t n_plane;
    vt_group of_plane[FAMILY_MAX_PLANE]; // [n_plane] its group
    bool has_state, has_window;
    size_t chunk_bytes; // of all groups together
    uint64_t rng;
    uint64_t now_ms; // the clock of vt_step
    kin kin[FAMILY_MAX_SEQ];
    int n_moving;                // sequences on their way
    bool faulty;                 // calls may fail in this step
    const char *step_name;       // of this step
    uint32_t n_step;             // steps so far
    tales told[FAMILY_N_DOMAIN]; // by family_step
} family;

// Errors end the test.
void family_open(family *f, const family_setup *setup, uint64_t seed);
void family_close(family *f); // and nothing may be left, and no rule broken

uint64_t family_draw(family *f, uint64_t below);
uint32_t family_token(family *f); // mostly the same one, so that prefixes are often shared

// The operations, on the manager and, if they answer VT_OK, on the reference. What a sequence gets
// is looked at, at once. `i` and `child` are places of f->kin.
vt_status family_create(family *f, uint32_t i, uint32_t expect_tok);
vt_status family_match(family *f, uint32_t i, const uint32_t *tok, uint32_t n_tok);
vt_status family_extend(family *f, uint32_t i, uint32_t len_tok); // and write
vt_status family_grow(family *f, uint32_t i, uint32_t n_more);    // by n_more tokens
void family_grown(family *f, uint32_t i, uint32_t n_tok); // create and grow, which must succeed
vt_status family_fork(family *f, uint32_t i, uint32_t child, uint32_t len_tok);
vt_status family_cut(family *f, uint32_t i, uint32_t len_tok);
vt_status family_record(family *f, uint32_t i, uint32_t n_tok, const vt_retention *keep);
void family_release(family *f, uint32_t i);

// These tokens can be matched from now on.
void family_tell(family *f, uint32_t domain, const uint32_t *tok, uint32_t n_tok);

uint32_t family_row_tok(const family *f, uint32_t plane); // tokens of a row: 1, or of a block
uint32_t family_needed_from(const family *f, const kin *k,
                            uint32_t plane); // the first token that is
uint8_t *family_row(const family *f, const kin *k, uint32_t plane, uint32_t tok);

// Does something, drawn at random, to a sequence, drawn at random, and disarms the fault backend.
// Not faulty: only a lack of space may be answered.
void family_step(family *f, bool faulty);

// Operation number `op` on the sequence at place i, with draws of its own; the last one makes a
// sequence there. VT_OK if there is none, or is one already; else what the operation answers.
vt_status family_run_op(family *f, uint32_t op, uint32_t i, uint64_t seed);
bool family_has_op(uint32_t op);
bool family_release_lost(family *f); // false: there is none

// Every byte of every sequence that can be read, beside whatever the mapper does.
void family_look(family *f);

// The same, vt_check, and the sums of vt_get_stats.
void family_verify(family *f);

vt_stats family_stats(const family *f);

uint64_t family_chunks_for(const family *f, uint32_t len_tok); // of one group; of several 0

#endif
