// status.h - the status that functions of libvtensor return, and the attributes of the API.
#ifndef VTENSOR_STATUS_H
#define VTENSOR_STATUS_H

#if defined(__GNUC__)
#    define VT_NODISCARD __attribute__((warn_unused_result))
#    define VT_API       __attribute__((visibility("default")))
#else
#    define VT_NODISCARD
#    define VT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vt_status {
    VT_OK = 0,
    VT_NOSPACE, // the budget, or the memory or addresses of the system, are used up
    VT_EDEVICE, // the system or the driver failed
    VT_EINVAL,  // an argument is out of range, or does not fit the state
    VT_ENOMEM,  // no host memory for the library's own bookkeeping
    VT_NOMAPS,  // the system's limit of mappings is reached
    VT_NOSPANS, // as many sequences as a manager may have are alive
    VT_NOPINS,  // pinned prefixes would hold too much
    VT_NOSWAP,  // the swap is full
    VT_BUSY,    // the device still works with memory that must change first: try again in a later
                // step
    VT_N_STATUS
} vt_status;

// Whether a status is a normal answer, on which one retries with less or later.
static inline int vt_is_shortage(vt_status st)
{
    return st == VT_NOSPACE || (st >= VT_NOMAPS && st <= VT_BUSY);
}

#ifdef __cplusplus
}
#endif

#endif
