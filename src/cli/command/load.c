// load.c - opening the engine that the options describe.
#include "base/fail.h"
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <stdio.h>
#include <stdlib.h>

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

fx_status fxi_cli_open(const fxi_cli_options *o, fx_engine **out, fx_error *err)
{
    fxi_progress bar = fxi_progress_begin("loading");
    fx_options opt = fxi_cli_engine_options(o);
    opt.on_progress = draw_load;
    opt.progress_ud = &bar;
    fx_status st = fx_engine_open(&opt, out, err);
    fxi_progress_end(&bar);
    if (st != FX_OK) return st;
    const fx_model_info *info = fx_engine_info(*out);
    if (info->warning) fprintf(stderr, "warning: %s\n", info->warning);
    warn_of_context(info, o->ctx_tok);
    return st;
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
