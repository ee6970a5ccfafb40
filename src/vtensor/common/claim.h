// claim.h - compares what a manager believes it holds and maps with what the system reports.
#ifndef VTI_CLAIM_H
#define VTI_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "vtensor/vmm.h"

typedef struct vti_claim {
    uint64_t resident_bytes, mapped_bytes;
    uint64_t n_run; // most mappings there may be, where the system merges them
    bool is_torn;   // a range is half mapped: mapped_bytes and n_run mean nothing
} vti_claim;

// *broken is set to the first difference as text (static), and otherwise left unchanged.
// Errors: VT_EDEVICE (the backend cannot tell).
vt_status vti_claim_check(vt_vmm *vmm, const vti_claim *claim, const char **broken);

#endif
