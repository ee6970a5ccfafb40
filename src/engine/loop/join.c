// join.c - waiting for a prefix that another sequence is computing.
//
// A sequence begins with the longest recorded prefix. If a running sequence is computing a longer
// one, it waits for that instead of computing it too: equal prompts that arrive together are
// computed once. Choices that do not fit into memory together wait for each other, too.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#include <string.h>

#define MIN_JOIN_TOK 16 // no wait for less, unless it is all that can be reused

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

static const fxi_seq *find_joined(const fx_engine *eng, const struct fxi_join *j)
{
    for (const fxi_group *g = eng->running.head; g; g = g->next)
        if (g->id == j->group_id) return &g->seq[j->choice];
    return NULL;
}

static bool still_joined(const fx_engine *eng, const fxi_seq *s)
{
    if (!s->join.group_id) return false;
    const fxi_seq *o = find_joined(eng, &s->join);
    return o && o->is_filling && o->n_recorded < s->join.n_tok;
}

// Whether o computes a prefix of s that is worth waiting for, given that `hit` tokens are recorded.
static bool worth_joining(const fxi_seq *o, const fxi_seq *s, int hit, int *n_tok)
{
    if (o == s || !o->is_filling || !share_prefixes(o->group, s->group)) return false;
    const int most = fxi_cache_max_hit(s), n = common_tok(o, s, most);
    if (n <= hit || n <= o->n_recorded) return false;
    *n_tok = n;
    return n == most || n >= hit + MIN_JOIN_TOK;
}

static bool find_join(const fx_engine *eng, fxi_seq *s)
{
    const int hit = fxi_cache_hit(eng, s);
    int n_tok;
    for (const fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++)
            if (worth_joining(&g->seq[i], s, hit, &n_tok)) {
                s->join = (struct fxi_join){g->id, i, n_tok};
                return true;
            }
    return false;
}

bool fxi_join_waits(const fx_engine *eng, fxi_seq *s)
{
    if (still_joined(eng, s)) return true;
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

// On an error it is tried again in the next step.
static void match_group(fx_engine *eng, fxi_group *g)
{
    int at_once = 0, n = 0; // looked up when it matters
    for (int i = 0; i < g->n_seq; i++) {
        fxi_seq *s = &g->seq[i];
        if (!lacks_cache(s)) continue;
        if (!at_once) {
            at_once = fxi_request_at_once(eng, &g->req, g->max_tok);
            n = n_with_cache(g);
        }
        if (n < at_once && !fxi_join_waits(eng, s)) n += fxi_cache_match(eng, s) == FX_OK;
    }
}

void fxi_join_match_running(fx_engine *eng)
{
    for (fxi_group *g = eng->running.head; g; g = g->next) match_group(eng, g);
}
