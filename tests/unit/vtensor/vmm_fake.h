// vmm_fake.h - a backend for tests: addresses only, no memory behind them, and its own clock.
//
// It keeps the whole state that the contract of vmm.h speaks of and checks every call against it.
// A breach is counted and the first one described; the call then answers VT_EINVAL. So a test
// that ends with no violation and nothing left has proved that the manager kept the contract.
#ifndef VT_TEST_VMM_FAKE_H
#define VT_TEST_VMM_FAKE_H

#include <stdbool.h>

#include "vtensor/vmm.h"

enum { VT_FAKE_PAGE_BYTES = 4096 };

typedef struct vt_fake_report {
    uint64_t n_violation;
    const char *violation;   // the first one
    uint64_t n_call;         // all calls but granularity and max_runs
    uint64_t clock_us;       // what they would have cost on a host, about
    uint64_t reserved_bytes; // now
    uint64_t n_created;      // chunks now
    uint64_t n_mapped;       // slices now
} vt_fake_report;

vt_vmm *vt_fake_open(void); // NULL: no memory
void vt_fake_set_max_runs(vt_vmm *fake, uint64_t max_runs);
void vt_fake_set_max_chunks(vt_vmm *fake, uint64_t max_chunks); // create answers VT_NOSPACE beyond

// Where close leaves its last report (may be NULL).
void vt_fake_set_epitaph(vt_vmm *fake, vt_fake_report *at);
vt_fake_report vt_fake_look(const vt_vmm *fake);

// Stand for a write and for a read of the bytes. Pre: mapped; otherwise a violation.
void vt_fake_touch(vt_vmm *fake, uintptr_t addr, size_t size_bytes);
bool vt_fake_is_zero(vt_vmm *fake, uintptr_t addr, size_t size_bytes); // by whole pages

#endif
