// manual.h - flexinfer(1): the parts of the page that no table holds, as mdoc(7).
#ifndef FXI_CLI_MANUAL_H
#define FXI_CLI_MANUAL_H

extern const char *const fxi_manual_begin;       // .Dd to .Nd
extern const char *const fxi_manual_description; // what the program does
extern const char *const fxi_manual_end;         // after the options

#endif
