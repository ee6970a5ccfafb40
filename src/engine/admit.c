// admit.c - which waiting requests may run.
//
// They are admitted in order (fxi_sched_first) while there are places (max_seq) and memory.
// Promised memory counts: what all running sequences hold, what their known tokens still need, and
// headroom_tok more for each, so that an admission does not soon cause a preemption; and so do the
// mappings that they may need, where the system limits them. headroom_tok doubles with each
// preemption and shrinks by one per iteration (hysteresis). Where memory is short, no request
// overtakes. A request that comes back from the swap has its place and its memory, and runs once it
// has arrived. While a smaller budget waits for memory on its way, nothing is admitted.
//
// A sequence begins with the longest recorded prefix. If a running sequence is computing a longer
// one, it waits for that instead of computing it too: equal prompts that arrive together are
// computed once. Its request is put aside, and is in line again once that sequence lets it go
// (sched.c). Choices that do not fit into memory together wait for each other as well.
#include "engine/iteration.h"

#include <string.h>

#define LOOK_AHEAD     128  // requests of a client among which the one with most cached is chosen,
#define MOST_LOOKS     4096 // and all of an iteration
#define HIT_ITERATIONS 4    // for which what is cached is not looked up again
#define MIN_JOIN_TOK   16   // no wait for less, unless it is all that can be reused

// ---- memory ------------------------------------------------------------------------------------

static int promised_tok(const fx_engine *eng, const fxi_live_request *r, int n_tok)
{
    const int end = n_tok + eng->sched.headroom_tok, most = (int)r->spec.n_prompt + r->max_tok;
    return end < most ? end : most;
}

// Bytes promised to a sequence beyond what it holds now. hit_tok: tokens that it will share.
static uint64_t seq_growth(const fx_engine *eng, const fxi_seq *s, int hit_tok)
{
    const int end = promised_tok(eng, s->request, s->n_tok);
    const fxi_kv_need need = {
        .n_seq = 1, .each = fxi_cache_expect(s), .end_tok = end, .hit_tok = hit_tok};
    return s->kv ? fxi_kv_growth(eng->kv, s->kv, end) : fxi_kv_cost(eng->kv, &need);
}

// A choice that is still to be forked shares the prompt, and grows.
static uint64_t unborn_growth(const fx_engine *eng, const fxi_live_request *r)
{
    const int n_prompt = (int)r->spec.n_prompt;
    fxi_kv_expect expect = fxi_cache_expect(&r->seq[0]);
    expect.begin_tok = n_prompt;
    const fxi_kv_need need = {.n_seq = 1,
                              .each = expect,
                              .end_tok = promised_tok(eng, r, n_prompt),
                              .hit_tok = fxi_kv_can(eng->kv, FXI_KV_FORK) ? n_prompt : 0};
    return fxi_kv_cost(eng->kv, &need);
}

// hit_tok: tokens that the first sequence without a cache will share. Of the sequences without a
// cache, as many count as can have one in addition to the others.
static uint64_t request_growth(const fx_engine *eng, const fxi_live_request *r, int hit_tok)
{
    uint64_t sum = 0;
    int n_more = fxi_request_at_once(&eng->service, &r->spec, r->max_tok);
    for (int i = 0; i < r->n_seq; i++) {
        const fxi_seq *s = &r->seq[i];
        if (!s->kv || s->state != FXI_SEQ_LIVE) continue;
        sum += seq_growth(eng, s, 0);
        n_more--;
    }
    for (int i = 0; i < r->n_seq && n_more > 0; i++) {
        const fxi_seq *s = &r->seq[i];
        if (s->kv || s->state == FXI_SEQ_DONE) continue;
        const bool is_unborn = s->state == FXI_SEQ_UNBORN;
        sum += is_unborn ? unborn_growth(eng, r) : seq_growth(eng, s, hit_tok);
        if (!is_unborn) hit_tok = 0;
        n_more--;
    }
    return sum;
}

// What is promised beyond the bytes that are held: growth of running requests, everything of those
// that come back. Added up once in an iteration, and updated as requests are admitted.
typedef struct fxi_promise {
    bool is_known;
    int n_look; // requests looked at so far to choose one
    uint64_t growth_bytes, n_mapping;
} fxi_promise;

static fxi_promise promise_of(const fx_engine *eng, const fxi_live_request *r, int hit_tok)
{
    const bool is_out = r->state == FXI_SWAPPED || r->state == FXI_SWAPPING_IN;
    const uint64_t of_new = fxi_kv_mappings(eng->kv, NULL);
    fxi_promise p = {.growth_bytes = request_growth(eng, r, hit_tok) +
                                     (is_out ? fxi_preempt_bytes(&eng->memory, r) : 0)};
    for (int i = 0; of_new && i < r->n_seq; i++) { // mappings that its sequences may soon need
        const fxi_seq *s = &r->seq[i];
        if (s->state != FXI_SEQ_DONE)
            p.n_mapping += s->kv ? fxi_kv_mappings(eng->kv, s->kv) : of_new;
    }
    return p;
}

static void add_promise(fxi_promise *p, fxi_promise need)
{
    p->growth_bytes += need.growth_bytes;
    p->n_mapping += need.n_mapping;
}

static void learn_promises(const fx_engine *eng, fxi_promise *p)
{
    const fxi_sched *d = &eng->sched;
    if (p->is_known) return;
    p->is_known = true;
    for (const fxi_live_request *r = d->running.head; r; r = r->next)
        add_promise(p, promise_of(eng, r, 0));
    for (const fxi_live_request *r = d->n_swapping_in ? d->aside.head : NULL; r; r = r->next)
        if (r->state == FXI_SWAPPING_IN) add_promise(p, promise_of(eng, r, 0));
}

// Whether there is memory for all that is promised and for this. A smaller budget that is not in
// effect yet counts.
static bool has_memory_for(const fx_engine *eng, const fxi_promise *p, fxi_promise need)
{
    const uint64_t next = fxi_budget_wanted(&eng->memory), now = eng->memory.effective_bytes;
    const uint64_t held = fxi_kv_held_bytes(eng->kv);
    if (held + p->growth_bytes + need.growth_bytes > (next < now ? next : now)) return false;
    return !eng->kv->max_mapping || p->n_mapping + need.n_mapping <= eng->kv->max_mapping;
}

// ---- waiting for a prefix ----------------------------------------------------------------------

static int common_tok(const fxi_seq *a, const fxi_seq *b, int most)
{
    int n = 0;
    if (strcmp(a->request->spec.tenant, b->request->spec.tenant) != 0) return 0;
    if (most > a->n_tok) most = a->n_tok;
    while (n < most && a->tok[n] == b->tok[n]) n++;
    return n;
}

// Whether s still waits for the sequence that it waited for.
static bool waits_still(fx_engine *eng, const fxi_seq *s)
{
    if (!s->join.request_id) return false;
    pthread_mutex_lock(&eng->mailbox.mu);
    const fxi_live_request *r = fxi_mailbox_find_locked(&eng->mailbox, s->join.request_id);
    pthread_mutex_unlock(&eng->mailbox.mu);
    const fxi_seq *o = r && r->state == FXI_RUNNING ? &r->seq[s->join.choice] : NULL;
    return o && o->is_filling && o->n_recorded < s->join.n_tok;
}

// Whether o computes a prefix of s that is worth waiting for. *hit: tokens that are recorded; below
// 0, they are looked up once they matter.
static bool worth_joining(fx_engine *eng, const fxi_seq *o, const fxi_seq *s, int *hit, int *n_tok)
{
    if (!o) return false;
    const int most = fxi_cache_max_hit(s), n = common_tok(o, s, most);
    if (n <= o->n_recorded || (n < most && n < MIN_JOIN_TOK)) return false;
    if (*hit < 0) *hit = fxi_cache_hit(&eng->memory, s);
    *n_tok = n;
    return n > *hit && (n == most || n >= *hit + MIN_JOIN_TOK);
}

// Whether s waits for a prefix that another sequence is computing: s->join. No other sequence
// shares more with s than its neighbours in the order of tokens.
static bool waits_for_prefix(fx_engine *eng, fxi_seq *s)
{
    const fxi_treap *filling = &eng->sched.filling;
    if (waits_still(eng, s)) return true;
    s->join.request_id = 0;
    if (s->request->spec.no_cache || !filling->root) return false;
    fxi_treap_node *after = fxi_treap_find(filling, &s->fill_at);
    fxi_treap_node *before = after ? fxi_treap_prev(after) : fxi_treap_last(filling);
    const fxi_seq *near[] = {FXI_TREAP_OF(after, fxi_seq, fill_at),
                             FXI_TREAP_OF(before, fxi_seq, fill_at)};
    int n_tok, hit = -1;
    for (int i = 0; i < 2; i++)
        if (worth_joining(eng, near[i], s, &hit, &n_tok)) {
            s->join = (struct fxi_join){near[i]->request->id, near[i]->choice, n_tok};
            return true;
        }
    return false;
}

// On an error it is tried again in the next pass.
bool fxi_admit_match(fx_engine *eng, fxi_live_request *r)
{
    int at_once = 0, n = 0; // looked up when it matters
    bool some = false;
    for (int i = 0; i < r->n_seq; i++) {
        fxi_seq *s = &r->seq[i];
        if (s->state != FXI_SEQ_LIVE || s->kv || s->finish != FX_FINISH_NONE) continue;
        if (!at_once) {
            at_once = fxi_request_at_once(&eng->service, &r->spec, r->max_tok);
            for (int k = 0; k < r->n_seq; k++) n += r->seq[k].kv != NULL;
        }
        if (n >= at_once || waits_for_prefix(eng, s) || fxi_cache_match(&eng->memory, s) != FX_OK)
            continue;
        some = true;
        n++;
    }
    r->is_fresh |= some;
    return some;
}

// ---- one request -------------------------------------------------------------------------------

typedef enum verdict { ADMITTED, SKIPPED, NO_MEMORY, LEAVES } verdict;

static void count_hit(fx_engine *eng, fxi_live_request *r, const fxi_seq *s)
{
    const int n_prompt = (int)r->spec.n_prompt;
    if (r->is_counted) return;
    r->is_counted = true;
    r->admit_us = fxi_now_us(eng);
    r->n_cached = s->n_computed;
    fxi_clients_serve(&eng->sched.clients, r->client, n_prompt - s->n_computed, 0);
    const int n_lookup = r->spec.no_cache ? 0 : n_prompt;
    fxi_stats_add(&eng->stats, &eng->stats.now.n_lookup_tok, (uint64_t)n_lookup);
    fxi_stats_add(&eng->stats, &eng->stats.now.n_cached_tok, (uint64_t)s->n_computed);
}

// What the request needs is known once its first sequence is matched. If that is too much, it goes
// back.
static verdict admit_waiting(fx_engine *eng, fxi_live_request *r, fxi_promise *p, bool is_alone)
{
    if (fxi_cache_open_domain(&eng->memory, r) != FX_OK) return NO_MEMORY;
    fxi_seq *s = fxi_request_first_live(r);
    if (waits_for_prefix(eng, s)) {
        fxi_sched_move(&eng->sched, r, FXI_JOINING);
        return SKIPPED;
    }
    // It may fit if other sequences hold everything that it matches, which is looked up only where
    // it matters.
    if (!is_alone && !has_memory_for(eng, p, promise_of(eng, r, 0)) &&
        !has_memory_for(eng, p, promise_of(eng, r, fxi_cache_hit(&eng->memory, s))))
        return NO_MEMORY;
    if (fxi_cache_match(&eng->memory, s) != FX_OK) return NO_MEMORY;
    const fxi_promise need = promise_of(eng, r, 0);
    if (!is_alone && !has_memory_for(eng, p, need)) {
        fxi_cache_release(&eng->memory, s);
        return NO_MEMORY;
    }
    fxi_sched_move(&eng->sched, r, FXI_RUNNING);
    add_promise(p, need);
    count_hit(eng, r, s);
    return ADMITTED;
}

static verdict admit_swapped(fx_engine *eng, fxi_live_request *r, fxi_promise *p, bool is_alone)
{
    if (!is_alone && !has_memory_for(eng, p, promise_of(eng, r, 0))) return NO_MEMORY;
    fxi_preempt_swap_in(&eng->memory, r);
    const bool comes = r->state == FXI_SWAPPING_IN, runs = r->state == FXI_RUNNING;
    if (comes || runs) add_promise(p, promise_of(eng, r, 0));
    return comes ? SKIPPED : runs ? ADMITTED : NO_MEMORY;
}

static bool has_place(const fx_engine *eng, const fxi_live_request *r)
{
    const fxi_sched *d = &eng->sched;
    return d->running.n_seq + d->n_swapping_in + r->n_seq <= eng->opt.max_seq;
}

static verdict admit_request(fx_engine *eng, fxi_live_request *r, fxi_promise *p)
{
    const fxi_sched *d = &eng->sched;
    const bool is_alone = !d->running.head && !d->n_swapping_in;
    if (r->state == FXI_SWAPPING_OUT) return LEAVES;
    if (!has_place(eng, r)) return NO_MEMORY;
    if (!is_alone && r->tried_at == d->n_freed) return NO_MEMORY; // nothing has changed since
    learn_promises(eng, p);
    const bool is_swapped = r->state == FXI_SWAPPED;
    const verdict v = (is_swapped ? admit_swapped : admit_waiting)(eng, r, p, is_alone);
    r->tried_at = v == NO_MEMORY ? d->n_freed : 0;
    r->is_fresh |= v == ADMITTED;
    return v;
}

// ---- all requests ------------------------------------------------------------------------------

// Tokens of its prompt that the prefix cache has, or had some iterations ago.
static int cached_tok(fx_engine *eng, fxi_live_request *r)
{
    if (r->hit_until > eng->sched.n_iteration) return r->hit_tok;
    const bool is_open = fxi_cache_open_domain(&eng->memory, r) == FX_OK;
    r->hit_until = eng->sched.n_iteration + HIT_ITERATIONS;
    r->hit_tok = is_open ? fxi_cache_hit(&eng->memory, fxi_request_first_live(r)) : 0;
    return r->hit_tok;
}

// The request to try next: of the client whose turn it is, the one with most tokens cached, among
// the first ones in line. No request is passed more often than prefix_pass says, so that none waits
// for ever.
static fxi_live_request *choose_request(fx_engine *eng, fxi_promise *p)
{
    const int most_passed = eng->opt.prefix_pass;
    fxi_live_request *first = fxi_sched_first(&eng->sched), *best = first;
    if (!first || most_passed < 0 || !has_place(eng, first) ||
        first->tried_at == eng->sched.n_freed)
        return first;
    int n = MOST_LOOKS - p->n_look < LOOK_AHEAD ? MOST_LOOKS - p->n_look : LOOK_AHEAD;
    for (fxi_live_request *r = first; n > 0 && r && r->state == FXI_WAITING;
         r = fxi_clients_after(r)) {
        if (cached_tok(eng, r) > cached_tok(eng, best)) best = r;
        n = r->n_passed < most_passed ? n - 1 : 0;
        p->n_look++;
    }
    for (fxi_live_request *r = first; r != best; r = fxi_clients_after(r)) r->n_passed++;
    return best;
}

// Call when a request found no memory. If no other request runs, a request that was swapped will be
// computed again, and a waiting one gets the memory of a swapped one. If there is none, no memory
// will become free.
static void fail_if_hopeless(fx_engine *eng, fxi_live_request *r, bool was_swapped)
{
    const fxi_sched *d = &eng->sched;
    if (d->running.head || d->n_swapping_out || d->n_swapping_in) return;
    if (was_swapped || fxi_preempt_drop_swapped(&eng->memory)) return;
    fxi_request_fail(r, FX_EINTERNAL, "no memory to start the request");
}

bool fxi_admit_waiting(fx_engine *eng)
{
    fxi_sched *d = &eng->sched;
    fxi_promise promise = {0};
    bool some = false;
    if (eng->memory.budget_waits || eng->memory.is_forgetting) return false;
    for (fxi_live_request *r; (r = fxi_sched_released(d));) fxi_sched_move(d, r, FXI_WAITING);
    for (verdict v = ADMITTED; v == ADMITTED || v == SKIPPED;) {
        fxi_live_request *r = choose_request(eng, &promise);
        if (!r) break;
        fxi_sched_pick(d, r);
        const bool was_swapped = r->state == FXI_SWAPPED;
        v = admit_request(eng, r, &promise);
        some |= v == ADMITTED;
        if (v == NO_MEMORY) fail_if_hopeless(eng, r, was_swapped);
    }
    return some;
}
