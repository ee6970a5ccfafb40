// load.c - opening the engine that the options describe.
#include "cli/command/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BAR_FROM_BYTES (64ull << 20) // smaller models load before anyone could read a bar
#define BAR_WIDTH      40

static void draw_bar(void *ud, uint64_t done, uint64_t total)
{
    int *shown = ud; // percentage on the screen
    if (total < BAR_FROM_BYTES) return;
    int now = (int)((double)done / (double)total * 100.0);
    if (now == *shown) return;
    *shown = now;
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i * 100 < now * BAR_WIDTH ? '#' : '.';
    bar[BAR_WIDTH] = 0;
    fprintf(stderr, "\rloading [%s] %3d %%", bar, now);
}

// The engine has the same default; choosing here lets commands show the folder.
const char *fxi_cli_swap_dir(const fxi_cli_options *o)
{
    if (o->swap_dir && o->swap_dir[0]) return o->swap_dir;
    const char *dir = getenv("TMPDIR");
    return dir && dir[0] ? dir : "/tmp";
}

fx_status fxi_cli_open(const fxi_cli_options *o, fx_engine **out, fx_error *err)
{
    int shown = -1;
    fx_options opt = fx_options_default();
    opt.model_path = o->model;
    opt.tokenizer_path = o->tokenizer;
    opt.tokenizer_pre = o->tokenizer_pre;
    opt.chat_template = o->chat_template;
    opt.n_thread = o->n_thread;
    opt.ctx_tok = o->ctx_tok;
    opt.kv_memory_bytes = o->kv_memory_bytes;
    opt.kv_type = o->kv_type;
    opt.max_seq = o->max_seq;
    opt.max_queue = o->max_queue;
    opt.max_queue_tok = (int64_t)o->max_queue_tok;
    opt.step_tok = o->step_tok;
    opt.step_ms = o->step_ms;
    opt.swap_dir = fxi_cli_swap_dir(o);
    opt.swap_bytes = o->swap_bytes;
    if (isatty(STDERR_FILENO)) {
        opt.on_progress = draw_bar;
        opt.progress_ud = &shown;
    }
    fx_status st = fx_engine_open(&opt, out, err);
    if (shown >= 0) fprintf(stderr, "\r\033[K"); // removes the bar
    const char *warning = st == FX_OK ? fx_engine_info(*out)->warning : NULL;
    if (warning) fprintf(stderr, "warning: %s\n", warning);
    return st;
}
