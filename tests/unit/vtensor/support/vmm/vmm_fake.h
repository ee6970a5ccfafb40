// vmm_fake.h - a backend for tests: addresses only, no memory behind them, and its own clock.
//
// It keeps all state that the contract of vmm.h mentions and checks every call against it. A breach
// is counted, the first one is described, and the call answers VT_EINVAL. So a test that ends
// without a violation and with nothing left has proved that the manager kept the contract.
//
// Of bytes it knows whether they may be non-zero ("dirty"): for each page the range from the first
// dirty byte to the last. Bytes in between count as dirty.
//
// Any thread may call any function except close.
#ifndef VT_TEST_VMM_FAKE_H
#define VT_TEST_VMM_FAKE_H

#include <stdbool.h>

#include "vtensor/vmm.h"

enum { VT_FAKE_PAGE_BYTES = 4096 };

typedef struct vt_fake_report {
    uint64_t n_violation;
    const char *violation;   // the first one
    uint64_t n_call;         // all calls but granularity, max_runs and close
    uint64_t clock_us;       // what they would have cost on a host, about
    uint64_t reserved_bytes; // now
    uint64_t n_created;      // chunks now
    uint64_t n_mapped;       // slices now, one for each address they are mapped at
    uint64_t n_run;          // mappings now, neighbours merged
    uint64_t swapped_bytes;  // of pages that the swap holds now
} vt_fake_report;

vt_vmm *vt_fake_open(void);                                     // NULL: no memory
void vt_fake_set_max_runs(vt_vmm *fake, uint64_t max_runs);     // map answers VT_NOSPACE beyond
void vt_fake_set_max_chunks(vt_vmm *fake, uint64_t max_chunks); // create answers VT_NOSPACE beyond

// Where close leaves its last report (may be NULL).
void vt_fake_set_epitaph(vt_vmm *fake, vt_fake_report *at);
vt_fake_report vt_fake_look(const vt_vmm *fake);

// Stand for a write and for a read of the bytes. Pre: mapped; otherwise a violation.
void vt_fake_touch(vt_vmm *fake, uintptr_t addr, size_t size_bytes);
bool vt_fake_is_zero(vt_vmm *fake, uintptr_t addr, size_t size_bytes);

// With async the fake behaves as a device that runs beside the caller: fences count up, and work
// ends when vt_fake_finish says so or somebody waits for it. Without (the default) a fence is
// ticket 0.
void vt_fake_set_async(vt_vmm *fake, bool async);

// Stands for a kernel that is given to the device and reads the bytes. Pre: mapped; otherwise a
// violation. With async it runs until a fence taken behind it is passed; unmapping or writing one
// of its bytes before is a violation.
void vt_fake_run(vt_vmm *fake, uintptr_t addr, size_t size_bytes);

// The work in front of that fence is done.
void vt_fake_finish(vt_vmm *fake, uint64_t ticket);

// Damages the byte of the swap: the checksum of what is read there changes.
void vt_fake_corrupt(vt_vmm *fake, uint64_t offset);

#endif
