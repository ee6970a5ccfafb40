// vmm_fake.h - a backend for tests: addresses only, no memory behind them, and its own clock.
//
// It keeps all state that the contract of vmm.h mentions and checks every call against it. A breach
// is counted, the first one is described, and the call answers VT_EINVAL. So a test that ends
// without a violation and with nothing left has proved that the manager kept the contract.
//
// Of bytes it knows whether they may be non-zero ("dirty"): for each page the range from the first
// dirty byte to the last. Bytes in between count as dirty.
//
// Where it behaves as a device (vt_fake_set_async), kernels and calls that are VT_VMM_QUEUED are
// work. Work takes effect in the order in which it is given, so the fake applies it at once, and
// remembers until its ticket has passed which bytes it uses. A VT_VMM_NOW call that would have met
// it is a breach: it writes bytes that work uses, reads bytes that work writes, unmaps or protects
// addresses that work was given, or destroys a chunk that work uses. Bytes are those of a chunk, at
// whatever addresses it is mapped.
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
    uint64_t n_call;         // of the functions that may fail, and swap_drop
    uint64_t n_wait;         // calls that wait for the device: passed with `wait`
    uint64_t clock_us;       // what they would have cost on a host, about
    uint64_t reserved_bytes; // now
    uint64_t n_created;      // chunks now
    uint64_t n_mapped;       // slices now, one for each address they are mapped at
    uint64_t n_run;          // mappings now, neighbours with equal access merged
    uint64_t swapped_bytes;  // of pages that the swap holds now
} vt_fake_report;

vt_vmm *vt_fake_open(void); // NULL: no memory

// Limits of map and protect, and of create, which answer VT_NOSPACE beyond. Store is a breach while
// runs have no limit (the default).
void vt_fake_set_max_runs(vt_vmm *fake, uint64_t max_runs);
void vt_fake_set_max_chunks(vt_vmm *fake, uint64_t max_chunks);

// Whether VT_VMM_READ refuses writes (the default), or is the same as VT_VMM_ALIAS.
void vt_fake_set_can_protect(vt_vmm *fake, bool can_protect);

// Whether every byte of a created chunk is dirty; otherwise (the default) all are zero.
void vt_fake_set_dirty_create(vt_vmm *fake, bool dirty);

// Where close leaves its last report (may be NULL).
void vt_fake_set_epitaph(vt_vmm *fake, vt_fake_report *at);
vt_fake_report vt_fake_look(const vt_vmm *fake);

// Stand for a write and for a read of the bytes, in the order of the device's work and done at
// once. Pre: mapped, and to be written not for reading only; otherwise a violation.
void vt_fake_touch(vt_vmm *fake, uintptr_t addr, size_t size_bytes);
bool vt_fake_is_zero(vt_vmm *fake, uintptr_t addr, size_t size_bytes);

// With async the fake behaves as a device that runs beside the caller: fences count up, and work
// ends when vt_fake_finish says so or somebody waits for it. Without (the default) a fence is
// ticket 0. Calls that are VT_VMM_QUEUED, and fence, must come from the thread that called
// configure.
void vt_fake_set_async(vt_vmm *fake, bool async);

// Stand for a kernel that is given to the device and reads the bytes, or writes them as well. Pre:
// as for vt_fake_touch. With async it runs until a fence taken behind it is passed.
void vt_fake_run(vt_vmm *fake, uintptr_t addr, size_t size_bytes);
void vt_fake_run_writing(vt_vmm *fake, uintptr_t addr, size_t size_bytes);

// The work in front of that fence is done.
void vt_fake_finish(vt_vmm *fake, uint64_t ticket);

// Damages the byte of the swap: the checksum of what is read there changes.
void vt_fake_corrupt(vt_vmm *fake, uint64_t offset);

#endif
