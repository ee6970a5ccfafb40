// main.c - the program flexinfer.
#include "cli/cli.h"

int main(int argc, char **argv)
{
    fxi_cli_options o = fxi_cli_options_start();
    return fxi_cli_main(&fxi_cli_flexinfer, argc, argv, &o);
}
