// room.c - memory for a sequence that grows.
//
// Idle prefixes go first; the manager sees to that. Then the group that goes last is preempted,
// until the extension fits. The group that goes first is never preempted for another one, so that
// the engine always makes progress: any single group fits the budget.
#include "engine/memory/room.h"

static const char no_kv_memory[] = "the request needs more KV memory than there is";

// Frees memory at the cost of others: the group that goes last is preempted; where only one runs,
// the swapped group that goes last loses what it shares. False: nobody is left.
static bool push_out_last(fx_engine *eng)
{
    fxi_group *last = eng->running.tail;
    if (last == eng->running.head) return fxi_preempt_drop_swapped(eng);
    fxi_preempt_group(eng, last, FXI_PREEMPT_CHEAPER);
    return true;
}

static fx_status extend_seq(fx_engine *eng, fxi_seq *s, int n_step)
{
    return fxi_kv_extend(eng->kv, s->kv, s->n_computed + n_step);
}

// With nobody left to push out. The manager may not be able to shorten a prefix in use before the
// prefixes that go on from it are gone.
static fx_status extend_alone(fx_engine *eng, fxi_seq *s, int n_step)
{
    (void)fxi_kv_forget_idle(eng->kv);
    return extend_seq(eng, s, n_step);
}

// A group that has computed tokens that the prefix cache holds too, as one does whose prompt's
// probabilities are emitted, keeps both copies in memory. It starts again with an empty prefix
// cache. False: the budget is less than it needs, or it has made no progress since it last did so.
static bool start_again(fx_engine *eng, fxi_group *g)
{
    int n_tok = 0;
    for (int i = 0; i < g->n_seq; i++) n_tok += g->seq[i].n_tok + g->seq[i].n_prompt_emitted;
    const uint64_t need = fxi_request_bytes(eng, &g->req, g->max_tok);
    if (n_tok <= g->again_tok || need > eng->opt.kv_memory_bytes) return false;
    g->again_tok = n_tok;
    fxi_preempt_group(eng, g, FXI_RECOMPUTE);
    (void)fxi_kv_forget_idle(eng->kv);
    return true;
}

bool fxi_room_grow(fx_engine *eng, fxi_seq *s, int n_step)
{
    fx_status st;
    while ((st = extend_seq(eng, s, n_step)) == FX_ENOSPACE && push_out_last(eng))
        if (s->group->state != FXI_RUNNING) return false;
    if (st == FX_ENOSPACE) st = extend_alone(eng, s, n_step);
    if (st == FX_ENOSPACE && start_again(eng, s->group)) return false;
    if (st != FX_OK) {
        fxi_group_fail(s->group, st == FX_ENOSPACE ? no_kv_memory
                                                   : "the system has no memory for the KV cache");
        return false;
    }
    s->n_step = n_step;
    return true;
}

bool fxi_room_unblock(fx_engine *eng)
{
    fxi_group *last = eng->running.tail;
    if (last != eng->running.head) {
        fxi_preempt_group(eng, last, FXI_RECOMPUTE);
        return true;
    }
    if (fxi_preempt_drop_swapped(eng) || start_again(eng, last)) return true;
    fxi_group_fail(last, no_kv_memory);
    return false;
}
