// events.h - the ring of events behind vt_events_take: what can be matched, and what no
// longer can.
//
// The owner writes, any thread takes. When it is full, the oldest event is overwritten; a taker
// sees that by the gap in the numbers.
#ifndef VTI_EVENTS_H
#define VTI_EVENTS_H

#include "vtensor/vtensor.h"

typedef struct vti_events vti_events;

// Errors: VT_ENOMEM.
vt_status vti_events_new(uint32_t n_event, vti_events **out);
void vti_events_free(vti_events *ev);                   // NULL is allowed
void vti_events_clock(vti_events *ev, uint64_t now_ms); // NULL is allowed, here and below
void vti_events_add(vti_events *ev, vt_event event);    // its number and time are set here
uint32_t vti_events_take(vti_events *ev, vt_event *out, uint32_t max_n);

#endif
