// claim.c - see claim.h.
#include "claim.h"

#include "try.h"

vt_status vti_claim_check(vt_vmm *vmm, const vti_claim *claim, const char **broken)
{
    uint64_t resident_bytes, mapped_bytes, n_mapping;
    VT_TRY(vmm->ops->resident(vmm, &resident_bytes));
    VT_TRY(vmm->ops->mapped(vmm, &mapped_bytes, &n_mapping));
    bool merges = vmm->ops->max_runs(vmm) < UINT64_MAX; // else the system may split runs
    if (resident_bytes != claim->resident_bytes)
        *broken = "the system holds more or less memory than was created";
    else if (!claim->is_torn && mapped_bytes != claim->mapped_bytes)
        *broken = "the system maps more or fewer bytes than expected";
    else if (!claim->is_torn && merges && n_mapping > claim->n_run)
        *broken = "the system has more mappings than there are runs";
    return VT_OK;
}
