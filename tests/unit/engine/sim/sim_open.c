// sim_open.c - the world of a seed, and an engine for it: without files and threads, with the
// simulator's model, memory and clock.
#include "unit/engine/sim/sim.h"

#include "vmm_fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"

enum { PAGE = 4096, CHUNK_MIN_TOK = 32 };

// ---- the setup ---------------------------------------------------------------------------------

// As in the manager: the fewest whole pages that hold 32 tokens, in each plane.
static uint64_t chunk_bytes(const sim_setup *s)
{
    const uint64_t slice = (CHUNK_MIN_TOK * s->row_bytes + PAGE - 1) / PAGE * PAGE;
    return slice * 2 * (uint64_t)s->n_layer;
}

static uint64_t sequence_bytes(const sim_setup *s)
{
    const uint64_t slice = chunk_bytes(s) / 2 / (uint64_t)s->n_layer;
    return ((uint64_t)s->ctx_tok * s->row_bytes + slice - 1) / slice * chunk_bytes(s);
}

static void draw_memory(sim_setup *s, sim_rng *rng)
{
    static const size_t rows[] = {64, 96, 128, 256};
    s->async = s->fake && sim_one_in(rng, 3);
    s->n_layer = sim_int(rng, 1, SIM_MAX_PLANE / 2);
    s->row_bytes = rows[sim_int(rng, 0, 3)];
    s->ctx_tok = sim_int(rng, 40, SIM_MAX_CTX);
    const int chunks = (int)(sequence_bytes(s) / chunk_bytes(s));
    const int how = sim_int(rng, 0, 3); // for one sequence, for some, for many
    const int least = how == 0 ? (chunks + 1) / 2 : chunks;
    const int most = how == 0 ? chunks : how == 1 ? 3 * chunks : 12 * chunks;
    s->budget_bytes = chunk_bytes(s) * (uint64_t)sim_int(rng, least, most);
    if (sim_one_in(rng, 3)) s->budget_bytes += (uint64_t)sim_int(rng, 1, PAGE); // no whole chunks
    if (sim_one_in(rng, 3)) return;
    s->opt.swap_dir = "/tmp";
    s->opt.swap_bytes = chunk_bytes(s) * (uint64_t)sim_int(rng, 1, 4 * chunks);
}

static void draw_load(sim_setup *s, sim_rng *rng)
{
    fx_options *o = &s->opt;
    o->n_thread = 1;
    o->max_seq = sim_one_in(rng, 8) ? 1 : sim_int(rng, 2, 16);
    o->step_tok = o->max_seq + sim_int(rng, 0, sim_one_in(rng, 2) ? 1 : 64 - o->max_seq);
    o->max_queue = sim_one_in(rng, 6) ? sim_int(rng, 0, 8) : 1024;
    o->max_queue_tok = sim_one_in(rng, 6) ? sim_int(rng, 1, 400) : 1 << 20;
    o->step_ms = sim_int(rng, 1, 40);
    s->ahead_tok = sim_one_in(rng, 4) ? 0 : sim_int(rng, 1, 40);
    s->us_per_tok = (uint64_t)sim_int(rng, 0, 1) * (uint64_t)sim_int(rng, 1, 1000);
    s->us_per_iteration = (uint64_t)sim_int(rng, 0, 100000);
    s->max_live = sim_int(rng, 2, SIM_MAX_LIVE);
    s->taste.max_seq = o->max_seq;
    s->taste.n_tenant = sim_int(rng, 1, 3);
    s->taste.long_prompts = sim_one_in(rng, 3);
    s->taste.long_answers = sim_one_in(rng, 2);
}

void sim_setup_draw(sim *w)
{
    sim_setup *s = &w->set;
    s->fake = w->seed % 2 == 0;
    // The first manager half the time.
    int n = 0;
    while (fxi_kv_manager_name(n)) n++;
    s->opt.kv_manager =
        fxi_kv_manager_name(sim_one_in(&w->rng, 2) ? 0 : sim_int(&w->rng, 1, n - 1));
    draw_memory(s, &w->rng);
    // What `paged` keeps beside its blocks to swap them.
    if (s->opt.swap_bytes)
        s->budget_bytes += strcmp(s->opt.kv_manager, "paged") ? 0 : chunk_bytes(s) + PAGE;
    s->opt.kv_memory_bytes = s->budget_bytes;
    draw_load(s, &w->rng);
    s->faults = sim_one_in(&w->rng, 2);
    s->budgets = sim_one_in(&w->rng, 2);
    s->preemptions = sim_one_in(&w->rng, 2);
    s->preempt_gap = sim_one_in(&w->rng, 2) ? 8 : 150; // often: requests hardly run together
    s->crowded = sim_one_in(&w->rng, 2);
    s->n_iteration = sim_int(&w->rng, 300, 2000);
    w->draft_rng.x = sim_mix(~w->seed); // of their own: worlds without drafts stay what they are
    s->drafts = sim_one_in(&w->draft_rng, 2);
    w->gather_rng.x = sim_mix(w->seed + 1); // the same
    s->gathers = sim_one_in(&w->gather_rng, 2);
    if (s->gathers) s->us_per_tok = (uint64_t)sim_int(&w->gather_rng, 1000, 20000);
    s->opt.draft_tok = sim_int(&w->draft_rng, 1, 12);
}

// ---- the engine --------------------------------------------------------------------------------

// The secrets of trees and tables follow from the seed, too: what is evicted may depend on them.
static sim_rng secrets;

ssize_t __wrap_getrandom(void *p, size_t n, unsigned flags);

ssize_t __wrap_getrandom(void *p, size_t n, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < n; i++) ((unsigned char *)p)[i] = (unsigned char)sim_u64(&secrets);
    return (ssize_t)n;
}

// Each reading advances the clock, so that the engine never measures zero.
static uint64_t look_at_clock(void *ud)
{
    sim *w = ud;
    return w->clock_us++;
}

static vt_vmm *open_memory(sim *w)
{
    vt_vmm *inner = NULL;
    if (w->set.fake)
        inner = w->fake = vt_fake_open();
    else if (vt_vmm_host_open(&inner) != VT_OK)
        inner = NULL;
    if (!inner) return NULL;
    if (w->fake) {
        vt_fake_set_async(w->fake, w->set.async);
        vt_fake_set_epitaph(w->fake, &w->epitaph);
    }
    vt_vmm *fault = vt_fault_open(inner);
    if (!fault) inner->ops->close(inner);
    return fault;
}

static fx_status make_model(sim *w, fx_error *err)
{
    const sim_setup *s = &w->set;
    sim_model *m = sim_model_make(s->n_layer, s->row_bytes);
    if (!m) return fxi_fail(err, FX_ENOMEM, "no memory for the model");
    w->model = m;
    w->eng->model = &m->model;
    const float eos_bias = s->taste.long_answers ? -8 : sim_float(&w->rng, -2, 0.3f);
    w->law = (sim_law){sim_u64(&w->rng), 2 * s->n_layer, fxi_vocab_eos(w->eng->vocab), eos_bias};
    m->eng = w->eng;
    m->law = w->law;
    m->clock_us = &w->clock_us;
    m->us_per_tok = s->us_per_tok;
    return FX_OK;
}

static fx_status make_engine(sim *w, fx_error *err)
{
    fx_engine *eng = w->eng;
    FX_TRY(fxi_engine_init(eng, err));
    eng->opt = w->set.opt;
    eng->journal.now_us = look_at_clock;
    eng->journal.now_ud = w;
    eng->draft_hooks.drafter = w->set.drafts ? sim_draft : NULL;
    eng->draft_hooks.ud = w;
    eng->hooks.ahead_tok = w->set.ahead_tok;
    eng->hooks.single_thread = true;
    fxi_gguf *g;
    FX_TRY(fxi_gguf_open(MODEL, &g, err));
    fx_status st = fxi_vocab_load(g, &eng->vocab, err);
    fxi_gguf_close(g);
    FX_TRY(st);
    FX_TRY(fxi_pool_create(1, &eng->pool, err));
    FX_TRY(make_model(w, err));
    fx_model_info *info = &w->eng->info;
    info->n_layer = w->set.n_layer;
    info->n_vocab = SIM_N_VOCAB;
    info->generates = true;
    info->train_ctx_tok = info->ctx_tok = w->set.ctx_tok;
    info->kv_bytes_per_tok = 2 * (size_t)w->set.n_layer * w->set.row_bytes;
    w->fault = eng->hooks.vmm = open_memory(w);
    if (!eng->hooks.vmm) return fxi_fail(err, FX_EIO, "the memory could not be opened");
    w->model->fake = w->fake;
    return fxi_engine_fit(eng, err);
}

bool sim_open(sim *w)
{
    fx_error err = {0};
    secrets.x = sim_mix(w->seed + 2);
    w->eng = calloc(1, sizeof *w->eng);
    if (!w->eng) {
        snprintf(w->what, sizeof w->what, "no memory for the test");
        return false;
    }
    if (make_engine(w, &err) == FX_OK) {
        w->set.taste.ctx_tok = w->eng->info.ctx_tok;
        return true;
    }
    snprintf(w->what, sizeof w->what, "the engine does not open: %.200s", err.text);
    if (w->fault && !w->eng->kv) w->fault->ops->close(w->fault);
    fxi_engine_unload(w->eng);
    w->eng = NULL;
    return false;
}
