// sched.c - the states and lists of requests; see sched.h.
//
// A request changes its state here and nowhere else, so that state, list and counters always agree.
#include "engine/sched/sched.h"

#include <limits.h>
#include <stdlib.h>

// The list and the counters that each state belongs to, and the event of getting into it.
static const struct state_row {
    bool in_line, aside, runs;            // it is on that list
    bool is_queued;                       // it counts in n_queued and n_queued_tok
    bool is_swapped;                      // it counts in n_swapped
    bool is_swapping_out, is_swapping_in; // it counts in these
    int event;                            // FX_RECORD_*
} state_rows[FXI_N_STATE] = {
    [FXI_NEW] = {.is_queued = true},
    [FXI_WAITING] = {.in_line = true, .is_queued = true, .event = FX_RECORD_wait},
    [FXI_JOINING] = {.aside = true, .is_queued = true, .event = FX_RECORD_wait},
    [FXI_SWAPPING_OUT] = {.in_line = true,
                          .is_queued = true,
                          .is_swapped = true,
                          .is_swapping_out = true,
                          .event = FX_RECORD_leave},
    [FXI_SWAPPED] = {.in_line = true,
                     .is_queued = true,
                     .is_swapped = true,
                     .event = FX_RECORD_away},
    [FXI_SWAPPING_IN] = {.aside = true,
                         .is_queued = true,
                         .is_swapped = true,
                         .is_swapping_in = true,
                         .event = FX_RECORD_come},
    [FXI_RUNNING] = {.runs = true, .event = FX_RECORD_admit},
    [FXI_ENDED] = {.event = FX_RECORD_finish},
};

// ---- orders ------------------------------------------------------------------------------------

static bool by_order(const fxi_treap_node *a, const fxi_treap_node *b)
{
    return fxi_request_goes_before(FXI_TREAP_OF(a, fxi_live_request, list_at),
                                   FXI_TREAP_OF(b, fxi_live_request, list_at));
}

static bool by_tokens(const fxi_treap_node *a, const fxi_treap_node *b)
{
    const fxi_seq *x = FXI_TREAP_OF(a, fxi_seq, fill_at), *y = FXI_TREAP_OF(b, fxi_seq, fill_at);
    const uintptr_t in_x = (uintptr_t)x->request->domain, in_y = (uintptr_t)y->request->domain;
    const int n_tok = x->n_tok < y->n_tok ? x->n_tok : y->n_tok;
    int i = 0;
    if (in_x != in_y) return in_x < in_y;
    while (i < n_tok && x->tok[i] == y->tok[i]) i++;
    return i < n_tok ? x->tok[i] < y->tok[i] : x->n_tok < y->n_tok;
}

static bool by_joined(const fxi_treap_node *a, const fxi_treap_node *b)
{
    const fxi_wait *x = FXI_TREAP_OF(a, fxi_wait, at), *y = FXI_TREAP_OF(b, fxi_wait, at);
    if (x->request_id != y->request_id) return x->request_id < y->request_id;
    return x->choice != y->choice ? x->choice < y->choice : x->n_tok < y->n_tok;
}

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

void fxi_sched_init(fxi_sched *d, const fxi_journal *journal, uint64_t seed)
{
    d->journal = journal;
    d->n_freed = 1;
    d->waiting.at = d->aside.at = d->running.at = (fxi_treap){.before = by_order, .seed = seed};
    d->filling = (fxi_treap){.before = by_tokens, .seed = seed};
    d->joining = (fxi_treap){.before = by_joined, .seed = seed};
    fxi_clients *c = &d->clients;
    c->seed = seed;
    c->known = (fxi_treap){.before = by_number, .seed = seed};
    c->idle = (fxi_treap){.before = by_served, .seed = seed};
    for (size_t i = 0; i < sizeof c->turn / sizeof c->turn[0]; i++)
        c->turn[i] = (fxi_treap){.before = by_turn, .seed = seed};
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

static void line_up(fxi_clients *c, fxi_live_request *r)
{
    fxi_treap_add(&r->client->line, &r->line_at);
    const fxi_live_request *before =
        FXI_TREAP_OF(fxi_treap_prev(&r->line_at), fxi_live_request, line_at);
    if (is_same_line(before, r)) return;
    fxi_live_request *next = fxi_clients_after(r);
    if (next) fxi_treap_remove(turns_at(c, r->spec.priority), &next->turn_at);
    take_turns(c, r);
}

static void leave_line(fxi_clients *c, fxi_live_request *r)
{
    fxi_live_request *next = fxi_clients_after(r);
    const bool is_first = fxi_treap_has(&r->turn_at);
    fxi_treap_remove(&r->client->line, &r->line_at);
    if (!is_first) return;
    fxi_treap_remove(turns_at(c, r->spec.priority), &r->turn_at);
    if (next) take_turns(c, next);
}

// The first request in line of the least served client of those that wait with this priority. NULL:
// there is none. Counters grow while their clients wait: a request that gets to the front with an
// old one is put back to its place.
static fxi_live_request *least_served(fxi_clients *c, int priority)
{
    fxi_treap *turns = turns_at(c, priority);
    for (;;) {
        fxi_live_request *r = FXI_TREAP_OF(fxi_treap_first(turns), fxi_live_request, turn_at);
        if (!r || r->turn_served == r->client->served) return r;
        fxi_treap_remove(turns, &r->turn_at);
        take_turns(c, r);
    }
}

// ---- lists -------------------------------------------------------------------------------------

static void link_request(fxi_request_list *l, fxi_live_request *r)
{
    fxi_treap_add(&l->at, &r->list_at);
    fxi_live_request *prev = FXI_TREAP_OF(fxi_treap_prev(&r->list_at), fxi_live_request, list_at);
    r->prev = prev;
    r->next = prev ? prev->next : l->head;
    *(prev ? &prev->next : &l->head) = r;
    *(r->next ? &r->next->prev : &l->tail) = r;
    l->n_seq += r->n_seq;
}

static void unlink_request(fxi_request_list *l, fxi_live_request *r)
{
    fxi_treap_remove(&l->at, &r->list_at);
    *(r->prev ? &r->prev->next : &l->head) = r->next;
    *(r->next ? &r->next->prev : &l->tail) = r->prev;
    r->prev = r->next = NULL;
    l->n_seq -= r->n_seq;
}

static fxi_request_list *list_for(fxi_sched *d, const struct state_row *row)
{
    return row->in_line ? &d->waiting : row->aside ? &d->aside : row->runs ? &d->running : NULL;
}

static void change_list(fxi_sched *d, fxi_live_request *r, const struct state_row *old,
                        const struct state_row *new)
{
    fxi_request_list *from = list_for(d, old), *into = list_for(d, new);
    const bool waited = old->in_line || old->aside, waits = new->in_line || new->aside;
    if (from == into) return;
    if (old->in_line) leave_line(&d->clients, r);
    if (from) unlink_request(from, r);
    if (into) link_request(into, r);
    if (new->in_line) line_up(&d->clients, r);
    d->some_wait_decided |= waits && fxi_request_is_decided(r);
    r->client->n_waiting += waits - waited;
}

void fxi_sched_count_queued(fxi_sched *d, const fxi_live_request *r, int sign)
{
    const int64_t n_tok = sign * (int64_t)r->spec.n_prompt;
    d->n_queued += sign * r->n_seq;
    d->n_queued_tok += n_tok;
    r->client->n_queued += sign * r->n_seq;
    r->client->n_queued_tok += n_tok;
}

// To the flight recorder, WAITING and JOINING are the same.
static void note_move(const fxi_sched *d, const fxi_live_request *r, fxi_request_state to)
{
    const int kind = r->state == FXI_NEW ? FX_RECORD_arrive : state_rows[to].event;
    const fx_finish finish = to == FXI_ENDED ? r->seq[0].finish : FX_FINISH_NONE;
    if (r->state != FXI_NEW && state_rows[r->state].event == kind) return;
    fxi_journal_note(d->journal, (fx_record){.kind = (uint8_t)kind,
                                             .request = r->id,
                                             .n_tok = (uint32_t)r->spec.n_prompt,
                                             .n = (uint32_t)r->n_seq,
                                             .finish = (uint8_t)finish});
}

void fxi_sched_move(fxi_sched *d, fxi_live_request *r, fxi_request_state to)
{
    const struct state_row *old = &state_rows[r->state], *new = &state_rows[to];
    change_list(d, r, old, new);
    if (r->state == FXI_JOINING) fxi_treap_remove(&d->joining, &r->wait.at);
    // It waits with its first sequence that is alive.
    if (to == FXI_JOINING) {
        const struct fxi_join *j = &fxi_request_first_live(r)->join;
        r->wait = (fxi_wait){.request_id = j->request_id, .choice = j->choice, .n_tok = j->n_tok};
        fxi_treap_add(&d->joining, &r->wait.at);
    }
    if (old->is_queued != new->is_queued)
        fxi_sched_count_queued(d, r, new->is_queued - old->is_queued);
    d->n_swapped += (new->is_swapped - old->is_swapped) * r->n_seq;
    d->n_swapping_out += (new->is_swapping_out - old->is_swapping_out) * r->n_seq;
    d->n_swapping_in += (new->is_swapping_in - old->is_swapping_in) * r->n_seq;
    note_move(d, r, to);
    r->state = to;
    for (int i = 0; i < r->n_seq; i++) fxi_sched_list_filling(d, &r->seq[i]);
}

fxi_live_request *fxi_sched_first(fxi_sched *d)
{
    const fxi_live_request *head = d->waiting.head;
    return head ? least_served(&d->clients, head->spec.priority) : NULL;
}

void fxi_sched_pick(fxi_sched *d, fxi_live_request *r)
{
    const fxi_live_request *head = d->waiting.head;
    if (r == head) return;
    leave_line(&d->clients, r);
    unlink_request(&d->waiting, r);
    r->order_ms = head->order_ms - (r->id > head->id);
    link_request(&d->waiting, r);
    line_up(&d->clients, r);
}

// ---- waiting for a prefix ----------------------------------------------------------------------

// Nobody waits for a sequence that no longer computes known tokens.
void fxi_sched_list_filling(fxi_sched *d, fxi_seq *s)
{
    const bool is_listed = fxi_treap_has(&s->fill_at), runs = s->request->state == FXI_RUNNING;
    const bool must = s->is_filling && runs && !s->request->spec.no_cache;
    if (must == is_listed) return;
    (must ? fxi_treap_add : fxi_treap_remove)(&d->filling, &s->fill_at);
    if (!must) fxi_sched_release_joined(d, s, INT_MAX);
}

void fxi_sched_release_joined(fxi_sched *d, const fxi_seq *s, int n_tok)
{
    const fxi_wait key = {.request_id = s->request->id, .choice = s->choice};
    fxi_wait *w;
    if (!d->joining.root) return;
    while ((w = FXI_TREAP_OF(fxi_treap_find(&d->joining, &key.at), fxi_wait, at))) {
        if (w->request_id != key.request_id || w->choice != key.choice || w->n_tok > n_tok) return;
        fxi_treap_remove(&d->joining, &w->at);
        *w = (fxi_wait){0};
        fxi_treap_add(&d->joining, &w->at);
    }
}

fxi_live_request *fxi_sched_released(const fxi_sched *d)
{
    const fxi_wait *w = FXI_TREAP_OF(fxi_treap_first(&d->joining), fxi_wait, at);
    return w && !w->request_id ? FXI_TREAP_OF(&w->at, fxi_live_request, wait.at) : NULL;
}

// ---- grammars that are not ready ---------------------------------------------------------------

// Beams are sampled together, and a whole prompt is not computed in two passes.
static bool may_be_late(const fxi_live_request *r)
{
    return !r->beam && !r->is_whole;
}

static bool is_ready(fxi_sched *d, fxi_seq *s)
{
    return !s->request->spec.grammar || fxi_seq_is_ready(s, &d->mask_left);
}

void fxi_defer_unready(fxi_sched *d, fxi_live_request *r)
{
    for (int i = 0; i < r->n_seq; i++) {
        fxi_seq *s = &r->seq[i];
        if (fxi_seq_may_compute(s))
            s->is_deferred = !is_ready(d, s) && (s->is_late || !may_be_late(r));
    }
}

bool fxi_defer_sample(fxi_sched *d, fxi_seq *s)
{
    s->is_late = may_be_late(s->request) && !is_ready(d, s);
    return s->is_late;
}

// ---- clients ------------------------------------------------------------------------------------

// What each client has been served, and whose turn it is: fair queueing with a virtual time
// (Demers, Keshav, Shenker, SIGCOMM 1989) over the counters of Sheng et al., "Fairness in Serving
// Large Language Models" (OSDI 2024, arXiv 2401.00588).
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

#define TOKEN    ((uint64_t)1 << 16) // a token in a counter
#define SPREAD   (65536 * TOKEN)
#define MAX_IDLE 1024 // clients that are remembered without a request

// ---- the table ---------------------------------------------------------------------------------

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

void fxi_clients_collect(fxi_clients *c, fxi_live_request *r)
{
    fxi_client *x = r->client;
    c->n_collected += !x->n_collected++;
    // x begins to wait with this priority.
    if (!x->n_waiting) {
        const fxi_live_request *least = least_served(c, r->spec.priority);
        if (least && c->time < least->client->served) c->time = least->client->served;
        if (x->served < c->time) x->served = c->time;
        if (least && x->served > least->client->served + SPREAD)
            x->served = least->client->served + SPREAD;
    }
}

void fxi_clients_serve(fxi_clients *c, fxi_client *to, int n_prompt_tok, int n_generated_tok)
{
    const uint64_t n = (uint64_t)n_prompt_tok + 2 * (uint64_t)n_generated_tok;
    to->served += n * TOKEN;
    c->time += n * TOKEN / (uint64_t)c->n_collected;
}
