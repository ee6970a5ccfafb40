// iteration.c - the engine's loop, and the one place where requests end.
//
//   collect new requests -> swap -> new budget -> end -> plan -> one forward pass -> end -> publish
//
// All other files only decide ends (`finish` of a sequence). The iteration acts on them, so that a
// request stays valid from the beginning of a plan to the end of its pass.
#include "engine/iteration.h"

#define RETRY_ITERATIONS 8    // between retries of requests that found no memory
#define KEEP_SHARE       16   // an idle engine keeps 1/16 of the budget mapped
#define MAX_WAIT_MS      64   // while memory is being returned
#define DELAY_SHARE      0.01 // of the first pass
#define MOST_DELAY_US    2000
#define LATE_US          100 // timer slack plus wake-up latency

// ---- ending ------------------------------------------------------------------------------------

// Ends the sequences of one request whose finish is decided, and the request with the last one.
static void end_what_is_decided(fx_engine *eng, fxi_live_request *r)
{
    bool some = false;
    for (int i = 0; i < r->n_seq; i++) {
        fxi_seq *s = &r->seq[i];
        if (s->state == FXI_SEQ_DONE || s->finish == FX_FINISH_NONE) continue;
        if (s->state == FXI_SEQ_LIVE && fxi_seq_ended_well(s) && !r->beam)
            fxi_cache_record_all(&eng->memory, s);
        fxi_cache_release(&eng->memory, s);
        fxi_drafting_end_seq(s);
        s->state = FXI_SEQ_DONE;
        if (!r->defers_output) fxi_output_end(eng, s);
        some = true;
    }
    eng->sched.n_freed += some;
    if (!fxi_request_is_done(r)) return;
    fxi_sched_move(&eng->sched, r, FXI_ENDED);
    if (r->defers_output) fxi_output_deferred(eng, r);
    if (r->domain) fxi_kv_domain_close(eng->kv, r->domain);
    fxi_mailbox_forget(&eng->mailbox, &eng->sched, r);
    fxi_request_free(r);
}

// cancels: those that were cancelled, too, one by one, since a callback may cancel requests that
// come later in the list.
static void end_requests(fx_engine *eng, const fxi_request_list *l, bool cancels)
{
    for (fxi_live_request *r = l->head, *next; r; r = next) {
        next = r->next;
        if (cancels) fxi_request_finish_cancelled(r);
        end_what_is_decided(eng, r);
    }
}

// Waiting requests are many, and end only when they are cancelled, or if their end was decided
// before.
static void end_early(fx_engine *eng)
{
    fxi_sched *d = &eng->sched;
    bool some = atomic_exchange(&eng->mailbox.some_cancelled, false);
    end_requests(eng, &d->running, true);
    some |= d->some_wait_decided || atomic_load(&eng->mailbox.some_cancelled); // by a callback
    if (some) end_requests(eng, &d->waiting, true);
    some |= d->some_wait_decided || atomic_load(&eng->mailbox.some_cancelled);
    if (some) end_requests(eng, &d->aside, true);
    d->some_wait_decided = false;
}

// ---- idle --------------------------------------------------------------------------------------

static void give_back(fx_engine *eng, uint64_t keep_bytes, bool forgets)
{
    const fx_status st = fxi_kv_give_back(eng->kv, keep_bytes, forgets);
    const fx_record ev = {.kind = FX_RECORD_trim};
    fxi_journal_note_call(&eng->journal, ev, eng->kv->last_ns, st);
}

// A step in which the managers do what they have put off: unmapping what ended sequences had, and
// returning memory to the system.
static void settle_memory(fx_engine *eng)
{
    fxi_kv_step(eng->kv, 0, fxi_journal_ms(&eng->journal));
    fxi_draft_model_step(eng->draft_model);
}

static void trim_spare(fx_engine *eng)
{
    settle_memory(eng);
    fxi_draft_model_forget(eng->draft_model);
    give_back(eng, eng->memory.effective_bytes / KEEP_SHARE, false);
}

static void forget_prefixes(fx_engine *eng)
{
    give_back(eng, 0, true);
}

// What an idle engine does: at once what the managers have put off, so that the figures are right;
// spare memory returns to the system after a second, the prefix cache after some minutes. Memory is
// returned in small parts, with a look at the mailbox between them, as for fx_clear_cache while
// requests run.
static void (*const idle_actions[])(fx_engine *eng) = {settle_memory, trim_spare, forget_prefixes};
enum { N_IDLE = sizeof idle_actions / sizeof idle_actions[0] };

// Idle seconds until the next action; < 0: there is none.
static int next_action_s(const fx_engine *eng)
{
    const int after_s[N_IDLE] = {0, 1, eng->opt.cache_idle_s};
    return eng->idle.n_done < N_IDLE ? after_s[eng->idle.n_done] : -1;
}

static void act_idle(fx_engine *eng)
{
    const uint64_t now_us = fxi_now_us(eng);
    if (!eng->idle.since_us) {
        eng->idle.since_us = now_us;
        eng->idle.n_done = 0;
    }
    if (eng->memory.returning_bytes) settle_memory(eng);
    for (int after_s; (after_s = next_action_s(eng)) >= 0;) {
        if (now_us - eng->idle.since_us < 1000000ull * (uint64_t)after_s) return;
        idle_actions[eng->idle.n_done++](eng);
    }
}

// After an iteration: so much memory is still being returned. The wait for the next look doubles
// while nothing changes.
static void note_returning(fx_engine *eng, uint64_t bytes)
{
    fxi_idle *x = &eng->idle;
    const uint64_t mark = eng->stats.n_evicted - bytes; // differs with all that is evicted or gone
    const int later_ms = 2 * x->wait_ms < MAX_WAIT_MS ? 2 * x->wait_ms : MAX_WAIT_MS;
    x->wait_ms = !bytes ? 0 : mark != x->mark ? 1 : later_ms;
    x->mark = mark;
    eng->memory.returning_bytes = bytes;
}

int fxi_idle_wait_ms(const fx_engine *eng)
{
    const int after_s = next_action_s(eng);
    if (eng->idle.wait_ms) return eng->idle.wait_ms;
    return after_s < 0 ? 0 : 1000 * (after_s ? after_s : 1);
}

// ---- the iteration -----------------------------------------------------------------------------

void fxi_iteration_collect(fx_engine *eng)
{
    for (fxi_live_request *r = fxi_mailbox_take(&eng->mailbox), *next; r; r = next) {
        next = r->next_posted;
        fxi_clients_collect(&eng->sched.clients, r);
        if (!r->max_tok && !r->spec.prompt_logprobs && !r->spec.keep_priority &&
            !fxi_request_embeds(r))
            fxi_request_finish(r, FX_FINISH_LENGTH);
        fxi_sched_move(&eng->sched, r, FXI_WAITING);
    }
}

static void tell_step(fx_engine *eng)
{
    pthread_mutex_lock(&eng->step_mu);
    if (eng->on_step) eng->on_step(eng->on_step_ud);
    pthread_mutex_unlock(&eng->step_mu);
}

uint64_t fxi_iteration_publish(fx_engine *eng)
{
    fxi_kv_stats kv;
    fxi_statistics *s = &eng->stats;
    fxi_kv_get_stats(eng->kv, &kv);
    fxi_stats_publish_kv(s, &eng->journal, eng->kv, &kv);
    pthread_mutex_lock(&s->mu);
    s->now.n_running = (uint64_t)eng->sched.running.n_seq;
    s->now.n_waiting = (uint64_t)eng->sched.n_queued;
    s->now.n_waiting_tok = (uint64_t)eng->sched.n_queued_tok;
    pthread_mutex_unlock(&s->mu);
    return kv.returning_bytes;
}

bool fxi_iteration_run(fx_engine *eng)
{
    fxi_sched *d = &eng->sched;
    fxi_iteration_collect(eng);
    fxi_preempt_continue(&eng->memory);
    fxi_limit_look(&eng->memory);
    fxi_budget_apply(&eng->memory);
    if (!eng->memory.returning_bytes) eng->memory.is_forgetting = false;
    if (atomic_exchange(&eng->mailbox.must_clear, false)) forget_prefixes(eng);
    end_early(eng);
    // With each iteration admissions need less headroom. Every few iterations, requests that found
    // no memory are tried again, since the manager's own thread frees memory too.
    if (d->headroom_tok > FXI_MIN_HEADROOM_TOK) d->headroom_tok--;
    if (++d->n_iteration % RETRY_ITERATIONS == 0) d->n_freed++;
    const bool is_busy = d->running.head || d->waiting.head || d->aside.head;
    if (is_busy) {
        eng->idle.since_us = 0;
        fxi_kv_tick(eng->kv, fxi_journal_ms(&eng->journal));
        eng->n_planned_tok = fxi_plan_pass(eng);
        if (eng->n_planned_tok) fxi_forward_run(eng);
        end_requests(eng, &d->running, false);
        if (!d->running.head) end_requests(eng, &d->waiting, false); // one may have failed to start
    } else {
        act_idle(eng);
    }
    tell_step(eng);
    note_returning(eng, fxi_iteration_publish(eng) + fxi_draft_model_returning(eng->draft_model));
    return is_busy;
}

bool fxi_iteration_is_blocked(const fx_engine *eng)
{
    const fxi_sched *d = &eng->sched;
    return !eng->n_planned_tok &&
           (d->n_swapping_out || d->n_swapping_in || eng->memory.budget_waits ||
            eng->memory.is_forgetting || d->n_deferred);
}

void fxi_iteration_end_all(fx_engine *eng, fx_finish why)
{
    fxi_iteration_collect(eng);
    const fxi_request_list *const all[] = {&eng->sched.running, &eng->sched.waiting,
                                           &eng->sched.aside};
    for (int i = 0; i < 3; i++) {
        for (fxi_live_request *r = all[i]->head; r; r = r->next) fxi_request_finish(r, why);
        end_requests(eng, all[i], false);
    }
    tell_step(eng);
}

// ---- batching delay ----------------------------------------------------------------------------
//
// An engine that was idle waits a little for companions of its first request, so that they share
// its first pass.
//
// Requests seldom come in the same instant. Where several clients have got the end of an answer in
// one pass and ask again, their requests are some 100 us apart. If the first one begins a pass of
// 70 ms alone, the others are a pass late from then on: each round of answers then takes more
// passes, with fewer rows in each, and the prompts of some are cut while others decode (plan.c).
//
//   how long        1 % of the expected time of the first pass, by the measured rate of prompts and
//                   what the prefix cache has of them, less LATE_US; 2 ms at most. Each companion
//                   makes the pass longer, and so the wait. A pass under 10 ms does not wait
//   which requests  those that found the engine idle. Where sequences run, or requests wait that
//                   found no memory, none is delayed
//   what ends it    the time; a pass that is full, or as many sequences as may run; a request that
//                   has nothing to compute; a cancelled one, or the end of the engine, at once
//
// So no request loses more than 1 % of the pass that has its prompt, and no bit changes. Only the
// engine's thread waits; callers that run iterations by hand decide themselves when.

// Prompt tokens that the first pass has to compute; 0: there is nothing to wait for.
static int first_pass_tok(fx_engine *eng)
{
    int64_t sum = 0;
    if (eng->sched.waiting.n_seq >= eng->opt.max_seq) return 0;
    for (fxi_live_request *r = eng->sched.waiting.head; r; r = r->next) {
        const fxi_seq *s = &r->seq[0];
        if (s->finish != FX_FINISH_NONE || fxi_cache_open_domain(&eng->memory, r) != FX_OK)
            return 0;
        const int n_tok = s->n_tok - fxi_cache_hit(&eng->memory, s);
        sum += n_tok;
        if (!n_tok || sum >= eng->opt.step_tok) return 0;
    }
    return (int)sum;
}

uint64_t fxi_batching_delay_us(fx_engine *eng)
{
    fxi_idle *x = &eng->idle;
    const fxi_sched *d = &eng->sched;
    if (!d->waiting.head) x->is_delaying = false; // they were cancelled
    const bool begins = !x->is_delaying, none_waits = !d->waiting.head && !d->aside.head;
    x->is_delaying = !d->running.head && (!begins || none_waits);
    if (!x->is_delaying) return 0;
    fxi_iteration_collect(eng);
    const double share_us = DELAY_SHARE * eng->memory.us_per_tok * first_pass_tok(eng);
    const double longest_us = share_us < MOST_DELAY_US ? share_us : MOST_DELAY_US;
    const uint64_t most_us = longest_us > LATE_US ? (uint64_t)longest_us - LATE_US : 0;
    const uint64_t now_us = fxi_now_us(eng);
    if (begins) x->delay_since_us = now_us;
    const uint64_t waited_us = now_us - x->delay_since_us;
    x->is_delaying = waited_us < most_us;
    return x->is_delaying ? most_us - waited_us : 0;
}
