// gpu_missing.c - see gpu_missing.h.
#include "gpu_missing.h"

#include <stdbool.h>
#include <string.h>

const char *gpu_missing_library, *gpu_missing_symbol;

#define VISIBLE __attribute__((visibility("default"))) // to the stand-in, too

void *__real_dlopen(const char *name, int flags);
VISIBLE void *__wrap_dlopen(const char *name, int flags);
void *__real_dlsym(void *library, const char *symbol);
VISIBLE void *__wrap_dlsym(void *library, const char *symbol);

void *__wrap_dlopen(const char *name, int flags)
{
    const bool missing = gpu_missing_library && name && strstr(name, gpu_missing_library);
    return missing ? NULL : __real_dlopen(name, flags);
}

void *__wrap_dlsym(void *library, const char *symbol)
{
    const bool missing = gpu_missing_symbol && strcmp(symbol, gpu_missing_symbol) == 0;
    return missing ? NULL : __real_dlsym(library, symbol);
}
