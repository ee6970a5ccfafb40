// serve_check.c - whether the server would start with these options: files are opened and checked,
// weights are not loaded, and the port may be in use. Then the options in effect go to stdout, as a
// file that --config takes.
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <stdio.h>

#include "server/server.h"

static int print_options(const fxi_opt_rest *rest)
{
    fxi_buf text = {0};
    const bool ok = fxi_opt_show(&fxi_cli_table, FXI_CMD_SERVE, rest, &text);
    if (ok) printf("[serve]\n%s", text.p);
    fxi_buf_free(&text);
    return ok ? 0 : fxi_cli_fail("no memory for the options");
}

int fxi_serve_check(const fxi_cli_options *o, const fxi_opt_rest *rest,
                    const fxi_server_options *server)
{
    fx_error err;
    fx_model_info info;
    const fx_options opt = fxi_cli_engine_options(o);
    if (fxi_server_check(server, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    if (fx_options_check(&opt, &info, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    return print_options(rest);
}
