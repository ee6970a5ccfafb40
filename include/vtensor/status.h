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
    VT_NOSPACE, // out of budget, addresses or mappings: a normal answer, retry with less or later
    VT_EDEVICE, // the system or the driver failed
    VT_EINVAL,  // an argument is out of range, or does not fit the state
    VT_ENOMEM   // no host memory for the library's own bookkeeping
} vt_status;

#ifdef __cplusplus
}
#endif

#endif
