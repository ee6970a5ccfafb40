// sim.c - the iterations of a run: the disturbances before each iteration, and the invariants after
// it.
#include "unit/engine/sim/sim.h"

#include "vmm_fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US UINT64_C(1000000)

enum {
    FIRST_CHECK_GAP = 64,
    DRAIN_SLACK = 400,   // iterations beyond what the remaining tokens can take
    MAX_IDLE_TURNS = 40, // in a row, while requests wait or run and no call fails
};

#define CHECK(w, is_right, ...)                                                              \
    do {                                                                                     \
        if (!(is_right) && !(w)->what[0]) snprintf((w)->what, sizeof(w)->what, __VA_ARGS__); \
    } while (0)

static bool one_in(sim *w, int n)
{
    return sim_one_in(&w->rng, n);
}

static int any(sim *w, int lo, int hi)
{
    return sim_int(&w->rng, lo, hi);
}

// ---- submitting --------------------------------------------------------------------------------

static int n_live(const sim *w)
{
    int n = 0;
    for (int i = 0; i < SIM_MAX_LIVE; i++) n += w->req[i].id != 0;
    return n;
}

static sim_request *any_live(sim *w)
{
    const int n = n_live(w);
    int which = n ? any(w, 1, n) : 0;
    for (int i = 0; i < SIM_MAX_LIVE && which; i++)
        if (w->req[i].id && --which == 0) return &w->req[i];
    return NULL;
}

static int clamped_max_tok(const sim *w, const fx_request *req)
{
    const int room = w->eng->info.ctx_tok - (int)req->n_prompt;
    if (req->max_tok >= 0) return req->max_tok < room ? req->max_tok : room;
    int n = room;
    while (n > 1 && fxi_request_bytes(&w->eng->service, req, n) > w->eng->service.budget_bytes) n--;
    return n;
}

static bool ends_answers(const sim *w, const fx_request *req, int32_t tok)
{
    bool ends = false;
    for (int i = 0; i < w->eng->service.n_end_tok; i++) ends |= w->eng->service.end_tok[i] == tok;
    for (size_t i = 0; i < req->n_stop_token; i++) ends |= req->stop_token[i] == tok;
    return ends;
}

// Whether some token may be drawn that is not banned and, with min_tok, does not end the answer.
static bool leaves_something(const sim *w, const fx_request *req)
{
    const fx_sampling *s = &req->sampling;
    bool some = !s->n_allow;
    for (size_t i = 0; i < s->n_allow; i++) {
        const bool is_banned = s->n_ban && s->allow[i] == s->ban[0];
        some |= !is_banned && !(s->min_tok && ends_answers(w, req, s->allow[i]));
    }
    return some;
}

// An eighth more is for clients with little in the queue.
static bool is_full(const fx_request *req, int64_t n, int64_t sum, int64_t own, int64_t most)
{
    const int64_t beyond = req->client ? most / 8 : 0;
    if (sum + n <= most) return false;
    return own + n > beyond || sum + n > most + beyond;
}

static bool queue_is_full(const sim *w, const fx_request *req)
{
    const fx_engine *eng = w->eng;
    const fxi_client *c = fxi_clients_find_locked(&eng->sched.clients, req->client);
    return is_full(req, fxi_request_n_seq(req), eng->sched.n_queued, c ? c->n_queued : 0,
                   eng->opt.max_queue + eng->opt.max_seq) ||
           (eng->sched.n_queued && is_full(req, (int64_t)req->n_prompt, eng->sched.n_queued_tok,
                                           c ? c->n_queued_tok : 0, eng->opt.max_queue_tok));
}

static uint64_t alone_bytes(const sim *w, int n_tok)
{
    const fxi_kv_need one = {.n_seq = 1, .each = {n_tok, 0, n_tok}, .end_tok = n_tok};
    return fxi_kv_cost(w->eng->kv, &one);
}

static fx_status expected_status(const sim *w, const fx_request *req)
{
    if (fxi_request_n_seq(req) > w->eng->opt.max_seq) return FX_EINVAL;
    if (!leaves_something(w, req)) return FX_EINVAL;
    if ((int)req->n_prompt >= w->eng->info.ctx_tok) return FX_ECONTEXT;
    if (alone_bytes(w, (int)req->n_prompt + 1) > w->eng->service.budget_bytes) return FX_ECONTEXT;
    const int max_tok = req->max_tok < 0 ? 1 : clamped_max_tok(w, req);
    if (fxi_request_bytes(&w->eng->service, req, max_tok) > w->eng->service.budget_bytes)
        return FX_ENOSPACE;
    return queue_is_full(w, req) ? FX_EQUEUE : FX_OK;
}

static void on_event(void *ud, const fx_event *ev);

static sim_request *free_place(sim *w)
{
    for (int i = 0; i < w->set.max_live; i++)
        if (!w->req[i].id) return &w->req[i];
    return NULL;
}

static void cancel(sim *w, sim_request *r)
{
    fx_cancel(w->eng, r->id);
    r->may.cancel = true;
    r->may.no_token |= !w->in_callback;
}

static void submit(sim *w)
{
    sim_request *r = free_place(w);
    fx_error err = {0};
    uint64_t id = 0;
    if (!r) return;
    sim_request_draw(r, &w->set.taste, &w->library, &w->rng);
    r->world = w;
    r->req.on_event = on_event;
    r->req.ud = r;
    const fx_status want = expected_status(w, &r->req), st = fx_submit(w->eng, &r->req, &id, &err);
    CHECK(w, st == want, "fx_submit returns %d (%.120s), not %d", (int)st, err.text, (int)want);
    w->total->requests++;
    w->total->refused += st != FX_OK;
    if (st != FX_OK) return;
    sim_request_begin(r, &w->law, id, clamped_max_tok(w, &r->req));
    r->may.error = w->is_armed;
    if (one_in(w, 40)) cancel(w, r);
}

// ---- disturbances ------------------------------------------------------------------------------

// A request that the budget cannot hold even alone may end with an error.
static void note_budget(sim *w)
{
    const uint64_t asked = w->eng->service.budget_bytes, is = w->eng->memory.effective_bytes;
    fxi_kv_stats st;
    fxi_kv_get_stats(w->eng->kv, &st);
    w->had_retired = st.retired_bytes > 0;
    for (int i = 0; i < SIM_MAX_LIVE; i++) {
        sim_request *r = &w->req[i];
        if (!r->id) continue;
        if (fxi_request_bytes(&w->eng->service, &r->req, r->ask.max_tok) >
            (asked < is ? asked : is))
            r->may.error = true;
    }
}

static void change_budget(sim *w)
{
    const uint64_t most = w->set.budget_bytes;
    uint64_t want = most;
    if (one_in(w, 6))
        want = sim_u64(&w->rng) % (most + 1);
    else if (!one_in(w, 3))
        want = most / 2 + sim_u64(&w->rng) % (most / 2 + 1);
    const bool can = fxi_budget_check(&w->eng->memory, want, NULL) == FX_OK;
    const fx_status st = fx_set_kv_memory(w->eng, want, NULL);
    CHECK(w, st == (can ? FX_OK : FX_EINVAL), "fx_set_kv_memory returns %d", (int)st);
    w->new_budget |= can;
    w->total->budgets += can;
    note_budget(w);
}

static fxi_live_request *first_in(const fxi_request_list *l, fxi_request_state state)
{
    fxi_live_request *g = l->head;
    while (g && g->state != state) g = g->next;
    return g;
}

// One that runs, or is on its way back.
static void preempt_one(sim *w)
{
    fx_engine *eng = w->eng;
    fxi_live_request *g =
        one_in(w, 4) ? first_in(&eng->sched.aside, FXI_SWAPPING_IN) : eng->sched.running.head;
    for (int i = any(w, 0, 5); i > 0 && g && g->state == FXI_RUNNING && g->next; i--) g = g->next;
    if (!g) return;
    const bool fits = eng->sched.n_swapped + g->n_seq <= eng->opt.max_seq;
    fxi_preempt_request(&eng->memory, g, fits && one_in(w, 2) ? FXI_SWAP : FXI_RECOMPUTE);
}

static void disarm(sim *w)
{
    if (!w->is_armed) return;
    w->total->faults += vt_fault_fired(w->fault);
    vt_fault_disarm(w->fault);
    w->is_armed = false;
}

static void arm(sim *w)
{
    vt_fault_arm_random(w->fault, sim_u64(&w->rng), (uint32_t)any(w, 2, one_in(w, 2) ? 20 : 200));
    w->is_armed = true;
    for (int i = 0; i < SIM_MAX_LIVE; i++) w->req[i].may.error = true;
}

// The device finishes work that it was given some iterations ago.
static void finish_work(sim *w)
{
    if (!w->set.async) return;
    w->n_finish++;
    if (w->ticket) vt_fake_finish(w->fake, w->ticket);
    (void)w->fake->ops->fence(w->fake, &w->ticket);
}

// A client leaves, at any time: between iterations, while the model computes, or from a callback.
static void disturb(sim *w)
{
    sim_request *r = any_live(w);
    if (r && one_in(w, 40)) cancel(w, r);
    if (w->set.budgets && one_in(w, 100)) change_budget(w);
}

static void pass_time(sim *w)
{
    w->clock_us += sim_u64(&w->rng) % (w->set.us_per_iteration + 1);
    if (n_live(w) == 0 && one_in(w, 4))
        w->clock_us += any(w, 1, one_in(w, 3) ? 700 : 7) * SECOND_US;
    if (one_in(w, 1000)) w->clock_us += 100 * SECOND_US;
}

static void befall(sim *w)
{
    if (w->burst == 0 && one_in(w, 12)) w->burst = any(w, 1, w->set.max_live);
    for (int i = any(w, 0, 3); i > 0 && w->burst > 0; i--, w->burst--) submit(w);
    disturb(w);
    if (w->set.preemptions && one_in(w, w->set.preempt_gap)) preempt_one(w);
    if (w->set.crowded) w->eng->sched.headroom_tok = 1; // too many are admitted, and preempted
    if (w->is_armed && one_in(w, 30))
        disarm(w);
    else if (w->set.faults && !w->is_armed && one_in(w, 80))
        arm(w);
    if (one_in(w, 3)) finish_work(w);
    pass_time(w);
}

static void beside_pass(void *ud)
{
    sim *w = ud;
    if (one_in(w, 20)) disturb(w);
    if (one_in(w, 40)) submit(w);
}

static void on_event(void *ud, const fx_event *ev)
{
    sim_request *r = ud;
    sim *w = r->world;
    sim_request_event(r, ev);
    w->total->tokens += ev->token >= 0 && ev->position >= ev->n_prompt;
    w->in_callback = true;
    if (!r->is_over && r->id && one_in(w, 300)) cancel(w, r);
    if (one_in(w, 200)) disturb(w);
    w->in_callback = false;
}

// ---- invariants --------------------------------------------------------------------------------

// Groups that have begun to run in this iteration.
static int n_admitted(const sim *w)
{
    fx_record ev[256];
    uint64_t at = w->first_event, first;
    int n = 0;
    for (size_t n_ev; (n_ev = fx_record_copy(w->eng, at, ev, 256, &first)) > 0; at = first + n_ev)
        for (size_t i = 0; i < n_ev; i++) n += ev[i].kind == FX_RECORD_admit;
    return n;
}

// A new budget is in effect, or waits for memory, not for long, and then nobody is admitted. For
// what a failing device has put out of use nobody waits.
static void check_budget(sim *w)
{
    const fx_engine *eng = w->eng;
    const bool is_applied = eng->memory.effective_bytes == eng->service.budget_bytes;
    const bool may_fail = w->is_armed || w->new_budget || w->had_retired;
    w->n_budget_iteration = is_applied || may_fail ? 0 : w->n_budget_iteration + 1;
    w->total->waiting_budgets += eng->memory.budget_waits;
    CHECK(w, may_fail || is_applied || eng->memory.budget_waits, "the budget is not applied");
    CHECK(w, w->n_budget_iteration < MAX_IDLE_TURNS, "the budget waits for %d iterations",
          w->n_budget_iteration);
    CHECK(w, !eng->memory.budget_waits || n_admitted(w) <= w->n_came,
          "a request is admitted while the budget waits");
}

static void check_memory(sim *w)
{
    fxi_kv_stats kv;
    fxi_kv_get_stats(w->eng->kv, &kv);
    CHECK(w, kv.mapped_bytes <= kv.budget_bytes + kv.returning_bytes,
          "%llu bytes are mapped, the budget is %llu", (unsigned long long)kv.mapped_bytes,
          (unsigned long long)kv.budget_bytes);
    CHECK(w, kv.usable_bytes == w->eng->memory.effective_bytes, "the manager has another budget");
    check_budget(w);
    CHECK(w, !w->model->wrong, "%s", w->model->wrong);
    if (!w->fake) return;
    const vt_fake_report fake = vt_fake_look(w->fake);
    CHECK(w, !fake.n_violation, "the device: %s", fake.violation);
}

static int n_seq_of(const fxi_request_list *l, int *n_request)
{
    int n = 0;
    for (const fxi_live_request *g = l->head; g; g = g->next) n += g->n_seq, *n_request += 1;
    return n;
}

static int n_seq_in(const fxi_request_list *l, fxi_request_state state)
{
    int n = 0;
    for (const fxi_live_request *g = l->head; g; g = g->next) n += g->state == state ? g->n_seq : 0;
    return n;
}

static void check_moves(sim *w)
{
    const fx_engine *eng = w->eng;
    const int n_leaving = n_seq_in(&eng->sched.waiting, FXI_SWAPPING_OUT);
    const int n_coming = n_seq_in(&eng->sched.aside, FXI_SWAPPING_IN);
    const int n_out = n_leaving + n_coming + n_seq_in(&eng->sched.waiting, FXI_SWAPPED);
    CHECK(w, n_out == eng->sched.n_swapped, "n_swapped is %d, not %d", eng->sched.n_swapped, n_out);
    CHECK(w, n_leaving == eng->sched.n_swapping_out, "n_leaving is %d, not %d",
          eng->sched.n_swapping_out, n_leaving);
    CHECK(w, n_coming == eng->sched.n_swapping_in, "n_coming is %d, not %d",
          eng->sched.n_swapping_in, n_coming);
    CHECK(w, n_seq_in(&eng->sched.running, FXI_RUNNING) == eng->sched.running.n_seq,
          "a swapped request runs");
    w->total->moving += n_leaving + n_coming > 0;
}

// Whoever waits for a prefix is about to be lined up, or waits for one that is being computed.
static void check_joining(sim *w)
{
    fx_engine *eng = w->eng;
    int n = 0;
    for (fxi_treap_node *at = fxi_treap_first(&eng->sched.joining); at; at = fxi_treap_next(at)) {
        const fxi_live_request *g = FXI_TREAP_OF(at, fxi_live_request, wait.at);
        pthread_mutex_lock(&eng->mailbox.mu);
        const fxi_live_request *of = fxi_mailbox_find_locked(&eng->mailbox, g->wait.request_id);
        pthread_mutex_unlock(&eng->mailbox.mu);
        const fxi_seq *s = of && of->state == FXI_RUNNING ? &of->seq[g->wait.choice] : NULL;
        const bool goes_on = s && s->is_filling && s->n_recorded < g->wait.n_tok;
        CHECK(w, goes_on || !g->wait.request_id, "request %d waits for nothing", (int)g->id);
        n += g->n_seq;
    }
    CHECK(w, n == n_seq_in(&eng->sched.aside, FXI_JOINING), "%d sequences wait for a prefix", n);
}

static int n_in_inbox(const fx_engine *eng, int *n_request)
{
    int n = 0;
    for (const fxi_live_request *g = eng->mailbox.head; g; g = g->next_posted)
        n += g->n_seq, *n_request += 1;
    return n;
}

// What clients have adds up to what there is, and none is kept that nobody needs.
static void check_clients(sim *w)
{
    const fx_engine *eng = w->eng;
    int n_queued = 0, n_request = 0, n_waiting = 0, n_here = 0, n_idle = 0, n_line = 0;
    for (fxi_treap_node *n = fxi_treap_first(&eng->sched.clients.known); n; n = fxi_treap_next(n)) {
        const fxi_client *c = FXI_TREAP_OF(n, fxi_client, known_at);
        n_queued += c->n_queued;
        n_request += c->n_request;
        n_waiting += c->n_waiting;
        n_here += c->n_collected > 0;
        n_idle += fxi_treap_has(&c->idle_at);
        CHECK(w, c->n_request || !c->n_queued, "client %d is gone and queued", (int)c->number);
        CHECK(w, !c->n_request == fxi_treap_has(&c->idle_at), "client %d is idle", (int)c->number);
    }
    (void)n_seq_of(&eng->sched.waiting, &n_line);
    (void)n_seq_of(&eng->sched.aside, &n_line);
    CHECK(w, n_queued == eng->sched.n_queued, "clients have %d queued", n_queued);
    CHECK(w, n_request == n_live(w), "clients have %d requests", n_request);
    CHECK(w, n_waiting == n_line, "%d requests of clients wait, not %d", n_waiting, n_line);
    CHECK(w, n_here == eng->sched.clients.n_collected, "%d clients are here", n_here);
    CHECK(w, n_idle == eng->sched.clients.n_idle, "%d clients are idle", n_idle);
    CHECK(w, n_request || !eng->sched.clients.known.root, "a client is kept");
}

// The engine's counters are right.
static void check_counts(sim *w)
{
    const fx_engine *eng = w->eng;
    int n_request = 0;
    CHECK(w, n_seq_of(&eng->sched.running, &n_request) == eng->sched.running.n_seq,
          "running.n_seq");
    CHECK(w, eng->sched.running.n_seq + eng->sched.n_swapping_in <= eng->opt.max_seq,
          "%d sequences run, %d come", eng->sched.running.n_seq, eng->sched.n_swapping_in);
    CHECK(w, n_seq_of(&eng->sched.waiting, &n_request) == eng->sched.waiting.n_seq,
          "waiting.n_seq");
    CHECK(w, n_seq_of(&eng->sched.aside, &n_request) == eng->sched.aside.n_seq, "aside.n_seq");
    const int n_waits = eng->sched.waiting.n_seq + eng->sched.aside.n_seq;
    check_moves(w);
    check_joining(w);
    CHECK(w, eng->sched.n_queued == n_waits + n_in_inbox(eng, &n_request), "n_queued is %d",
          eng->sched.n_queued);
    CHECK(w, n_request == n_live(w), "%d requests are listed, not %d", n_request, n_live(w));
    check_clients(w);
    fxi_kv_stats kv;
    fxi_kv_get_stats(eng->kv, &kv);
    CHECK(w, n_live(w) || !kv.live_bytes, "KV memory of a sequence is left");
}

// While there are requests, the engine makes progress, unless calls fail, or the device has done
// nothing that it may wait for.
static void check_progress(sim *w, bool was_busy)
{
    fx_stats st;
    fx_engine_stats(w->eng, &st);
    const uint64_t n_done = st.n_step + w->total->stopped + w->total->cancelled + w->total->failed;
    const bool is_idle = was_busy && !w->is_armed && n_done == w->n_done;
    w->n_idle_iteration = is_idle ? w->n_idle_iteration + (!w->set.async || w->n_finish > 0) : 0;
    w->n_finish = 0;
    w->n_done = n_done;
    CHECK(w, w->n_idle_iteration < MAX_IDLE_TURNS, "no request makes progress, %d run, %d wait",
          w->eng->sched.running.n_seq, w->eng->sched.waiting.n_seq);
}

static void check_requests(sim *w)
{
    for (int i = 0; i < SIM_MAX_LIVE; i++) {
        sim_request *r = &w->req[i];
        CHECK(w, !r->wrong[0], "request %llu: %s", (unsigned long long)r->id, r->wrong);
        CHECK(w, !r->id || !r->may.due || r->is_over, "request %llu goes on after it was cancelled",
              (unsigned long long)r->id);
    }
}

static void reap(sim *w)
{
    for (int i = 0; i < SIM_MAX_LIVE; i++) {
        sim_request *r = &w->req[i];
        if (!r->id || !r->is_over) continue;
        const fx_finish how = r->choice[0].finish;
        w->total->stopped += how == FX_FINISH_STOP || how == FX_FINISH_LENGTH;
        w->total->cancelled += how == FX_FINISH_CANCEL || how == FX_FINISH_ABORT;
        w->total->failed += how == FX_FINISH_ERROR;
        if (one_in(w, 2)) sim_library_add(&w->library, &r->choice[0].a, (int)r->req.n_prompt);
        sim_request_end(r);
    }
}

// The manager's invariants hold; the device answers.
static void check_manager(sim *w)
{
    const char *what = "no answer";
    disarm(w);
    const fx_status st = fxi_kv_check(w->eng->kv, &what);
    CHECK(w, st == FX_OK, "the manager: %s", what);
    w->total->checks++;
}

static void check_all(sim *w, bool was_busy)
{
    check_memory(w);
    check_requests(w);
    reap(w);
    check_counts(w);
    check_progress(w, was_busy);
    if (w->iteration < w->next_check) return;
    check_manager(w);
    w->next_check = w->iteration + w->check_gap;
    w->check_gap += w->check_gap / 4;
}

// ---- iterations ---------------------------------------------------------------------------------

// As the engine's thread does, which may be woken before the time is over.
static void gather_others(sim *w)
{
    const uint64_t us = w->set.gathers ? fxi_batching_delay_us(w->eng) : 0;
    if (!us) return;
    w->clock_us += (uint64_t)sim_int(&w->gather_rng, 0, (int)us);
    w->total->gathered++;
}

static bool take_iteration(sim *w)
{
    for (int i = 0; i < SIM_MAX_LIVE; i++) {
        sim_leave *may = &w->req[i].may;
        if (may->cancel) may->no_token = may->due = true;
    }
    if (w->set.budgets) note_budget(w);
    w->new_budget = false;
    fx_record ev;
    (void)fx_record_copy(w->eng, UINT64_MAX, &ev, 1, &w->first_event);
    w->n_came = 0;
    for (const fxi_live_request *g = w->eng->sched.aside.head; g; g = g->next)
        w->n_came += g->state == FXI_SWAPPING_IN;
    gather_others(w);
    const bool busy = fxi_iteration_run(w->eng);
    w->iteration++;
    w->total->iterations++;
    check_all(w, busy);
    return busy;
}

static uint64_t iterations_left(const sim *w)
{
    const bool forks = fxi_kv_can(w->eng->kv, FXI_KV_FORK);
    const uint64_t again =
        forks ? 1 : (uint64_t)w->eng->info.ctx_tok; // new beams begin at the prompt
    uint64_t n = DRAIN_SLACK;
    for (int i = 0; i < SIM_MAX_LIVE; i++)
        if (w->req[i].id) n += 2 * again * (uint64_t)sim_request_n_left(&w->req[i]);
    return n;
}

// No more requests, no more faults: all are served, in a bounded number of iterations.
static void drain(sim *w)
{
    disarm(w);
    w->model->beside = NULL;
    uint64_t left = iterations_left(w);
    while (n_live(w) && left-- && !w->what[0]) {
        pass_time(w);
        finish_work(w);
        (void)take_iteration(w);
    }
    CHECK(w, !n_live(w), "%d requests are not served in time", n_live(w));
}

// After a long time without requests no memory is left.
static void check_idle(sim *w)
{
    static const uint64_t gap_s[] = {0, 6, 700};
    w->eng->idle.since_us = 0; // again: memory that the device was using can go now
    for (int i = 0; i < 3 && !w->what[0]; i++) {
        w->clock_us += gap_s[i] * SECOND_US;
        int n_iteration = 0;
        do {                // memory goes back bit by bit
            finish_work(w); // earlier work, and this
            finish_work(w);
            (void)take_iteration(w);
        } while (w->eng->memory.returning_bytes && ++n_iteration < MAX_IDLE_TURNS && !w->what[0]);
    }
    fx_stats st;
    fxi_kv_stats kv;
    fx_engine_stats(w->eng, &st);
    fxi_kv_get_stats(w->eng->kv, &kv);
    CHECK(w, !st.n_running && !st.n_waiting && !st.n_waiting_tok, "a request is left");
    CHECK(w, !kv.held_bytes && !kv.live_bytes && !kv.swapped_bytes,
          "idle, but %llu bytes are held, %llu by tokens, %llu in the swap",
          (unsigned long long)kv.held_bytes, (unsigned long long)kv.live_bytes,
          (unsigned long long)kv.swapped_bytes);
    const bool goes_back = fxi_kv_can(w->eng->kv, FXI_KV_ELASTIC);
    CHECK(w, !goes_back || !kv.mapped_bytes, "%llu bytes are left when idle",
          (unsigned long long)kv.mapped_bytes);
    CHECK(w, !w->fake || !vt_fake_look(w->fake).swapped_bytes, "the swap keeps its room when idle");
}

static void end_at_once(sim *w)
{
    w->model->beside = NULL;
    for (int i = 0; i < SIM_MAX_LIVE; i++) w->req[i].may.abort = w->req[i].may.no_token = true;
    fxi_iteration_end_all(w->eng, FX_FINISH_ABORT);
    check_requests(w);
    reap(w);
    CHECK(w, !n_live(w), "%d requests have no end", n_live(w));
    CHECK(w, !w->eng->mailbox.live.root && !w->eng->sched.n_queued && !w->eng->sched.n_swapped,
          "a request is left");
    disarm(w);
    check_manager(w);
}

static void count_all(sim *w)
{
    fx_stats st;
    fx_engine_stats(w->eng, &st);
    w->total->prompt_tokens += st.n_prompt_tok;
    w->total->cached_tokens += st.n_cached_tok;
    w->total->recomputed += st.n_preempt_recompute;
    w->total->swapped += st.n_preempt_swap;
    w->total->drafted += st.n_draft_tok;
    w->total->accepted += st.n_accepted_tok;
}

static void close_world(sim *w)
{
    count_all(w);
    fxi_engine_unload(w->eng);
    for (int i = 0; i < SIM_MAX_LIVE; i++) sim_request_end(&w->req[i]);
    const vt_fake_report *e = &w->epitaph;
    CHECK(w, !e->n_violation, "the device at the end: %s", e->violation);
    CHECK(w, !e->reserved_bytes && !e->n_created && !e->n_mapped,
          "at the end %llu bytes are reserved, %llu chunks created, %llu slices mapped",
          (unsigned long long)e->reserved_bytes, (unsigned long long)e->n_created,
          (unsigned long long)e->n_mapped);
}

static void run(sim *w, int n_iteration, bool spoil)
{
    if (!n_iteration) n_iteration = w->set.n_iteration;
    if (spoil) w->model->spoil_every = 100;
    while (w->iteration < (uint64_t)n_iteration && !w->what[0]) {
        befall(w);
        (void)take_iteration(w);
    }
    if (!one_in(w, 4)) {
        drain(w);
        if (!w->what[0]) check_idle(w);
    }
    if (!w->what[0]) end_at_once(w);
}

bool sim_run(uint64_t seed, int n_iteration, bool spoil, sim_totals *total, char *what)
{
    sim *w = calloc(1, sizeof *w);
    if (!w) return false;
    w->seed = seed;
    w->rng.x = sim_mix(seed + 1);
    w->total = total;
    w->next_check = w->check_gap = FIRST_CHECK_GAP;
    sim_library_fill(&w->library, &w->rng);
    sim_setup_draw(w);
    if (sim_open(w)) {
        w->model->beside = beside_pass;
        w->model->ud = w;
        run(w, n_iteration, spoil);
        if (w->what[0]) fxi_iteration_end_all(w->eng, FX_FINISH_ABORT);
        close_world(w);
    }
    const bool ok = !w->what[0];
    if (!ok)
        snprintf(what, 256, "seed %llu, iteration %llu, %s: %.180s", (unsigned long long)seed,
                 (unsigned long long)w->iteration, w->set.opt.kv_manager, w->what);
    free(w);
    return ok;
}
