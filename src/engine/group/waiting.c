// waiting.c - which waiting group is tried next: among the clients that wait with one priority, the
// one that has been served least goes first (clients.c).
//
// The first group in line, by time and priority, decides which priority is served; so no priority
// waits for ever. The group chosen moves to the front of the line and keeps that place: from then
// on it is preempted after those that it has passed.
#include "engine/engine.h"

void fxi_waiting_begin(fx_engine *eng)
{
    eng->round_at = ++eng->n_pick;
}

static fxi_group *next_unseen(const fx_engine *eng, fxi_group *g)
{
    while (g && g->picked_at >= eng->round_at) g = g->next;
    return g;
}

// The first of each client with this priority is a candidate.
static fxi_group *least_served(fx_engine *eng, fxi_group *head)
{
    fxi_group *best = head;
    int n_left = eng->n_waiting_client;
    for (fxi_group *g = head; g && n_left; g = next_unseen(eng, g->next)) {
        fxi_client *c = g->client;
        if (c->seen_at == eng->n_pick || g->req.priority != head->req.priority) continue;
        c->seen_at = eng->n_pick;
        n_left--;
        if (c->served < best->client->served) best = g;
    }
    return best;
}

fxi_group *fxi_waiting_next(fx_engine *eng)
{
    eng->n_pick++;
    fxi_group *head = next_unseen(eng, eng->waiting.head);
    if (!head) return NULL;
    fxi_group *g = least_served(eng, head);
    g->picked_at = eng->n_pick;
    if (g != head) fxi_lists_advance(eng, g, head);
    return g;
}
