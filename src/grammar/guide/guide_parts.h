// guide_parts.h - a guide as data, for the files of this folder.
#ifndef FXI_GRAMMAR_GUIDE_PARTS_H
#define FXI_GRAMMAR_GUIDE_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "grammar/guide/gram_guide.h"
#include "grammar/mask/gram_mask.h"
#include "grammar/run/gram_auto.h"

enum { FXI_GUIDE_MAX_ASKED = 64 };
#define FXI_NOT_FORCED (-1)

// States in the order in which they are reached from the beginning, to be looked at before they are
// asked for.
typedef struct fxi_guide_ahead {
    uint32_t *state;   // [n]
    uint8_t *is_seen;  // [n_seen] by state: it is in the list
    size_t n, cap, at; // at: the next to be looked at
    size_t n_seen, cap_seen;
    size_t spent; // on it, as in gram_pay.h
} fxi_guide_ahead;

struct fxi_guide {
    // constant
    fxi_gram form;
    const fxi_gram_tokens *tokens;
    fxi_guide_speller speller;
    fxi_guide_limits limits;
    atomic_int n_wait; // threads that wait for mu: fxi_guide_work gives way
    // guarded by mu
    pthread_mutex_t mu;
    fxi_auto *a;           // NULL: out of memory when it began again
    fxi_gram_masks *masks; // NULL with it
    int32_t *forced;       // [n_forced] of a state: the token that must come next
    size_t n_forced, cap_forced;
    uint32_t epoch;                      // > 0: no place at the beginning has it
    uint32_t asked[FXI_GUIDE_MAX_ASKED]; // [n_asked] states that fxi_guide_prepare has left
    size_t n_asked, n_left;
    uint32_t lost; // a state that fxi_guide_work cannot find out: its error is told who draws
    fxi_guide_ahead ahead;
    size_t n_billed;    // bytes of it that are in the pool
    size_t least_bytes; // what it held when it began,
    size_t path_bytes;  // and with the longest text that it followed from there
    bool is_working;    // a thread is in fxi_guide_work,
    fxi_mask_walk walk; // which this belongs to
};

// The calls below: mu is held.

void fxi_guide_lock(fxi_guide *g);   // takes it
void fxi_guide_unlock(fxi_guide *g); // tells the pool what the guide holds, and gives it back
fx_status fxi_guide_begin_again(fxi_guide *g, fx_error *err);
fx_status fxi_guide_follow_locked(fxi_guide *g, const int32_t *tok, size_t n_tok,
                                  fxi_guide_place *at, fx_error *err);
fx_status fxi_guide_step_token(fxi_guide *g, fxi_guide_place *at, int32_t tok, fx_error *err);
bool fxi_guide_has_next(const fxi_auto *a, uint32_t state);
// The token that must come next, or FXI_NOT_FORCED.
fx_status fxi_guide_forced_at(fxi_guide *g, uint32_t state, int32_t *tok, fx_error *err);
bool fxi_guide_knows_forced(const fxi_guide *g, uint32_t state); // it was found before

#endif
