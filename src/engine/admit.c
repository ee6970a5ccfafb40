// admit.c - who may run, and with which part of its tokens in the cache already.
//
// Waiting groups are taken in order while there are places (max_seq) and memory. Memory is promised:
// what all running sequences hold, what the tokens they have still need, and headroom_tok more for
// each, so that an admission does not cause a preemption soon after. headroom_tok doubles with each
// preemption and shrinks by one per step (hysteresis). Where memory is short, nobody overtakes.
//
// A sequence begins with the longest recorded prefix. If another one is just computing more of what
// it needs, it waits for that instead of computing it too: equal prompts that arrive together are
// computed once. Groups that wait for that are passed by.
#include "engine/internal.h"

#include <string.h>

#define MAX_LOOK     256 // waiting groups that are looked at in a step
#define MIN_JOIN_TOK 16  // a shorter prefix is not waited for, unless it is all of the prompt

// ---- memory ------------------------------------------------------------------------------------

static int longest(const fxi_group *g)
{
    return (int)g->req.n_prompt + g->max_tok;
}

// Bytes that a sequence will take beyond what it holds now.
static uint64_t seq_growth(const fx_engine *eng, const fxi_seq *s)
{
    int end = s->n_tok + eng->headroom_tok;
    if (end > longest(s->group)) end = longest(s->group);
    uint64_t has = s->kv ? fxi_kv_bytes_for(eng->kv, s->n_computed + s->n_step) : 0;
    uint64_t wants = fxi_kv_bytes_for(eng->kv, end);
    return wants > has ? wants - has : 0;
}

// A choice that will be forked gets a copy of the prompt's last chunk, and grows.
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

// ---- prefixes that others are computing --------------------------------------------------------

static bool share_prefixes(const fxi_group *a, const fxi_group *b)
{
    if (a->req.no_cache || b->req.no_cache) return false;
    return a == b || strcmp(a->req.tenant, b->req.tenant) == 0;
}

static int common_tok(const fxi_seq *a, const fxi_seq *b, int most)
{
    int n = 0;
    if (most > a->n_tok) most = a->n_tok;
    while (n < most && a->tok[n] == b->tok[n]) n++;
    return n;
}

// Tokens of s that may come from the cache: the last one is computed for its logits, and of a
// prompt whose probabilities are to be told, everything.
static int most_cached(const fxi_seq *s)
{
    const fx_request *req = &s->group->req;
    if (req->prompt_logprobs && s->n_prompt_told < (int)req->n_prompt)
        return s->n_prompt_told ? s->n_prompt_told - 1 : 0;
    return s->n_tok - 1;
}

static const fxi_seq *find_filling(const fx_engine *eng, const struct fxi_join *j)
{
    for (const fxi_group *g = eng->running.head; g; g = g->next)
        if (g->id == j->group_id) return &g->seq[j->choice];
    return NULL;
}

static bool still_joined(const fx_engine *eng, const fxi_seq *s)
{
    if (!s->join.group_id) return false;
    const fxi_seq *o = find_filling(eng, &s->join);
    return o && o->is_filling && o->n_recorded < s->join.n_tok;
}

// Whether o is computing a prefix of s that is worth waiting for, `hit` tokens being there already.
static bool worth_joining(const fxi_seq *o, const fxi_seq *s, int hit, int *n_tok)
{
    if (o == s || !o->is_filling || !share_prefixes(o->group, s->group)) return false;
    const int most = most_cached(s), n = common_tok(o, s, most);
    if (n <= hit || n <= o->n_recorded) return false;
    *n_tok = n;
    return n == most || n >= hit + MIN_JOIN_TOK;
}

// Tokens of s in the prefix cache.
static int cached_tok(const fx_engine *eng, const fxi_seq *s)
{
    if (s->group->req.no_cache) return 0;
    return fxi_kv_peek(eng->kv, s->group->domain, s->tok, most_cached(s));
}

static bool find_join(const fx_engine *eng, fxi_seq *s)
{
    const int hit = cached_tok(eng, s);
    int n_tok;
    for (const fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++)
            if (worth_joining(&g->seq[i], s, hit, &n_tok)) {
                s->join = (struct fxi_join){g->id, i, n_tok};
                return true;
            }
    return false;
}

static bool waits_for_prefix(const fx_engine *eng, fxi_seq *s)
{
    if (still_joined(eng, s)) return true;
    s->join.group_id = 0;
    return find_join(eng, s);
}

// ---- matching ----------------------------------------------------------------------------------

static fx_status match_first(fx_engine *eng, fxi_seq *s, int n_tok, int *n_hit)
{
    *n_hit = 0;
    if (s->group->req.no_cache) return fxi_kv_create(eng->kv, s->n_tok, &s->kv);
    return fxi_kv_match(eng->kv, s->group->domain, s->tok, n_tok, s->n_tok, &s->kv, n_hit);
}

// With no room for a copy of the last rows, whole chunks are shared, which takes none.
static fx_status match(fx_engine *eng, fxi_seq *s)
{
    int n_hit;
    fx_status st = match_first(eng, s, most_cached(s), &n_hit);
    if (st == FX_ENOSPACE)
        st = match_first(eng, s, fxi_kv_whole_tok(eng->kv, cached_tok(eng, s)), &n_hit);
    if (st != FX_OK) return st;
    s->n_computed = s->n_recorded = n_hit;
    s->is_filling = true;
    return FX_OK;
}

static void match_rest(fx_engine *eng, fxi_group *g)
{
    for (int i = 0; i < g->n_seq; i++) {
        fxi_seq *s = &g->seq[i];
        if (s->state != FXI_SEQ_LIVE || s->kv || s->finish != FX_FINISH_NONE) continue;
        if (!waits_for_prefix(eng, s)) (void)match(eng, s); // if it fails: in the next step
    }
}

void fxi_match_running(fx_engine *eng)
{
    for (fxi_group *g = eng->running.head; g; g = g->next) match_rest(eng, g);
}

// ---- admitting ---------------------------------------------------------------------------------

static fx_status open_domain(fx_engine *eng, fxi_group *g)
{
    const char *key = g->req.tenant;
    if (g->domain || g->req.no_cache) return FX_OK;
    return fxi_kv_domain_open(eng->kv, key, strlen(key), &g->domain);
}

static fxi_seq *first_live(fxi_group *g)
{
    int i = 0;
    while (g->seq[i].state != FXI_SEQ_LIVE) i++;
    return &g->seq[i];
}

static void run(fx_engine *eng, fxi_group *g)
{
    fxi_group_remove(&eng->waiting, g);
    fxi_count_queue(eng, g, -1);
    g->state = FXI_RUNNING;
    fxi_group_insert(&eng->running, g);
}

static void wait_again(fx_engine *eng, fxi_group *g)
{
    fxi_group_remove(&eng->running, g);
    g->state = FXI_WAITING;
    fxi_group_insert(&eng->waiting, g);
    fxi_count_queue(eng, g, +1);
}

static void count_hit(fx_engine *eng, fxi_group *g, const fxi_seq *s)
{
    if (g->is_counted) return;
    g->is_counted = true;
    g->n_cached = s->n_computed;
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_cached_tok += (uint64_t)s->n_computed;
    pthread_mutex_unlock(&eng->mu);
}

typedef enum verdict { ADMITTED, PASSED_BY, NO_ROOM } verdict;

// With its first sequence matched it is known what the group needs. If that is too much after all,
// everything is put back.
static verdict try_match(fx_engine *eng, fxi_group *g, bool is_alone)
{
    fxi_seq *s = first_live(g);
    if (match(eng, s) != FX_OK) return NO_ROOM;
    run(eng, g);
    if (!is_alone && promised_bytes(eng) > eng->opt.kv_memory_bytes) {
        fxi_release(eng, s);
        wait_again(eng, g);
        return NO_ROOM;
    }
    count_hit(eng, g, s);
    return ADMITTED;
}

static uint64_t hit_bytes(const fx_engine *eng, fxi_group *g)
{
    const int hit = cached_tok(eng, first_live(g));
    return fxi_kv_bytes_for(eng->kv, fxi_kv_whole_tok(eng->kv, hit));
}

// Whether it could fit if all that it matches were in use already.
static bool may_fit(const fx_engine *eng, fxi_group *g)
{
    uint64_t need = group_growth(eng, g), hit = hit_bytes(eng, g);
    need -= hit < need ? hit : need;
    return promised_bytes(eng) + need <= eng->opt.kv_memory_bytes;
}

static verdict admit_waiting(fx_engine *eng, fxi_group *g, bool is_alone)
{
    if (open_domain(eng, g) != FX_OK) return NO_ROOM;
    if (waits_for_prefix(eng, first_live(g))) return PASSED_BY;
    if (!is_alone && !may_fit(eng, g)) return NO_ROOM;
    return try_match(eng, g, is_alone);
}

static verdict admit_swapped(fx_engine *eng, fxi_group *g, bool is_alone)
{
    const uint64_t need = fxi_swapped_need(eng, g) + group_growth(eng, g);
    if (!is_alone && promised_bytes(eng) + need > eng->opt.kv_memory_bytes) return NO_ROOM;
    fx_status st = fxi_swap_in(eng, g);
    if (st == FX_OK) run(eng, g);
    return st == FX_OK ? ADMITTED : NO_ROOM;
}

static verdict admit(fx_engine *eng, fxi_group *g)
{
    const bool is_alone = !eng->running.head;
    if (eng->running.n_seq + g->n_seq > eng->opt.max_seq) return NO_ROOM;
    if (!is_alone && g->tried_at == eng->n_freed) return NO_ROOM; // nothing has changed since
    const bool is_swapped = g->state == FXI_SWAPPED;
    verdict v = is_swapped ? admit_swapped(eng, g, is_alone) : admit_waiting(eng, g, is_alone);
    g->tried_at = v == NO_ROOM ? eng->n_freed : 0;
    return v;
}

// With nobody else running there is nothing to wait for.
static void give_up(fx_engine *eng, fxi_group *g)
{
    fxi_group_fail(g, "no memory to start the request");
    (void)fxi_answer_end(eng, g);
}

void fxi_admit(fx_engine *eng)
{
    int n_look = 0;
    verdict v = ADMITTED;
    for (fxi_group *g = eng->waiting.head, *next; g && v != NO_ROOM && n_look < MAX_LOOK;
         g = next) {
        const bool was_swapped = g->state == FXI_SWAPPED; // then it is computed again if it must be
        next = g->next;
        v = admit(eng, g);
        if (v == NO_ROOM && !eng->running.head && !was_swapped && !fxi_forget_swapped(eng))
            give_up(eng, g);
        n_look += v == PASSED_BY;
    }
}
