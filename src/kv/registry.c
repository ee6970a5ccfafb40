#include "kv/kv.h"
#include "kv/managers.h"

#include <string.h>

static const fxi_kv_ops *const managers[] = {&fxi_kv_vtensor};

const fxi_kv_ops *fxi_kv_find(const char *name)
{
    for (size_t i = 0; i < sizeof managers / sizeof *managers; i++)
        if (strcmp(managers[i]->name, name) == 0) return managers[i];
    return NULL;
}
