// dl_load.h - NVIDIA's libraries, loaded when they are asked for, so that one program runs with and
// without them.
//
// What is called of a library is a list of functions, X(member, type of the result, symbol,
// parameters). From it come a table, a struct that begins with the library's handle and goes on
// with a pointer to each function in the order of the list, and a source, which fills it in.
#ifndef FXI_GPU_DL_LOAD_H
#define FXI_GPU_DL_LOAD_H

#include <stddef.h>

#include "base/fail.h"

// A list's X: the members of a table, and the symbols of a source.
#define FXI_DL_MEMBER(member, result, symbol, parameters) result(*member) parameters;
#define FXI_DL_SYMBOL(member, result, symbol, parameters) #symbol,

enum { FXI_DL_MAX_FILE = 2 };

typedef struct fxi_dl_source {
    const char *label;                 // for people: "NVIDIA's NCCL"
    const char *file[FXI_DL_MAX_FILE]; // versions that will do, the best first; NULL: no more
    const char *const *symbol;         // [n_symbol]
    size_t n_symbol;
} fxi_dl_source;

// Loads a library and fills in a table of its list. Errors: FX_EINVAL: there is none, or it lacks a
// function; the table is then all NULL.
fx_status fxi_dl_load(const fxi_dl_source *from, void *table, fx_error *err);
void fxi_dl_unload(void *table); // also one that is not loaded

#endif
