// kv_registry.c - KV managers by name.
#include "kv/kv.h"
#include "kv/kv_managers.h"

#include <string.h>

static const fxi_kv_ops *const managers[] = {&fxi_kv_vtensor};

fx_status fxi_kv_open(const char *manager, const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof managers / sizeof *managers; i++)
        if (strcmp(managers[i]->name, manager) == 0) return managers[i]->open(shape, out, err);
    return fxi_fail(err, FX_EINVAL, "there is no KV manager '%s'", manager);
}
