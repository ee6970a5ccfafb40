#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static fx_status complete(fx_engine *eng, const fxi_cli_options *o, fxi_answer *a, fx_error *err)
{
    fx_tokens prompt = {0};
    fx_status st = fx_tokenize(eng, o->prompt, strlen(o->prompt), FX_TOKENIZE_PROMPT, &prompt, err);
    if (st == FX_OK) {
        fx_request req = fxi_cli_request(o);
        req.prompt = prompt.id;
        req.n_prompt = prompt.n;
        st = fxi_cli_answer(eng, &req, a, err);
    }
    fx_tokens_free(&prompt);
    return st;
}

static int run_once(fx_engine *eng, const fxi_cli_options *o)
{
    fx_error err;
    fxi_answer a = {.finish = FX_FINISH_NONE};
    fx_status st = complete(eng, o, &a, &err);
    fxi_buf_free(&a.text);
    if (st != FX_OK) return fxi_cli_fail("%s", err.text);
    fprintf(stdout, "\n");
    fflush(stdout);
    fxi_cli_figures(eng, &a);
    return fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop() : 0;
}

int fxi_cmd_run(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)rest;
    fx_error err;
    fx_engine *eng;
    if (fxi_cli_open(o, &eng, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    int rc = !fxi_signals_catch() ? fxi_cli_fail("out of file descriptors")
             : o->prompt          ? run_once(eng, o)
                                  : fxi_cli_chat(eng, o);
    fx_engine_close(eng);
    return rc;
}
