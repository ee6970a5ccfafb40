// idle.c - what the engine does while it is idle: at once what the manager has put off, so that the
// figures are right; spare memory returns to the system after a second, the prefix cache after some
// minutes. That goes on in small parts, with a look at the inbox between them, as what
// fx_clear_cache asks for does beside the steps of those that run.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"
#include "engine/speculate/draft_model.h"

#define KEEP_SHARE 16 // trim_spare keeps 1/16 of the budget mapped

#define MAX_WAIT_MS 64 // while memory goes back

// Begins with it; the steps go on.
static void give_back(fx_engine *eng, uint64_t keep_bytes, bool forgets)
{
    const fx_status st = fxi_kv_give_back(eng->kv, keep_bytes, forgets);
    fxi_engine_note_call(eng, (fx_record){.kind = FX_RECORD_trim}, st);
}

// A step, in which the manager takes up what it has put off: what ended sequences had mapped,
// memory on its way back to the system, and memory that a failing device kept.
static void settle_memory(fx_engine *eng)
{
    fxi_kv_step(eng->kv, 0, fxi_now_ms(eng));
    fxi_draft_model_settle(eng);
}

static void trim_spare(fx_engine *eng)
{
    settle_memory(eng);
    fxi_draft_model_forget(eng);
    give_back(eng, eng->opt.kv_memory_bytes / KEEP_SHARE, false);
}

static void forget_prefixes(fx_engine *eng)
{
    give_back(eng, 0, true);
}

static int settle_after_s(const fx_engine *eng)
{
    (void)eng;
    return 0;
}

static int trim_after_s(const fx_engine *eng)
{
    (void)eng;
    return 1;
}

static int forget_after_s(const fx_engine *eng)
{
    return eng->opt.cache_idle_s;
}

static const struct idle_row {
    int (*after_s)(const fx_engine *eng); // < 0: never
    void (*act)(fx_engine *eng);
} idle_rows[] = {
    {settle_after_s, settle_memory},
    {trim_after_s, trim_spare},
    {forget_after_s, forget_prefixes},
};
enum { N_IDLE = sizeof idle_rows / sizeof idle_rows[0] };

// Of the next action; < 0: there is none.
static int next_after_s(const fx_engine *eng)
{
    return eng->n_idle_done < N_IDLE ? idle_rows[eng->n_idle_done].after_s(eng) : -1;
}

static bool is_due(const fx_engine *eng, uint64_t now_us)
{
    const int after_s = next_after_s(eng);
    return after_s >= 0 && now_us - eng->idle_since_us >= 1000000ull * (uint64_t)after_s;
}

void fxi_idle_clear(fx_engine *eng)
{
    if (fxi_inbox_take_clear(eng)) forget_prefixes(eng);
}

void fxi_idle_act(fx_engine *eng)
{
    const uint64_t now_us = fxi_now_us(eng);
    if (!eng->idle_since_us) {
        eng->idle_since_us = now_us;
        eng->n_idle_done = 0;
    }
    if (eng->returning_bytes) settle_memory(eng);
    while (is_due(eng, now_us)) idle_rows[eng->n_idle_done++].act(eng);
}

void fxi_idle_note_returning(fx_engine *eng, uint64_t bytes)
{
    const uint64_t mark = eng->n_evicted - bytes; // other with all that is evicted or has gone
    const int later_ms = 2 * eng->return_wait_ms;
    if (!bytes)
        eng->return_wait_ms = 0;
    else if (mark != eng->return_mark)
        eng->return_wait_ms = 1;
    else
        eng->return_wait_ms = later_ms < MAX_WAIT_MS ? later_ms : MAX_WAIT_MS;
    eng->return_mark = mark;
    eng->returning_bytes = bytes;
}

int fxi_idle_wait_ms(const fx_engine *eng)
{
    const int after_s = next_after_s(eng);
    if (eng->return_wait_ms) return eng->return_wait_ms;
    return after_s < 0 ? 0 : 1000 * (after_s ? after_s : 1);
}
