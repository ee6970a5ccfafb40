// vmm_fake_work.h - work on the fake's device: which bytes it may touch, and until which ticket.
#ifndef VT_TEST_VMM_FAKE_WORK_H
#define VT_TEST_VMM_FAKE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vt_fake_work {
    uintptr_t addr;
    size_t size_bytes;
    uint64_t ticket; // of the first fence behind it
} vt_fake_work;

typedef struct vt_fake_works {
    vt_fake_work *list; // [n] owned
    size_t n, room;
} vt_fake_works;

// Forgets what has ended. False: no memory.
bool vt_fake_work_add(vt_fake_works *w, vt_fake_work what, uint64_t passed_ticket);

// Whether something that runs may touch one of the bytes.
bool vt_fake_work_touches(const vt_fake_works *w, uintptr_t addr, size_t size_bytes,
                          uint64_t passed_ticket);

void vt_fake_work_free(vt_fake_works *w);

#endif
