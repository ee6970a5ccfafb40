// counters.h - what is counted of the KV cache's calls, and values by size. KV managers fill these,
// and fx_engine_details reports them.
#ifndef FX_COUNTERS_H
#define FX_COUNTERS_H

#include <stdint.h>

// Values by size: count[i] of them were in (2^(i-1), 2^i], count[0] were 0 or 1, and the last
// element counts all larger ones.
#define FX_N_BUCKET 24
typedef struct fx_histogram {
    uint64_t count[FX_N_BUCKET + 1];
    uint64_t sum; // of the values
} fx_histogram;

typedef struct fx_op_stats {
    uint64_t n_call;    // so far
    uint64_t n_failure; // of them, that did not succeed; running out of memory counts
    uint64_t ns;        // time spent in all of them
} fx_op_stats;

// X(name): what the KV cache asked of the system or driver; calls of its own thread count too.
#define FX_DRIVER_OPS(X) \
    X(reserve)           \
    X(unreserve)         \
    X(create)            \
    X(destroy)           \
    X(map)               \
    X(protect)           \
    X(unmap)             \
    X(zero)              \
    X(fetch)             \
    X(store)             \
    X(swap_write)        \
    X(swap_read)
// X(name): what the engine asked of the KV cache.
#define FX_KV_OPS(X) \
    X(create)        \
    X(match)         \
    X(fork)          \
    X(extend)        \
    X(record)        \
    X(swap_out)      \
    X(swap_in)       \
    X(trim)          \
    X(truncate)

#define FX_NAME_DRIVER_OP(name) FX_DRIVER_##name,
#define FX_NAME_KV_OP(name)     FX_KV_##name,
typedef enum fx_driver_op { FX_DRIVER_OPS(FX_NAME_DRIVER_OP) FX_N_DRIVER_OP } fx_driver_op;
typedef enum fx_kv_op { FX_KV_OPS(FX_NAME_KV_OP) FX_N_KV_OP } fx_kv_op;
#undef FX_NAME_DRIVER_OP
#undef FX_NAME_KV_OP

#endif
