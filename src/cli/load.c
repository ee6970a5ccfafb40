// load.c - opens the engine that the options describe; writes what it did last as a Chrome trace.
#include "base/fail.h"
#include "cli/command.h"
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/trace/chrome_trace.h"

static void draw_load(void *ud, uint64_t done, uint64_t total)
{
    fxi_progress_draw(ud, done, total);
}

// The engine has the same default; choosing here lets commands show the folder.
const char *fxi_cli_swap_dir(const fxi_cli_options *o)
{
    if (o->swap_dir && o->swap_dir[0]) return o->swap_dir;
    const char *dir = getenv("TMPDIR");
    return dir && dir[0] ? dir : "/tmp";
}

// A model answers worse beyond the context that it was trained with; the budget may hold less.
static void warn_of_context(const fx_model_info *m, int wanted)
{
    if (wanted > m->train_ctx_tok)
        fprintf(stderr,
                "warning: --ctx %d is beyond the %d tokens that the model was trained with\n",
                wanted, m->train_ctx_tok);
    if (wanted > m->ctx_tok)
        fprintf(stderr, "warning: --ctx %d: the KV cache's memory holds %d tokens (--kv-memory)\n",
                wanted, m->ctx_tok);
}

fx_options fxi_cli_engine_options(const fxi_cli_options *o)
{
    fx_options opt = fx_options_default();
    opt.model_path = o->model;
    opt.tokenizer_path = o->tokenizer;
    opt.tokenizer_pre = o->tokenizer_pre;
    opt.chat_template = o->chat_template;
    opt.pooling = o->pooling;
    opt.device = o->compute_device;
    opt.gpu_math = o->gpu_math;
    opt.n_thread = o->n_thread;
    opt.ctx_tok = o->ctx_tok;
    opt.kv_memory_bytes = o->kv_memory_bytes;
    opt.kv_manager = o->kv_manager;
    opt.kv_block_tok = o->kv_block_tok;
    opt.kv_type = o->kv_type;
    opt.max_seq = o->max_seq;
    opt.max_queue = o->max_queue;
    opt.max_queue_tok = (int64_t)o->max_queue_tok;
    opt.step_tok = o->step_tok;
    opt.step_ms = o->step_ms;
    opt.speculate = o->speculate;
    opt.draft_path = o->draft;
    opt.draft_tok = o->draft_tok;
    opt.cache_idle_s = o->cache_idle_s;
    opt.prefix_pass = o->prefix_pass;
    opt.swap_dir = fxi_cli_swap_dir(o);
    opt.swap_bytes = o->swap_bytes;
    opt.n_record = o->n_record ? o->n_record : -1;
    return opt;
}

static fx_status check_manager(const fx_options *opt, fx_error *err)
{
    if (opt->kv_ops || !opt->kv_manager || strncmp(opt->kv_manager, "reserve-", 8) != 0)
        return FX_OK;
    return fxi_fail(err, FX_EINVAL, "--kv %.40s: only flexinfer-lab has this manager",
                    opt->kv_manager);
}

fx_status fxi_cli_open_engine(fx_options opt, fx_engine **out, fx_error *err)
{
    fxi_progress bar = fxi_progress_begin("loading");
    *out = NULL;
    FX_TRY(check_manager(&opt, err));
    opt.on_progress = draw_load;
    opt.progress_ud = &bar;
    fx_status st = fx_engine_open(&opt, out, err);
    fxi_progress_end(&bar);
    if (st != FX_OK) return st;
    const fx_model_info *info = fx_engine_info(*out);
    if (info->warning) fprintf(stderr, "warning: %s\n", info->warning);
    warn_of_context(info, opt.ctx_tok);
    return st;
}

fx_status fxi_cli_open(const fxi_cli_options *o, fx_engine **out, fx_error *err)
{
    return fxi_cli_open_engine(fxi_cli_engine_options(o), out, err);
}

fx_status fxi_cli_open_generator(const fxi_cli_options *o, fx_engine **out, fx_error *err)
{
    FX_TRY(fxi_cli_open(o, out, err));
    if (fx_engine_info(*out)->generates) return FX_OK;
    fx_engine_close(*out);
    *out = NULL;
    return fxi_fail(err, FX_EINVAL,
                    "%s embeds texts and generates none: start 'flexinfer serve' with it and ask "
                    "/v1/embeddings",
                    o->model);
}

// ---- --trace -----------------------------------------------------------------------------------

fx_status fxi_cli_trace_open(const char *path, FILE **out, fx_error *err)
{
    *out = path ? fopen(path, "w") : NULL;
    if (path && !*out) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    return FX_OK;
}

fx_status fxi_cli_trace_write(const char *path, FILE *f, const fx_engine *eng, fx_error *err)
{
    fxi_buf b = {0};
    if (!f) return FX_OK;
    const bool made = !eng || fxi_chrome_trace_of(&b, eng);
    const bool wrote = b.n == 0 || fwrite(b.p, 1, b.n, f) == b.n;
    const bool closed = fclose(f) == 0;
    fxi_buf_free(&b);
    if (!made) return fxi_fail(err, FX_ENOMEM, "out of memory for the trace");
    if (!wrote || !closed) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    return FX_OK;
}
