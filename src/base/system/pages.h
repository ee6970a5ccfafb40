// pages.h - memory straight from the system and, when it is given back, straight to it: for large
// things that come and go, which would leave holes in the heap.
#ifndef FXI_BASE_PAGES_H
#define FXI_BASE_PAGES_H

#include <stddef.h>

// n_bytes of zeros, aligned to a page; NULL: out of memory. Resident once it is touched.
void *fxi_pages_map(size_t n_bytes);
// The same memory with another size, maybe elsewhere; NULL: out of memory, and nothing has changed.
void *fxi_pages_remap(void *p, size_t old_bytes, size_t new_bytes);
void fxi_pages_unmap(void *p, size_t n_bytes); // p: NULL is allowed

// Gives what is free inside the heap back to the system, where the C library can (glibc: other
// threads that allocate wait meanwhile, so call it when little happens).
void fxi_heap_trim(void);
// For a program, at its start: blocks of the heap from 256 KiB on are mappings of their own, which
// go back as they are freed. (glibc raises that limit to 32 MiB as such blocks come and go, and
// does not trim what is then free at the end of a thread's arena.)
void fxi_heap_map_large(void);

#endif
