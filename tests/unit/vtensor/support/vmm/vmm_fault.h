// vmm_fault.h - a backend for tests that wraps another one and makes chosen calls fail, slow down
// or wait. A call that fails does not reach the inner backend, so nothing is changed, as the
// contract of vmm.h requires. Any thread may call any function except close.
#ifndef VT_TEST_VMM_FAULT_H
#define VT_TEST_VMM_FAULT_H

#include <stdbool.h>

#include "vtensor/vmm.h"

vt_vmm *vt_fault_open(vt_vmm *inner); // owns inner; NULL: no memory, inner stays the caller's

// Pages as large as a device's: a multiple of the inner backend's. Before a manager is opened.
void vt_fault_set_granularity(vt_vmm *fault, size_t bytes);

// The limit on runs that the backend states, instead of the inner one's. Before a manager is
// opened.
void vt_fault_set_max_runs(vt_vmm *fault, uint64_t max_runs);

// The i-th call from now on (0: the next) answers st, and so do the n_more calls behind it; of
// VT_NOSPACE, those that may not answer it answer VT_EDEVICE.
// granularity, max_runs, can_protect, creates_zeroed, swap_drop and close never fail and are not
// counted.
void vt_fault_arm(vt_vmm *fault, uint64_t i, uint64_t n_more, vt_status st);

// Each call fails with a chance of 1 in `one_in`, by the seed; with VT_EDEVICE, or with VT_NOSPACE
// where the call may answer that (configure, reserve, create, map, protect, swap_open, swap_write).
void vt_fault_arm_random(vt_vmm *fault, uint64_t seed, uint32_t one_in);

void vt_fault_disarm(vt_vmm *fault);
uint64_t vt_fault_fired(const vt_vmm *fault); // calls made to fail since the last arming
uint64_t vt_fault_calls(const vt_vmm *fault); // calls seen since the last arming

// Each counted call sleeps 0 to max_us microseconds before anything else, by the seed; 0: none
// does.
void vt_fault_set_delay(vt_vmm *fault, uint64_t seed, uint32_t max_us);

// While it holds, every create, destroy, map, protect, unmap and zero waits at the gate; it is not
// counted before it is let through.
void vt_fault_hold(vt_vmm *fault, bool hold);
uint64_t vt_fault_held(const vt_vmm *fault);         // calls that wait now
void vt_fault_await_held(vt_vmm *fault, uint64_t n); // returns when n calls or more wait

// The same for swap_write, and for swap_read, at gates of their own. The thread that called this
// last is let through; its calls of these, and of swap_drop, are counted.
void vt_fault_hold_swap(vt_vmm *fault, bool writes, bool reads);
uint64_t vt_fault_swap_here(const vt_vmm *fault);

#endif
