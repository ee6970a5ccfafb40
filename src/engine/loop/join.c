// join.c - waiting for a prefix that another sequence is computing.
//
// A sequence begins with the longest recorded prefix. If a running sequence is computing a longer
// one, it waits for that instead of computing it too: equal prompts that arrive together are
// computed once. Choices that do not fit into memory together wait for each other, too.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#include <string.h>

#define MIN_JOIN_TOK 16 // no wait for less, unless it is all that can be reused

static int common_tok(const fxi_seq *a, const fxi_seq *b, int most)
{
    int n = 0;
    if (strcmp(a->group->req.tenant, b->group->req.tenant) != 0) return 0;
    if (most > a->n_tok) most = a->n_tok;
    while (n < most && a->tok[n] == b->tok[n]) n++;
    return n;
}

static const fxi_seq *find_joined(fx_engine *eng, const struct fxi_join *j)
{
    pthread_mutex_lock(&eng->mu);
    const fxi_group *g = fxi_lists_find_locked(eng, j->group_id);
    pthread_mutex_unlock(&eng->mu);
    return g && g->state == FXI_RUNNING ? &g->seq[j->choice] : NULL;
}

// Whether it waits still, for the one that it waited for.
static bool waits_still(fx_engine *eng, const fxi_seq *s)
{
    if (!s->join.group_id) return false;
    const fxi_seq *o = find_joined(eng, &s->join);
    return o && o->is_filling && o->n_recorded < s->join.n_tok;
}

// Whether o computes a prefix of s that is worth waiting for. *hit: tokens that are recorded; below
// 0, they are looked up once they matter.
static bool worth_joining(fx_engine *eng, const fxi_seq *o, const fxi_seq *s, int *hit, int *n_tok)
{
    if (!o) return false;
    const int most = fxi_cache_max_hit(s), n = common_tok(o, s, most);
    if (n <= o->n_recorded || (n < most && n < MIN_JOIN_TOK)) return false;
    if (*hit < 0) *hit = fxi_cache_hit(eng, s);
    *n_tok = n;
    return n > *hit && (n == most || n >= *hit + MIN_JOIN_TOK);
}

// Nobody shares more with s than its neighbours in the order of tokens.
static bool find_join(fx_engine *eng, fxi_seq *s)
{
    if (s->group->req.no_cache || !eng->filling.root) return false;
    fxi_treap_node *behind = fxi_treap_find(&eng->filling, &s->fill_at);
    fxi_treap_node *before = behind ? fxi_treap_prev(behind) : fxi_treap_last(&eng->filling);
    const fxi_seq *near[] = {FXI_TREAP_OF(behind, fxi_seq, fill_at),
                             FXI_TREAP_OF(before, fxi_seq, fill_at)};
    int n_tok, hit = -1;
    for (int i = 0; i < 2; i++)
        if (worth_joining(eng, near[i], s, &hit, &n_tok)) {
            s->join = (struct fxi_join){near[i]->group->id, near[i]->choice, n_tok};
            return true;
        }
    return false;
}

bool fxi_join_waits(fx_engine *eng, fxi_seq *s)
{
    if (waits_still(eng, s)) return true;
    s->join.group_id = 0;
    return find_join(eng, s);
}

static bool lacks_cache(const fxi_seq *s)
{
    return s->state == FXI_SEQ_LIVE && !s->kv && s->finish == FX_FINISH_NONE;
}

static int n_with_cache(const fxi_group *g)
{
    int n = 0;
    for (int i = 0; i < g->n_seq; i++) n += g->seq[i].kv != NULL;
    return n;
}

// On an error it is tried again in the next step. Whether some were matched.
static bool match_group(fx_engine *eng, fxi_group *g)
{
    int at_once = 0, n = 0; // looked up when it matters
    bool some = false;
    for (int i = 0; i < g->n_seq; i++) {
        fxi_seq *s = &g->seq[i];
        if (!lacks_cache(s)) continue;
        if (!at_once) {
            at_once = fxi_request_at_once(eng, &g->req, g->max_tok);
            n = n_with_cache(g);
        }
        if (n >= at_once || fxi_join_waits(eng, s) || fxi_cache_match(eng, s) != FX_OK) continue;
        some = true;
        n++;
    }
    return some;
}

bool fxi_join_match_running(fx_engine *eng)
{
    bool some = false;
    for (fxi_group *g = eng->running.head; g; g = g->next) some |= match_group(eng, g);
    return some;
}
