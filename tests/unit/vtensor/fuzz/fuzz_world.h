// fuzz_world.h - a manager on the host under random calls, of three tenants, and what every byte of
// every sequence must be.
//
//   manager -> fault backend -> host
//
// Each byte says in its two highest bits whose it is: 0 is nobody's, and a row of a sequence is a
// function of its tenant, the tokens up to it and its plane. So everything that is mapped for a
// sequence can be compared: within its length with what must be there, beyond it for bytes of
// others.
#ifndef VT_TEST_FUZZ_WORLD_H
#define VT_TEST_FUZZ_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm_fault.h"
#include "vtensor/vtensor.h"

enum {
    FUZZ_N_SEQ = 8,
    FUZZ_N_TENANT = 3,
    FUZZ_MAX_TOK = 320,
    FUZZ_N_TALE = 12,
    FUZZ_MAX_PLANE = 8
};

// One sequence, as it must be.
typedef struct fuzz_seq {
    vt_seq *s; // NULL: this place is free
    uint32_t tenant, len_tok;
    uint32_t tok[FUZZ_MAX_TOK];
} fuzz_seq;

// Tokens that somebody recorded.
typedef struct fuzz_tale {
    uint32_t tenant, n_tok; // 0: none
    uint32_t tok[FUZZ_MAX_TOK];
} fuzz_tale;

typedef struct fuzz_plane {
    size_t row_bytes;
    bool is_state;
} fuzz_plane;

// Drawn by the seed.
typedef struct fuzz_setup {
    vt_config cfg;
    vt_group group[3];
    uint64_t max_runs;     // 0: as the host has it
    uint32_t fault_one_in; // of the backend's calls, in the calls that may fail; 0: none fails
} fuzz_setup;

typedef struct fuzz_world {
    uint64_t seed, rng, now_ms;
    fuzz_setup setup;
    vt_manager *m;
    vt_vmm *fault;
    vt_domain *domain[FUZZ_N_TENANT];
    uint32_t n_plane;
    fuzz_plane plane[FUZZ_MAX_PLANE];
    fuzz_seq seq[FUZZ_N_SEQ];
    fuzz_tale tale[FUZZ_N_TALE];
    const char *call; // the last one, and what it answered
    vt_status st;
    uint32_t n_call;
} fuzz_world;

// Errors end the test, with the seed and the call in the line.
void fuzz_open(fuzz_world *w, uint64_t seed);
void fuzz_close(fuzz_world *w);

uint32_t fuzz_draw(fuzz_world *w, uint32_t below);
void fuzz_fail(const fuzz_world *w, const char *what, uint32_t i) __attribute__((noreturn));

// The rows [from, the length) of a sequence read as zero, and are written now.
void fuzz_write(const fuzz_world *w, uint32_t i, uint32_t from);

// Every byte of every sequence.
void fuzz_look(const fuzz_world *w);

// fuzz_calls.c: one call, drawn at random, and all that must hold behind it.
void fuzz_step(fuzz_world *w);

#endif
