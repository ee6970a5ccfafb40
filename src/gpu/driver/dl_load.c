// dl_load.c - see dl_load.h.
#include "gpu/driver/dl_load.h"

#include <dlfcn.h>
#include <string.h>

// Tables are written as bytes: C has no cast from the void * of dlsym to a pointer to a function.
static void put_pointer(void *table, size_t i, void *pointer)
{
    memcpy((char *)table + i * sizeof pointer, &pointer, sizeof pointer);
}

static fx_status find_symbols(const fxi_dl_source *from, const char *file, void *library,
                              void *table, fx_error *err)
{
    for (size_t i = 0; i < from->n_symbol; i++) {
        void *symbol = dlsym(library, from->symbol[i]);
        if (!symbol)
            return fxi_fail(err, FX_EINVAL, "%s is too old: %s has no function %s", from->label,
                            file, from->symbol[i]);
        put_pointer(table, 1 + i, symbol);
    }
    return FX_OK;
}

fx_status fxi_dl_load(const fxi_dl_source *from, void *table, fx_error *err)
{
    void *library = NULL;
    int i = -1;
    for (size_t k = 0; k <= from->n_symbol; k++) put_pointer(table, k, NULL);
    while (!library && ++i < FXI_DL_MAX_FILE && from->file[i])
        library = dlopen(from->file[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fxi_fail(err, FX_EINVAL, "%s%s%s, %s, cannot be loaded", from->file[0],
                        from->file[1] ? " or " : "", from->file[1] ? from->file[1] : "",
                        from->label);
    put_pointer(table, 0, library);
    const fx_status st = find_symbols(from, from->file[i], library, table, err);
    if (st != FX_OK) fxi_dl_unload(table);
    return st;
}

void fxi_dl_unload(void *table)
{
    void *library;
    memcpy(&library, table, sizeof library);
    if (library) dlclose(library);
    put_pointer(table, 0, NULL);
}
