// vmm_fake_work.h - work on the fake's device: which bytes of which chunk it uses, and until which
// ticket. Bytes are found by the chunk, at whatever addresses it is mapped, and by the address that
// the work was given.
#ifndef VT_TEST_VMM_FAKE_WORK_H
#define VT_TEST_VMM_FAKE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of a chunk, counted from its slice 0.
typedef struct vt_fake_bytes {
    uint64_t index, offset, size_bytes;
} vt_fake_bytes;

typedef struct vt_fake_work {
    vt_fake_bytes bytes;
    uintptr_t addr; // that the work was given; 0, which is never reserved: it uses no address
    bool writes;
    uint64_t ticket; // of the first fence behind it
} vt_fake_work;

typedef struct vt_fake_works {
    vt_fake_work *list; // [n] owned
    size_t n, room;
    uint64_t passed_ticket;
} vt_fake_works;

bool vt_fake_work_add(vt_fake_works *w, vt_fake_work what); // false: no memory

// Whether something that runs uses one of the bytes, or was given one of the addresses; `writing`:
// only what writes counts.
bool vt_fake_work_uses(const vt_fake_works *w, vt_fake_bytes bytes, bool writing);
bool vt_fake_work_at(const vt_fake_works *w, uintptr_t addr, size_t size_bytes, bool writing);

// All work has ended, whether a fence is behind it or not.
void vt_fake_work_end(vt_fake_works *w);
void vt_fake_work_free(vt_fake_works *w);

#endif
