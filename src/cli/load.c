// load.c - opens the engine that the options describe, reads texts from files, and writes what the
// engine did last as a Chrome trace.
#include "base/fail.h"
#include "cli/cli.h"
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
const char fxi_cli_no_template[] =
    "the model has no chat template, as one that was not trained to chat: messages are sent to it "
    "as lines 'User: ..' and 'Assistant: ..' (--chat-template takes another form)";

bool fxi_cli_lacks_template(const fxi_cli_options *o, const fx_model_info *m)
{
    return m->generates && !m->has_chat_template && !o->engine.chat_template;
}

const char *fxi_cli_swap_dir(const fxi_cli_options *o)
{
    if (o->engine.swap_dir && o->engine.swap_dir[0]) return o->engine.swap_dir;
    const char *dir = getenv("TMPDIR");
    return dir && dir[0] ? dir : "/tmp";
}

fx_options fxi_cli_engine_options(const fxi_cli_options *o)
{
    fx_options opt = o->engine;
    opt.swap_dir = fxi_cli_swap_dir(o);
    if (!opt.n_record) opt.n_record = -1;
    return opt;
}

static void warn_of_short_context(const fx_engine *eng, int wanted_tok)
{
    const fx_model_info *m = fx_engine_info(eng);
    fx_stats st;
    char budget[FXI_SIZE_TEXT_BYTES], whole[FXI_SIZE_TEXT_BYTES];
    if (m->ctx_tok >= wanted_tok) return;
    fx_engine_stats(eng, &st);
    fprintf(
        stderr,
        "warning: the context is cut to %d tokens, which %s of KV memory hold; all %d need about "
        "%s (--kv-memory)\n",
        m->ctx_tok, fxi_cli_size(st.kv_budget_bytes, budget), wanted_tok,
        fxi_cli_size((uint64_t)wanted_tok * m->kv_bytes_per_tok, whole));
}

// A model answers worse beyond the context that it was trained with; the budget may hold less.
fx_status fxi_cli_open_engine(fx_options opt, fx_engine **out, fx_error *err)
{
    fxi_progress bar = fxi_progress_begin("loading");
    *out = NULL;
    if (!opt.kv_ops && opt.kv_manager && strncmp(opt.kv_manager, "reserve-", 8) == 0)
        return fxi_fail(err, FX_EINVAL, "--kv %.40s: only flexinfer-lab has this manager",
                        opt.kv_manager);
    opt.on_progress = draw_load;
    opt.progress_ud = &bar;
    const fx_status st = fx_engine_open(&opt, out, err);
    fxi_progress_end(&bar);
    if (st != FX_OK) return st;
    const fx_model_info *m = fx_engine_info(*out);
    if (m->warning) fprintf(stderr, "warning: %s\n", m->warning);
    if (opt.ctx_tok > m->train_ctx_tok)
        fprintf(stderr,
                "warning: --ctx %d is beyond the %d tokens that the model was trained with\n",
                opt.ctx_tok, m->train_ctx_tok);
    if (opt.ctx_tok || opt.kv_memory_bytes)
        warn_of_short_context(*out, opt.ctx_tok ? opt.ctx_tok : m->train_ctx_tok);
    return FX_OK;
}

fx_status fxi_cli_open_generator(const fxi_cli_options *o, fx_engine **out, fx_error *err)
{
    FX_TRY(fxi_cli_open_engine(fxi_cli_engine_options(o), out, err));
    if (fx_engine_info(*out)->generates) return FX_OK;
    const bool scores = fx_engine_info(*out)->scores;
    fx_engine_close(*out);
    *out = NULL;
    return fxi_fail(err, FX_EINVAL,
                    scores ? "%s scores pairs of texts and generates none: start 'flexinfer serve' "
                             "with it and ask /v1/rerank"
                           : "%s embeds texts and generates none: start 'flexinfer serve' with it "
                             "and ask /v1/embeddings",
                    o->engine.model_path);
}

// ---- texts -------------------------------------------------------------------------------------

fx_status fxi_cli_read_text(const char *path, fxi_buf *text, fx_error *err)
{
    FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "rbe");
    fx_status st = FX_OK;
    if (!from) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    for (size_t n = 1; st == FX_OK && n;) {
        if (!fxi_buf_reserve(text, 1 << 16)) {
            st = fxi_fail(err, FX_ENOMEM, "out of memory for the text");
            break;
        }
        n = fread(text->p + text->n, 1, 1 << 16, from);
        text->n += n;
        text->p[text->n] = 0;
    }
    if (st == FX_OK && ferror(from))
        st = fxi_fail(err, FX_EIO, "cannot read %s: %s", from == stdin ? "stdin" : path,
                      strerror(errno));
    if (from != stdin) fclose(from);
    return st;
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
