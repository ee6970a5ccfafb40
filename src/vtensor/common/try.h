// try.h - the two macros that every file of libvtensor may use.
#ifndef VTI_TRY_H
#define VTI_TRY_H

#include "vtensor/status.h"

// Forwards a failure.
#define VT_TRY(expr)                                \
    do {                                            \
        vt_status vt_try_st_ = (expr);              \
        if (vt_try_st_ != VT_OK) return vt_try_st_; \
    } while (0)

// For functions that return the first broken invariant as text, or NULL: returns `what` unless cond
// holds.
#define HOLDS(cond, what)         \
    do {                          \
        if (!(cond)) return what; \
    } while (0)

#endif
