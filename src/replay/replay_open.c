// replay_open.c - an engine without files, threads and weights.
#include "replay/replay_parts.h"

#include "format/gguf/gguf_made.h"
#include "format/gguf_write.h"
#include "format/vocab.h"

#include <stdlib.h>

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
    static const fxi_str token[] = {{"a", 1}};
    static const float score[] = {0};
    static const int32_t type[] = {1};
    fxi_gguf_writer *w;
    FX_TRY(fxi_gguf_writer_open_memory(what, &w, err));
    fxi_gguf_write_str(w, "general.architecture", "none");
    fxi_gguf_write_str(w, "tokenizer.ggml.model", "llama");
    fxi_gguf_write_strs(w, "tokenizer.ggml.tokens", token, 1);
    fxi_gguf_write_f32s(w, "tokenizer.ggml.scores", score, 1);
    fxi_gguf_write_i32s(w, "tokenizer.ggml.token_type", type, 1);
    return fxi_gguf_writer_take_head(w, head, err);
}

// Tokens beyond it add no text, which nobody reads here.
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

static void fill_info(fxi_replay *r)
{
    fx_model_info *info = &r->eng->info;
    const fxi_geometry *g = r->opt->geometry;
    info->generates = true;
    info->n_layer = g->n_layer;
    info->n_vocab = FXI_PAPER_VOCAB;
    info->train_ctx_tok = g->ctx_tok;
    info->ctx_tok = r->opt->ctx_tok ? r->opt->ctx_tok : g->ctx_tok;
    info->kv_bytes_per_tok = 2 * (size_t)g->n_layer * fxi_geometry_row_bytes(g);
}

static uint64_t n_calls(const fxi_paper_memory *m)
{
    return m->n_create + m->n_destroy + m->n_map + m->n_unmap + m->n_protect + m->n_swap;
}

static fxi_replay *replay_of(const fxi_kv *kv)
{
    return (fxi_replay *)((char *)kv->ops - offsetof(fxi_replay, kv_ops));
}

// The manager's look ahead and its swapping run beside the forward pass, for as long as it takes:
// about as long as the last one. What takes longer is caught up with later.
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
static void moved_on_paper(const fxi_kv *kv, fxi_kv_moved *out)
{
    const fxi_replay *r = replay_of(kv);
    const uint64_t bytes = r->memory->swapped_bytes;
    const double us = (double)bytes / 1e9 * r->opt->device->costs.swap_us_per_gb;
    *out = (fxi_kv_moved){.bytes = bytes, .ns = (uint64_t)(1e3 * us)};
}

static void watch_manager(fxi_replay *r)
{
    r->real_ops = r->eng->kv->ops;
    r->kv_ops = *r->real_ops;
    r->kv_ops.step = step_beside;
    if (r->real_ops->moved) r->kv_ops.moved = moved_on_paper;
    r->eng->kv->ops = &r->kv_ops;
}

static fx_status make_paper(fxi_replay *r, fx_error *err)
{
    fx_engine *eng = r->eng;
    r->model = fxi_paper_model_new(r->opt->geometry, r->opt->device);
    eng->hooks.vmm = fxi_paper_memory_open(r->opt->page_bytes, &r->opt->device->costs);
    eng->model = r->model ? &r->model->model : NULL;
    if (!eng->hooks.vmm || !r->model) return fxi_fail(err, FX_ENOMEM, "no memory for the replay");
    r->memory = fxi_paper_memory_of(eng->hooks.vmm);
    r->model->before_pass = fxi_replay_note_pass;
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
    FX_TRY(make_paper(r, err));
    fill_info(r);
    FX_TRY(fxi_engine_fit(eng, err));
    if (fxi_kv_can(eng->kv, FXI_KV_BESIDE))
        eng->memory.copy_share = 0; // by the device's copy engine
    eng->memory.swap_us_per_byte = r->opt->device->costs.swap_us_per_gb / 1e9;
    watch_manager(r);
    r->out->budget_bytes = kv_bytes;
    return FX_OK;
}

fx_status fxi_replay_open(fxi_replay *r, fx_error *err)
{
    r->eng = calloc(1, sizeof *r->eng);
    if (!r->eng) return fxi_fail(err, FX_ENOMEM, "no memory for the replay");
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
