// failing_heap.h - the heap of a whole program, libraries included, with allocations that fail when
// a test says so. Linked into a test, it takes the place of malloc, calloc and realloc; the pages
// of base/system/regions.h count too, where the linker wraps fxi_pages_map.
#ifndef FAILING_HEAP_H
#define FAILING_HEAP_H

#include <stdbool.h>

typedef struct failing_heap {
    bool (*spares)(void); // NULL, or: this thread's allocations neither count nor fail
    long at;              // this allocation fails, counted from 0; -1: none
    bool and_later;       // and all after it
} failing_heap;

// From now on allocations are counted and fail as *f says.
void failing_heap_arm(const failing_heap *f);
// Ends that. Returns how many have failed; *ours: the first of them was asked for by the program
// itself, not by a library.
long failing_heap_disarm(bool *ours);

// Takes the calling thread out, or in again.
void failing_heap_spare(bool on);

#endif
