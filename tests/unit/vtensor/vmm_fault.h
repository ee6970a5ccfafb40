// vmm_fault.h - a backend for tests that wraps another and makes chosen calls fail. A call that
// fails does not reach the inner backend, as the contract of vmm.h has it: nothing is changed.
#ifndef VT_TEST_VMM_FAULT_H
#define VT_TEST_VMM_FAULT_H

#include <stdbool.h>

#include "vtensor/vmm.h"

vt_vmm *vt_fault_open(vt_vmm *inner); // owns inner; NULL: no memory, inner stays the caller's

// The i-th call from now on (0: the next) answers st, and so do the n_more calls behind it.
// granularity, max_runs and close never fail and are not counted.
void vt_fault_arm(vt_vmm *fault, uint64_t i, uint64_t n_more, vt_status st);

// Each call fails with a chance of 1 in `one_in`, by the seed; with VT_EDEVICE, or with VT_NOSPACE
// where the call may answer that (reserve, create, map).
void vt_fault_arm_random(vt_vmm *fault, uint64_t seed, uint32_t one_in);

void vt_fault_disarm(vt_vmm *fault);
uint64_t vt_fault_fired(const vt_vmm *fault); // calls made to fail since the last arming
uint64_t vt_fault_calls(const vt_vmm *fault); // calls seen since the last arming

#endif
