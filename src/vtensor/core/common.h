// common.h - what every part of libvtensor may use: macros, call counters, sizes with a check for
// overflow, and the comparison of a manager's books with the system's.
#ifndef VTI_COMMON_H
#define VTI_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vtensor/vmm.h"

// An extend is called so seldom that its code has left the caches by then, so its cost is the lines
// and pages of code that it touches. VTI_HOT functions, which every extend calls, are placed
// together; VTI_RARE branches and VTI_COLD functions are placed elsewhere.
#define VTI_HOT        __attribute__((hot))
#define VTI_COLD       __attribute__((cold, noinline))
#define VTI_RARE(cond) __builtin_expect(!!(cond), 0)

// Forwards a failure.
#define VT_TRY(expr)                                          \
    do {                                                      \
        vt_status vt_try_st_ = (expr);                        \
        if (VTI_RARE(vt_try_st_ != VT_OK)) return vt_try_st_; \
    } while (0)

// For functions that return the first broken invariant as text, or NULL: returns `what` unless cond
// holds; and what another such function returns, unless that is NULL.
#define HOLDS(cond, what)         \
    do {                          \
        if (!(cond)) return what; \
    } while (0)
#define HOLDS_ALL(call)               \
    do {                              \
        const char *broken_ = (call); \
        if (broken_) return broken_;  \
    } while (0)

// ---- Calls of the backend, and their failures

typedef struct vti_calls {
    uint64_t create_calls, destroy_calls, map_calls, unmap_calls, protect_calls, device_errors;
} vti_calls;

// Counts VT_EDEVICE; returns st.
static inline vt_status vti_calls_count(vti_calls *calls, vt_status st)
{
    calls->device_errors += st == VT_EDEVICE;
    return st;
}

void vti_calls_add(vti_calls *to, const vti_calls *from);

// What a manager believes it holds and maps.
typedef struct vti_claim {
    uint64_t resident_bytes, mapped_bytes;
    uint64_t n_run; // most mappings there may be, where the system merges them
    bool is_torn;   // a range is half mapped: mapped_bytes and n_run mean nothing
} vti_claim;

// Compares it with what the system reports. *broken is set to the first difference as text
// (static), and otherwise left unchanged. Errors: VT_EDEVICE (the backend cannot tell).
vt_status vti_claim_check(vt_vmm *vmm, const vti_claim *claim, const char **broken);

// ---- Sizes

// `a` rounded up to a multiple of `unit`. False: it overflows.
bool vti_size_round_up(size_t a, size_t unit, size_t *out);

// Copies a public struct of `has` bytes that begins with its size, as far as the caller's `room`
// bytes go, and leaves that size as the caller set it.
void vti_struct_out(void *dst, const void *src, size_t has, size_t room);

// The bytes of a slice: asked_bytes, or if that is 0 the smallest multiple of the granularity that
// holds 32 tokens. False: asked_bytes is not a multiple of the granularity, or the result
// overflows.
bool vti_slice_choose(size_t asked_bytes, size_t tok_bytes, size_t granularity,
                      size_t *slice_bytes);

#endif
