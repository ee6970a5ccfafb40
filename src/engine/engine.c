// engine.c - the life of an engine: open, its thread, close.
#include "engine/engine.h"

#include "engine/iteration.h"

#include <stdlib.h>
#include <unistd.h>

#define SWAP_WAIT_MS 1 // while all sequences wait for rows that are swapped, or for memory

// Waits until the next iteration is due. False: the engine closes.
static bool await_iteration(fx_engine *eng)
{
    bool goes_on = true;
    for (uint64_t us; goes_on && (us = fxi_batching_delay_us(eng));)
        goes_on = fxi_mailbox_wait_others(&eng->mailbox, us);
    return !fxi_mailbox_is_closing(&eng->mailbox);
}

// 0: never.
static int sooner_ms(int a, int b)
{
    return a && (!b || a < b) ? a : b;
}

void fxi_engine_run(fx_engine *eng)
{
    while (await_iteration(eng)) {
        const bool is_busy = fxi_iteration_run(eng);
        const int snapshot_ms = fxi_snapshot_act(eng), idle_ms = fxi_idle_wait_ms(eng);
        const int limit_ms = fxi_limit_wait_ms(&eng->memory);
        if (!is_busy)
            fxi_mailbox_wait(&eng->mailbox, sooner_ms(limit_ms, sooner_ms(snapshot_ms, idle_ms)));
        else if (fxi_iteration_is_blocked(eng))
            fxi_mailbox_wait(&eng->mailbox, SWAP_WAIT_MS);
    }
    fxi_iteration_end_all(eng, FX_FINISH_ABORT);
}

static void *engine_main(void *eng)
{
    fxi_engine_run(eng);
    return NULL;
}

static fx_status start_engine(fx_engine *eng, const fx_options *opt, fx_error *err)
{
    FX_TRY(fxi_engine_init(eng, err));
    FX_TRY(fxi_engine_load(eng, opt, err));
    fxi_iteration_publish(eng);
    if (pthread_create(&eng->thread, NULL, engine_main, eng) != 0)
        return fxi_fail(err, FX_EINTERNAL, "the engine's thread could not be started");
    return FX_OK;
}

fx_status fx_engine_open(const fx_options *opt, fx_engine **out, fx_error *err)
{
    *out = NULL;
    fx_engine *eng = calloc(1, sizeof *eng);
    if (!eng) return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    const fx_status st = start_engine(eng, opt, err);
    if (st == FX_OK)
        *out = eng;
    else
        fxi_engine_unload(eng);
    return st;
}

fx_status fx_options_check(const fx_options *opt, fx_model_info *out, fx_error *err)
{
    *out = (fx_model_info){.n_layer = 0};
    fx_engine *eng = calloc(1, sizeof *eng);
    if (!eng) return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    fx_status st = fxi_engine_init(eng, err);
    if (st == FX_OK) st = fxi_engine_check(eng, opt, out, err);
    fxi_engine_unload(eng);
    return st;
}

void fx_engine_close(fx_engine *eng)
{
    if (!eng || eng->pid != getpid()) return; // a child of fork has none of the engine's threads
    fxi_mailbox_close(&eng->mailbox);
    pthread_join(eng->thread, NULL);
    fxi_engine_unload(eng);
}
