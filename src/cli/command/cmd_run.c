// cmd_run.c - one completion, or a chat.
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <stdio.h>
#include <string.h>

static fx_status complete_prompt(fx_engine *eng, const fxi_cli_options *o, fxi_completion *a,
                                 fx_error *err)
{
    fx_tokens prompt = {0};
    fx_status st = fx_tokenize(eng, o->prompt, strlen(o->prompt), FX_TOKENIZE_PROMPT, &prompt, err);
    if (st == FX_OK) {
        fx_request req = fxi_completion_request(o);
        req.prompt = prompt.id;
        req.n_prompt = prompt.n;
        st = fxi_completion_run(eng, &req, a, err);
    }
    fx_tokens_free(&prompt);
    return st;
}

static int run_once(fx_engine *eng, const fxi_cli_options *o)
{
    fx_error err;
    fxi_completion a = {.finish = FX_FINISH_NONE};
    fx_status st = complete_prompt(eng, o, &a, &err);
    fxi_buf_free(&a.text);
    if (st != FX_OK) return fxi_cli_fail("%s", err.text);
    fprintf(stdout, "\n");
    fflush(stdout);
    fxi_completion_print(eng, &a);
    return fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop() : 0;
}

int fxi_cmd_run(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)rest;
    fx_error err;
    fx_engine *eng;
    if (fxi_cli_open_generator(o, &eng, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    int rc = !fxi_signals_catch() ? fxi_cli_fail("out of file descriptors")
             : o->prompt          ? run_once(eng, o)
                                  : fxi_conversation_run(eng, o);
    fx_engine_close(eng);
    return rc;
}
