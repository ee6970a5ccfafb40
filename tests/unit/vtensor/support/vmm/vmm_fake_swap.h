// vmm_fake_swap.h - the swap of the fake backend: for each page which bytes it holds, which of them
// are dirty, and a stamp that every write changes. The checksum of a stretch is made of the stamps
// of its pages, so it stays the same until it is written again.
//
// Functions that check answer NULL, or what is wrong; then they have done nothing.
#ifndef VT_TEST_VMM_FAKE_SWAP_H
#define VT_TEST_VMM_FAKE_SWAP_H

#include "vmm_dirt.h"

typedef struct vt_fake_swap {
    uint64_t size_bytes; // 0: not open
    uint64_t n_page;     // that hold something
    vt_extent *held, *dirty;
    uint32_t *stamp;
    uint32_t last_stamp;
} vt_fake_swap;

bool vt_fake_swap_open(vt_fake_swap *s, uint64_t size_bytes); // false: no memory
void vt_fake_swap_free(vt_fake_swap *s);
const char *vt_fake_swap_check(const vt_fake_swap *s, uint64_t offset, size_t size_bytes);
uint64_t vt_fake_swap_write(vt_fake_swap *s, uint64_t offset, const vt_place *from,
                            size_t size_bytes); // the checksum
const char *vt_fake_swap_read(vt_fake_swap *s, const vt_place *to, uint64_t offset,
                              size_t size_bytes, uint64_t *sum);
void vt_fake_swap_drop(vt_fake_swap *s, uint64_t offset, size_t size_bytes);
void vt_fake_swap_corrupt(vt_fake_swap *s, uint64_t offset);

#endif
