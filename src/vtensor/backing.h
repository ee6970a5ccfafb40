// backing.h - memory behind a range of addresses, made and taken away view by view, by whoever does
// it: the owner, the mapper thread, or vAttention's worker.
//
//   make    create, then map from the first view up     a failure is undone, if that works
//   unmap   from the last view down                     when the device has passed the ticket
//   drop    unmap, then destroy
//
// Whatever happens, *created and *n_view say what is so afterwards; what fails half-way, and whose
// undoing fails as well, can be dropped later.
#ifndef VTI_BACKING_H
#define VTI_BACKING_H

#include "vtensor/vmm.h"

// What backends were called for, and what they answered.
typedef struct vti_calls {
    uint64_t create_calls, destroy_calls, map_calls, unmap_calls, device_errors;
} vti_calls;

vt_status vti_calls_met(vti_calls *calls, vt_status st); // counts a device's failure
void vti_calls_add(vti_calls *to, const vti_calls *from);

// The chunks [index, index + n), at the same place of each view.
typedef struct vti_backing {
    vt_vmm *vmm;
    uint32_t n_view_all;
    size_t view_stride, slice_bytes;
    uintptr_t addr; // in view 0
    uint64_t index, n;
    uint64_t fence;   // of what may use them; 0: nothing does
    bool *created;    // the chunks have memory
    uint32_t *n_view; // views [0, *n_view) map them
    vti_calls *calls;
} vti_backing;

vt_status vti_backing_make(const vti_backing *b);  // pre: not created, mapped nowhere
vt_status vti_backing_unmap(const vti_backing *b); // pre: created
vt_status vti_backing_drop(const vti_backing *b);  // pre: created

#endif
