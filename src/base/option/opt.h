// opt.h - one table of options for flags, environment, a file, and --help.
//
// A row has an option's name, type, bounds, default, and the field of the caller's struct that
// takes the value. Several commands share a table: a row has the set of commands it belongs to. A
// value comes from, the highest precedence first:
//
//     --kv-memory 2G, --kv-memory=2G, -x 2G, -x2G     the last one given wins
//     FLEXINFER_KV_MEMORY=2G                          an empty variable counts as unset
//     kv-memory = 2G                                  in the file that an option names
//     the row's default
//
// The error for a wrong value is one line that names its source. "--" ends the options.
#ifndef FXI_BASE_OPT_H
#define FXI_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"
#include "base/text/buf.h"
#include "base/text/str.h"

typedef enum fxi_opt_type {
    FXI_OPT_FLAG,   // bool; takes no argument, but --name=no is accepted
    FXI_OPT_INT,    // int
    FXI_OPT_U64,    // uint64_t
    FXI_OPT_SIZE,   // uint64_t bytes; 1.5G, 512M, 64KiB: powers of 1024
    FXI_OPT_FLOAT,  // float; decimal, finite
    FXI_OPT_DOUBLE, // double, the same
    FXI_OPT_STR,    // const char *, pointing into argv, the environment or the file
    FXI_OPT_CHOICE, // the same; one of the words in `arg`, "text|json", in any case
    FXI_OPT_CONFIG, // the same; names the file of options
    FXI_OPT_INTS,   // fxi_opt_ints; integers separated by commas
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
    const char *help;   // one line; NULL hides the row from help. Where the preset stands for
                        // something else, it ends with that: "... (default: half of the memory)"
} fxi_opt;

typedef struct fxi_opt_section {
    const char *name; // "serve"
    unsigned command; // its bit
} fxi_opt_section;

// A value of the option `name` that was called `old` in the version before.
typedef struct fxi_opt_renamed {
    const char *name, *old, *now;
} fxi_opt_renamed;

// What users of other programs type: words as on the command line, "--n-predict -np", with a blank
// between them. One that begins with "--" also has its variable, and is a key of files.
typedef struct fxi_opt_alias {
    const char *words;
    const char *name; // the option that means the same; NULL: there is none,
    const char *hint; // and this says what to do instead
} fxi_opt_alias;

typedef struct fxi_opt_table {
    const fxi_opt *opt;
    size_t n_opt;                   // FXI_OPT_MAX_ROW at most
    const char *env_prefix;         // "FLEXINFER_"
    const fxi_opt_section *section; // [n_section] sections of a file: the commands
    size_t n_section;
    const fxi_opt_renamed *renamed; // [n_renamed] still accepted, 32 at most
    size_t n_renamed;
    const fxi_opt_alias *alias; // [n_alias]
    size_t n_alias;
} fxi_opt_table;

// ---- opt_text.c: a file of options --------------------------------------------------------------
//
//     # a comment
//     kv-memory = 2G            for every command that has this option
//     model = "a path # 1"      in quotes: \\" \\\\ \\n \\t
//     [serve]
//     port = 8080               for this command alone; wins over the above

enum { FXI_OPT_MAX_FILE_BYTES = 1 << 20 };

typedef struct fxi_opt_entry {
    const char *section; // "": before any
    const char *key, *value;
    int line; // from 1
} fxi_opt_entry;

typedef struct fxi_opt_file { // all zero: empty
    char *name;               // owned
    fxi_buf text;             // the entries point into it
    fxi_opt_entry *entry;     // [n_entry] in the order of the file
    size_t n_entry, cap_entry;
} fxi_opt_file;

// Errors: FX_EIO, FX_EINVAL ("FILE:LINE: what is wrong"), FX_ENOMEM; then *out is empty. Which keys
// exist is not looked at.
fx_status fxi_opt_file_read(const char *path, fxi_opt_file *out, fx_error *err);
void fxi_opt_file_free(fxi_opt_file *f);

// ---- opt.c: all sources -------------------------------------------------------------------------

typedef enum fxi_opt_from {
    FXI_OPT_FROM_PRESET,
    FXI_OPT_FROM_FILE,
    FXI_OPT_FROM_ENVIRONMENT,
    FXI_OPT_FROM_FLAG
} fxi_opt_from;

typedef struct fxi_opt_set { // where the value of a row comes from
    const char *text;        // NULL: it has none
    fxi_opt_from from;
    int line;         // of the file
    fxi_str variable; // of the environment: the option's name or the alias that names it
} fxi_opt_set;

enum { FXI_OPT_MAX_ROW = 160 };

#define FXI_OPT_MAX_REST 8

typedef struct fxi_opt_rest {
    const char *arg[FXI_OPT_MAX_REST]; // positional arguments, in order
    int n;
    bool help; // --help or -h: what follows was not parsed
    fxi_opt_file file;
    fxi_opt_set set[FXI_OPT_MAX_ROW]; // by row of the table
    unsigned used_renamed;            // a bit for each row of `renamed` that was used
} fxi_opt_rest;

// Fills the fields at `out` that belong to options of `command` (one bit), and *rest. Call
// fxi_opt_rest_free whatever the outcome, once the values are no longer used.
// Errors: FX_EINVAL (unknown option, missing or wrong value, too many arguments; in the file a line
// that is no entry, a section or key that no command has), FX_EIO (the file), FX_ENOMEM.
fx_status fxi_opt_parse(const fxi_opt_table *t, unsigned command, int argc, char *const *argv,
                        void *out, fxi_opt_rest *rest, fx_error *err);

void fxi_opt_rest_free(fxi_opt_rest *rest);

// How many letters make the difference (Levenshtein's distance) of a[0..n) and b[0..m), for names
// that were mistyped.
int fxi_opt_distance(const char *a, size_t n, const char *b, size_t m);

// The option of `command` that a word of its command line names, in any spelling: "--name",
// "--name=VALUE", "-x", "-np". NULL: none.
const fxi_opt *fxi_opt_find(const fxi_opt_table *t, unsigned command, const char *word);
// Gives *o the value `text`, as from the command line, and notes it in *rest: for an argument that
// stands for an option. Errors: FX_EINVAL.
fx_status fxi_opt_give(const fxi_opt_table *t, const fxi_opt *o, const char *text, void *out,
                       fxi_opt_rest *rest, fx_error *err);

// Whether row i of `renamed` was used; then text[0 .. size) says what it is called now.
bool fxi_opt_note(const fxi_opt_table *t, const fxi_opt_rest *rest, size_t i, char *text,
                  size_t size);

// ---- opt_text.c: options as text ----------------------------------------------------------------

// The default of a row as a text of *n bytes: what its help ends with, else its preset; NULL: it
// has none. help_n, unless NULL, gets the length of the help without it.
const char *fxi_opt_default(const fxi_opt *o, size_t *n, size_t *help_n);

// Appends one line per option of `command`: names, meaning, default. False: out of memory.
bool fxi_opt_help(const fxi_opt_table *t, unsigned command, fxi_buf *out);

// Appends the values in effect, as a file of options; a comment says where each comes from, or what
// a default means. False: out of memory.
bool fxi_opt_show(const fxi_opt_table *t, unsigned command, const fxi_opt_rest *rest, fxi_buf *out);

#define FXI_OPT_ENV_BYTES 64
// The environment variable of an option by its name: "FLEXINFER_KV_MEMORY".
void fxi_opt_env_name(const fxi_opt_table *t, const char *option, char name[FXI_OPT_ENV_BYTES]);

#endif
