// calls.h - counters of backend calls and of their failures.
#ifndef VTI_CALLS_H
#define VTI_CALLS_H

#include <stdint.h>

#include "vtensor/status.h"

typedef struct vti_calls {
    uint64_t create_calls, destroy_calls, map_calls, unmap_calls, protect_calls, device_errors;
} vti_calls;

vt_status vti_calls_count(vti_calls *calls, vt_status st); // counts VT_EDEVICE; returns st
void vti_calls_add(vti_calls *to, const vti_calls *from);

#endif
