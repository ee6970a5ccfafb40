// admit.c - which waiting groups may run.
//
// They are admitted in order (waiting.c) while there are places (max_seq) and memory. Promised
// memory counts: what all running sequences hold, what their known tokens still need, and
// headroom_tok more for each, so that an admission does not soon cause a preemption; and so do the
// mappings that they may need, where the system limits them. headroom_tok doubles with each
// preemption and shrinks by one per turn (hysteresis). Where memory is short, no group overtakes.
// Groups that wait for a prefix that another one computes (join.c) are put aside, and are in line
// again once that one lets them go (seq.c). A group that comes back from the swap has its place and
// its memory, and runs once it has arrived. While a smaller budget waits for memory on its way,
// nobody is admitted.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#define LOOK_BEHIND 128  // groups of a client of which the one is chosen that has most cached,
#define MOST_LOOKS  4096 // and all of a turn
#define HIT_TURNS   4    // for which what is cached is not looked up again

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

// Mappings that its sequences may soon need.
static uint64_t group_mappings(const fx_engine *eng, const fxi_group *g)
{
    uint64_t sum = 0;
    const uint64_t of_new = fxi_kv_mappings(eng->kv, NULL);
    for (int i = 0; of_new && i < g->n_seq; i++) {
        const fxi_seq *s = &g->seq[i];
        if (s->state != FXI_SEQ_DONE) sum += s->kv ? fxi_kv_mappings(eng->kv, s->kv) : of_new;
    }
    return sum;
}

// What is promised beyond the bytes that are held: growth of those that run, all of those that come
// back. Added up once in a turn, and kept up as groups are admitted.
typedef struct fxi_promise {
    bool is_known;
    int n_look; // groups looked at so far to choose one
    uint64_t growth_bytes, n_mapping;
} fxi_promise;

static fxi_promise promise_of(const fx_engine *eng, const fxi_group *g, int hit_tok)
{
    const bool is_out = g->state == FXI_SWAPPED || g->state == FXI_COMING;
    return (fxi_promise){.growth_bytes = group_growth(eng, g, hit_tok) +
                                         (is_out ? fxi_preempt_bytes(eng, g) : 0),
                         .n_mapping = group_mappings(eng, g)};
}

static void add_promise(fxi_promise *p, fxi_promise need)
{
    p->growth_bytes += need.growth_bytes;
    p->n_mapping += need.n_mapping;
}

static void learn_promises(const fx_engine *eng, fxi_promise *p)
{
    if (p->is_known) return;
    p->is_known = true;
    for (const fxi_group *g = eng->running.head; g; g = g->next)
        add_promise(p, promise_of(eng, g, 0));
    for (const fxi_group *g = eng->n_coming ? eng->aside.head : NULL; g; g = g->next)
        if (g->state == FXI_COMING) add_promise(p, promise_of(eng, g, 0));
}

// Whether there is memory for all that is promised and for this. A smaller budget that is not in
// effect yet counts.
static bool has_room_for(const fx_engine *eng, const fxi_promise *p, fxi_promise need)
{
    const uint64_t next = fxi_budget_wanted(eng), now = eng->opt.kv_memory_bytes;
    const uint64_t held = fxi_kv_held_bytes(eng->kv);
    if (held + p->growth_bytes + need.growth_bytes > (next < now ? next : now)) return false;
    return !eng->kv->max_mapping || p->n_mapping + need.n_mapping <= eng->kv->max_mapping;
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
    fxi_clients_serve_prompt(eng, g->client, (int)g->req.n_prompt - s->n_computed);
    fxi_inbox_count_lookup(eng, g->req.no_cache ? 0 : (int)g->req.n_prompt, s->n_computed);
}

// The group's need is known once its first sequence is matched. If that is too much, the group goes
// back.
static verdict try_match(fx_engine *eng, fxi_group *g, fxi_promise *p, bool is_alone)
{
    fxi_seq *s = first_live(g);
    if (fxi_cache_match(eng, s) != FX_OK) return NO_ROOM;
    const fxi_promise need = promise_of(eng, g, 0);
    if (!is_alone && !has_room_for(eng, p, need)) {
        fxi_cache_release(eng, s);
        return NO_ROOM;
    }
    fxi_lists_move(eng, g, FXI_RUNNING);
    add_promise(p, need);
    count_hit(eng, g, s);
    return ADMITTED;
}

// Whether it would fit if other sequences already held everything that it matches, which is looked
// up only where it matters.
static bool may_fit(const fx_engine *eng, const fxi_group *g, const fxi_seq *s,
                    const fxi_promise *p)
{
    return has_room_for(eng, p, promise_of(eng, g, 0)) ||
           has_room_for(eng, p, promise_of(eng, g, fxi_cache_hit(eng, s)));
}

static verdict admit_waiting(fx_engine *eng, fxi_group *g, fxi_promise *p, bool is_alone)
{
    if (fxi_cache_open_domain(eng, g) != FX_OK) return NO_ROOM;
    fxi_seq *s = first_live(g);
    if (fxi_join_waits(eng, s)) {
        fxi_lists_move(eng, g, FXI_JOINING);
        return SKIPPED;
    }
    if (!is_alone && !may_fit(eng, g, s, p)) return NO_ROOM;
    return try_match(eng, g, p, is_alone);
}

static verdict admit_swapped(fx_engine *eng, fxi_group *g, fxi_promise *p, bool is_alone)
{
    if (!is_alone && !has_room_for(eng, p, promise_of(eng, g, 0))) return NO_ROOM;
    fxi_preempt_swap_in(eng, g);
    const bool comes = g->state == FXI_COMING, runs = g->state == FXI_RUNNING;
    if (comes || runs) add_promise(p, promise_of(eng, g, 0));
    return comes ? SKIPPED : runs ? ADMITTED : NO_ROOM;
}

static verdict admit_group(fx_engine *eng, fxi_group *g, fxi_promise *p)
{
    const bool is_alone = !eng->running.head && !eng->n_coming;
    if (g->state == FXI_LEAVING) return LEAVES;
    if (eng->running.n_seq + eng->n_coming + g->n_seq > eng->opt.max_seq) return NO_ROOM;
    if (!is_alone && g->tried_at == eng->n_freed) return NO_ROOM; // nothing has changed since
    learn_promises(eng, p);
    const bool is_swapped = g->state == FXI_SWAPPED;
    verdict v = (is_swapped ? admit_swapped : admit_waiting)(eng, g, p, is_alone);
    g->tried_at = v == NO_ROOM ? eng->n_freed : 0;
    return v;
}

// ---- who is tried ------------------------------------------------------------------------------

// Tokens of its prompt that the prefix cache has, or had some turns ago.
static int cached_tok(fx_engine *eng, fxi_group *g)
{
    if (g->hit_until > eng->n_turn) return g->hit_tok;
    const bool opened = fxi_cache_open_domain(eng, g) == FX_OK;
    g->hit_until = eng->n_turn + HIT_TURNS;
    g->hit_tok = opened ? fxi_cache_hit(eng, first_live(g)) : 0;
    return g->hit_tok;
}

static bool can_start(const fx_engine *eng, const fxi_group *g)
{
    const int n_seq = eng->running.n_seq + eng->n_coming + g->n_seq;
    return n_seq <= eng->opt.max_seq && g->tried_at != eng->n_freed;
}

// Of the client whose turn it is, the group of which most is cached, among the first ones in line.
// Nobody is passed more often than prefix_pass says, so that nobody waits for ever.
static fxi_group *choose_group(fx_engine *eng, fxi_promise *p)
{
    fxi_group *first = fxi_waiting_first(eng), *best = first;
    if (!first || eng->opt.prefix_pass < 0 || !can_start(eng, first)) return first;
    int n = MOST_LOOKS - p->n_look < LOOK_BEHIND ? MOST_LOOKS - p->n_look : LOOK_BEHIND;
    for (fxi_group *g = first; n > 0 && g && g->state == FXI_WAITING; g = fxi_clients_behind(g)) {
        if (cached_tok(eng, g) > cached_tok(eng, best)) best = g;
        n = g->n_passed < eng->opt.prefix_pass ? n - 1 : 0;
        p->n_look++;
    }
    for (fxi_group *g = first; g != best; g = fxi_clients_behind(g)) g->n_passed++;
    return best;
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

// Those that need not wait for a prefix any longer are in line again.
static void line_up_joined(fx_engine *eng)
{
    for (fxi_group *g; (g = fxi_lists_let_go(eng));) fxi_lists_move(eng, g, FXI_WAITING);
}

bool fxi_admit_waiting(fx_engine *eng)
{
    verdict v = ADMITTED;
    bool some = false;
    fxi_promise promise = {0};
    if (eng->budget_waits || eng->is_forgetting) return false;
    line_up_joined(eng);
    while (v == ADMITTED || v == SKIPPED) {
        fxi_group *g = choose_group(eng, &promise);
        if (!g) break;
        fxi_waiting_pick(eng, g);
        const bool was_swapped = g->state == FXI_SWAPPED;
        v = admit_group(eng, g, &promise);
        some |= v == ADMITTED;
        if (v == NO_ROOM) fail_if_hopeless(eng, g, was_swapped);
    }
    return some;
}
