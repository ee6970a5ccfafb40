// tally.c - counts what the backend and the public calls return.
#include "manager.h"

vt_status vti_tally_answer(vt_manager *m, vt_status st)
{
    m->tally.nospace += st == VT_NOSPACE;
    return st;
}

vt_status vti_tally_backend(vt_manager *m, vt_status st)
{
    return vti_calls_count(&m->tally.calls, st);
}
