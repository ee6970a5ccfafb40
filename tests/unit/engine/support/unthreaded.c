// unthreaded.c - opens an engine without starting its thread, and runs its iterations.
#include "unit/engine/support/unthreaded.h"

#include "unit/cmocka_all.h"

#include <stdlib.h>

bool unthreaded_is_unguarded;

static fx_engine *open_engine(struct vt_vmm *vmm, const char *model_path, fx_options opt,
                              bool single_thread)
{
    fx_error err = {0};
    fx_engine *eng = calloc(1, sizeof *eng);
    assert_non_null(eng);
    opt.model_path = model_path;
    eng->hooks.vmm = vmm;
    eng->hooks.single_thread = single_thread;
    eng->hooks.is_unguarded = unthreaded_is_unguarded;
    if (fxi_engine_init(eng, &err) != FX_OK || fxi_engine_load(eng, &opt, &err) != FX_OK)
        fail_msg("%s", err.text);
    return eng;
}

fx_engine *unthreaded_open(const char *model_path, fx_options opt)
{
    return open_engine(NULL, model_path, opt, false);
}

fx_engine *unthreaded_open_single(const char *model_path, fx_options opt)
{
    return open_engine(NULL, model_path, opt, true);
}

fx_engine *unthreaded_open_over(struct vt_vmm *vmm, const char *model_path, fx_options opt)
{
    return open_engine(vmm, model_path, opt, false);
}

void unthreaded_close(fx_engine *eng)
{
    fxi_iteration_end_all(eng, FX_FINISH_ABORT);
    fxi_engine_unload(eng);
}

uint64_t unthreaded_submit(fx_engine *eng, fx_request req, const int32_t *tok, size_t n_tok,
                           int n_gen)
{
    uint64_t id;
    req.prompt = tok;
    req.n_prompt = n_tok;
    req.max_tok = n_gen;
    req.ignore_eos = true;
    assert_int_equal(fx_submit(eng, &req, &id, NULL), FX_OK);
    return id;
}

_Atomic uint64_t unthreaded_clock_us;

static uint64_t read_test_clock(void *ud)
{
    (void)ud;
    return unthreaded_clock_us;
}

fx_engine *unthreaded_set_clock(fx_engine *eng)
{
    unthreaded_clock_us = 1000000000;
    eng->journal.now_us = read_test_clock;
    return eng;
}

void unthreaded_check_manager(fx_engine *eng)
{
    const char *what = "";
    if (fxi_kv_check(eng->kv, &what) != FX_OK) fail_msg("%s", what);
}

void unthreaded_pause_grammars(fx_engine *eng, bool is_paused)
{
    fxi_grammar_worker *w = &eng->grammars.worker;
    pthread_mutex_lock(&w->mu);
    w->is_paused = is_paused;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
}
