// admit.c - which waiting groups may run.
//
// They are admitted in order while there are places (max_seq) and memory. Promised memory counts:
// what all running sequences hold, what their known tokens still need, and headroom_tok more for
// each, so that an admission does not soon cause a preemption. headroom_tok doubles with each
// preemption and shrinks by one per turn (hysteresis). Where memory is short, no group overtakes.
// Groups that wait for a prefix that another one computes (join.c) are skipped.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#define MAX_LOOK 256 // waiting groups to skip in a step, at most

// ---- memory ------------------------------------------------------------------------------------

static int longest_tok(const fxi_group *g)
{
    return (int)g->req.n_prompt + g->max_tok;
}

// Bytes promised to a sequence beyond what it holds now.
static uint64_t seq_growth(const fx_engine *eng, const fxi_seq *s)
{
    int end = s->n_tok + eng->headroom_tok;
    if (end > longest_tok(s->group)) end = longest_tok(s->group);
    uint64_t has = s->kv ? fxi_kv_bytes_for(eng->kv, s->n_computed + s->n_step) : 0;
    uint64_t wants = fxi_kv_bytes_for(eng->kv, end);
    return wants > has ? wants - has : 0;
}

// A choice that is still to be forked gets a copy of the prompt's last chunk, and grows.
static uint64_t unborn_growth(const fx_engine *eng, const fxi_group *g)
{
    int more = g->max_tok < eng->headroom_tok ? g->max_tok : eng->headroom_tok;
    return fxi_kv_bytes_for(eng->kv, 1) + fxi_kv_bytes_for(eng->kv, more);
}

static uint64_t group_growth(const fx_engine *eng, const fxi_group *g)
{
    uint64_t sum = 0;
    for (int i = 0; i < g->n_seq; i++) {
        const fxi_seq *s = &g->seq[i];
        if (s->state == FXI_SEQ_LIVE) sum += seq_growth(eng, s);
        if (s->state == FXI_SEQ_UNBORN) sum += unborn_growth(eng, g);
    }
    return sum;
}

static uint64_t promised_bytes(const fx_engine *eng)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(eng->kv, &st);
    uint64_t sum = st.held_bytes;
    for (const fxi_group *g = eng->running.head; g; g = g->next) sum += group_growth(eng, g);
    return sum;
}

// ---- one group ---------------------------------------------------------------------------------

typedef enum verdict { ADMITTED, SKIPPED, NO_ROOM } verdict;

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
    fxi_inbox_count_lookup(eng, g->req.no_cache ? 0 : (int)g->req.n_prompt, s->n_computed);
}

// The group's need is known once its first sequence is matched. If that is too much, the group goes
// back.
static verdict try_match(fx_engine *eng, fxi_group *g, bool is_alone)
{
    fxi_seq *s = first_live(g);
    if (fxi_cache_match(eng, s) != FX_OK) return NO_ROOM;
    fxi_lists_move(eng, g, FXI_RUNNING);
    if (!is_alone && promised_bytes(eng) > eng->opt.kv_memory_bytes) {
        fxi_cache_release(eng, s);
        fxi_lists_move(eng, g, FXI_WAITING);
        return NO_ROOM;
    }
    count_hit(eng, g, s);
    return ADMITTED;
}

static uint64_t hit_bytes(const fx_engine *eng, fxi_group *g)
{
    const int hit = fxi_cache_hit(eng, first_live(g));
    return fxi_kv_bytes_for(eng->kv, fxi_kv_whole_tok(eng->kv, hit));
}

// Whether it would fit if other sequences already held everything that it matches.
static bool may_fit(const fx_engine *eng, fxi_group *g)
{
    uint64_t need = group_growth(eng, g), hit = hit_bytes(eng, g);
    need -= hit < need ? hit : need;
    return promised_bytes(eng) + need <= eng->opt.kv_memory_bytes;
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
    const uint64_t need = fxi_preempt_bytes(eng, g) + group_growth(eng, g);
    if (!is_alone && promised_bytes(eng) + need > eng->opt.kv_memory_bytes) return NO_ROOM;
    if (fxi_preempt_swap_in(eng, g) != FX_OK) return NO_ROOM;
    fxi_lists_move(eng, g, FXI_RUNNING);
    return ADMITTED;
}

static verdict admit_group(fx_engine *eng, fxi_group *g)
{
    const bool is_alone = !eng->running.head;
    if (eng->running.n_seq + g->n_seq > eng->opt.max_seq) return NO_ROOM;
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
    if (eng->running.head || was_swapped || fxi_preempt_drop_swapped(eng)) return;
    fxi_group_fail(g, "no memory to start the request");
}

void fxi_admit_waiting(fx_engine *eng)
{
    int n_look = 0;
    verdict v = ADMITTED;
    for (fxi_group *g = eng->waiting.head, *next; g && v != NO_ROOM && n_look < MAX_LOOK;
         g = next) {
        const bool was_swapped = g->state == FXI_SWAPPED;
        next = g->next;
        v = admit_group(eng, g);
        if (v == NO_ROOM) fail_if_hopeless(eng, g, was_swapped);
        n_look += v == SKIPPED;
    }
}
