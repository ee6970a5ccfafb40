// clients.c - who sends requests, and how much each has been served, as with the virtual token
// counters of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024, arXiv
// 2401.00588).
//
// A client's counter grows by the tokens of each prompt that is admitted, less what the cache had,
// and by two for each token that is generated: prompts share a pass over the weights. Whoever comes
// back begins no lower than the least served of those that are there, so nobody saves up. A client
// that has left is remembered as long as it is ahead of them.
#include "engine/engine.h"

#include <stdlib.h>

#define MAX_IDLE 1024 // clients that are remembered without a group

// ---- the table ---------------------------------------------------------------------------------

fxi_client *fxi_clients_find_locked(const fx_engine *eng, uint64_t number)
{
    fxi_client *c = eng->client;
    while (c && c->number != number) c = c->next;
    return c;
}

void fxi_clients_enter_locked(fx_engine *eng, fxi_group *g)
{
    fxi_client *known = fxi_clients_find_locked(eng, g->client->number);
    if (known) {
        free(g->client);
        g->client = known;
    } else {
        g->client->next = eng->client;
        eng->client = g->client;
    }
    g->client->n_group++;
}

// The counter of the least served client with groups that have been collected; 0: there is none.
static bool find_least_locked(const fx_engine *eng, uint64_t *served)
{
    bool found = false;
    for (const fxi_client *c = eng->client; c; c = c->next) {
        if (!c->n_collected || (found && c->served >= *served)) continue;
        *served = c->served;
        found = true;
    }
    return found;
}

// Forgets those without a group that are not ahead of anybody.
static void forget_idle_locked(fx_engine *eng)
{
    uint64_t least = UINT64_MAX;
    int n_idle = 0;
    (void)find_least_locked(eng, &least);
    for (fxi_client **at = &eng->client; *at;) {
        fxi_client *c = *at;
        const bool is_idle = !c->n_group;
        if (is_idle && (c->served <= least || n_idle == MAX_IDLE)) {
            *at = c->next;
            free(c);
            continue;
        }
        n_idle += is_idle;
        at = &c->next;
    }
}

void fxi_clients_leave_locked(fx_engine *eng, fxi_group *g)
{
    fxi_client *c = g->client;
    g->client = NULL;
    c->n_collected--;
    if (!--c->n_group) forget_idle_locked(eng);
}

void fxi_clients_collect(fx_engine *eng, fxi_group *g)
{
    fxi_client *c = g->client;
    uint64_t least = 0;
    pthread_mutex_lock(&eng->mu);
    if (!c->n_collected && find_least_locked(eng, &least) && c->served < least) c->served = least;
    c->n_collected++;
    pthread_mutex_unlock(&eng->mu);
}

void fxi_clients_free(fx_engine *eng)
{
    for (fxi_client *c = eng->client, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    eng->client = NULL;
}

// ---- counters ----------------------------------------------------------------------------------

void fxi_clients_count_waiting(fx_engine *eng, fxi_client *c, int sign)
{
    if (!c->n_waiting) eng->n_waiting_client++;
    c->n_waiting += sign;
    if (!c->n_waiting) eng->n_waiting_client--;
}

void fxi_clients_serve_prompt(fxi_client *c, int n_tok)
{
    c->served += (uint64_t)n_tok;
}

void fxi_clients_serve_tokens(fxi_client *c, int n_tok)
{
    c->served += 2 * (uint64_t)n_tok;
}
