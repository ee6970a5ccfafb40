// admit.c - which waiting groups may run.
//
// They are admitted in order (waiting.c) while there are places (max_seq) and memory. Promised
// memory counts: what all running sequences hold, what their known tokens still need, and
// headroom_tok more for each, so that an admission does not soon cause a preemption. headroom_tok
// doubles with each preemption and shrinks by one per turn (hysteresis). Where memory is short, no
// group overtakes. Groups that wait for a prefix that another one computes (join.c) are skipped. A
// group that comes back from the swap has its place and its memory, and runs once it has arrived.
// While a smaller budget waits for memory on its way, nobody is admitted.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#define MAX_LOOK 256 // waiting groups to skip in a step, at most

// ---- memory ------------------------------------------------------------------------------------

static int longest_tok(const fxi_group *g)
{
    return (int)g->req.n_prompt + g->max_tok;
}

static int promised_tok(const fx_engine *eng, const fxi_group *g, int n_tok)
{
    const int end = n_tok + eng->headroom_tok;
    return end < longest_tok(g) ? end : longest_tok(g);
}

// Bytes promised to a sequence beyond what it holds now. hit_tok: tokens that it will share.
static uint64_t seq_growth(const fx_engine *eng, const fxi_seq *s, int hit_tok)
{
    const int end = promised_tok(eng, s->group, s->n_tok);
    const fxi_kv_need need = {
        .n_seq = 1, .each = fxi_cache_expect(s), .end_tok = end, .hit_tok = hit_tok};
    return s->kv ? fxi_kv_growth(eng->kv, s->kv, end) : fxi_kv_cost(eng->kv, &need);
}

// A choice that is still to be forked shares the prompt, and grows.
static uint64_t unborn_growth(const fx_engine *eng, const fxi_group *g)
{
    const int n_prompt = (int)g->req.n_prompt;
    fxi_kv_expect expect = fxi_cache_expect(&g->seq[0]);
    expect.begin_tok = n_prompt;
    const bool shares = fxi_kv_can(eng->kv, FXI_KV_FORK);
    const fxi_kv_need need = {.n_seq = 1,
                              .each = expect,
                              .end_tok = promised_tok(eng, g, n_prompt),
                              .hit_tok = shares ? n_prompt : 0};
    return fxi_kv_cost(eng->kv, &need);
}

// hit_tok: tokens that the first sequence without a cache will share. Of those without a cache, as
// many count as can have one beside the others.
static uint64_t group_growth(const fx_engine *eng, const fxi_group *g, int hit_tok)
{
    uint64_t sum = 0;
    int n_more = fxi_request_at_once(eng, &g->req, g->max_tok);
    for (int i = 0; i < g->n_seq; i++) {
        const fxi_seq *s = &g->seq[i];
        if (!s->kv || s->state != FXI_SEQ_LIVE) continue;
        sum += seq_growth(eng, s, 0);
        n_more--;
    }
    for (int i = 0; i < g->n_seq && n_more > 0; i++) {
        const fxi_seq *s = &g->seq[i];
        if (s->kv || s->state == FXI_SEQ_DONE) continue;
        const bool is_unborn = s->state == FXI_SEQ_UNBORN;
        sum += is_unborn ? unborn_growth(eng, g) : seq_growth(eng, s, hit_tok);
        if (!is_unborn) hit_tok = 0;
        n_more--;
    }
    return sum;
}

static uint64_t promised_bytes(const fx_engine *eng)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(eng->kv, &st);
    uint64_t sum = st.held_bytes;
    for (const fxi_group *g = eng->running.head; g; g = g->next) sum += group_growth(eng, g, 0);
    for (const fxi_group *g = eng->n_coming ? eng->waiting.head : NULL; g; g = g->next)
        if (g->state == FXI_COMING) sum += fxi_preempt_bytes(eng, g) + group_growth(eng, g, 0);
    return sum;
}

// A smaller budget that is not in effect yet counts.
static uint64_t promise_limit(const fx_engine *eng)
{
    const uint64_t next = eng->budget_bytes;
    return next < eng->opt.kv_memory_bytes ? next : eng->opt.kv_memory_bytes;
}

// ---- one group ---------------------------------------------------------------------------------

typedef enum verdict { ADMITTED, SKIPPED, NO_ROOM, LEAVES } verdict;

static fxi_seq *first_live(fxi_group *g)
{
    int i = 0;
    while (g->seq[i].state != FXI_SEQ_LIVE) i++;
    return &g->seq[i];
}

static void count_hit(fx_engine *eng, fxi_group *g, const fxi_seq *s)
{
    if (g->is_counted) return;
    g->is_counted = true;
    g->admit_us = fxi_now_us(eng);
    g->n_cached = s->n_computed;
    fxi_clients_serve_prompt(g->client, (int)g->req.n_prompt - s->n_computed);
    fxi_inbox_count_lookup(eng, g->req.no_cache ? 0 : (int)g->req.n_prompt, s->n_computed);
}

// The group's need is known once its first sequence is matched. If that is too much, the group goes
// back.
static verdict try_match(fx_engine *eng, fxi_group *g, bool is_alone)
{
    fxi_seq *s = first_live(g);
    if (fxi_cache_match(eng, s) != FX_OK) return NO_ROOM;
    fxi_lists_move(eng, g, FXI_RUNNING);
    if (!is_alone && promised_bytes(eng) > promise_limit(eng)) {
        fxi_cache_release(eng, s);
        fxi_lists_move(eng, g, FXI_WAITING);
        return NO_ROOM;
    }
    count_hit(eng, g, s);
    return ADMITTED;
}

// Whether it would fit if other sequences already held everything that it matches.
static bool may_fit(const fx_engine *eng, fxi_group *g)
{
    const uint64_t need = group_growth(eng, g, fxi_cache_hit(eng, first_live(g)));
    return promised_bytes(eng) + need <= promise_limit(eng);
}

static verdict admit_waiting(fx_engine *eng, fxi_group *g, bool is_alone)
{
    if (fxi_cache_open_domain(eng, g) != FX_OK) return NO_ROOM;
    if (fxi_join_waits(eng, first_live(g))) return SKIPPED;
    if (!is_alone && !may_fit(eng, g)) return NO_ROOM;
    return try_match(eng, g, is_alone);
}

static verdict admit_swapped(fx_engine *eng, fxi_group *g, bool is_alone)
{
    const uint64_t need = fxi_preempt_bytes(eng, g) + group_growth(eng, g, 0);
    if (!is_alone && promised_bytes(eng) + need > promise_limit(eng)) return NO_ROOM;
    fxi_preempt_swap_in(eng, g);
    if (g->state == FXI_COMING) return SKIPPED;
    return g->state == FXI_RUNNING ? ADMITTED : NO_ROOM;
}

static verdict admit_group(fx_engine *eng, fxi_group *g)
{
    const bool is_alone = !eng->running.head && !eng->n_coming;
    if (g->state == FXI_COMING) return SKIPPED;
    if (g->state == FXI_LEAVING) return LEAVES;
    if (eng->running.n_seq + eng->n_coming + g->n_seq > eng->opt.max_seq) return NO_ROOM;
    if (!is_alone && g->tried_at == eng->n_freed) return NO_ROOM; // nothing has changed since
    const bool is_swapped = g->state == FXI_SWAPPED;
    verdict v = is_swapped ? admit_swapped(eng, g, is_alone) : admit_waiting(eng, g, is_alone);
    g->tried_at = v == NO_ROOM ? eng->n_freed : 0;
    return v;
}

// ---- all groups --------------------------------------------------------------------------------

// Called when a group found no room. If no other group runs, a group that was swapped will be
// computed again, and a waiting one gets the memory of a swapped one. If there is none, no memory
// will become free.
static void fail_if_hopeless(fx_engine *eng, fxi_group *g, bool was_swapped)
{
    if (eng->running.head || eng->n_leaving || eng->n_coming) return;
    if (was_swapped || fxi_preempt_drop_swapped(eng)) return;
    fxi_group_fail(g, "no memory to start the request");
}

void fxi_admit_waiting(fx_engine *eng)
{
    int n_look = 0;
    verdict v = ADMITTED;
    if (eng->budget_waits || eng->is_forgetting) return;
    fxi_waiting_begin(eng);
    while ((v == ADMITTED || v == SKIPPED) && n_look < MAX_LOOK) {
        fxi_group *g = fxi_waiting_next(eng);
        if (!g) break;
        const bool was_swapped = g->state == FXI_SWAPPED;
        v = admit_group(eng, g);
        if (v == NO_ROOM) fail_if_hopeless(eng, g, was_swapped);
        n_look += v == SKIPPED;
    }
}
