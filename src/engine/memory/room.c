// room.c - memory for a sequence that grows.
//
// If memory is short, the manager evicts idle prefixes. Then the groups served last are preempted,
// one by one, until the extension fits; while one is on its way to the swap, the sequence waits for
// what that frees, and the others go on. The group served first is never preempted for another one,
// so that the engine always makes progress: any single group fits the budget.
#include "engine/memory/room.h"

static const char no_kv_memory[] = "the request needs more KV memory than there is";
static const char no_system_memory[] = "the system has no memory for the KV cache";

static fx_status extend_cache(fx_engine *eng, fxi_seq *s, int n_step)
{
    const int n_tok = s->n_computed + n_step;
    const fx_status st = fxi_kv_extend(eng->kv, s->kv, n_tok);
    fxi_engine_note_call(eng, fxi_engine_seq_event(FX_RECORD_extend, s, n_tok), st);
    return st;
}

// Used when no group is left to push out. The manager may be unable to shorten a prefix in use
// until the longer prefixes that extend it are gone. (One that forgets bit by bit has no such.)
static fx_status extend_alone(fx_engine *eng, fxi_seq *s, int n_step)
{
    if (!fxi_cache_forget_idle(eng)) return FX_ENOSPACE;
    return extend_cache(eng, s, n_step);
}

// A group may hold a second copy of tokens that the prefix cache has too, as with prompt_logprobs.
// It then starts again once the prefix cache is empty. False: the budget is less than it needs, or
// it has made no progress since it last started again.
static bool start_again(fx_engine *eng, fxi_group *g)
{
    int n_tok = 0;
    for (int i = 0; i < g->n_seq; i++) n_tok += g->seq[i].n_tok + g->seq[i].n_prompt_emitted;
    const uint64_t need = fxi_request_bytes(eng, &g->req, g->max_tok);
    if (n_tok <= g->again_tok || need > eng->opt.kv_memory_bytes) return false;
    g->again_tok = n_tok;
    fxi_preempt_group(eng, g, FXI_RECOMPUTE);
    eng->is_forgetting = !fxi_cache_forget_idle(eng);
    return true;
}

// One group at a time leaves: what it gives may suffice. False: nothing is left to free.
static bool free_some(fx_engine *eng)
{
    if (fxi_preempt_drop_late(eng)) return true;
    return !eng->n_leaving && fxi_preempt_last(eng, false);
}

bool fxi_room_grow(fx_engine *eng, fxi_seq *s, int n_step)
{
    fx_status st;
    while ((st = extend_cache(eng, s, n_step)) == FX_ENOSPACE && free_some(eng))
        if (s->group->state != FXI_RUNNING) return false;
    if (st == FX_ENOSPACE && eng->n_leaving) return false;
    if (st == FX_ENOSPACE) st = extend_alone(eng, s, n_step);
    if (st == FX_ENOSPACE && start_again(eng, s->group)) return false;
    if (st != FX_OK) {
        if (st == FX_ENOSPACE)
            fxi_group_refuse(s->group, st, no_kv_memory);
        else
            fxi_group_fail(s->group, no_system_memory);
        return false;
    }
    s->n_step = n_step;
    return true;
}

static int extend_many(fx_engine *eng, fxi_seq *const *s, const int *len_tok, int n, fx_status *st)
{
    fxi_kv_seq *kv[FXI_ROOM_AT_ONCE];
    int n_done;
    for (int i = 0; i < n; i++) kv[i] = s[i]->kv;
    *st = fxi_kv_extend_many(eng->kv, kv, len_tok, n, &n_done);
    return n_done;
}

static void note_many(const fx_engine *eng, int n_done, fx_status st)
{
    const fx_record ev = {
        .kind = FX_RECORD_extend, .n_tok = (uint32_t)n_done, .n = (uint32_t)n_done};
    fxi_engine_note_call(eng, ev, st);
}

// One event for each of what has succeeded, the first with the time of all.
static void note_each(const fx_engine *eng, fxi_seq *const *s, const int *len_tok, int n)
{
    if (!eng->recorder || !n) return;
    fx_record ev = fxi_engine_seq_event(FX_RECORD_extend, s[0], len_tok[0]);
    fxi_engine_note_call(eng, ev, FX_OK);
    const uint64_t now_us = fxi_now_us(eng);
    for (int i = 1; i < n; i++) {
        ev = fxi_engine_seq_event(FX_RECORD_extend, s[i], len_tok[i]);
        ev.at_us = now_us;
        fxi_recorder_add(eng->recorder, &ev);
    }
}

// An extension that fails leaves the sequence as it was, unless the device has lost its memory.
static void drop_if_lost(fx_engine *eng, fxi_seq *s)
{
    if (fxi_kv_extend(eng->kv, s->kv, s->n_computed + s->n_step) == FX_OK) return;
    s->n_step = 0;
    fxi_group_fail(s->group, no_system_memory);
}

int fxi_room_try_many(fx_engine *eng, fxi_seq *const *s, const int *n_more, int n)
{
    int len_tok[FXI_ROOM_AT_ONCE];
    fx_status st;
    if (!n) return 0;
    for (int i = 0; i < n; i++) len_tok[i] = s[i]->n_computed + s[i]->n_step + n_more[i];
    const int n_done = extend_many(eng, s, len_tok, n, &st);
    note_many(eng, n_done, st);
    if (st != FX_OK && st != FX_ENOSPACE) drop_if_lost(eng, s[n_done]);
    return n_done;
}

int fxi_room_grow_many(fx_engine *eng, fxi_seq *const *s, int n)
{
    int len_tok[FXI_ROOM_AT_ONCE];
    fx_status st;
    if (!n) return 0;
    for (int i = 0; i < n; i++) len_tok[i] = s[i]->n_computed + 1;
    const int n_done = extend_many(eng, s, len_tok, n, &st);
    note_many(eng, n_done, st); // where it failed, fxi_room_grow tries again
    for (int i = 0; i < n_done; i++) s[i]->n_step = 1;
    return n_done;
}

int fxi_room_grow_each(fx_engine *eng, fxi_seq *const *s, const int *n_step, int n)
{
    int len_tok[FXI_ROOM_AT_ONCE];
    fx_status st; // where it failed, fxi_room_grow tries again
    for (int i = 0; i < n; i++) len_tok[i] = s[i]->n_computed + n_step[i];
    const int n_done = extend_many(eng, s, len_tok, n, &st);
    note_each(eng, s, len_tok, n_done);
    for (int i = 0; i < n_done; i++) s[i]->n_step = n_step[i];
    return n_done;
}

bool fxi_room_unblock(fx_engine *eng)
{
    fxi_group *last = eng->running.tail;
    if (eng->n_leaving) return fxi_preempt_drop_late(eng);
    if (eng->n_coming) return fxi_preempt_last(eng, false);
    if (last != eng->running.head) {
        fxi_preempt_group(eng, last, FXI_RECOMPUTE);
        return true;
    }
    if (fxi_preempt_drop_swapped(eng) || start_again(eng, last)) return true;
    fxi_group_refuse(last, FX_ENOSPACE, no_kv_memory);
    return false;
}
