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

bool gpu_fill(gpu_context *g, uintptr_t dst, unsigned char value, size_t size_bytes); // in order
bool gpu_synchronize(gpu_context *g);
bool gpu_is_done(gpu_context *g); // nothing runs in the default stream
bool gpu_free_bytes(gpu_context *g, size_t *size_bytes);

#endif
