// clients.c - what each client has been served, and whose turn it is: fair queueing with a virtual
// time (Demers, Keshav, Shenker, SIGCOMM 1989) over the counters of Sheng et al., "Fairness in
// Serving Large Language Models" (OSDI 2024, arXiv 2401.00588).
//
// A client's counter grows by the tokens of each prompt that is admitted, less what the cache had,
// and by two for each token that is generated: prompts share a pass over the weights. The VIRTUAL
// TIME is what a client would have been served if all that have requests shared alike: it grows by
// each of these tokens divided by their number. Among those that wait with one priority the client
// with the lowest counter is next; one that begins to wait has at least the virtual time. So
//
//   no client saves up          what it did not ask for in the meantime is lost
//   no client waits for ever    the virtual time passes every counter, and clients that come later
//                               start after it: a chain of new ones delays no client
//
// The time never lags behind all clients that wait, as it would where others ask for less than
// their share, and none begins more than SPREAD ahead of the least served. A client that has left
// is remembered as long as it is ahead of the time.
#include "engine/sched/sched.h"

#include <stdlib.h>

#define TOKEN    ((uint64_t)1 << 16) // a token in a counter
#define SPREAD   (65536 * TOKEN)
#define MAX_IDLE 1024 // clients that are remembered without a request

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
    const fxi_live_request *x = FXI_TREAP_OF(a, fxi_live_request, turn_at);
    const fxi_live_request *y = FXI_TREAP_OF(b, fxi_live_request, turn_at);
    return x->turn_served < y->turn_served ||
           (x->turn_served == y->turn_served && fxi_request_goes_before(x, y));
}

static bool by_line(const fxi_treap_node *a, const fxi_treap_node *b)
{
    const fxi_live_request *x = FXI_TREAP_OF(a, fxi_live_request, line_at);
    const fxi_live_request *y = FXI_TREAP_OF(b, fxi_live_request, line_at);
    return x->spec.priority < y->spec.priority ||
           (x->spec.priority == y->spec.priority && fxi_request_goes_before(x, y));
}

// ---- the table ---------------------------------------------------------------------------------

void fxi_clients_init(fxi_clients *c, uint64_t seed)
{
    c->seed = seed;
    c->known = (fxi_treap){.before = by_number, .seed = seed};
    c->idle = (fxi_treap){.before = by_served, .seed = seed};
    for (size_t i = 0; i < sizeof c->turn / sizeof c->turn[0]; i++)
        c->turn[i] = (fxi_treap){.before = by_turn, .seed = seed};
}

void fxi_clients_free(fxi_clients *c)
{
    for (fxi_client *x; (x = client_at(fxi_treap_first(&c->known)));) {
        fxi_treap_remove(&c->known, &x->known_at);
        free(x);
    }
}

fxi_client *fxi_client_make(const fxi_clients *c, uint64_t number)
{
    fxi_client *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->number = number;
    x->line = (fxi_treap){.before = by_line, .seed = c->seed};
    return x;
}

fxi_client *fxi_clients_find_locked(const fxi_clients *c, uint64_t number)
{
    const fxi_client key = {.number = number};
    fxi_client *x = client_at(fxi_treap_find(&c->known, &key.known_at));
    return x && x->number == number ? x : NULL;
}

static void list_idle_locked(fxi_clients *c, fxi_client *x, bool is_idle)
{
    (is_idle ? fxi_treap_add : fxi_treap_remove)(&c->idle, &x->idle_at);
    c->n_idle += is_idle ? 1 : -1;
}

void fxi_clients_enter_locked(fxi_clients *c, fxi_live_request *r)
{
    fxi_client *known = fxi_clients_find_locked(c, r->client->number);
    if (known) {
        free(r->client);
        r->client = known;
    } else {
        fxi_treap_add(&c->known, &r->client->known_at);
    }
    if (fxi_treap_has(&r->client->idle_at)) list_idle_locked(c, r->client, false);
    r->client->n_request++;
}

// Forgets idle clients that are not ahead of the time, and all of them if no other client is there.
static void forget_idle_locked(fxi_clients *c)
{
    for (;;) {
        fxi_client *x = FXI_TREAP_OF(fxi_treap_first(&c->idle), fxi_client, idle_at);
        const bool all = !c->n_collected || c->n_idle > MAX_IDLE;
        if (!x || (!all && x->served > c->time)) return;
        list_idle_locked(c, x, false);
        fxi_treap_remove(&c->known, &x->known_at);
        free(x);
    }
}

void fxi_clients_leave_locked(fxi_clients *c, fxi_live_request *r)
{
    fxi_client *x = r->client;
    r->client = NULL;
    c->n_collected -= !--x->n_collected;
    if (--x->n_request) return;
    list_idle_locked(c, x, true);
    forget_idle_locked(c);
}

// ---- counters ----------------------------------------------------------------------------------

// x begins to wait with this priority.
static void catch_up(fxi_clients *c, fxi_client *x, int priority)
{
    const fxi_live_request *least = fxi_clients_least(c, priority);
    if (least && c->time < least->client->served) c->time = least->client->served;
    if (x->served < c->time) x->served = c->time;
    if (least && x->served > least->client->served + SPREAD)
        x->served = least->client->served + SPREAD;
}

void fxi_clients_collect(fxi_clients *c, fxi_live_request *r)
{
    fxi_client *x = r->client;
    c->n_collected += !x->n_collected++;
    if (!x->n_waiting) catch_up(c, x, r->spec.priority);
}

static void serve_client(fxi_clients *c, fxi_client *to, uint64_t n)
{
    to->served += n * TOKEN;
    c->time += n * TOKEN / (uint64_t)c->n_collected;
}

void fxi_clients_serve_prompt(fxi_clients *c, fxi_client *to, int n_tok)
{
    serve_client(c, to, (uint64_t)n_tok);
}

void fxi_clients_serve_tokens(fxi_clients *c, fxi_client *to, int n_tok)
{
    serve_client(c, to, 2 * (uint64_t)n_tok);
}

// ---- lines and turns ---------------------------------------------------------------------------

static fxi_treap *turns_at(fxi_clients *c, int priority)
{
    return &c->turn[priority + FX_MAX_PRIORITY];
}

static bool is_same_line(const fxi_live_request *a, const fxi_live_request *b)
{
    return a && a->spec.priority == b->spec.priority;
}

fxi_live_request *fxi_clients_after(const fxi_live_request *r)
{
    fxi_live_request *next = FXI_TREAP_OF(fxi_treap_next(&r->line_at), fxi_live_request, line_at);
    return is_same_line(next, r) ? next : NULL;
}

static void take_turns(fxi_clients *c, fxi_live_request *r)
{
    r->turn_served = r->client->served;
    fxi_treap_add(turns_at(c, r->spec.priority), &r->turn_at);
}

void fxi_clients_line_up(fxi_clients *c, fxi_live_request *r)
{
    fxi_treap_add(&r->client->line, &r->line_at);
    const fxi_live_request *before =
        FXI_TREAP_OF(fxi_treap_prev(&r->line_at), fxi_live_request, line_at);
    if (is_same_line(before, r)) return;
    fxi_live_request *next = fxi_clients_after(r);
    if (next) fxi_treap_remove(turns_at(c, r->spec.priority), &next->turn_at);
    take_turns(c, r);
}

void fxi_clients_leave_line(fxi_clients *c, fxi_live_request *r)
{
    fxi_live_request *next = fxi_clients_after(r);
    const bool is_first = fxi_treap_has(&r->turn_at);
    fxi_treap_remove(&r->client->line, &r->line_at);
    if (!is_first) return;
    fxi_treap_remove(turns_at(c, r->spec.priority), &r->turn_at);
    if (next) take_turns(c, next);
}

// Counters grow while their clients wait: a request that gets to the front with an old one is put
// back to its place.
fxi_live_request *fxi_clients_least(fxi_clients *c, int priority)
{
    fxi_treap *turns = turns_at(c, priority);
    for (;;) {
        fxi_live_request *r = FXI_TREAP_OF(fxi_treap_first(turns), fxi_live_request, turn_at);
        if (!r || r->turn_served == r->client->served) return r;
        fxi_treap_remove(turns, &r->turn_at);
        take_turns(c, r);
    }
}
