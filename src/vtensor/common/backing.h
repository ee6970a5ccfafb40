// backing.h - physical memory behind a range of addresses, created and removed view by view. The
// owner, the mapper thread and vAttention's worker all use it.
//
//   make    create, then map from the first view up     a failure is undone if possible
//   unmap   from the last view down                     once the device has passed the ticket
//   drop    unmap, then destroy
//
// Whatever happens, *created and *n_view describe the state afterwards. If a call fails half-way
// and undoing it fails too, the range can be dropped later.
#ifndef VTI_BACKING_H
#define VTI_BACKING_H

#include "calls.h"
#include "vtensor/vmm.h"

// The chunks [index, index + n), at the same place in each view.
typedef struct vti_backing {
    vt_vmm *vmm;
    uint32_t n_view_all;
    size_t view_stride, slice_bytes;
    uintptr_t addr; // in view 0
    uint64_t index, n;
    uint64_t fence;   // ticket after the work that may use them; 0: none does
    bool *created;    // the chunks have memory
    uint32_t *n_view; // views [0, *n_view) map them
    vti_calls *calls;
} vti_backing;

// Errors: those of the backend's calls.
vt_status vti_backing_make(const vti_backing *b);  // Pre: not created, mapped nowhere
vt_status vti_backing_unmap(const vti_backing *b); // Pre: created
vt_status vti_backing_drop(const vti_backing *b);  // Pre: created

#endif
