// va_world.h - an instance of vattention.h on a chosen backend, beside a slow and obvious
// reference: for each request an array with every byte of its tokens.
//
//   vt_va -> fault backend -> host, fake, or GPU backend on the stand-in
//
// On the host and on the stand-in the bytes are compared. The fake has none, only clean and dirty
// pages; with `device` it simulates a device on which every step starts kernels that read all
// memory of active requests, and where created memory is dirty.
#ifndef VT_TEST_VA_WORLD_H
#define VT_TEST_VA_WORLD_H

#include <stdbool.h>

#include "assert_vt.h"
#include "vmm_fake.h"
#include "vmm_fault.h"
#include "vtensor/vattention.h"

enum { VA_WORLD_MAX_BATCH = 16, VA_PAGE_TOK = 32 }; // VA_PAGE_TOK: tokens per page of va_small

typedef struct va_setup {
    bool host, cuda, device, megacache; // neither host nor cuda: fake
    uint32_t n_plane;
    size_t row_bytes, page_bytes;
    uint32_t max_tok, max_batch, eager_groups;
    uint32_t next_groups, low_percent, high_percent; // 0: none
    uint64_t budget_groups;
    uint64_t max_runs, max_chunks; // of the fake; 0: no limit
} va_setup;

typedef struct va_world_req {
    bool is_active;
    uint32_t len_tok;   // backed by a step, or asked for at alloc
    uint32_t given_tok; // backed by a step
    uint32_t top_tok;   // most that was ever given
    uint8_t *bytes;     // [n_plane, max_tok, row_bytes] what must be read
} va_world_req;

typedef struct va_world {
    va_setup setup;
    vt_va *va;
    vt_vmm *fault, *inner;
    vt_fake_report end; // what the fake said when it was closed
    uint64_t group_bytes;
    uint64_t rng;
    uint32_t len[VA_WORLD_MAX_BATCH]; // for the next step
    va_world_req req[VA_WORLD_MAX_BATCH];
} va_world;

// Two planes of 128 bytes, 32 tokens to a page, 10 pages to a request, 4 requests, 20 groups; host.
va_setup va_small(void);
void va_open_small(va_world *w, bool host, bool device);

// Errors end the test. What is open is closed first.
void va_open(va_world *w, const va_setup *setup, uint64_t seed);
void va_close(va_world *w); // and nothing may be left, and no breach found, in the fake
void va_done(va_world *w);  // the end of a test: if one is open still, verifies and closes it
void va_close_broken(va_world *w); // of a device that has failed to the end: only no breach

uint64_t va_draw(va_world *w, uint64_t below);

// The calls, on the instance and, if they answer VT_OK, on the reference; what a request gets is
// checked at once. Lengths of steps are those in w->len.
vt_status va_alloc(va_world *w, uint32_t len_tok, uint32_t *reqid);
vt_status va_free(va_world *w, uint32_t reqid);
vt_status va_step(va_world *w, bool eager_reclaim);
vt_status va_step_async(va_world *w);
vt_status va_set_budget(va_world *w, uint64_t n_group);

// Alloc and step must succeed. Random bytes into all tokens.
uint32_t va_begin(va_world *w, uint32_t len_tok);
uint32_t va_leave_behind(va_world *w, uint32_t n_group); // a request of n groups comes and goes
void va_write(va_world *w, uint32_t reqid, uint32_t first, uint32_t end);

// The device does all that it was given.
void va_finish_work(const va_world *w);

// What a step must answer if no call of the backend fails, and no request is lost.
vt_status va_foresee(const va_world *w);

// Every byte that active requests have been given; that works while the worker does.
void va_verify_given(va_world *w);
// That, what is mapped behind them, vt_va_check and the gauges.
void va_verify(va_world *w);

vt_va_stats va_stats(const va_world *w);
uint32_t va_mapped(const va_world *w, uint32_t reqid);
uint8_t *va_row(const va_world *w, uint32_t reqid, uint32_t plane, uint32_t tok);

#endif
