// gpu_context.h - a GPU for a test: the driver, the primary context of its first device that has
// virtual memory management, and plain copies between host and device.
//
// The driver is loaded at run time; on a machine without one the test is skipped.
#ifndef VT_TEST_GPU_CONTEXT_H
#define VT_TEST_GPU_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPU_SKIPPED = 77 }; // exit status of a test that needs what is not there

typedef struct gpu_context gpu_context;

// Makes the device's primary context current in the calling thread. NULL: *why says why there is no
// GPU to test on (static).
gpu_context *gpu_open(const char **why);
void gpu_close(gpu_context *g);

int gpu_device(const gpu_context *g);         // ordinal
const char *gpu_name(const gpu_context *g);   // for people
int gpu_driver_version(const gpu_context *g); // 1000 x major + 10 x minor

// Both wait for the default stream; false: the driver failed.
bool gpu_read(gpu_context *g, void *dst, uintptr_t src, size_t size_bytes);
bool gpu_write(gpu_context *g, uintptr_t dst, const void *src, size_t size_bytes);

// In the order of the stream; NULL: the default stream.
bool gpu_fill(gpu_context *g, void *stream, uintptr_t dst, unsigned char value, size_t size_bytes);
bool gpu_synchronize(gpu_context *g);
bool gpu_is_done(gpu_context *g); // nothing runs in the default stream
bool gpu_free_bytes(gpu_context *g, size_t *size_bytes);

// Streams that are not ordered with the default one, and events. NULL: the driver failed.
void *gpu_new_stream(gpu_context *g);
void gpu_drop_stream(gpu_context *g, void *stream);
void *gpu_new_event(gpu_context *g, void *stream); // recorded
void gpu_drop_event(gpu_context *g, void *event);

// Work that is given to the stream after `hold` runs after the next release. False: this driver
// cannot hold a stream. Nothing may wait for a stream that is held.
bool gpu_hold(gpu_context *g, void *stream);
void gpu_release(gpu_context *g); // all streams; from any thread

// Captures the stream in global mode. Ending is in the same thread; false: the capture was broken.
bool gpu_begin_capture(gpu_context *g, void *stream);
bool gpu_end_capture(gpu_context *g, void *stream);

#endif
