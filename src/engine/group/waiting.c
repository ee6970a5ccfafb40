// waiting.c - which waiting group is tried next: among the clients that wait with one priority, the
// one that has been served least goes first (clients.c).
//
// The first group in line, by time and priority, decides which priority is served; so no priority
// waits for ever. The group chosen moves to the front of the line and keeps that place: from then
// on it is preempted after those that it has passed.
#include "engine/engine.h"

fxi_group *fxi_waiting_first(fx_engine *eng)
{
    const fxi_group *head = eng->waiting.head;
    return head ? fxi_clients_least(eng, head->req.priority) : NULL;
}

void fxi_waiting_pick(fx_engine *eng, fxi_group *g)
{
    if (g != eng->waiting.head) fxi_lists_advance(eng, g, eng->waiting.head);
}
