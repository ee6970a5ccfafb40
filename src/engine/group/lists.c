// lists.c - which groups wait and which run, in the order in which they are served.
//
// A group changes its state here and nowhere else, so that state, list and counters always agree.
#include "engine/engine.h"

// The list and the counters that each state belongs to, and the event that a group gets into it.
static const struct state_row {
    bool waits, runs;           // it is on that list
    bool is_queued;             // it counts in n_queued and n_queued_tok
    bool is_swapped;            // it counts in n_swapped
    bool is_leaving, is_coming; // it counts in n_leaving, n_coming
    int event;                  // FX_RECORD_*
} state_rows[FXI_N_STATE] = {
    [FXI_NEW] = {.is_queued = true},
    [FXI_WAITING] = {.waits = true, .is_queued = true, .event = FX_RECORD_wait},
    [FXI_LEAVING] = {.waits = true,
                     .is_queued = true,
                     .is_swapped = true,
                     .is_leaving = true,
                     .event = FX_RECORD_leave},
    [FXI_SWAPPED] = {.waits = true, .is_queued = true, .is_swapped = true, .event = FX_RECORD_away},
    [FXI_COMING] = {.waits = true,
                    .is_queued = true,
                    .is_swapped = true,
                    .is_coming = true,
                    .event = FX_RECORD_come},
    [FXI_RUNNING] = {.runs = true, .event = FX_RECORD_admit},
    [FXI_ENDED] = {.event = FX_RECORD_finish},
};

bool fxi_lists_goes_before(const fxi_group *a, const fxi_group *b)
{
    return a->order_ms < b->order_ms || (a->order_ms == b->order_ms && a->id < b->id);
}

static void insert_group(fxi_group_list *l, fxi_group *g)
{
    fxi_group *prev = l->tail; // most groups go last
    while (prev && fxi_lists_goes_before(g, prev)) prev = prev->prev;
    g->prev = prev;
    g->next = prev ? prev->next : l->head;
    *(prev ? &prev->next : &l->head) = g;
    *(g->next ? &g->next->prev : &l->tail) = g;
    l->n_seq += g->n_seq;
}

static void remove_group(fxi_group_list *l, fxi_group *g)
{
    *(g->prev ? &g->prev->next : &l->head) = g->next;
    *(g->next ? &g->next->prev : &l->tail) = g->prev;
    g->prev = g->next = NULL;
    l->n_seq -= g->n_seq;
}

static fxi_group_list *list_for(fx_engine *eng, const struct state_row *row)
{
    return row->waits ? &eng->waiting : row->runs ? &eng->running : NULL;
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

void fxi_lists_move(fx_engine *eng, fxi_group *g, fxi_group_state to)
{
    const struct state_row *old = &state_rows[g->state], *new = &state_rows[to];
    fxi_group_list *from = list_for(eng, old), *into = list_for(eng, new);
    if (from != into && from) remove_group(from, g);
    if (from != into && into) insert_group(into, g);
    if (old->waits != new->waits)
        fxi_clients_count_waiting(eng, g->client, new->waits - old->waits);
    if (old->is_queued != new->is_queued) count_queue(eng, g, new->is_queued - old->is_queued);
    eng->n_swapped += (new->is_swapped - old->is_swapped) * g->n_seq;
    eng->n_leaving += (new->is_leaving - old->is_leaving) * g->n_seq;
    eng->n_coming += (new->is_coming - old->is_coming) * g->n_seq;
    if (g->state != to) note_move(eng, g, to);
    g->state = to;
}

void fxi_lists_advance(fx_engine *eng, fxi_group *g, const fxi_group *before)
{
    remove_group(&eng->waiting, g);
    g->order_ms = before->order_ms - (g->id > before->id);
    insert_group(&eng->waiting, g);
}
