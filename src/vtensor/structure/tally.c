// tally.c - counts what the backend and the public calls return, and the highest figures so far.
#include "manager.h"
#include "vtensor/common/try.h"

VTI_HOT vt_status vti_tally_answer(vt_manager *m, vt_status st)
{
    if (vt_is_shortage(st)) m->tally.shortages++;
    return st;
}

vt_status vti_tally_backend(vt_manager *m, vt_status st)
{
    return vti_calls_count(&m->tally.calls, st);
}

void vti_tally_peaks(vt_manager *m)
{
    uint64_t created = vti_pset_created_bytes(&m->pset);
    if (created > m->tally.peak_bytes) m->tally.peak_bytes = created;
    if (m->live_bytes > m->tally.peak_live) m->tally.peak_live = m->live_bytes;
}
