// dl_import.h - functions of a library that was loaded by dlopen, by name into a table of pointers.
//
// NVIDIA's libraries are found this way when they are asked for, so that one program runs with and
// without them.
#ifndef FXI_GPU_DL_IMPORT_H
#define FXI_GPU_DL_IMPORT_H

#include <stddef.h>

typedef struct fxi_dl_function {
    const char *symbol;
    size_t at; // of its pointer in the table
} fxi_dl_function;

// Fills in the pointers of a table. Returns NULL, or the first symbol that the library lacks.
const char *fxi_dl_import(void *library, const fxi_dl_function *list, size_t n, void *table);

#endif
