// turn.c - the engine's loop, and the one place where groups end.
//
//   collect the inbox -> swap -> new budget -> end -> plan -> compute one step -> end -> publish
//
// All other files only decide ends (`finish` of a sequence). The turn acts on them, so that a group
// stays valid from the beginning of a plan to the end of its step.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"
#include "engine/speculate/draft_model.h"

#define RETRY_TURNS 8 // between retries of groups that found no room

// ---- ending ------------------------------------------------------------------------------------

static void end_seq(fx_engine *eng, fxi_seq *s)
{
    const fxi_group *g = s->group;
    if (s->state == FXI_SEQ_LIVE && fxi_seq_ended_well(s) && !g->beam) fxi_cache_record_all(eng, s);
    fxi_cache_release(eng, s);
    s->state = FXI_SEQ_DONE;
    if (!g->is_hidden) fxi_output_end(eng, s);
}

// Ends the sequences whose finish is decided. False: there are none.
static bool end_seqs(fx_engine *eng, fxi_group *g)
{
    bool some = false;
    for (int i = 0; i < g->n_seq; i++) {
        fxi_seq *s = &g->seq[i];
        if (s->state == FXI_SEQ_DONE || s->finish == FX_FINISH_NONE) continue;
        end_seq(eng, s);
        some = true;
    }
    return some;
}

static void end_group(fx_engine *eng, fxi_group *g)
{
    fxi_lists_move(eng, g, FXI_ENDED);
    if (g->is_hidden) fxi_output_hidden(eng, g);
    fxi_cache_close_domain(eng, g);
    fxi_inbox_forget(eng, g);
}

// Ends the sequences of one group whose finish is decided, and the group with the last one.
static void end_what_is_decided(fx_engine *eng, fxi_group *g)
{
    if (end_seqs(eng, g)) eng->n_freed++;
    if (fxi_group_is_done(g)) end_group(eng, g);
}

static void end_decided(fx_engine *eng, fxi_group_list *l)
{
    for (fxi_group *g = l->head, *next; g; g = next) {
        next = g->next;
        end_what_is_decided(eng, g);
    }
}

// One by one, since a callback may cancel groups that come later in the list.
static void end_cancelled(fx_engine *eng, fxi_group_list *l)
{
    for (fxi_group *g = l->head, *next; g; g = next) {
        next = g->next;
        fxi_group_finish_cancelled(g);
        end_what_is_decided(eng, g);
    }
}

// Those that wait are many, and end when they are cancelled, or if their end was decided before.
static void end_decided_early(fx_engine *eng)
{
    bool some = atomic_exchange(&eng->some_cancelled, false);
    fxi_group_list *const waits[] = {&eng->waiting, &eng->aside};
    end_cancelled(eng, &eng->running);
    for (int i = 0; i < 2; i++) {
        some |= eng->some_wait_decided || atomic_load(&eng->some_cancelled); // by a callback
        if (some) end_cancelled(eng, waits[i]);
    }
    eng->some_wait_decided = false;
}

// ---- the turn ----------------------------------------------------------------------------------

void fxi_turn_collect(fx_engine *eng)
{
    for (fxi_group *g = fxi_inbox_take(eng), *next; g; g = next) {
        next = g->next_inbox;
        fxi_clients_collect(eng, g);
        if (!g->max_tok && !g->req.prompt_logprobs && !g->req.keep_priority && !fxi_group_embeds(g))
            fxi_group_finish(g, FX_FINISH_LENGTH);
        fxi_lists_move(eng, g, FXI_WAITING);
    }
}

// With each turn admissions need less headroom. Every few turns, groups that found no room are
// tried again, since the manager's own thread frees memory too.
static void relax_admission(fx_engine *eng)
{
    if (eng->headroom_tok > FXI_MIN_HEADROOM_TOK) eng->headroom_tok--;
    if (++eng->n_turn % RETRY_TURNS == 0) eng->n_freed++;
}

static void compute_step(fx_engine *eng)
{
    eng->idle_since_us = 0;
    fxi_kv_tick(eng->kv, fxi_now_ms(eng));
    eng->n_planned_tok = fxi_plan_step(eng);
    if (eng->n_planned_tok) fxi_step_run(eng, eng->n_planned_tok);
    end_decided(eng, &eng->running);
    if (!eng->running.head) end_decided(eng, &eng->waiting); // one may have failed to start
}

static void tell_step(fx_engine *eng)
{
    pthread_mutex_lock(&eng->step_mu);
    if (eng->on_step) eng->on_step(eng->on_step_ud);
    pthread_mutex_unlock(&eng->step_mu);
}

bool fxi_turn_run(fx_engine *eng)
{
    fxi_turn_collect(eng);
    fxi_preempt_go_on(eng);
    fxi_limit_look(eng);
    fxi_budget_apply(eng);
    if (!eng->returning_bytes) eng->is_forgetting = false;
    fxi_idle_clear(eng);
    end_decided_early(eng);
    relax_admission(eng);
    const bool busy = eng->running.head || eng->waiting.head || eng->aside.head;
    if (busy)
        compute_step(eng);
    else
        fxi_idle_act(eng);
    tell_step(eng);
    fxi_idle_note_returning(eng, fxi_inbox_publish(eng) + fxi_draft_model_returning(eng));
    return busy;
}

bool fxi_turn_is_blocked(const fx_engine *eng)
{
    return !eng->n_planned_tok && (eng->n_leaving || eng->n_coming || eng->budget_waits ||
                                   eng->is_forgetting || eng->n_held);
}

static void finish_all(fxi_group_list *l, fx_finish why)
{
    for (fxi_group *g = l->head; g; g = g->next) fxi_group_finish(g, why);
}

void fxi_turn_end_all(fx_engine *eng, fx_finish why)
{
    fxi_turn_collect(eng);
    finish_all(&eng->running, why);
    end_decided(eng, &eng->running);
    finish_all(&eng->waiting, why);
    end_decided(eng, &eng->waiting);
    finish_all(&eng->aside, why);
    end_decided(eng, &eng->aside);
    tell_step(eng);
}
