// vmm_fake_memory.h - what the fake backend has instead of memory: the chunks that are created, and
// for each page of the reserved addresses which page of which chunk is mapped there.
//
// Nothing is checked here: the callers have done that.
#ifndef VT_TEST_VMM_FAKE_MEMORY_H
#define VT_TEST_VMM_FAKE_MEMORY_H

#include "vmm_dirt.h"
#include "vtensor/vmm.h"

typedef struct vt_fake_class {
    uint32_t n_slice, pages_per_slice;
    uint64_t first, end; // indices
    uint64_t first_page; // number of the first page; pages are numbered as they follow on the host
} vt_fake_class;

typedef struct vt_fake_chunk {
    struct vt_fake_chunk *next; // in the same bucket
    const vt_fake_class *cls;
    uint64_t index;
    uint64_t n_mapped; // pages, one for each address they are mapped at
    vt_extent dirty[]; // [n_slice x pages_per_slice]
} vt_fake_chunk;

// Found by index in a hash table: there are far more indices than chunks.
typedef struct vt_fake_chunks {
    uint32_t n_class; // 0: not configured
    vt_fake_class cls[VT_VMM_MAX_CLASS];
    vt_fake_chunk **bucket; // [n_bucket], a power of two
    size_t n_bucket;
    uint64_t n, size_bytes;
} vt_fake_chunks;

bool vt_fake_chunks_configure(vt_fake_chunks *c, const vt_vmm_geometry *geo); // false: out of range
void vt_fake_chunks_free(vt_fake_chunks *c);
vt_fake_chunk *vt_fake_chunk_find(const vt_fake_chunks *c, uint64_t index); // NULL: not created
bool vt_fake_chunk_make(vt_fake_chunks *c, uint64_t index, bool dirty);     // false: no memory
void vt_fake_chunk_unmake(vt_fake_chunks *c, uint64_t index);

// The class that all of the chunks [index, index + n) are of; NULL: none.
const vt_fake_class *vt_fake_class_of(const vt_fake_chunks *c, uint64_t index, uint64_t n);

typedef struct vt_fake_entry {
    vt_fake_chunk *chunk; // NULL: nothing is mapped
    uint32_t page;        // of the chunk's n_slice x pages_per_slice
    bool read_only;
} vt_fake_entry;

typedef struct vt_fake_res {
    uintptr_t addr;
    size_t size_bytes;
    vt_fake_entry *entry; // [size_bytes / page]; NULL: given back
} vt_fake_res;

// The address of a reservation comes from a counter that only grows, so an address of a span that
// is gone is never valid again, and the list of reservations is sorted.
typedef struct vt_fake_space {
    uintptr_t next_addr;
    vt_fake_res *res; // [n_res] in order of address
    size_t n_res, room_res, n_res_gone;
    uint64_t reserved_bytes, mapped_bytes;
    uint64_t n_slice, n_run; // mapped now
} vt_fake_space;

void vt_fake_space_free(vt_fake_space *s);
bool vt_fake_space_reserve(vt_fake_space *s, size_t size_bytes, uintptr_t *addr); // or no memory
void vt_fake_space_unreserve(vt_fake_space *s, vt_fake_res *r);

// The reservation in which the whole of [addr, addr + size_bytes) lies, or NULL.
vt_fake_res *vt_fake_space_at(const vt_fake_space *s, uintptr_t addr, size_t size_bytes);
vt_fake_entry *vt_fake_entry_at(const vt_fake_res *r, uintptr_t addr);

// Map and unmap n_page pages of whole slices, and change their access; these count runs.
void vt_fake_space_put(vt_fake_space *s, const vt_fake_res *r, uintptr_t addr, size_t n_page,
                       const vt_fake_chunks *c, uint32_t slice, uint64_t index, bool read_only);
void vt_fake_space_take(vt_fake_space *s, const vt_fake_res *r, uintptr_t addr, size_t n_page);
void vt_fake_space_protect(vt_fake_space *s, const vt_fake_res *r, uintptr_t addr, size_t n_page,
                           bool read_only);

#endif
