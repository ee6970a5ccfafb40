// fail.h - makes an error and passes it on.
#ifndef FXI_BASE_FAIL_H
#define FXI_BASE_FAIL_H

#include "flexinfer/error.h" // defines: fx_status, fx_error

// Fills *err (if not NULL) with the status and one printf-style line; the value is the status.
#define fxi_fail(err, st, ...) (fxi_error_set((err), (st), __VA_ARGS__), (st))

__attribute__((format(printf, 3, 4))) void fxi_error_set(fx_error *err, fx_status st,
                                                         const char *fmt, ...);

// The error of an allocation that failed. Returns FX_ENOMEM.
fx_status fxi_fail_memory(fx_error *err);

// Puts "prefix: " before the text of an error on its way up; returns its status (FX_EINTERNAL if
// err is NULL).
__attribute__((format(printf, 2, 3))) fx_status fxi_fail_in(fx_error *err, const char *fmt, ...);

// What errno says of a call that failed: FX_ENOMEM or FX_EIO.
fx_status fxi_errno_status(int error);

// Returns the status from the calling function unless it is FX_OK.
#define FX_TRY(expr)                                \
    do {                                            \
        fx_status fx_try_st_ = (expr);              \
        if (fx_try_st_ != FX_OK) return fx_try_st_; \
    } while (0)

#endif
