// env_or.h - a number from the environment, or a default.
#ifndef VT_TEST_ENV_OR_H
#define VT_TEST_ENV_OR_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t env_or(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

#endif
