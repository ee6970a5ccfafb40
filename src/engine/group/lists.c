// lists.c - which groups wait and which run, in the order in which they are served.
//
// A group changes its state here and nowhere else, so that state, list and counters always agree.
#include "engine/engine.h"

// The list and the counters that each state belongs to, and the event that a group gets into it.
static const struct state_row {
    bool in_line, aside, runs;  // it is on that list
    bool is_queued;             // it counts in n_queued and n_queued_tok
    bool is_swapped;            // it counts in n_swapped
    bool is_leaving, is_coming; // it counts in n_leaving, n_coming
    int event;                  // FX_RECORD_*
} state_rows[FXI_N_STATE] = {
    [FXI_NEW] = {.is_queued = true},
    [FXI_WAITING] = {.in_line = true, .is_queued = true, .event = FX_RECORD_wait},
    [FXI_JOINING] = {.aside = true, .is_queued = true, .event = FX_RECORD_wait},
    [FXI_LEAVING] = {.in_line = true,
                     .is_queued = true,
                     .is_swapped = true,
                     .is_leaving = true,
                     .event = FX_RECORD_leave},
    [FXI_SWAPPED] = {.in_line = true,
                     .is_queued = true,
                     .is_swapped = true,
                     .event = FX_RECORD_away},
    [FXI_COMING] = {.aside = true,
                    .is_queued = true,
                    .is_swapped = true,
                    .is_coming = true,
                    .event = FX_RECORD_come},
    [FXI_RUNNING] = {.runs = true, .event = FX_RECORD_admit},
    [FXI_ENDED] = {.event = FX_RECORD_finish},
};

static bool by_order(const fxi_treap_node *a, const fxi_treap_node *b)
{
    return fxi_group_goes_before(FXI_TREAP_OF(a, fxi_group, list_at),
                                 FXI_TREAP_OF(b, fxi_group, list_at));
}

static bool by_id(const fxi_treap_node *a, const fxi_treap_node *b)
{
    return FXI_TREAP_OF(a, fxi_group, live_at)->id < FXI_TREAP_OF(b, fxi_group, live_at)->id;
}

void fxi_lists_init(fx_engine *eng, uint64_t seed)
{
    const fxi_treap empty = {.before = by_order, .seed = seed};
    eng->waiting.at = eng->aside.at = eng->running.at = empty;
    eng->live = (fxi_treap){.before = by_id, .seed = seed};
    eng->filling = (fxi_treap){.before = fxi_seq_goes_before, .seed = seed};
    eng->joining = (fxi_treap){.before = fxi_seq_waits_before, .seed = seed};
    fxi_clients_init(eng, seed);
}

fxi_group *fxi_lists_find_locked(const fx_engine *eng, uint64_t id)
{
    const fxi_group key = {.id = id};
    fxi_group *g = FXI_TREAP_OF(fxi_treap_find(&eng->live, &key.live_at), fxi_group, live_at);
    return g && g->id == id ? g : NULL;
}

static void insert_group(fxi_group_list *l, fxi_group *g)
{
    fxi_treap_add(&l->at, &g->list_at);
    fxi_group *prev = FXI_TREAP_OF(fxi_treap_prev(&g->list_at), fxi_group, list_at);
    g->prev = prev;
    g->next = prev ? prev->next : l->head;
    *(prev ? &prev->next : &l->head) = g;
    *(g->next ? &g->next->prev : &l->tail) = g;
    l->n_seq += g->n_seq;
    l->n_grammar += g->req.grammar != NULL;
}

static void remove_group(fxi_group_list *l, fxi_group *g)
{
    fxi_treap_remove(&l->at, &g->list_at);
    *(g->prev ? &g->prev->next : &l->head) = g->next;
    *(g->next ? &g->next->prev : &l->tail) = g->prev;
    g->prev = g->next = NULL;
    l->n_seq -= g->n_seq;
    l->n_grammar -= g->req.grammar != NULL;
}

static fxi_group_list *list_for(fx_engine *eng, const struct state_row *row)
{
    return row->in_line ? &eng->waiting
           : row->aside ? &eng->aside
           : row->runs  ? &eng->running
                        : NULL;
}

static void count_locked(fx_engine *eng, const fxi_group *g, int sign)
{
    eng->n_queued += sign * g->n_seq;
    eng->n_queued_tok += sign * (int64_t)g->req.n_prompt;
    g->client->n_queued += sign * g->n_seq;
    g->client->n_queued_tok += sign * (int64_t)g->req.n_prompt;
}

void fxi_lists_queue_locked(fx_engine *eng, const fxi_group *g)
{
    count_locked(eng, g, +1);
}

static void count_queue(fx_engine *eng, const fxi_group *g, int sign)
{
    pthread_mutex_lock(&eng->mu);
    count_locked(eng, g, sign);
    pthread_mutex_unlock(&eng->mu);
}

static void note_move(const fx_engine *eng, const fxi_group *g, fxi_group_state to)
{
    const int kind = g->state == FXI_NEW ? FX_RECORD_arrive : state_rows[to].event;
    const fx_finish finish = to == FXI_ENDED ? g->seq[0].finish : FX_FINISH_NONE;
    fxi_engine_note(eng, (fx_record){.kind = (uint8_t)kind,
                                     .request = g->id,
                                     .n_tok = (uint32_t)g->req.n_prompt,
                                     .n = (uint32_t)g->n_seq,
                                     .finish = (uint8_t)finish});
}

// A group that waits for another's prefix, or no longer does, waits as before.
static bool is_noted(const fxi_group *g, fxi_group_state to)
{
    return g->state == FXI_NEW || state_rows[g->state].event != state_rows[to].event;
}

static void count_waiting(fxi_group *g, const struct state_row *old, const struct state_row *new)
{
    g->client->n_waiting += (new->in_line || new->aside) - (old->in_line || old->aside);
}

static bool is_decided(const fxi_group *g)
{
    for (int i = 0; i < g->n_seq; i++)
        if (g->seq[i].state != FXI_SEQ_DONE && g->seq[i].finish != FX_FINISH_NONE) return true;
    return false;
}

static void change_list(fx_engine *eng, fxi_group *g, const struct state_row *old,
                        const struct state_row *new)
{
    fxi_group_list *from = list_for(eng, old), *into = list_for(eng, new);
    if (from == into) return;
    if (old->in_line) fxi_clients_step_out(eng, g);
    if (from) remove_group(from, g);
    if (into) insert_group(into, g);
    if (new->in_line) fxi_clients_line_up(eng, g);
    eng->some_wait_decided |= (new->in_line || new->aside) && is_decided(g);
    count_waiting(g, old, new);
}

// It waits with its first sequence that is alive.
static void begin_joining(fx_engine *eng, fxi_group *g)
{
    int i = 0;
    while (i < g->n_seq - 1 && g->seq[i].state != FXI_SEQ_LIVE) i++;
    const struct fxi_join *j = &g->seq[i].join;
    g->wait = (fxi_wait){.group_id = j->group_id, .choice = j->choice, .n_tok = j->n_tok};
    fxi_treap_add(&eng->joining, &g->wait.at);
}

fxi_group *fxi_lists_let_go(const fx_engine *eng)
{
    const fxi_wait *w = FXI_TREAP_OF(fxi_treap_first(&eng->joining), fxi_wait, at);
    return w && !w->group_id ? FXI_TREAP_OF(&w->at, fxi_group, wait.at) : NULL;
}

void fxi_lists_move(fx_engine *eng, fxi_group *g, fxi_group_state to)
{
    const struct state_row *old = &state_rows[g->state], *new = &state_rows[to];
    change_list(eng, g, old, new);
    if (g->state == FXI_JOINING) fxi_treap_remove(&eng->joining, &g->wait.at);
    if (to == FXI_JOINING) begin_joining(eng, g);
    if (old->is_queued != new->is_queued) count_queue(eng, g, new->is_queued - old->is_queued);
    eng->n_swapped += (new->is_swapped - old->is_swapped) * g->n_seq;
    eng->n_leaving += (new->is_leaving - old->is_leaving) * g->n_seq;
    eng->n_coming += (new->is_coming - old->is_coming) * g->n_seq;
    if (is_noted(g, to)) note_move(eng, g, to);
    g->state = to;
    for (int i = 0; i < g->n_seq; i++) fxi_seq_list_filling(eng, &g->seq[i]);
}

void fxi_lists_advance(fx_engine *eng, fxi_group *g, const fxi_group *before)
{
    fxi_clients_step_out(eng, g);
    remove_group(&eng->waiting, g);
    g->order_ms = before->order_ms - (g->id > before->id);
    insert_group(&eng->waiting, g);
    fxi_clients_line_up(eng, g);
}
