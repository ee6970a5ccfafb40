// dl_import.c - see dl_import.h.
#include "gpu/driver/dl_import.h"

#include <dlfcn.h>
#include <string.h>

// A pointer to a function is copied as bytes: C has no cast to it from the void * of dlsym.
const char *fxi_dl_import(void *library, const fxi_dl_function *list, size_t n, void *table)
{
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(library, list[i].symbol);
        if (!symbol) return list[i].symbol;
        memcpy((char *)table + list[i].at, &symbol, sizeof symbol);
    }
    return NULL;
}
