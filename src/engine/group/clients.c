// clients.c - who sends requests, what each has been served, and whose turn it is: fair queueing
// with a virtual time (Demers, Keshav, Shenker, SIGCOMM 1989) over the counters of Sheng et al.,
// "Fairness in Serving Large Language Models" (OSDI 2024, arXiv 2401.00588).
//
// A client's counter grows by the tokens of each prompt that is admitted, less what the cache had,
// and by two for each token that is generated: prompts share a pass over the weights. The VIRTUAL
// TIME is what a client would have been served if all that have groups shared alike: it grows by
// each of these tokens over their number. Among those that wait with one priority the client with
// the lowest counter is next; one that begins to wait has at least the virtual time. So
//
//   nobody saves up          what a client did not ask for meanwhile is lost
//   nobody waits for ever    the virtual time passes every counter, so that clients that come later
//                            and later begin behind it. A chain of new ones holds nobody up
//
// The time keeps to those that wait: it never lags behind all of them, as where others ask for less
// than their share, and nobody begins more than SPREAD ahead of the least served. A client that has
// left is remembered as long as it is ahead of the time.
#include "engine/engine.h"

#include <stdlib.h>

#define TOKEN    ((uint64_t)1 << 16) // a token in a counter
#define SPREAD   (65536 * TOKEN)
#define MAX_IDLE 1024 // clients that are remembered without a group

static fxi_client *client_at(fxi_treap_node *n)
{
    return FXI_TREAP_OF(n, fxi_client, known_at);
}

static bool by_number(const fxi_treap_node *a, const fxi_treap_node *b)
{
    const fxi_client *x = FXI_TREAP_OF(a, fxi_client, known_at);
    const fxi_client *y = FXI_TREAP_OF(b, fxi_client, known_at);
    return x->number < y->number;
}

static bool by_served(const fxi_treap_node *a, const fxi_treap_node *b)
{
    const fxi_client *x = FXI_TREAP_OF(a, fxi_client, idle_at);
    const fxi_client *y = FXI_TREAP_OF(b, fxi_client, idle_at);
    return x->served < y->served;
}

static bool by_turn(const fxi_treap_node *a, const fxi_treap_node *b)
{
    const fxi_group *x = FXI_TREAP_OF(a, fxi_group, turn_at);
    const fxi_group *y = FXI_TREAP_OF(b, fxi_group, turn_at);
    return x->turn_served < y->turn_served ||
           (x->turn_served == y->turn_served && fxi_group_goes_before(x, y));
}

static bool by_line(const fxi_treap_node *a, const fxi_treap_node *b)
{
    const fxi_group *x = FXI_TREAP_OF(a, fxi_group, line_at);
    const fxi_group *y = FXI_TREAP_OF(b, fxi_group, line_at);
    return x->req.priority < y->req.priority ||
           (x->req.priority == y->req.priority && fxi_group_goes_before(x, y));
}

// ---- the table ---------------------------------------------------------------------------------

void fxi_clients_init(fx_engine *eng, uint64_t seed)
{
    eng->client = (fxi_treap){.before = by_number, .seed = seed};
    eng->idle_client = (fxi_treap){.before = by_served, .seed = seed};
    for (size_t i = 0; i < sizeof eng->turn / sizeof eng->turn[0]; i++)
        eng->turn[i] = (fxi_treap){.before = by_turn, .seed = seed};
}

fxi_client *fxi_clients_make(uint64_t number, uint64_t seed)
{
    fxi_client *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->number = number;
    c->line = (fxi_treap){.before = by_line, .seed = seed};
    return c;
}

fxi_client *fxi_clients_find_locked(const fx_engine *eng, uint64_t number)
{
    const fxi_client key = {.number = number};
    fxi_client *c = client_at(fxi_treap_find(&eng->client, &key.known_at));
    return c && c->number == number ? c : NULL;
}

static void remember_idle_locked(fx_engine *eng, fxi_client *c, bool is_idle)
{
    (is_idle ? fxi_treap_add : fxi_treap_remove)(&eng->idle_client, &c->idle_at);
    eng->n_idle_client += is_idle ? 1 : -1;
}

void fxi_clients_enter_locked(fx_engine *eng, fxi_group *g)
{
    fxi_client *known = fxi_clients_find_locked(eng, g->client->number);
    if (known) {
        free(g->client);
        g->client = known;
    } else {
        fxi_treap_add(&eng->client, &g->client->known_at);
    }
    if (fxi_treap_has(&g->client->idle_at)) remember_idle_locked(eng, g->client, false);
    g->client->n_group++;
}

// Forgets those without a group that are not ahead of the time, and all if nobody is there.
static void forget_idle_locked(fx_engine *eng)
{
    for (;;) {
        fxi_treap_node *n = fxi_treap_first(&eng->idle_client);
        fxi_client *c = FXI_TREAP_OF(n, fxi_client, idle_at);
        const bool all = !eng->n_client || eng->n_idle_client > MAX_IDLE;
        if (!c || (!all && c->served > eng->fair_time)) return;
        remember_idle_locked(eng, c, false);
        fxi_treap_remove(&eng->client, &c->known_at);
        free(c);
    }
}

void fxi_clients_leave_locked(fx_engine *eng, fxi_group *g)
{
    fxi_client *c = g->client;
    g->client = NULL;
    eng->n_client -= !--c->n_collected;
    if (--c->n_group) return;
    remember_idle_locked(eng, c, true);
    forget_idle_locked(eng);
}

void fxi_clients_free(fx_engine *eng)
{
    for (fxi_client *c; (c = client_at(fxi_treap_first(&eng->client)));) {
        fxi_treap_remove(&eng->client, &c->known_at);
        free(c);
    }
}

// ---- counters ----------------------------------------------------------------------------------

// c begins to wait, beside others of this priority.
static void catch_up(fx_engine *eng, fxi_client *c, int priority)
{
    const fxi_group *least = fxi_clients_least(eng, priority);
    if (least && eng->fair_time < least->client->served) eng->fair_time = least->client->served;
    if (c->served < eng->fair_time) c->served = eng->fair_time;
    if (least && c->served > least->client->served + SPREAD)
        c->served = least->client->served + SPREAD;
}

void fxi_clients_collect(fx_engine *eng, fxi_group *g)
{
    fxi_client *c = g->client;
    eng->n_client += !c->n_collected++;
    if (!c->n_waiting) catch_up(eng, c, g->req.priority);
}

static void serve_client(fx_engine *eng, fxi_client *c, uint64_t n)
{
    c->served += n * TOKEN;
    eng->fair_time += n * TOKEN / (uint64_t)eng->n_client;
}

void fxi_clients_serve_prompt(fx_engine *eng, fxi_client *c, int n_tok)
{
    serve_client(eng, c, (uint64_t)n_tok);
}

void fxi_clients_serve_tokens(fx_engine *eng, fxi_client *c, int n_tok)
{
    serve_client(eng, c, 2 * (uint64_t)n_tok);
}

// ---- lines and turns ---------------------------------------------------------------------------

static fxi_treap *turns_at(fx_engine *eng, int priority)
{
    return &eng->turn[priority + FX_MAX_PRIORITY];
}

static bool is_of_line(const fxi_group *a, const fxi_group *b)
{
    return a && a->req.priority == b->req.priority;
}

fxi_group *fxi_clients_behind(const fxi_group *g)
{
    fxi_group *next = FXI_TREAP_OF(fxi_treap_next(&g->line_at), fxi_group, line_at);
    return is_of_line(next, g) ? next : NULL;
}

static void take_turns(fx_engine *eng, fxi_group *g)
{
    g->turn_served = g->client->served;
    fxi_treap_add(turns_at(eng, g->req.priority), &g->turn_at);
}

void fxi_clients_line_up(fx_engine *eng, fxi_group *g)
{
    fxi_treap_add(&g->client->line, &g->line_at);
    if (is_of_line(FXI_TREAP_OF(fxi_treap_prev(&g->line_at), fxi_group, line_at), g)) return;
    fxi_group *next = fxi_clients_behind(g);
    if (next) fxi_treap_remove(turns_at(eng, g->req.priority), &next->turn_at);
    take_turns(eng, g);
}

void fxi_clients_step_out(fx_engine *eng, fxi_group *g)
{
    fxi_group *next = fxi_clients_behind(g);
    const bool is_first = fxi_treap_has(&g->turn_at);
    fxi_treap_remove(&g->client->line, &g->line_at);
    if (!is_first) return;
    fxi_treap_remove(turns_at(eng, g->req.priority), &g->turn_at);
    if (next) take_turns(eng, next);
}

// Counters grow while their clients wait; the places of those that get to the front are brought up
// to date.
fxi_group *fxi_clients_least(fx_engine *eng, int priority)
{
    fxi_treap *turns = turns_at(eng, priority);
    for (;;) {
        fxi_group *g = FXI_TREAP_OF(fxi_treap_first(turns), fxi_group, turn_at);
        if (!g || g->turn_served == g->client->served) return g;
        fxi_treap_remove(turns, &g->turn_at);
        take_turns(eng, g);
    }
}
