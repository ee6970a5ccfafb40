// try.h - the macros that every file of libvtensor may use.
#ifndef VTI_TRY_H
#define VTI_TRY_H

#include "vtensor/status.h"

// An extend is called seldom enough that its code has left the caches by then, so what it costs is
// the lines and pages of code that it touches. VTI_HOT functions, which every extend calls, are
// laid side by side; what is VTI_RARE in them, and VTI_COLD functions, are laid elsewhere.
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
// holds.
#define HOLDS(cond, what)         \
    do {                          \
        if (!(cond)) return what; \
    } while (0)

#endif
