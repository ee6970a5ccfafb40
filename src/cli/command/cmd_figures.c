// cmd_figures.c - `flexinfer bench figures`: CSV files become drawings.
#include "cli/command/command.h"
#include "cli/figures/figures.h"
#include "cli/terminal/terminal.h"

#include <stdio.h>

int fxi_cmd_figures(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)o;
    fx_error err;
    int n_drawn;
    if (fxi_figures_draw(rest->arg[0], rest->arg[1], &n_drawn, &err) != FX_OK)
        return fxi_cli_fail("%s", err.text);
    printf("%d figures in %s\n", n_drawn, rest->arg[1]);
    return 0;
}
