// engine.c - the life of an engine: it is assembled from options, vocabulary, threads, weights, KV
// cache and scratch; its thread runs; it is closed.
#include "engine/engine.h"
#include "base/system/clock.h"
#include "engine/iteration.h"
#include "format/gguf.h"
#include "format/vocab.h"
#include "gpu/gpu.h"
#include "model/device.h"
#include "vtensor/vmm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define AHEAD_TOK        16
#define SWAP_US_PER_BYTE 1e-3 // until a swap has been measured

// What caches get of the memory that is free, in tenths: on the host others share it.
enum { HOST_TENTHS = 5, DEVICE_TENTHS = 9, PRESET_DRAFT_TOK = 8 };

// ---- before anything is loaded -----------------------------------------------------------------

// The grammar worker has made progress: deferred sequences may continue.
static void wake_deferred(void *ud)
{
    fx_engine *eng = ud;
    if (atomic_load(&eng->sched.n_deferred)) fxi_mailbox_signal(&eng->mailbox, NULL);
}

fx_status fxi_engine_init(fx_engine *eng, fx_error *err)
{
    uint64_t secret; // clients cannot guess it, and so not unbalance trees
    if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) < 0) secret = (uintptr_t)eng;
    eng->pid = getpid();
    eng->journal.now_us = fxi_monotonic_us;
    eng->hooks.ahead_tok = AHEAD_TOK;
    eng->hooks.tile_tok = FXI_KV_TILE_TOK;
    fxi_sched_init(&eng->sched, &eng->journal, secret);
    eng->sched.headroom_tok = FXI_MIN_HEADROOM_TOK;
    eng->sched.mask_spend = FXI_MASK_SPEND;
    eng->memory = (fxi_memory){.sched = &eng->sched,
                               .journal = &eng->journal,
                               .stats = &eng->stats,
                               .service = &eng->service,
                               .root = "",
                               .limit_bytes = UINT64_MAX,
                               .swap_us_per_byte = SWAP_US_PER_BYTE};
    int rc = fxi_mailbox_init(&eng->mailbox, secret);
    if (!rc) rc = pthread_mutex_init(&eng->step_mu, NULL);
    if (!rc) rc = pthread_mutex_init(&eng->stats.mu, NULL);
    if (!rc) rc = !fxi_grammars_init(&eng->grammars);
    if (!rc) rc = pthread_mutex_init(&eng->snapshots.mu, NULL);
    if (!rc) rc = pthread_mutex_init(&eng->snapshots.tell_mu, NULL);
    eng->grammars.worker.on_progress = wake_deferred;
    eng->grammars.worker.ud = eng;
    return rc ? fxi_fail(err, FX_EINTERNAL, "the engine's lock could not be made") : FX_OK;
}

// ---- options -----------------------------------------------------------------------------------

static fx_status fill_options(fx_options *o, fx_error *err)
{
    if (!o->model_path) return fxi_fail(err, FX_EINVAL, "no model file is named");
    const struct {
        const char *what;
        int v, max;
    } bounded[] = {{"threads", o->n_thread, 1024},
                   {"context", o->ctx_tok, 1 << 24},
                   {"sequences", o->max_seq, 1 << 14},
                   {"tokens of a KV block", o->kv_block_tok, 1 << 16},
                   {"queue", o->max_queue, 1 << 24},
                   {"step tokens", o->step_tok, 1 << 16},
                   {"step time", o->step_ms, 1 << 20},
                   {"drafted tokens", o->draft_tok, FX_MAX_DRAFT},
                   {"recorded events", o->n_record < 0 ? 0 : o->n_record, 1 << 26}};
    for (size_t i = 0; i < sizeof bounded / sizeof *bounded; i++)
        if (bounded[i].v < 0 || bounded[i].v > bounded[i].max)
            return fxi_fail(err, FX_EINVAL, "%s: %d is not from 0 to %d", bounded[i].what,
                            bounded[i].v, bounded[i].max);
    unsigned sources;
    if (!fxi_drafting_sources(o->speculate, &sources))
        return fxi_fail(err, FX_EINVAL, "speculate: '%.40s' is none of off, prompt, prefix, auto",
                        o->speculate);
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

// ---- the device --------------------------------------------------------------------------------

static fx_status open_named_device(fx_engine *eng, fx_error *err)
{
    const char *name = eng->opt.device;
    const fxi_gpu_options gpu = {.name = name, .math = eng->opt.gpu_math, .pool = eng->pool};
    fxi_device_memory memory = {0};
    if (!name || !strcmp(name, "cpu"))
        FX_TRY(fxi_host_device_open(eng->pool, NULL, &eng->device, err));
    else if (fxi_gpu_is_name(name))
        FX_TRY(
            (fxi_gpu_is_list(name) ? fxi_gpu_ranks_open : fxi_gpu_open)(&gpu, &eng->device, err));
    else
        return fxi_fail(err, FX_EINVAL, "device '%.100s' is unknown (cpu, cuda:N, cuda:N,cuda:M)",
                        name);
    eng->device->ops->memory(eng->device, &memory);
    eng->is_on_host = memory.is_host;
    return FX_OK;
}

// Opens the KV manager over the memory of each device, or over shape->vmm.
static fx_status open_manager(fx_engine *eng, fxi_kv_shape *shape, fx_error *err)
{
    fxi_device *d = eng->device;
    const fxi_device_ranks *ranks = d->ranks;
    struct vt_vmm *opened[FXI_MAX_RANK] = {0};
    const int n = ranks ? ranks->n : !shape->vmm;
    fx_status st = FX_OK;
    for (int k = 0; k < n && st == FX_OK; k++) {
        fxi_device *rank = ranks ? ranks->device[k] : d;
        st = rank->ops->open_vmm(rank, &opened[k], err);
        if (ranks)
            shape->rank_vmm[k] = opened[k];
        else
            shape->vmm = opened[k];
    }
    shape->n_rank = ranks ? n : 0;
    if (st == FX_OK && eng->opt.kv_ops)
        st = fxi_kv_open_with(eng->opt.kv_ops, shape, &eng->kv, err);
    else if (st == FX_OK)
        st = fxi_kv_open(eng->opt.kv_manager, shape, &eng->kv, err);
    for (int k = 0; k < n && st != FX_OK; k++)
        if (opened[k]) opened[k]->ops->close(opened[k]);
    return st;
}

// ---- parts -------------------------------------------------------------------------------------

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
        .max_batch_logit = o->max_seq + FXI_SPARE_ROWS,
        .on_progress = o->on_progress,
        .progress_ud = o->progress_ud,
    };
    FX_TRY(fxi_model_load(g, &mo, &eng->model, err));
    fxi_info_fill(&eng->info, g, eng->model, o->model_path);
    if (o->ctx_tok) eng->info.ctx_tok = o->ctx_tok;
    eng->info.n_thread = o->n_thread;
    snprintf(eng->info.device, sizeof eng->info.device, "%s", eng->device->name);
    const char *builtin = fxi_chat_builtin(eng->chat);
    eng->info.has_chat_template = !builtin || strcmp(builtin, "plain") != 0;
    eng->info.chat_template_error = fxi_chat_broken(eng->chat);
    eng->info.warning = fxi_vocab_warning(eng->vocab);
    eng->info.bos_id = fxi_vocab_bos(eng->vocab);
    eng->info.eos_id = fxi_vocab_eos(eng->vocab);
    return fxi_info_check_vocab(&eng->info, eng->vocab,
                                o->tokenizer_path ? o->tokenizer_path : o->model_path, err);
}

static fx_status open_kv(fx_engine *eng, fx_error *err)
{
    fx_options *o = &eng->opt;
    if (!o->kv_memory_bytes) {
        fxi_device_memory m;
        eng->device->ops->memory(eng->device, &m);
        o->kv_memory_bytes = m.free_bytes / 10 * (m.is_host ? HOST_TENTHS : DEVICE_TENTHS);
        if (!o->kv_memory_bytes) o->kv_memory_bytes = 1; // no memory is free: refused below
    }
    uint64_t for_drafts;
    double draft_share;
    FX_TRY(fxi_draft_model_open_kv(eng->draft_model, o->kv_memory_bytes, &for_drafts, &draft_share,
                                   err));
    fxi_kv_shape shape = {
        .layout = eng->model->shape.kv,
        .ctx_tok = eng->info.ctx_tok,
        .step_tok = o->step_tok,
        .max_seq = 2 * o->max_seq, // max_seq that run, and as many in the swap
        .run_seq = o->max_seq,
        .run_share = 1 - draft_share,
        .block_tok = o->kv_block_tok,
        .tile_tok = eng->hooks.tile_tok,
        .budget_bytes = o->kv_memory_bytes - for_drafts,
        .swap_dir = o->swap_dir,
        .swap_bytes = o->swap_bytes,
        .vmm = eng->hooks.vmm,
        .is_unguarded = eng->hooks.is_unguarded,
        .single_thread = eng->hooks.single_thread,
    };
    FX_TRY(open_manager(eng, &shape, err));
    fxi_kv_stats stats;
    fxi_kv_get_stats(eng->kv, &stats);
    eng->service.kv = eng->memory.kv = eng->kv;
    eng->service.budget_bytes = eng->memory.effective_bytes = stats.usable_bytes;
    const int n_tok = fxi_request_longest_tok(&eng->service, stats.usable_bytes);
    const int least_tok = fxi_budget_least_tok(&eng->service);
    if (n_tok < least_tok)
        return fxi_fail(err, FX_ENOSPACE,
                        "%llu bytes of KV memory hold %d tokens, %llu bytes would hold %d",
                        (unsigned long long)stats.usable_bytes, n_tok,
                        (unsigned long long)fxi_budget_least_bytes(&eng->service), least_tok);
    eng->info.ctx_tok = n_tok;
    // A model that reads in both directions computes a text in one pass.
    const bool is_whole = !eng->model->shape.is_causal;
    if (!eng->info.embeds && !eng->info.scores) return FX_OK;
    eng->info.embd_tok = is_whole && n_tok > o->step_tok ? o->step_tok : n_tok;
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
    eng->service.end_tok = ids.id;
    eng->service.n_end_tok = (int)ids.n;
    return FX_OK;
}

static fx_status open_drafting(fx_engine *eng, fx_error *err)
{
    fxi_drafting x = {.memory = &eng->memory,
                      .hooks = &eng->draft_hooks,
                      .model = eng->draft_model,
                      .clock = {&eng->journal, eng->is_on_host},
                      .most_tok = eng->opt.draft_tok ? eng->opt.draft_tok : PRESET_DRAFT_TOK,
                      .step_tok = eng->opt.step_tok};
    (void)fxi_drafting_sources(eng->opt.speculate, &x.sources);
    const bool drafts = x.sources || x.hooks->drafter || x.model;
    if (!drafts) return FX_OK;
    eng->drafting = fxi_drafting_make(&x, eng->opt.max_seq);
    if (eng->drafting) return FX_OK;
    return fxi_fail(err, FX_ENOMEM, "no memory for the drafts of %d sequences", eng->opt.max_seq);
}

// Tells the parts what has been loaded.
static void connect_parts(fx_engine *eng)
{
    eng->service.info = &eng->info;
    eng->service.shape = &eng->model->shape;
    eng->service.vocab = eng->vocab;
    eng->service.max_seq = eng->opt.max_seq;
    eng->service.grammars = &eng->grammars;
    eng->grammars.vocab = eng->vocab;
    eng->grammars.n_vocab = eng->info.n_vocab;
    eng->memory.is_foreign = eng->hooks.vmm != NULL;
    eng->memory.swap_bytes = eng->opt.swap_bytes;
}

fx_status fxi_engine_fit(fx_engine *eng, fx_error *err)
{
    if (!eng->device) FX_TRY(open_named_device(eng, err));
    FX_TRY(list_end_tok(eng, err));
    connect_parts(eng);
    FX_TRY(open_kv(eng, err));
    eng->info.max_seq = eng->opt.max_seq;
    eng->info.mapped_seq = fxi_kv_max_mapped(eng->kv);
    eng->memory.copy_share = fxi_kv_can(eng->kv, FXI_KV_ASYNC_SWAP) ? 1.0 / eng->opt.n_thread : 1;
    eng->memory.is_in_cgroup =
        eng->is_on_host && !eng->hooks.vmm && fxi_kv_can(eng->kv, FXI_KV_ELASTIC);
    eng->prompt = malloc((size_t)eng->opt.max_seq * sizeof *eng->prompt);
    const bool records = eng->opt.n_record >= 0;
    if (records) eng->journal.recorder = fxi_recorder_make(eng->opt.n_record);
    if (!eng->prompt || (records && !eng->journal.recorder))
        return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    FX_TRY(fxi_forward_make(eng, err));
    return open_drafting(eng, err);
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

// What a model that generates is asked about a pair of texts: its text with {query} and {document}.
// As Jinja's, with their values for variables, these may not become control tokens.
static fx_status load_pair_template(fx_engine *eng, const fxi_gguf *g, fx_error *err)
{
    static const char *const places[] = {"{query}", "{document}"};
    fxi_str rest = {0};
    fxi_buf jinja = {0};
    FX_TRY(fxi_gguf_str(g, "tokenizer.chat_template.rerank", false, &rest, err));
    if (!rest.n) return FX_OK;
    bool ok = true;
    while (ok && rest.n) {
        size_t n = 1;
        const char *place = NULL;
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            if (rest.n >= strlen(places[i]) && !memcmp(rest.p, places[i], strlen(places[i])))
                n = strlen(place = places[i]);
        ok = place ? fxi_buf_fmt(&jinja, "{%s}", place) : fxi_buf_add(&jinja, rest.p, 1);
        rest = (fxi_str){rest.p + n, rest.n - n};
    }
    // Jinja drops a line feed at the end.
    ok = ok && fxi_buf_str(&jinja, "{{ '' }}");
    const fxi_chat_source s = {.tokenizer = {jinja.p, jinja.n}};
    const fx_status st =
        ok ? fxi_chat_open(&s, eng->vocab, &eng->pair_chat, err) : fxi_fail_memory(err);
    fxi_buf_free(&jinja);
    return st;
}

static fx_status load_text(fx_engine *eng, const fxi_gguf *g, fx_error *err)
{
    fxi_buf template = {0};
    fx_status st = load_vocab(eng, g, &template, err);
    const fxi_chat_source s = {g, {template.p, template.n}, eng->opt.chat_template};
    if (st == FX_OK) st = fxi_chat_open(&s, eng->vocab, &eng->chat, err);
    fxi_buf_free(&template);
    if (st == FX_OK) st = load_pair_template(eng, g, err);
    return st;
}

static fx_status load_draft_model(fx_engine *eng, fx_error *err)
{
    const fxi_draft_model_options opt = {.path = eng->opt.draft_path,
                                         .pool = eng->pool,
                                         .vocab = eng->vocab,
                                         .shape = &eng->model->shape,
                                         .kv_type = eng->opt.kv_type,
                                         .ctx_tok = eng->info.ctx_tok,
                                         .max_seq = eng->opt.max_seq,
                                         .step_tok = eng->opt.step_tok,
                                         .tile_tok = eng->hooks.tile_tok,
                                         .single_thread = eng->hooks.single_thread,
                                         .clock = {&eng->journal, eng->is_on_host},
                                         .mask_left = &eng->sched.mask_left};
    return opt.path ? fxi_draft_model_load(&opt, &eng->draft_model, err) : FX_OK;
}

static fx_status load_parts(fx_engine *eng, const fxi_gguf *g, fx_error *err)
{
    if (!fxi_gguf_n_tensor(g))
        return fxi_fail(err, FX_EFORMAT, "%s: holds a vocabulary and no weights", fxi_gguf_name(g));
    FX_TRY(load_text(eng, g, err));
    FX_TRY(fxi_pool_create(eng->opt.n_thread, &eng->pool, err));
    FX_TRY(open_named_device(eng, err));
    FX_TRY(load_model(eng, g, err));
    FX_TRY(load_draft_model(eng, err));
    return fxi_engine_fit(eng, err);
}

// Takes the options, with defaults filled in. The swap's file is made when the first sequence is
// swapped out: too late to say that it cannot be.
static fx_status take_engine_options(fx_engine *eng, const fx_options *opt, fx_error *err)
{
    fx_options *o = &eng->opt;
    *o = *opt;
    FX_TRY(fill_options(o, err));
    eng->memory.is_foreign = eng->hooks.vmm != NULL;
    FX_TRY(fxi_budget_check_machine(&eng->memory, o->kv_memory_bytes, err));
    if (!o->swap_bytes || access(o->swap_dir, W_OK | X_OK) == 0) return FX_OK;
    return fxi_fail(err, FX_EIO, "swap: cannot write to %.200s: %s", o->swap_dir, strerror(errno));
}

fx_status fxi_engine_load(fx_engine *eng, const fx_options *opt, fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(take_engine_options(eng, opt, err));
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
    if (st == FX_OK && eng->opt.draft_path)
        st = fxi_draft_model_check(eng->opt.draft_path, eng->vocab, err);
    return st == FX_OK ? fxi_info_check_vocab(info, eng->vocab, eng->opt.model_path, err) : st;
}

// Checks options and files without loading weights.
static fx_status check_engine(fx_engine *eng, const fx_options *opt, fx_model_info *out,
                              fx_error *err)
{
    FX_TRY(take_engine_options(eng, opt, err));
    FX_TRY(fx_model_inspect(opt->model_path, opt->kv_type, out, err));
    FX_TRY(check_model_text(eng, out, err));
    FX_TRY(fxi_pool_create(1, &eng->pool, err));
    FX_TRY(open_named_device(eng, err));
    snprintf(out->device, sizeof out->device, "%s", eng->device->name);
    snprintf(out->kernel_path, sizeof out->kernel_path, "%s", eng->device->path);
    return FX_OK;
}

void fxi_engine_unload(fx_engine *eng)
{
    fxi_grammar_worker_stop(&eng->grammars.worker);
    free(eng->drafting);
    fxi_forward_free(eng);
    fxi_clients_free(&eng->sched.clients);
    free(eng->prompt);
    free(eng->journal.recorder);
    free(eng->service.end_tok);
    fxi_draft_model_close(eng->draft_model);
    fxi_kv_close(eng->kv);
    fxi_model_free(eng->model);
    if (eng->device) eng->device->ops->close(eng->device);
    fxi_pool_destroy(eng->pool);
    fxi_chat_free(eng->chat);
    fxi_chat_free(eng->pair_chat);
    fxi_vocab_free(eng->vocab);
    fxi_grammars_free(&eng->grammars);
    fx_snapshot_unref(eng->snapshots.newest);
    pthread_mutex_destroy(&eng->snapshots.mu);
    pthread_mutex_destroy(&eng->snapshots.tell_mu);
    fxi_mailbox_free(&eng->mailbox);
    pthread_mutex_destroy(&eng->stats.mu);
    pthread_mutex_destroy(&eng->step_mu);
    free(eng);
}

// ---- its thread ---------------------------------------------------------------------------------

#define SWAP_WAIT_MS 1 // while all sequences wait for rows that are swapped, or for memory

// 0: never.
static int sooner_ms(int a, int b)
{
    return a && (!b || a < b) ? a : b;
}

void fxi_engine_run(fx_engine *eng)
{
    for (;;) {
        for (uint64_t us; (us = fxi_batching_delay_us(eng));)
            if (!fxi_mailbox_wait_others(&eng->mailbox, us)) break;
        if (atomic_load(&eng->mailbox.is_closing)) break;
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

fx_status fx_engine_open(const fx_options *opt, fx_engine **out, fx_error *err)
{
    *out = NULL;
    fx_engine *eng = calloc(1, sizeof *eng);
    if (!eng) return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    fx_status st = fxi_engine_init(eng, err);
    if (st == FX_OK) st = fxi_engine_load(eng, opt, err);
    if (st == FX_OK) fxi_iteration_publish(eng);
    if (st == FX_OK && eng->drafting) fxi_drafting_measure(eng->drafting);
    if (st == FX_OK && pthread_create(&eng->thread, NULL, engine_main, eng) != 0)
        st = fxi_fail(err, FX_EINTERNAL, "the engine's thread could not be started");
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
    if (st == FX_OK) st = check_engine(eng, opt, out, err);
    fxi_engine_unload(eng);
    return st;
}

void fx_engine_close(fx_engine *eng)
{
    if (!eng || eng->pid != getpid()) return; // a child of fork has none of the engine's threads
    fxi_mailbox_signal(&eng->mailbox, &eng->mailbox.is_closing);
    pthread_join(eng->thread, NULL);
    fxi_engine_unload(eng);
}
