// hidden_device.h - a device over another one, which hides its memory from the host and fails when
// it is told to.
//
// Weights lie in pages that can be read and written only inside a call: whoever else looks there
// dies. The views that the model is given are moved by `shift` bytes and moved back in begin, so
// that nobody between can read the cache either.
#ifndef TESTS_MODEL_HIDDEN_DEVICE_H
#define TESTS_MODEL_HIDDEN_DEVICE_H

#include "model/device.h"

#define HIDDEN_SHIFT ((uintptr_t)1 << 46) // beyond what a process of this machine can map there

enum { HIDDEN_MAX_SEQ = 64 };

typedef struct hidden_device {
    fxi_device dev; // first
    fxi_device *under;
    char *map; // its memory; NULL: it hides nothing, and weights lie where `under` puts them
    size_t used_bytes;
    uintptr_t shift;
    fxi_batch batch; // with the true addresses
    fxi_batch_seq seq[HIDDEN_MAX_SEQ];

    int n_best;            // calls of `best`
    int n_call, fail_at;   // calls that may fail, so far; number fail_at of them fails
    bool fails_for_good;   // and all calls after it
    const char *failed_in; // the call that failed last
} hidden_device;

// Hides memory and moves views; opens the host below it.
void hidden_open(hidden_device *h, fxi_pool *pool);
// Goes in front of a device that is in use, and closes it in the end.
void hidden_put_before(hidden_device *h, fxi_device *under);
// The call after n more ones fails; 0: none does.
void hidden_fail_after(hidden_device *h, int n);

#endif
