// replay.c - an engine without files, threads and weights; the clock, the arrivals and the
// iterations; what the engine reports while it runs.
#include "lab/replay.h"
#include "engine/iteration.h"
#include "format/gguf/gguf_made.h"
#include "format/gguf_write.h"
#include "format/vocab.h"
#include "lab/kv_reserve.h"

#include <stdlib.h>

// A request on its way.
typedef struct replay_client {
    fxi_replay *r;
    double arrival_us;
    int n_output;   // tokens of its first answer so far
    uint64_t n_all; // of all its answers
} replay_client;

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

// Called before each forward pass.
static void note_pass(void *replay)
{
    fxi_replay *r = replay;
    const fxi_load_state now = load_now(r);
    fxi_notes_state(&r->notes, fxi_replay_now_us(r), &now);
    r->batch_sum += r->model->n_seq;
}

static void note_last(replay_client *c, const fx_event *ev, double us)
{
    fxi_replay *r = c->r;
    if (ev->finish == FX_FINISH_ERROR || c->n_output == 0) {
        r->out->n_refused++;
        return;
    }
    r->out->n_prompt_tok += (uint64_t)ev->n_prompt;
    r->out->n_cached_tok += (uint64_t)ev->n_cached;
    r->out->n_output_tok += c->n_all;
    fxi_notes_done(&r->notes, us, c->n_output);
}

// Frees the client with its last event.
static void on_replay_event(void *client, const fx_event *ev)
{
    replay_client *c = client;
    fxi_replay *r = c->r;
    const double us = fxi_replay_now_us(r) - c->arrival_us;
    c->n_all += ev->token >= 0;
    if (ev->token >= 0 && ev->choice == 0 && c->n_output++ == 0) fxi_notes_first(&r->notes, us);
    if (!ev->last) return;
    note_last(c, ev, us);
    r->n_open--;
    free(c);
}

// ---- opening ------------------------------------------------------------------------------------

static const char what[] = "replay";

static uint64_t look_at_clock(void *ud)
{
    return (uint64_t)fxi_replay_now_us(ud);
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
    const fxi_replay_options *o = r->opt;
    return (fx_options){.n_thread = 1,
                        .kv_memory_bytes = kv_bytes,
                        .kv_manager = o->manager,
                        .kv_ops = fxi_kv_reserve_find(o->manager),
                        .kv_block_tok = o->block_tok,
                        .swap_bytes = o->swap_bytes,
                        .max_seq = o->max_seq,
                        .max_queue = 1 << 24,
                        .max_queue_tok = INT64_MAX / 2,
                        .step_tok = o->step_tok > o->max_seq ? o->step_tok : o->max_seq,
                        .step_ms = 1 << 20,
                        .prefix_pass = o->prefix_pass ? o->prefix_pass : FXI_PREFIX_PASS,
                        .cache_idle_s = 600};
}

static uint64_t n_calls(const fxi_simulated_memory *m)
{
    return m->n_create + m->n_destroy + m->n_map + m->n_unmap + m->n_protect + m->n_swap;
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
    const double now_us = fxi_replay_now_us(r), end_us = now_us + r->model->pass_us;
    bool goes_on = true;
    if (r->mapper_us < now_us) r->mapper_us = now_us;
    r->memory->is_beside = true;
    while (goes_on) {
        const double before_us = r->memory->beside_us;
        const uint64_t before = n_calls(r->memory);
        r->real_ops->step(kv, ahead_tok, now_ms);
        r->mapper_us += r->memory->beside_us - before_us;
        goes_on = n_calls(r->memory) > before && r->mapper_us < end_us;
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
    r->model->n_candidate = r->opt->load.beam_width ? 2 * r->opt->load.beam_width : 1;
    return FX_OK;
}

static fx_status make_engine(fxi_replay *r, fx_error *err)
{
    fx_engine *eng = r->eng;
    uint64_t kv_bytes = r->opt->kv_bytes;
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
    info->ctx_tok = r->opt->ctx_tok ? r->opt->ctx_tok : g->ctx_tok;
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
    r->out->budget_bytes = kv_bytes;
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
    return (fxi_replay_options){.manager = "vtensor",
                                .geometry = fxi_geometry_find("opt-13b"),
                                .device = fxi_simulated_device_find("a100-40g"),
                                .page_bytes = 2 << 20,
                                .max_seq = 256,
                                .step_tok = 2048,
                                .load = fxi_load_start()};
}

// ---- requests ----------------------------------------------------------------------------------

static bool is_refusal(fx_status st)
{
    return st == FX_ECONTEXT || st == FX_ENOSPACE;
}

static fx_status submit_row(fxi_replay *r, size_t i, double arrival_us, fx_error *err)
{
    uint64_t id;
    fx_request q;
    FX_TRY(fxi_arrival_request(&r->opt->load, r->t, i, FXI_SIMULATED_VOCAB, &r->prompt,
                               &r->cap_prompt, &q, err));
    replay_client *c = calloc(1, sizeof *c);
    if (!c) return fxi_fail(err, FX_ENOMEM, "out of memory for a request");
    *c = (replay_client){.r = r, .arrival_us = arrival_us};
    q.on_event = on_replay_event;
    q.ud = c;
    r->n_open++;
    fx_status st = fx_submit(r->eng, &q, &id, err);
    if (st == FX_OK) return FX_OK;
    r->n_open--;
    r->out->n_refused += is_refusal(st);
    free(c);
    return is_refusal(st) ? FX_OK : st;
}

// ---- the loop ----------------------------------------------------------------------------------

static bool goes_on(const fxi_replay *r, size_t n_row, size_t *next_step)
{
    const size_t n_done = r->out->n_done + r->out->n_refused;
    if (!r->opt->on_progress || n_done < *next_step) return true;
    *next_step = n_done + (n_row + PROGRESS_STEPS - 1) / PROGRESS_STEPS;
    return r->opt->on_progress(r->opt->progress_ud, n_done, n_row);
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
                        r->n_open);
    return FX_OK;
}

// Nothing runs until the next arrival.
static void sleep_until(fxi_replay *r, double us)
{
    if (us <= fxi_replay_now_us(r)) return;
    (void)fxi_iteration_run(r->eng); // idle from now on
    if (us > fxi_replay_now_us(r)) r->model->clock_us += us - fxi_replay_now_us(r);
    r->memory->is_beside = true; // what is given back was given back meanwhile
    (void)fxi_iteration_run(r->eng);
    r->memory->is_beside = false;
    fxi_notes_idle(&r->notes, fxi_replay_now_us(r));
}

static fx_status run_all(fxi_replay *r, size_t n_row, fx_error *err)
{
    size_t next = 0, next_step = 0;
    int n_empty = 0;
    const double start_us = fxi_replay_now_us(r);
    double after_us = 0; // of row `next`, from the start
    while (next < n_row || r->n_open > 0) {
        if (!goes_on(r, n_row, &next_step)) return fxi_fail(err, FX_ECLOSED, "stopped");
        if (r->n_open == 0) sleep_until(r, start_us + after_us);
        while (next < n_row && start_us + after_us <= fxi_replay_now_us(r)) {
            FX_TRY(submit_row(r, next, start_us + after_us, err));
            if (++next < n_row) after_us = fxi_arrival_us(&r->opt->load, r->t, next, after_us);
        }
        if (r->n_open > 0) FX_TRY(run_iteration(r, &n_empty, err));
        if (r->n_open == 0) fxi_notes_stop(&r->notes, fxi_replay_now_us(r));
    }
    return FX_OK;
}

fx_status fxi_replay_run(const fxi_trace *t, const fxi_replay_options *opt, fxi_replay_figures *out,
                         fx_error *err)
{
    *out = (fxi_replay_figures){0};
    fxi_replay r = {.t = t, .opt = opt, .out = out};
    if (opt->max_seq < 1 || opt->step_tok < 1 || opt->ctx_tok < 0)
        return fxi_fail(err, FX_EINVAL, "replay: sequences, step or context out of range");
    if (opt->page_bytes < 4096 || opt->page_bytes & (opt->page_bytes - 1))
        return fxi_fail(err, FX_EINVAL,
                        "replay: pages of %zu bytes are not a power of two from 4096",
                        opt->page_bytes);
    FX_TRY(fxi_load_check(&opt->load, err));
    FX_TRY(fxi_replay_open(&r, err));
    r.open_us = r.memory->owner_us;
    fxi_notes_begin(&r.notes, fxi_replay_now_us(&r), opt->sample_s * 1e6, out);
    fx_status st = run_all(&r, fxi_load_n_row(&opt->load, t), err);
    fxi_iteration_end_all(r.eng, FX_FINISH_ABORT);
    fxi_replay_figures *f = r.out;
    f->n_pass = r.model->n_pass;
    f->mean_batch = f->n_pass ? r.batch_sum / (double)f->n_pass : 0;
    f->driver_s = (r.memory->owner_us - r.open_us) / 1e6;
    f->n_preempt_recompute = r.eng->stats.now.n_preempt_recompute;
    f->n_preempt_swap = r.eng->stats.now.n_preempt_swap;
    fx_status finished = fxi_notes_end(&r.notes, fxi_replay_now_us(&r), st == FX_OK ? err : NULL);
    fxi_replay_close(&r);
    free(r.prompt);
    return st != FX_OK ? st : finished;
}
