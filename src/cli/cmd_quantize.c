// cmd_quantize.c - models to new GGUF files: `convert` a Hugging Face folder, `quantize` any model.
#include "cli/cli.h"
#include "cli/terminal/terminal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "format/gguf.h"
#include "format/quantize.h"

typedef struct rewrite_order {
    const char *from, *to;
    const char *type;    // NULL: as stored
    const char *imatrix; // NULL: none
    const char *verb;    // for the bar
    bool allow_requantize;
} rewrite_order;

static bool draw_rewrite(void *ud, uint64_t done, uint64_t total)
{
    fxi_progress_draw(ud, done, total);
    return fxi_signals_stop() == 0;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static fx_status rewrite_file(const rewrite_order *o, int n_thread, fxi_rewritten *done,
                              fx_error *err)
{
    fxi_rewrite how = {.mixture = NULL,
                       .imatrix_name = o->imatrix,
                       .allow_requantize = o->allow_requantize,
                       .on_progress = draw_rewrite};
    fxi_imatrix *matrix = NULL;
    fxi_gguf *g = NULL;
    fx_status st = FX_OK;
    if (is_same_file(o->from, o->to))
        return fxi_fail(err, FX_EINVAL, "%s: is the model itself", o->to);
    if (o->imatrix && is_same_file(o->imatrix, o->to))
        return fxi_fail(err, FX_EINVAL, "%s: is the importance matrix itself", o->to);
    if (o->type) how.mixture = fxi_mixture_find(o->type);
    if (o->type && !how.mixture)
        return fxi_fail(err, FX_EINVAL, "unknown type '%.32s'; types: %s", o->type,
                        fxi_mixture_names());
    FX_TRY(fxi_pool_create(n_thread ? n_thread : fxi_usable_cores(), &how.pool, err));
    if (o->imatrix) st = fxi_imatrix_open(o->imatrix, &matrix, err);
    fxi_progress bar = fxi_progress_begin(o->verb);
    how.imatrix = matrix;
    how.progress_ud = &bar;
    if (st == FX_OK) st = fxi_model_file_open(o->from, &g, err);
    if (st == FX_OK) st = fxi_rewrite_model(g, o->to, &how, done, err);
    fxi_progress_end(&bar);
    fxi_gguf_close(g);
    fxi_imatrix_free(matrix);
    fxi_pool_destroy(how.pool);
    return st;
}

static int run_order(rewrite_order o, int n_thread)
{
    fx_error err;
    fxi_rewritten done;
    char from[FXI_SIZE_TEXT_BYTES], to[FXI_SIZE_TEXT_BYTES];
    if (!fxi_signals_catch()) return fxi_cli_fail("out of file descriptors");
    fxi_signals_stop_on_hup(); // of a file that is half written nothing is left
    signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit fails instead
    fx_status st = rewrite_file(&o, n_thread, &done, &err);
    if (fxi_signals_stop()) return FXI_EXIT_SIGNAL + fxi_signals_stop();
    if (st != FX_OK) return fxi_cli_fail("%s", err.text);
    printf("%s: %s of tensors from %s\n", o.to, fxi_cli_size(done.out_bytes, to),
           fxi_cli_size(done.in_bytes, from));
    if (done.rounded_from[0])
        fprintf(
            stderr,
            "note: the weights were rounded to %s before, and what that lost stays lost; a file "
            "made from the original%s%s is closer to it\n",
            done.rounded_from, done.origin[0] ? " of " : "", done.origin);
    return 0;
}

int fxi_cmd_convert(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    if (!o->output) {
        fxi_cli_fail("missing --output FILE (see 'flexinfer help convert')");
        return FXI_EXIT_USAGE;
    }
    return run_order(
        (rewrite_order){rest->arg[0], o->output, o->type, NULL, "converting", o->allow_requantize},
        o->engine.n_thread);
}

int fxi_cmd_quantize(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    return run_order((rewrite_order){rest->arg[0], rest->arg[1], rest->arg[2], o->imatrix,
                                     "quantizing", o->allow_requantize},
                     o->engine.n_thread);
}
