// calls.c - see calls.h.
#include "calls.h"

vt_status vti_calls_count(vti_calls *calls, vt_status st)
{
    calls->device_errors += st == VT_EDEVICE;
    return st;
}

void vti_calls_add(vti_calls *to, const vti_calls *from)
{
    to->create_calls += from->create_calls;
    to->destroy_calls += from->destroy_calls;
    to->map_calls += from->map_calls;
    to->unmap_calls += from->unmap_calls;
    to->protect_calls += from->protect_calls;
    to->device_errors += from->device_errors;
}
