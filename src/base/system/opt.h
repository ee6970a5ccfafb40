// opt.h - one table of options for flags, environment and --help.
//
// A row has an option's name, type, bounds, default, and the field of the caller's struct that
// takes the value. Several commands share a table: a row has the set of commands it belongs to. A
// value comes from, the highest precedence first:
//
//     --kv-memory 2G, --kv-memory=2G, -x 2G, -x2G     the last one given wins
//     FLEXINFER_KV_MEMORY=2G                          an empty variable counts as unset
//     the row's default
//
// The error for a wrong value is one line that names its source. "--" ends the options.
#ifndef FXI_BASE_OPT_H
#define FXI_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"
#include "base/text/buf.h"

typedef enum fxi_opt_type {
    FXI_OPT_FLAG,  // bool; takes no argument, but --name=no is accepted
    FXI_OPT_INT,   // int
    FXI_OPT_U64,   // uint64_t
    FXI_OPT_SIZE,  // uint64_t bytes; 1.5G, 512M, 64KiB: powers of 1024
    FXI_OPT_FLOAT, // float; decimal, finite
    FXI_OPT_STR,   // const char *, pointing into argv or the environment
    FXI_OPT_INTS,  // fxi_opt_ints; integers separated by commas
    FXI_OPT_N_TYPE
} fxi_opt_type;

#define FXI_OPT_MAX_INTS 16

typedef struct fxi_opt_ints {
    int v[FXI_OPT_MAX_INTS];
    int n;
} fxi_opt_ints;

typedef struct fxi_opt {
    const char *name; // long name without dashes: "kv-memory"
    char letter;      // short name, 0: none
    const char *arg;  // name of its argument in help; NULL for flags
    fxi_opt_type type;
    double min, max;    // bounds of a number, or of each in a list; inclusive
    const char *preset; // default, as a user would type it; NULL leaves the field unchanged
    size_t offset;      // of the field in the caller's struct
    unsigned commands;  // the commands that have it, a bit each
    const char *help;   // one line; NULL hides the row from help
} fxi_opt;

typedef struct fxi_opt_table {
    const fxi_opt *opt;
    size_t n_opt;
    const char *env_prefix; // "FLEXINFER_"
} fxi_opt_table;

#define FXI_OPT_MAX_REST 8

typedef struct fxi_opt_rest {
    const char *arg[FXI_OPT_MAX_REST]; // positional arguments, in order
    int n;
    bool help; // --help or -h: what follows was not parsed
} fxi_opt_rest;

// Fills the fields at `out` that belong to options of `command` (one bit), and *rest.
// Errors: FX_EINVAL (unknown option, missing or wrong value, too many arguments).
fx_status fxi_opt_parse(const fxi_opt_table *t, unsigned command, int argc, char *const *argv,
                        void *out, fxi_opt_rest *rest, fx_error *err);

// Appends one line per option of `command`: names, meaning, default. False: out of memory.
bool fxi_opt_help(const fxi_opt_table *t, unsigned command, fxi_buf *out);

#define FXI_OPT_ENV_BYTES 64
// The environment variable of an option: "FLEXINFER_KV_MEMORY".
void fxi_opt_env_name(const fxi_opt_table *t, const fxi_opt *o, char name[FXI_OPT_ENV_BYTES]);

#endif
