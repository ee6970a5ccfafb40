// open.c - assembles an engine: options, vocabulary, threads, weights, KV cache, scratch.
#include "base/system/clock.h"
#include "engine/device_open.h"
#include "engine/engine.h"
#include "engine/loop/loop.h"
#include "engine/memory/room.h"
#include "engine/model_info.h"
#include "engine/speculate/speculate.h"
#include "format/model_file.h"
#include "format/vocab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MAX_CTX_TOK      (1 << 24)
#define MAX_THREAD       1024
#define AHEAD_TOK        16
#define SWAP_US_PER_BYTE 1e-3 // until a swap has been measured

// ---- before anything is loaded -----------------------------------------------------------------

fx_status fxi_engine_init(fx_engine *eng, fx_error *err)
{
    if (getrandom(&eng->secret, sizeof eng->secret, GRND_NONBLOCK) < 0)
        eng->secret = (uintptr_t)eng;
    fxi_lists_init(eng, eng->secret);
    eng->now_us = fxi_monotonic_us;
    eng->pid = getpid();
    eng->headroom_tok = FXI_MIN_HEADROOM_TOK;
    eng->ahead_tok = AHEAD_TOK;
    eng->tile_tok = FXI_KV_TILE_TOK;
    eng->n_freed = 1;
    eng->root = "";
    eng->limit_bytes = UINT64_MAX;
    eng->swap_us_per_byte = SWAP_US_PER_BYTE;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_mutex_init(&eng->mu, NULL);
    if (!rc) rc = pthread_cond_init(&eng->wake, &attr);
    if (!rc) rc = pthread_mutex_init(&eng->step_mu, NULL);
    if (!rc) rc = !fxi_answer_vocab_init(&eng->answer_vocab);
    eng->mask_spend = FXI_MASK_SPEND;
    if (!rc) rc = fxi_snapshots_open(&eng->snapshots);
    pthread_condattr_destroy(&attr);
    return rc ? fxi_fail(err, FX_EINTERNAL, "the engine's lock could not be made") : FX_OK;
}

// ---- options -----------------------------------------------------------------------------------

static fx_status check_option(const char *what, int v, int max, fx_error *err)
{
    if (v < 0 || v > max)
        return fxi_fail(err, FX_EINVAL, "%s: %d is not from 0 to %d", what, v, max);
    return FX_OK;
}

static fx_status fill_options(fx_options *o, fx_error *err)
{
    if (!o->model_path) return fxi_fail(err, FX_EINVAL, "no model file is named");
    FX_TRY(check_option("threads", o->n_thread, MAX_THREAD, err));
    FX_TRY(check_option("context", o->ctx_tok, MAX_CTX_TOK, err));
    FX_TRY(check_option("sequences", o->max_seq, 1 << 14, err));
    FX_TRY(check_option("tokens of a KV block", o->kv_block_tok, 1 << 16, err));
    FX_TRY(check_option("queue", o->max_queue, 1 << 24, err));
    FX_TRY(check_option("step tokens", o->step_tok, 1 << 16, err));
    FX_TRY(check_option("step time", o->step_ms, 1 << 20, err));
    FX_TRY(check_option("drafted tokens", o->draft_tok, FX_MAX_DRAFT, err));
    unsigned sources;
    if (!fxi_speculate_sources(o->speculate, &sources))
        return fxi_fail(err, FX_EINVAL, "speculate: '%.40s' is none of off, prompt, prefix, auto",
                        o->speculate);
    FX_TRY(check_option("recorded events", o->n_record < 0 ? 0 : o->n_record, 1 << 26, err));
    if (o->max_queue_tok < 0)
        return fxi_fail(err, FX_EINVAL, "queued tokens: %lld is less than 0",
                        (long long)o->max_queue_tok);
    if (!o->n_thread) o->n_thread = fxi_usable_cores();
    if (!o->max_seq) o->max_seq = 64;
    if (!o->max_queue) o->max_queue = 1024;
    if (!o->step_tok) o->step_tok = 512;
    if (o->step_tok < o->max_seq) o->step_tok = o->max_seq; // every sequence decodes in every step
    if (!o->step_ms) o->step_ms = 250;
    if (!o->max_queue_tok) o->max_queue_tok = 1 << 20;
    if (!o->cache_idle_s) o->cache_idle_s = 600;
    if (!o->prefix_pass) o->prefix_pass = FXI_PREFIX_PASS;
    if (o->swap_bytes && !o->swap_dir) o->swap_dir = getenv("TMPDIR");
    if (o->swap_bytes && (!o->swap_dir || !*o->swap_dir)) o->swap_dir = "/tmp";
    return FX_OK;
}

// ---- parts -------------------------------------------------------------------------------------

static void fill_text_info(fx_engine *eng)
{
    const char *builtin = fxi_chat_builtin(eng->chat);
    eng->info.has_chat_template = !builtin || strcmp(builtin, "plain") != 0;
    eng->info.chat_template_error = fxi_chat_broken(eng->chat);
    eng->info.warning = fxi_vocab_warning(eng->vocab);
    eng->info.bos_id = fxi_vocab_bos(eng->vocab);
    eng->info.eos_id = fxi_vocab_eos(eng->vocab);
}

static fx_status load_model(fx_engine *eng, const fxi_gguf *g, fx_error *err)
{
    const fx_options *o = &eng->opt;
    fxi_model_options mo = {
        .pool = eng->pool,
        .device = eng->device,
        .ctx_tok = o->ctx_tok,
        .kv_type = o->kv_type,
        .pooling = o->pooling,
        .max_batch_tok = o->step_tok,
        .max_batch_logit = o->max_seq + fxi_step_spare_rows(),
        .on_progress = o->on_progress,
        .progress_ud = o->progress_ud,
    };
    FX_TRY(fxi_model_load(g, &mo, &eng->model, err));
    fxi_info_fill(&eng->info, g, eng->model, o->model_path);
    if (o->ctx_tok) eng->info.ctx_tok = o->ctx_tok;
    eng->info.n_thread = o->n_thread;
    snprintf(eng->info.device, sizeof eng->info.device, "%s", eng->device->name);
    fill_text_info(eng);
    if (fxi_vocab_size(eng->vocab) > eng->info.n_vocab)
        return fxi_fail(err, FX_EFORMAT, "%s: the vocabulary has %d tokens, the embedding %d rows",
                        o->tokenizer_path ? o->tokenizer_path : o->model_path,
                        fxi_vocab_size(eng->vocab), eng->info.n_vocab);
    return FX_OK;
}

static void default_budget(fx_engine *eng)
{
    if (!eng->opt.kv_memory_bytes) eng->opt.kv_memory_bytes = fxi_engine_kv_bytes(eng);
    if (!eng->opt.kv_memory_bytes) eng->opt.kv_memory_bytes = 1; // no memory is free: refused below
    eng->budget_bytes = eng->opt.kv_memory_bytes;
}

// A model that reads in both directions computes a text in one step.
static void fit_embeddings(fx_engine *eng)
{
    fx_model_info *info = &eng->info;
    const bool is_whole = !fxi_model_get_shape(eng->model)->is_causal;
    if (!info->embeds) return;
    info->embd_tok = info->ctx_tok;
    if (is_whole && info->embd_tok > eng->opt.step_tok) info->embd_tok = eng->opt.step_tok;
}

static fx_status open_kv(fx_engine *eng, fx_error *err)
{
    default_budget(eng);
    const uint64_t for_drafts = fxi_draft_model_share(eng, eng->opt.kv_memory_bytes);
    if (for_drafts) FX_TRY(fxi_draft_model_open_kv(eng, for_drafts, err));
    eng->opt.kv_memory_bytes -= for_drafts;
    fxi_kv_shape shape = {
        .layout = fxi_model_get_shape(eng->model)->kv,
        .ctx_tok = eng->info.ctx_tok,
        .step_tok = eng->opt.step_tok,
        .max_seq = 2 * eng->opt.max_seq, // max_seq that run, and as many in the swap
        .run_seq = eng->opt.max_seq,
        .run_share = 1 - fxi_draft_model_run_share(eng),
        .block_tok = eng->opt.kv_block_tok,
        .tile_tok = eng->tile_tok,
        .budget_bytes = eng->opt.kv_memory_bytes,
        .swap_dir = eng->opt.swap_dir,
        .swap_bytes = eng->opt.swap_bytes,
        .vmm = eng->vmm,
        .is_unguarded = eng->is_unguarded,
        .single_thread = eng->single_thread,
    };
    FX_TRY(fxi_engine_open_kv(eng, &shape, err));
    fxi_kv_stats stats;
    fxi_kv_get_stats(eng->kv, &stats);
    eng->opt.kv_memory_bytes = eng->budget_bytes = stats.usable_bytes;
    int n_tok = fxi_request_longest_tok(eng, eng->opt.kv_memory_bytes);
    if (n_tok < fxi_budget_least_tok(eng))
        return fxi_fail(err, FX_ENOSPACE,
                        "%llu bytes of KV memory hold %d tokens, %llu bytes would hold %d",
                        (unsigned long long)eng->opt.kv_memory_bytes, n_tok,
                        (unsigned long long)fxi_budget_least_bytes(eng), fxi_budget_least_tok(eng));
    eng->info.ctx_tok = n_tok;
    fit_embeddings(eng);
    return FX_OK;
}

// The vocabulary's end-of-text tokens.
static fx_status list_end_tok(fx_engine *eng, fx_error *err)
{
    fxi_ids ids = {0};
    for (int32_t id = 0; id < fxi_vocab_size(eng->vocab); id++)
        if (fxi_vocab_ends(eng->vocab, id) && !fxi_ids_add(&ids, id)) {
            fxi_ids_free(&ids);
            return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
        }
    eng->end_tok = ids.id;
    eng->n_end_tok = (int)ids.n;
    return FX_OK;
}

fx_status fxi_engine_fit(fx_engine *eng, fx_error *err)
{
    if (!eng->device) FX_TRY(fxi_engine_open_device(eng, err));
    eng->is_on_host = fxi_engine_is_on_host(eng);
    FX_TRY(list_end_tok(eng, err));
    FX_TRY(open_kv(eng, err));
    eng->info.max_seq = eng->opt.max_seq;
    eng->info.mapped_seq = fxi_kv_max_mapped(eng->kv);
    eng->copy_share = fxi_kv_can(eng->kv, FXI_KV_ASYNC_SWAP) ? 1.0 / eng->opt.n_thread : 1;
    eng->reader = malloc((size_t)eng->opt.max_seq * fxi_prompts_scratch_bytes());
    const bool records = eng->opt.n_record >= 0;
    if (records) eng->recorder = fxi_recorder_make(eng->opt.n_record);
    if (!eng->reader || (records && !eng->recorder))
        return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    FX_TRY(fxi_step_make(eng, err));
    return fxi_speculate_open(eng, err);
}

// Loads the vocabulary; *template becomes the chat template next to it, if that is a separate file.
static fx_status load_vocab(fx_engine *eng, const fxi_gguf *g, fxi_buf *template, fx_error *err)
{
    const fx_options *o = &eng->opt;
    if (o->tokenizer_path)
        return fxi_vocab_open(o->tokenizer_path, o->tokenizer_pre, template, &eng->vocab, err);
    if (o->tokenizer_pre)
        return fxi_fail(err, FX_EINVAL, "a pre-tokenizer ('%s') is named, but no tokenizer file",
                        o->tokenizer_pre);
    return fxi_vocab_load(g, &eng->vocab, err);
}

static fx_status load_text(fx_engine *eng, const fxi_gguf *g, fx_error *err)
{
    fxi_buf template = {0};
    fx_status st = load_vocab(eng, g, &template, err);
    const fxi_chat_source s = {g, {template.p, template.n}, eng->opt.chat_template};
    if (st == FX_OK) st = fxi_chat_open(&s, eng->vocab, &eng->chat, err);
    fxi_buf_free(&template);
    return st;
}

static fx_status load_parts(fx_engine *eng, const fxi_gguf *g, fx_error *err)
{
    if (!fxi_gguf_n_tensor(g))
        return fxi_fail(err, FX_EFORMAT, "%s: holds a vocabulary and no weights", fxi_gguf_name(g));
    FX_TRY(load_text(eng, g, err));
    FX_TRY(fxi_pool_create(eng->opt.n_thread, &eng->pool, err));
    FX_TRY(fxi_engine_open_device(eng, err));
    FX_TRY(load_model(eng, g, err));
    FX_TRY(fxi_draft_model_load(eng, err));
    return fxi_engine_fit(eng, err);
}

// The file itself is made when the first sequence is swapped out: too late to say so.
static fx_status check_swap_dir(const fx_options *o, fx_error *err)
{
    if (!o->swap_bytes || access(o->swap_dir, W_OK | X_OK) == 0) return FX_OK;
    return fxi_fail(err, FX_EIO, "swap: cannot write to %.200s: %s", o->swap_dir, strerror(errno));
}

fx_status fxi_engine_load(fx_engine *eng, const fx_options *opt, fx_error *err)
{
    eng->opt = *opt;
    FX_TRY(fill_options(&eng->opt, err));
    FX_TRY(fxi_budget_check_machine(eng, eng->opt.kv_memory_bytes, err));
    FX_TRY(check_swap_dir(&eng->opt, err));
    fxi_gguf *g;
    FX_TRY(fxi_model_file_open(eng->opt.model_path, &g, err));
    fx_status st = load_parts(eng, g, err);
    fxi_gguf_close(g);
    eng->opt.model_path = eng->opt.swap_dir = eng->opt.kv_type = NULL; // the caller's
    eng->opt.kv_manager = eng->opt.speculate = eng->opt.draft_path = NULL;
    eng->opt.tokenizer_path = eng->opt.tokenizer_pre = eng->opt.chat_template = NULL;
    eng->opt.pooling = eng->opt.device = eng->opt.gpu_math = NULL;
    return st;
}

// ---- checking without loading -------------------------------------------------------------------

static fx_status check_model_text(fx_engine *eng, const fx_model_info *info, fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(fxi_model_file_open(eng->opt.model_path, &g, err));
    fx_status st = load_text(eng, g, err);
    fxi_gguf_close(g);
    if (st == FX_OK) st = fxi_draft_model_check(eng, err);
    if (st == FX_OK && fxi_vocab_size(eng->vocab) > info->n_vocab)
        st = fxi_fail(err, FX_EFORMAT, "the vocabulary has %d tokens, the embedding %d rows",
                      fxi_vocab_size(eng->vocab), info->n_vocab);
    return st;
}

// Opens the device and names it; frees it with the engine.
static fx_status check_device(fx_engine *eng, fx_model_info *out, fx_error *err)
{
    FX_TRY(fxi_pool_create(1, &eng->pool, err));
    FX_TRY(fxi_engine_open_device(eng, err));
    snprintf(out->device, sizeof out->device, "%s", eng->device->name);
    snprintf(out->kernel_path, sizeof out->kernel_path, "%s", eng->device->path);
    return FX_OK;
}

fx_status fxi_engine_check(fx_engine *eng, const fx_options *opt, fx_model_info *out, fx_error *err)
{
    eng->opt = *opt;
    FX_TRY(fill_options(&eng->opt, err));
    FX_TRY(fxi_budget_check_machine(eng, eng->opt.kv_memory_bytes, err));
    FX_TRY(check_swap_dir(&eng->opt, err));
    FX_TRY(fx_model_inspect(opt->model_path, opt->kv_type, out, err));
    FX_TRY(check_model_text(eng, out, err));
    return check_device(eng, out, err);
}

void fxi_engine_unload(fx_engine *eng)
{
    fxi_answer_worker_stop(&eng->answer_vocab.worker);
    fxi_speculate_close(eng);
    fxi_step_free(eng);
    fxi_clients_free(eng);
    free(eng->reader);
    fxi_recorder_free(eng->recorder);
    free(eng->end_tok);
    fxi_draft_model_close(eng);
    fxi_kv_close(eng->kv);
    fxi_model_free(eng->model);
    if (eng->device) eng->device->ops->close(eng->device);
    fxi_pool_destroy(eng->pool);
    fxi_chat_free(eng->chat);
    fxi_vocab_free(eng->vocab);
    fxi_answer_vocab_free(&eng->answer_vocab);
    fxi_snapshots_close(&eng->snapshots);
    pthread_mutex_destroy(&eng->mu);
    pthread_mutex_destroy(&eng->step_mu);
    pthread_cond_destroy(&eng->wake);
    free(eng);
}
