// plan.c - which sequences compute what in the next step: the request scheduler of vTensor's
// Algorithm 1 (arXiv 2407.15309).
//
//   1. Every running sequence that decodes gets its one token.
//   2. Running sequences without a cache, then waiting groups, are matched with the prefix cache
//      and join as places and memory allow (join.c, admit.c). Those that then have one token left
//      to compute, or come back from the swap, decode in this step too.
//   3. The rest of the step's token budget goes to prompts (prompts.c).
//   4. Sequences that decode get drafted tokens besides, where they are worth it (speculate/).
//
// A sequence is planned only once its cache has been extended (room.c). Memory for later steps is
// prefetched during the forward pass.
//
// Which tokens share a step never changes a result (kernels.h, the law of order).
#include "engine/loop/loop.h"
#include "engine/memory/room.h"
#include "engine/speculate/speculate.h"

#define MIN_PROMPT_TOK 64 // prompt tokens that step_ms never cuts: short prompts stay whole

// ---- decodes -----------------------------------------------------------------------------------

// All LIVE sequences of the group have one token left to compute and sit nothing out: beams go on
// together.
static bool is_level(const fxi_group *g)
{
    for (int i = 0; i < g->n_seq; i++)
        if (g->seq[i].state == FXI_SEQ_LIVE &&
            (!g->seq[i].kv || g->seq[i].is_held || fxi_seq_n_left(&g->seq[i]) != 1))
            return false;
    return true;
}

// Beams wait together. How many tokens were planned.
static int unplan_group(fxi_group *g)
{
    int n_tok = 0;
    for (int i = 0; i < g->n_seq; i++) {
        n_tok += g->seq[i].n_step;
        g->seq[i].n_step = 0;
    }
    return n_tok;
}

static bool decodes_now(const fxi_seq *s)
{
    return fxi_seq_may_compute(s) && !s->n_step && !s->is_held && fxi_seq_n_left(s) == 1;
}

// Lists what decodes in a group and is not planned yet, behind the *n that are listed; of beams all
// or none. False: the list, which holds `most`, has no room for the rest.
static bool list_group(fxi_group *g, fxi_seq **s, int *n, int most)
{
    const int n_before = *n;
    if (g->is_whole || (g->beam && !is_level(g))) return true;
    if (g->beam && fxi_group_n_live(g) > most - n_before) return false;
    for (int i = 0; i < g->n_seq; i++) {
        if (!decodes_now(&g->seq[i])) continue;
        if (*n == most) return false;
        s[(*n)++] = &g->seq[i];
    }
    if (g->beam && *n - n_before < fxi_group_n_live(g)) *n = n_before;
    return true;
}

// One call to the manager for many sequences. Returns how many it could grow: beams of which some
// have got nothing have to wait for the others.
static int grow_listed(fx_engine *eng, fxi_seq *const *s, int n)
{
    int n_done = fxi_room_grow_many(eng, s, n);
    while (n_done > 0 && n_done < n && s[n_done]->group->beam &&
           s[n_done - 1]->group == s[n_done]->group)
        s[--n_done]->n_step = 0;
    return n_done;
}

// Those for whom memory is at hand. *is_all: nobody was left out.
static int decode_at_hand(fx_engine *eng, int left, bool *is_all)
{
    fxi_seq *s[FXI_ROOM_AT_ONCE];
    fxi_group *g = eng->running.head;
    *is_all = true;
    while (g && left > 0 && *is_all) {
        const int most = left < FXI_ROOM_AT_ONCE ? left : FXI_ROOM_AT_ONCE;
        int n = 0;
        while (g && list_group(g, s, &n, most)) g = g->next;
        const int n_done = grow_listed(eng, s, n);
        left -= n_done;
        *is_all = n_done == n && (n || !g); // beams may be too many for any list
    }
    return left;
}

static int decode_group(fx_engine *eng, fxi_group *g, int left)
{
    if (g->is_whole) return left; // computed as prompts, so that none waits for ever
    if (g->beam && (!is_level(g) || fxi_group_n_live(g) > left)) return left; // all or none
    for (int i = 0; i < g->n_seq && left > 0; i++) {
        fxi_seq *s = &g->seq[i];
        if (!decodes_now(s)) continue;
        if (!fxi_room_grow(eng, s, 1)) return g->beam ? left + unplan_group(g) : left;
        left--;
    }
    return left;
}

static int plan_decodes(fx_engine *eng, int left)
{
    bool is_all = false;
    if (left > 0) left = decode_at_hand(eng, left, &is_all);
    for (fxi_group *g = is_all ? NULL : eng->running.head, *next; g && left > 0; g = next) {
        left = decode_group(eng, g, left);
        next = g->state == FXI_RUNNING ? g->next : NULL; // preempted: it was the last
    }
    return left;
}

// ---- the step ----------------------------------------------------------------------------------

static void clear_plan(fx_engine *eng)
{
    for (fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++) g->seq[i].n_step = g->seq[i].n_draft = 0;
}

// Tokens planned; *n_row: rows of logits that they need.
static int count_planned(const fx_engine *eng, int *n_row)
{
    int n_tok = 0;
    *n_row = 0;
    for (const fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++) {
            n_tok += g->seq[i].n_step;
            if (g->seq[i].n_step && !g->seq[i].embd) *n_row += fxi_step_n_row(eng, &g->seq[i]);
        }
    return n_tok;
}

// The cap on prompt tokens in this step. While sequences decode, it is about what fits into step_ms
// at the measured rate, so that their next tokens are not delayed for longer.
static int limit_prompts(const fx_engine *eng, int left)
{
    if (left == eng->opt.step_tok || eng->us_per_tok <= 0) return left;
    const double fit = 1000.0 * eng->opt.step_ms / eng->us_per_tok;
    if (fit >= left) return left;
    return fit > MIN_PROMPT_TOK ? (int)fit : left < MIN_PROMPT_TOK ? left : MIN_PROMPT_TOK;
}

static int plan_once(fx_engine *eng, bool may_admit)
{
    clear_plan(eng);
    fxi_hold_running(eng);
    int left = plan_decodes(eng, eng->opt.step_tok);
    bool some = fxi_join_match_running(eng);
    if (left > 0 && may_admit && fxi_admit_waiting(eng)) {
        (void)fxi_join_match_running(eng); // the other sequences of those groups
        some = true;
    }
    if (some) { // may decode, since they have just come back
        fxi_hold_running(eng);
        left = plan_decodes(eng, left);
    }
    fxi_prompts_plan(eng, limit_prompts(eng, left));
    int n_row, n_tok = count_planned(eng, &n_row);
    if (eng->spec) {
        fxi_speculate_plan(eng, n_tok, fxi_step_max_row(eng) - n_row);
        n_tok = count_planned(eng, &n_row);
    }
    return n_tok;
}

static bool has_failed(const fx_engine *eng)
{
    for (const fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++)
            if (g->seq[i].state != FXI_SEQ_DONE && g->seq[i].finish != FX_FINISH_NONE) return true;
    return false;
}

int fxi_plan_step(fx_engine *eng)
{
    fxi_hold_begin(eng);
    int n_tok = plan_once(eng, true);
    while (!n_tok && !eng->n_held && eng->running.head && !has_failed(eng) && fxi_room_unblock(eng))
        n_tok = plan_once(eng, false);
    if (eng->ahead_tok) fxi_prompts_prepare(eng);
    fxi_kv_step(eng->kv, eng->ahead_tok, fxi_now_ms(eng));
    return n_tok;
}
