// standin.h - a stand-in for NVIDIA's driver: libcuda.so.1 without a GPU, for tests.
//
// Device memory is a memfd, so a device address that is mapped and open can be read and written by
// the test like any other. The stand-in follows the driver's documentation and records every breach
// of it:
//   - sizes and addresses are multiples of the granularity; flags and unused fields are zero;
//   - cuMemMap takes a whole handle, from offset 0, onto reserved addresses where nothing is
//     mapped; they cannot be touched (PROT_NONE) until cuMemSetAccess, which wants all of its range
//     mapped;
//   - cuMemUnmap takes whole mappings, one or several side by side, all of its range mapped, where
//     no work reads or writes that is not done;
//   - memory lives until its handle is released and the last mapping of it is gone; when it is
//     created it is full of garbage;
//   - addresses are freed as they were reserved, with nothing mapped there;
//   - whatever needs a context finds one current in its thread;
//   - asynchronous work (memset, copies) is done as late as possible: when its stream is waited
//     for or queried. Host memory in a copy is pinned. A simulated kernel runs until the test
//     ends it;
//   - a stream that was created blocking makes no progress while a kernel runs in the default one;
//   - memory may be opened for reading alone, unless the test has it refused, as some drivers do; a
//     write there faults, and work that writes there, or did not end before, is a breach;
//   - while a stream is being captured into a graph, nothing is given to it, waited for in it or
//     asked of it; an event that is recorded in it belongs to the graph. If it is a blocking
//     stream, the same goes for the default one. Calls that may break a capture, which are those
//     that allocate, map, wait or query, are made by threads in relaxed mode only.
//
// Kernels run on the CPU (docs/design/emulator.md). A module's image is a fatbin, or the
// placeholder of a program without one: STANDIN_IMAGE, padded with zeros to 64 bytes. Either way
// its kernels are those of the library that STANDIN_KERNELS names in the environment, or of
// libcuda_kernels.so in the folder of the stand-in, of emulated kernels. Then
//   - a fault of a kernel breaks the context, as on a device: from the call that runs the kernel on
//     everything answers 700 (a bad address) or 719, until all contexts are released;
//   - memory of cuMemAlloc is full of garbage and surrounded by a megabyte that nobody may touch.
//     The host may not touch it at all: it is open only while a copy or a kernel runs;
//   - nodes of a graph run in an order that its edges allow, and the last made one first: a missing
//     edge shows;
//   - a launch of more shared memory than 48 KiB needs cuFuncSetAttribute, as on a device; a
//     kernel's own arrays, which count there, are taken to be 1 KiB.
//
// With STANDIN_ABORT in the environment a breach aborts in the call that commits it.
#ifndef VT_TEST_STANDIN_H
#define VT_TEST_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STANDIN_N_DEVICE = 4,
    STANDIN_GRANULARITY = 64 << 10,
    STANDIN_FREE_BYTES = 128 << 20,
    STANDIN_ALLOC_BYTES = 1 << 30
};

enum { STANDIN_OUT_OF_MEMORY = 2, STANDIN_UNKNOWN = 999 };

#define STANDIN_IMAGE "flexinfer stand-in kernel image"

// What there is now, but for n_breach: since the last reset.
typedef struct standin_report {
    uint64_t n_memory, memory_bytes; // physical, whether its handle is released or not
    uint64_t n_handle;               // not released
    uint64_t n_mapping, n_reservation;
    uint64_t n_stream, n_event, n_pinned, pinned_bytes;
    uint64_t n_alloc, alloc_bytes;      // of cuMemAlloc
    uint64_t n_module, n_graph, n_exec; // loaded, made, instantiated
    uint64_t n_context;                 // retained, and not released
    uint64_t n_breach;
    const char *breach; // the first; NULL: none
} standin_report;

// Forgets limits, counts, breaches and orders to fail, and throws away whatever was left.
void standin_reset(void);
standin_report standin_look(void);
// The first breach, or what was made and not given back; NULL: neither.
const char *standin_left(void);

// The context of the device becomes the only one of the calling thread; < 0: it has none then.
void standin_use_context(int device);
int standin_context_depth(void); // of the calling thread

// From now on no more than this in all. At first memory ends at STANDIN_FREE_BYTES, and the others
// do not (UINT64_MAX).
void standin_limit_memory(uint64_t size_bytes);
void standin_limit_addresses(uint64_t size_bytes);
void standin_limit_pinned(uint64_t size_bytes);
void standin_limit_allocs(uint64_t size_bytes); // of cuMemAlloc; at first STANDIN_ALLOC_BYTES
void standin_set_vmm(bool supported);
void standin_set_device_count(int n); // at most, and at first, STANDIN_N_DEVICE

// The i-th call from now on (0: the next) and the n - 1 after it answer `result`. Of one function,
// or of any (symbol NULL). A failing wait waits nevertheless, as a driver's does; what else fails
// does nothing. Each order replaces the one before.
void standin_fail(const char *symbol, uint64_t i, uint64_t n, int result);

// Runs once, in the calling thread, when the function is called next, before that does anything.
void standin_before(const char *symbol, void (*run)(void));
uint64_t standin_fired(void);               // calls made to fail by the last order
uint64_t standin_calls(const char *symbol); // since the last reset; NULL: of all functions
// The same, of the calling thread alone.
uint64_t standin_calls_here(const char *symbol);

// Calls of the calling thread, since the last reset, that wait for the device: for a stream, an
// event or the context, and copies that are not asynchronous. Whether there was something to wait
// for makes no difference.
uint64_t standin_waits(void);

// A kernel that runs until it is ended, and then makes size_bytes at dst read as `value`. Stream
// NULL: the default stream.
void standin_launch(void *stream, uintptr_t dst, unsigned char value, size_t size_bytes);
void standin_end_kernels(void *stream, int n); // the first n that run there
void standin_await_waiter(void);               // returns once some thread waits for a kernel

// What is wrong with the kernels that have run since the last reset, a line for each fault, or
// why there are none. Empty: nothing. Valid until the next launch runs.
const char *standin_faults(void);

// Does all work that no kernel holds up, so that its bytes can be seen. No wait, and no call.
void standin_settle(void);

// What a program around the backend has. An event is recorded at once.
void *standin_new_stream(bool blocking);
void standin_drop_stream(void *stream);
void *standin_new_event(void *stream);
void standin_drop_event(void *event);

// Begins and ends the capture of a stream, in global mode. What a real capture would record is
// nothing here.
void standin_capture(void *stream, bool on);
int standin_capture_mode(void); // of the calling thread

#endif
