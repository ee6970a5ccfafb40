// state.h - what the files of the stand-in share; see standin.h.
//
// One mutex guards everything. Each function of the driver locks it with `begin` and unlocks it
// with `end`; waiting for a simulated kernel unlocks it meanwhile, running one does not.
#ifndef VT_TEST_STANDIN_STATE_H
#define VT_TEST_STANDIN_STATE_H

#include <pthread.h>

#include "standin.h"
#include "vtensor/backend/cuda/cuda_driver.h"

enum {
    CU_INVALID_VALUE = 1,
    CU_NOT_INITIALIZED = 3,
    CU_INVALID_DEVICE = 101,
    CU_INVALID_IMAGE = 200,
    CU_INVALID_CONTEXT = 201,
    CU_NO_BINARY = 209,
    CU_INVALID_HANDLE = 400,
    CU_NOT_FOUND = 500,
    CU_ILLEGAL_ADDRESS = 700,
    CU_LAUNCH_FAILED = 719,
    CU_NOT_SUPPORTED = 801,
    CU_CAPTURE_UNSUPPORTED = 900,
    CU_CAPTURE_INVALIDATED = 901,
    CU_CAPTURE_IMPLICIT = 906,
    CU_CAPTURED_EVENT = 907,
};

// Functions of the driver that neither libvtensor nor the engine needs and the programs around them
// do.
#define STANDIN_MORE_FUNCTIONS(X)                                                   \
    X(ctx_set_current, cuCtxSetCurrent, (vti_cu_context context))                   \
    X(ctx_synchronize, cuCtxSynchronize, (void))                                    \
    X(stream_begin_capture, cuStreamBeginCapture_v2,                                \
      (vti_cu_stream stream, vti_cu_capture_mode mode))                             \
    X(stream_end_capture, cuStreamEndCapture, (vti_cu_stream stream, void **graph)) \
    X(stream_wait_value, cuStreamWaitValue32_v2,                                    \
      (vti_cu_stream stream, vti_cu_ptr addr, uint32_t value, unsigned flags))      \
    X(memcpy_dtoh, cuMemcpyDtoH_v2, (void *dst, vti_cu_ptr src, size_t size_bytes)) \
    X(memcpy_htod, cuMemcpyHtoD_v2, (vti_cu_ptr dst, const void *src, size_t size_bytes))

#define STANDIN_FUNCTIONS(X) \
    VTI_CU_FUNCTIONS(X)      \
    VTI_CU_KERNEL_FUNCTIONS(X) STANDIN_MORE_FUNCTIONS(X)

#define STANDIN_NUMBER(member, symbol, parameters) F_##member,
typedef enum standin_call { STANDIN_FUNCTIONS(STANDIN_NUMBER) N_FUNCTION } standin_call;
#undef STANDIN_NUMBER

#define STANDIN_DECLARE(member, symbol, parameters) vti_cu_result symbol parameters;
STANDIN_FUNCTIONS(STANDIN_DECLARE)
#undef STANDIN_DECLARE

struct CUctx_st {
    int device;
};

extern pthread_mutex_t standin_mu;

// core.c
// A fault of a kernel: from now on calls answer `result`, but for those that ask nothing of the
// device. Those that free or destroy do so nevertheless.
void standin_break(int result);
int standin_current_device(void); // of the calling thread's context; -1: it has none
bool standin_is_broken(void);
bool standin_is_device(int device);
vti_cu_result standin_begin(standin_call f); // not success: the mutex is not held
vti_cu_result standin_end(vti_cu_result r);
vti_cu_result standin_breach(const char *what); // CU_INVALID_VALUE

#define STANDIN_BEGIN(f)                             \
    do {                                             \
        vti_cu_result begun_ = standin_begin(f);     \
        if (begun_ != VTI_CU_SUCCESS) return begun_; \
    } while (0)

// memory.c; the mutex is held
void standin_memory_reset(void);
void standin_memory_look(standin_report *r);
bool standin_is_open(vti_cu_ptr addr, size_t size_bytes); // mapped with access set, or allocated
bool standin_is_pinned(const void *bytes, size_t size_bytes);
void standin_each_memory(void (*act)(vti_cu_ptr at, size_t size_bytes)); // mapped or allocated
int standin_alloc_device(vti_cu_ptr addr); // whose memory it is; -1: not of cuMemAlloc
// The host may touch the memory of a device (-1: of all) between the two; they nest.
void standin_device_open(int device);
void standin_device_close(void);
// Between these two calls, what was opened last stays open until something else is: work after work
// of one device opens its memory once.
void standin_device_keep(void);
void standin_device_rest(void);

// kernel.c; the mutex is held
typedef struct standin_work standin_work; // a launch with its arguments
void standin_kernel_reset(void);
void standin_kernel_look(standin_report *r);
void standin_kernel_memory(vti_cu_ptr at, size_t size_bytes, int state); // EMU_MEMORY_*
void standin_work_free(standin_work *w);
void standin_work_run(const standin_work *w, int device);

// stream.c
// A launch for a stream, which then owns it.
vti_cu_result standin_give_work(vti_cu_stream stream, standin_work *w);
void standin_finish_all(void); // all work that no simulated kernel holds up
void standin_stream_reset(void);
void standin_stream_look(standin_report *r);
// Work of another library: a function of the host that runs in the order of the stream, with the
// device's memory open. `arg` is from malloc and freed when it is done; also where this fails.
typedef struct standin_range {
    vti_cu_ptr at;
    size_t size_bytes; // 0: none
    bool writes;
} standin_range;
typedef struct standin_task {
    void (*run)(void *arg);
    void *arg;
    standin_range range[2 * STANDIN_N_DEVICE]; // of devices, that it touches
} standin_task;
vti_cu_result standin_give_task(vti_cu_stream stream, const standin_task *t);
// What is given to a stream from now on waits for what another has been given.
vti_cu_result standin_give_order(vti_cu_stream stream, vti_cu_stream after);
int standin_stream_device(vti_cu_stream stream); // -1: the default one, or none
// Some work that is not done yet reads or writes there.
bool standin_works_at(vti_cu_ptr addr, size_t size_bytes);
bool standin_captures(void); // some stream is being captured
void standin_break_captures(void);

#endif
