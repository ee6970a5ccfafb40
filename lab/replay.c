// replay.c - an engine without files, threads and weights; the clock, the arrivals and the
// iterations; what the engine reports while it runs.
#include "lab/replay.h"
#include "engine/iteration.h"
#include "format/gguf/gguf_made.h"
#include "format/gguf_write.h"
#include "format/vocab.h"
#include "lab/kv_reserve.h"

#include <stdlib.h>

// Virtual time: the passes so far and the memory calls that a step waited for.
static double replay_now_us(const void *replay)
{
    const fxi_replay *r = replay;
    return r->model->clock_us + r->memory->owner_us;
}

// ---- what the engine reports --------------------------------------------------------------------

// The KV memory and the sequences now.
static fxi_load_state load_now(const fxi_replay *r)
{
    fxi_kv_stats s;
    fxi_kv_get_stats(r->eng->kv, &s);
    return (fxi_load_state){.n_running = r->eng->sched.running.n_seq,
                            .n_waiting = r->eng->sched.waiting.n_seq + r->eng->sched.aside.n_seq,
                            .kv = {.mapped = (double)s.mapped_bytes,
                                   .live = (double)s.live_bytes,
                                   .used = (double)s.used_bytes,
                                   .reserved = (double)s.reserved_bytes,
                                   .internal = (double)s.internal_bytes,
                                   .external = (double)s.external_bytes,
                                   .cached = (double)s.cached_bytes,
                                   .spare = (double)s.spare_bytes}};
}

static void note_load(fxi_replay *r)
{
    size_t n_done;
    const fxi_load_state now = load_now(r);
    (void)fxi_run_note(&r->run, &now, &n_done);
}

// Called before each forward pass.
static void note_pass(void *replay)
{
    fxi_replay *r = replay;
    note_load(r);
    r->batch_sum += r->model->n_seq;
}

// ---- opening ------------------------------------------------------------------------------------

static const char what[] = "replay";

static uint64_t look_at_clock(void *replay)
{
    return (uint64_t)replay_now_us(replay);
}

// ---- a vocabulary of one token -----------------------------------------------------------------

static void close_nothing(void *ud)
{
    (void)ud;
}

static fx_status write_vocab(fxi_buf *head, fx_error *err)
{
    static const float score[] = {0};
    static const int32_t type[] = {1};
    fxi_gguf_writer *w;
    FX_TRY(fxi_gguf_writer_open_memory(what, &w, err));
    fxi_gguf_write_str(w, "general.architecture", "none");
    fxi_gguf_write_str(w, "tokenizer.ggml.model", "llama");
    fxi_gguf_begin_strs(w, "tokenizer.ggml.tokens", 1);
    fxi_gguf_put_str(w, fxi_str_of("a"));
    fxi_gguf_write_array(w, "tokenizer.ggml.scores", FXI_GGUF_F32, score, 1);
    fxi_gguf_write_array(w, "tokenizer.ggml.token_type", FXI_GGUF_I32, type, 1);
    return fxi_gguf_writer_take_head(w, head, err);
}

// Tokens beyond it add no text, which is not read here.
static fx_status make_vocab(fx_engine *eng, fx_error *err)
{
    static const fxi_gguf_maker maker = {.close = close_nothing};
    fxi_buf head = {0};
    fxi_gguf *g;
    fx_status st = write_vocab(&head, err);
    if (st != FX_OK) {
        fxi_buf_free(&head);
        return st;
    }
    FX_TRY(fxi_gguf_present(what, &head, &maker, &g, err));
    st = fxi_vocab_load(g, &eng->vocab, err);
    fxi_gguf_close(g);
    return st;
}

// ---- the engine's parts ------------------------------------------------------------------------

static fx_options engine_options(const fxi_replay *r, uint64_t kv_bytes)
{
    fx_options o = r->opt->engine;
    o.n_thread = 1;
    o.kv_memory_bytes = kv_bytes;
    o.kv_ops = fxi_kv_reserve_find(o.kv_manager);
    o.max_queue = 1 << 24;
    o.max_queue_tok = INT64_MAX / 2;
    if (o.step_tok < o.max_seq) o.step_tok = o.max_seq;
    o.step_ms = 1 << 20;
    if (!o.prefix_pass) o.prefix_pass = FXI_PREFIX_PASS;
    o.cache_idle_s = 600;
    return o;
}

static fxi_replay *replay_of(const fxi_kv *kv)
{
    return (fxi_replay *)((char *)kv->ops - offsetof(fxi_replay, kv_ops));
}

// The manager's look ahead and its swapping run in parallel with the forward pass, for as long as
// it takes: about as long as the last one. What takes longer is caught up with later.
static void step_beside(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    fxi_replay *r = replay_of(kv);
    const double now_us = replay_now_us(r), end_us = now_us + r->model->pass_us;
    bool goes_on = true;
    if (r->mapper_us < now_us) r->mapper_us = now_us;
    r->memory->is_beside = true;
    while (goes_on) {
        const double before_us = r->memory->beside_us;
        const uint64_t n_before = r->memory->n_call;
        r->real_ops->step(kv, ahead_tok, now_ms);
        r->mapper_us += r->memory->beside_us - before_us;
        goes_on = r->memory->n_call > n_before && r->mapper_us < end_us;
    }
    r->memory->is_beside = false;
}

// Copies take no real time.
static void simulated_moved(const fxi_kv *kv, fxi_kv_moved *out)
{
    const fxi_replay *r = replay_of(kv);
    const uint64_t bytes = r->memory->swapped_bytes;
    const double us = (double)bytes / 1e9 * r->opt->device->costs.swap_us_per_gb;
    *out = (fxi_kv_moved){.bytes = bytes, .ns = (uint64_t)(1e3 * us)};
}

static fx_status make_simulated(fxi_replay *r, fx_error *err)
{
    fx_engine *eng = r->eng;
    r->model = fxi_simulated_model_new(r->opt->geometry, r->opt->device);
    eng->hooks.vmm = fxi_simulated_memory_open(r->opt->page_bytes, &r->opt->device->costs);
    eng->model = r->model ? &r->model->model : NULL;
    if (!eng->hooks.vmm || !r->model)
        return fxi_fail(err, FX_ENOMEM, "out of memory for the replay");
    r->memory = fxi_simulated_memory_of(eng->hooks.vmm);
    r->model->before_pass = note_pass;
    r->model->ud = r;
    const int beam_width = r->opt->run.load.beam_width;
    r->model->n_candidate = beam_width ? 2 * beam_width : 1;
    return FX_OK;
}

static fx_status make_engine(fxi_replay *r, fx_error *err)
{
    fx_engine *eng = r->eng;
    uint64_t kv_bytes = r->opt->engine.kv_memory_bytes;
    if (!kv_bytes) kv_bytes = fxi_setting_kv_bytes(r->opt->geometry, r->opt->device);
    if (!kv_bytes)
        return fxi_fail(err, FX_ENOSPACE, "%s does not fit %s", r->opt->geometry->name,
                        r->opt->device->name);
    FX_TRY(fxi_engine_init(eng, err));
    eng->journal.now_us = look_at_clock;
    eng->journal.now_ud = r;
    eng->hooks.single_thread = true;
    eng->hooks.tile_tok = 1; // nothing is read
    eng->opt = engine_options(r, kv_bytes);
    FX_TRY(make_vocab(eng, err));
    FX_TRY(fxi_pool_create(1, &eng->pool, err));
    FX_TRY(make_simulated(r, err));
    fx_model_info *info = &r->eng->info;
    const fxi_geometry *g = r->opt->geometry;
    info->generates = true;
    info->n_layer = g->n_layer;
    info->n_vocab = FXI_SIMULATED_VOCAB;
    info->train_ctx_tok = g->ctx_tok;
    info->ctx_tok = r->opt->engine.ctx_tok ? r->opt->engine.ctx_tok : g->ctx_tok;
    info->kv_bytes_per_tok = 2 * (size_t)g->n_layer * fxi_geometry_row_bytes(g);
    FX_TRY(fxi_engine_fit(eng, err));
    if (fxi_kv_can(eng->kv, FXI_KV_ASYNC_SWAP))
        eng->memory.copy_share = 0; // by the device's copy engine
    eng->memory.swap_us_per_byte = r->opt->device->costs.swap_us_per_gb / 1e9;
    r->real_ops = r->eng->kv->ops;
    r->kv_ops = *r->real_ops;
    if (r->real_ops->step) r->kv_ops.step = step_beside;
    if (r->real_ops->moved) r->kv_ops.moved = simulated_moved;
    r->eng->kv->ops = &r->kv_ops;
    return FX_OK;
}

fx_status fxi_replay_open(fxi_replay *r, fx_error *err)
{
    r->eng = calloc(1, sizeof *r->eng);
    if (!r->eng) return fxi_fail(err, FX_ENOMEM, "out of memory for the replay");
    fx_status st = make_engine(r, err);
    if (st != FX_OK) fxi_replay_close(r);
    return st;
}

void fxi_replay_close(fxi_replay *r)
{
    vt_vmm *unowned = r->eng && !r->eng->kv ? r->eng->hooks.vmm : NULL;
    if (r->eng) fxi_engine_unload(r->eng);
    if (unowned) unowned->ops->close(unowned);
    r->eng = NULL;
}

// ---- running ------------------------------------------------------------------------------------

enum { MAX_EMPTY_ITERATIONS = 100000, PROGRESS_STEPS = 100 };

#define EMPTY_ITERATION_US 1000 // of an iteration in which nothing can be computed

fxi_replay_options fxi_replay_options_start(void)
{
    return (fxi_replay_options){
        .engine = {.kv_manager = "vtensor", .max_seq = 256, .step_tok = 2048},
        .geometry = fxi_geometry_find("opt-13b"),
        .device = fxi_simulated_device_find("a100-40g"),
        .page_bytes = 2 << 20,
        .run.load = fxi_load_start(),
    };
}

// One iteration. Time passes in every one, so that what waits for it does not wait for ever.
static fx_status run_iteration(fxi_replay *r, int *n_empty, fx_error *err)
{
    const uint64_t n_pass = r->model->n_pass;
    (void)fxi_iteration_run(r->eng);
    *n_empty = r->model->n_pass > n_pass ? 0 : *n_empty + 1;
    if (*n_empty > 0) r->model->clock_us += EMPTY_ITERATION_US;
    if (*n_empty > MAX_EMPTY_ITERATIONS)
        return fxi_fail(err, FX_EINTERNAL, "%zu requests wait, and the engine computes nothing",
                        r->run.n_open);
    return FX_OK;
}

// Nothing runs until the next arrival.
static void sleep_until(fxi_replay *r, double us)
{
    if (us <= replay_now_us(r)) return;
    (void)fxi_iteration_run(r->eng); // idle from now on
    if (us > replay_now_us(r)) r->model->clock_us += us - replay_now_us(r);
    r->memory->is_beside = true; // what is given back was given back meanwhile
    (void)fxi_iteration_run(r->eng);
    r->memory->is_beside = false;
    fxi_run_idle(&r->run);
}

static fx_status run_all(fxi_replay *r, fx_error *err)
{
    const fxi_run_options *opt = &r->opt->run;
    const size_t n_row = fxi_load_n_row(&opt->load, r->run.t);
    size_t next = 0, next_step = 0;
    int n_empty = 0;
    const double start_us = replay_now_us(r);
    double after_us = 0; // of row `next`, from the start
    while (next < n_row || r->run.n_open > 0) {
        const size_t n_done = r->run.out->n_done + r->run.out->n_refused + r->run.n_failed;
        if (opt->on_progress && n_done >= next_step) {
            next_step = n_done + (n_row + PROGRESS_STEPS - 1) / PROGRESS_STEPS;
            if (!opt->on_progress(opt->progress_ud, n_done, n_row))
                return fxi_fail(err, FX_ECLOSED, "stopped");
        }
        if (r->run.n_open == 0) sleep_until(r, start_us + after_us);
        while (next < n_row && start_us + after_us <= replay_now_us(r)) {
            uint64_t id;
            FX_TRY(fxi_run_submit(&r->run, next, start_us + after_us, &id, err));
            if (++next < n_row) after_us = fxi_arrival_us(&opt->load, r->run.t, next, after_us);
        }
        if (r->run.n_open > 0) FX_TRY(run_iteration(r, &n_empty, err));
        if (r->run.n_open == 0) note_load(r);
    }
    return FX_OK;
}

fx_status fxi_replay_run(const fxi_trace *t, const fxi_replay_options *opt, fxi_replay_figures *out,
                         fx_error *err)
{
    const fx_options *o = &opt->engine;
    fxi_replay r = {.opt = opt};
    *out = (fxi_replay_figures){0};
    if (o->max_seq < 1 || o->step_tok < 1 || o->ctx_tok < 0)
        return fxi_fail(err, FX_EINVAL, "replay: sequences, step or context out of range");
    if (opt->page_bytes < 4096 || opt->page_bytes & (opt->page_bytes - 1))
        return fxi_fail(err, FX_EINVAL,
                        "replay: pages of %zu bytes are not a power of two from 4096",
                        opt->page_bytes);
    FX_TRY(fxi_load_check(&opt->run.load, err));
    FX_TRY(fxi_replay_open(&r, err));
    const double open_us = r.memory->owner_us;
    r.run = (fxi_trace_run){
        .t = t, .opt = &opt->run, .eng = r.eng, .now_us = replay_now_us, .clock = &r};
    fxi_run_begin(&r.run, out);
    fx_status st = run_all(&r, err);
    fxi_iteration_end_all(r.eng, FX_FINISH_ABORT);
    out->budget_bytes = r.eng->opt.kv_memory_bytes;
    out->n_refused += r.run.n_failed;
    out->n_pass = r.model->n_pass;
    out->mean_batch = out->n_pass ? r.batch_sum / (double)out->n_pass : 0;
    out->driver_s = (r.memory->owner_us - open_us) / 1e6;
    out->n_preempt_recompute = r.eng->stats.now.n_preempt_recompute;
    out->n_preempt_swap = r.eng->stats.now.n_preempt_swap;
    fx_status finished = fxi_run_end(&r.run, st == FX_OK ? err : NULL);
    fxi_replay_close(&r);
    return st != FX_OK ? st : finished;
}
