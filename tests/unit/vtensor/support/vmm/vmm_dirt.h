// vmm_dirt.h - for the fake backend: which bytes of pages may be non-zero. For each page it keeps
// one range, from the first such byte to the last.
#ifndef VT_TEST_VMM_DIRT_H
#define VT_TEST_VMM_DIRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VT_DIRT_PAGE_BYTES = 4096 }; // as VT_FAKE_PAGE_BYTES

// The bytes [lo, hi) of a page; lo == hi: none.
typedef struct vt_extent {
    uint16_t lo, hi;
} vt_extent;

// Bytes in a row, and the extents of the pages they lie on.
typedef struct vt_place {
    vt_extent *(*page)(const void *pages, size_t k); // of the k-th page
    const void *pages;
    size_t offset; // of the first byte, from the begin of page 0
} vt_place;

// Bytes that lie `offset` behind the first of the pages of a list.
vt_place vt_place_in_list(vt_extent *list, uint64_t offset);

void vt_extent_add(vt_extent *e, vt_extent more);

// From byte `at` of the place as far as one page goes, but not beyond size_bytes: the extent of the
// page, and in *part which of its bytes these are.
vt_extent *vt_place_part(const vt_place *p, size_t at, size_t size_bytes, vt_extent *part);

void vt_place_add(const vt_place *p, size_t size_bytes);
void vt_place_cut(const vt_place *p, size_t size_bytes); // what is cut out of the middle stays
bool vt_place_is_clean(const vt_place *p, size_t size_bytes);
bool vt_place_is_full(const vt_place *p, size_t size_bytes);
void vt_place_copy(const vt_place *to, const vt_place *from, size_t size_bytes);

#endif
