// state.h - what the files of the stand-in share; see standin.h.
//
// One mutex guards everything. Each function of the driver locks it with `begin` and unlocks it
// with `end`; waiting for a kernel unlocks it meanwhile.
#ifndef VT_TEST_STANDIN_STATE_H
#define VT_TEST_STANDIN_STATE_H

#include <pthread.h>

#include "standin.h"
#include "vtensor/backend/cuda/cuda_driver.h"

enum {
    CU_INVALID_VALUE = 1,
    CU_NOT_INITIALIZED = 3,
    CU_INVALID_DEVICE = 101,
    CU_INVALID_CONTEXT = 201,
    CU_INVALID_HANDLE = 400,
    CU_NOT_SUPPORTED = 801,
    CU_CAPTURE_UNSUPPORTED = 900,
    CU_CAPTURE_INVALIDATED = 901,
    CU_CAPTURE_IMPLICIT = 906,
    CU_CAPTURED_EVENT = 907,
};

// Functions of the driver that libvtensor does not need and the programs around it do.
#define STANDIN_MORE_FUNCTIONS(X)                                                         \
    X(init, cuInit, (unsigned flags))                                                     \
    X(driver_get_version, cuDriverGetVersion, (int *version))                             \
    X(device_get_count, cuDeviceGetCount, (int *n))                                       \
    X(device_get_name, cuDeviceGetName, (char *name, int size, vti_cu_device device))     \
    X(ctx_retain, cuDevicePrimaryCtxRetain, (vti_cu_context * ctx, vti_cu_device device)) \
    X(ctx_release, cuDevicePrimaryCtxRelease_v2, (vti_cu_device device))                  \
    X(ctx_set_current, cuCtxSetCurrent, (vti_cu_context context))                         \
    X(ctx_synchronize, cuCtxSynchronize, (void))                                          \
    X(stream_query, cuStreamQuery, (vti_cu_stream stream))                                \
    X(stream_begin_capture, cuStreamBeginCapture_v2,                                      \
      (vti_cu_stream stream, vti_cu_capture_mode mode))                                   \
    X(stream_end_capture, cuStreamEndCapture, (vti_cu_stream stream, void **graph))       \
    X(graph_destroy, cuGraphDestroy, (void *graph))                                       \
    X(stream_wait_value, cuStreamWaitValue32_v2,                                          \
      (vti_cu_stream stream, vti_cu_ptr addr, uint32_t value, unsigned flags))            \
    X(mem_get_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))         \
    X(memcpy_dtoh, cuMemcpyDtoH_v2, (void *dst, vti_cu_ptr src, size_t size_bytes))       \
    X(memcpy_htod, cuMemcpyHtoD_v2, (vti_cu_ptr dst, const void *src, size_t size_bytes))

#define STANDIN_FUNCTIONS(X) VTI_CU_FUNCTIONS(X) STANDIN_MORE_FUNCTIONS(X)

#define STANDIN_NUMBER(member, symbol, parameters) F_##member,
typedef enum function { STANDIN_FUNCTIONS(STANDIN_NUMBER) N_FUNCTION } function;
#undef STANDIN_NUMBER

#define STANDIN_DECLARE(member, symbol, parameters) vti_cu_result symbol parameters;
STANDIN_FUNCTIONS(STANDIN_DECLARE)
#undef STANDIN_DECLARE

struct CUctx_st {
    int device;
};

extern pthread_mutex_t standin_mu;

// core.c
vti_cu_result standin_begin(function f); // not success: the mutex is not held
vti_cu_result standin_end(vti_cu_result r);
vti_cu_result standin_breach(const char *what); // CU_INVALID_VALUE

#define STANDIN_BEGIN(f)                             \
    do {                                             \
        vti_cu_result begun_ = standin_begin(f);     \
        if (begun_ != VTI_CU_SUCCESS) return begun_; \
    } while (0)

// memory.c; the mutex is held, but in *_reset
void standin_memory_reset(void);
void standin_memory_look(standin_report *r);
bool standin_is_open(vti_cu_ptr addr, size_t size_bytes, bool writes); // mapped, and access is set
bool standin_is_pinned(const void *bytes, size_t size_bytes);

// stream.c
void standin_stream_reset(void);
void standin_stream_look(standin_report *r);
// Some work that is not done yet reads or writes there, or just writes.
bool standin_works_at(vti_cu_ptr addr, size_t size_bytes, bool writes_alone);
bool standin_captures(void); // some stream is being captured
void standin_break_captures(void);

#endif
