// regions.h - memory by the page: anonymous pages, mapped files, arenas.
#ifndef FXI_BASE_REGIONS_H
#define FXI_BASE_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fail.h"

// ---- pages --------------------------------------------------------------------------------------

// Memory straight from the system and, when it is given back, straight to it: for large things
// that come and go, which would leave holes in the heap.

// n_bytes of zeros, aligned to a page; NULL: out of memory. Resident once it is touched.
void *fxi_pages_map(size_t n_bytes);
void fxi_pages_unmap(void *p, size_t n_bytes); // p: NULL is allowed

// Gives what is free inside the heap back to the system, where the C library can (glibc: other
// threads that allocate wait meanwhile, so call it when little happens).
void fxi_heap_trim(void);
// For a program, at its start: blocks of the heap from 256 KiB on are mappings of their own, which
// go back as they are freed. (glibc raises that limit to 32 MiB as such blocks come and go, and
// does not trim what is then free at the end of a thread's arena.)
void fxi_heap_map_large(void);

// ---- files as memory ----------------------------------------------------------------------------

typedef struct fxi_mapping { // all zero: nothing is mapped
    const unsigned char *data;
    size_t size_bytes;
    dev_t device; // of the file, as stat has them
    ino_t inode;
} fxi_mapping;

// Maps a regular file that is not empty; the caller closes *out. Errors: FX_EIO, FX_ENOMEM,
// FX_EFORMAT (the file is empty); texts begin with the path. The file must not be truncated while
// it is mapped: reading a page past its end kills the process.
fx_status fxi_mapping_open(const char *path, fxi_mapping *out, fx_error *err);
void fxi_mapping_close(fxi_mapping *m); // all zero again

// Whether path names the file that m maps: under another name, through links. False: another file,
// none, or nothing is mapped.
bool fxi_mapping_is_of(const fxi_mapping *m, const char *path);
bool fxi_mapping_holds(const fxi_mapping *m, const void *p);
// Drops n_bytes at p, which m holds, from the process's resident memory: they are not needed soon.
// They may be read again later, at the cost of page faults. Other threads may read meanwhile.
void fxi_mapping_drop(const fxi_mapping *m, const void *p, size_t n_bytes);

// ---- arenas -------------------------------------------------------------------------------------

// Memory that is allocated piece by piece and freed as a whole, like a model's weights.
//
// Pieces are packed into few large slabs. Slabs of megabytes are aligned to huge pages and ask the
// system for them: a forward pass reads all weights and would otherwise wait for the translation of
// hundreds of thousands of small pages, and a slab for each piece would round each up to a huge
// page. The unused rest of a slab is address space, not memory.

typedef struct fxi_arena {       // all zero: empty
    struct fxi_arena_slab *slab; // the newest
    char *at, *end;              // what is left of it
} fxi_arena;

// Allocates size_bytes, aligned to 64, not cleared; NULL: out of memory. If a new slab is needed,
// it has room for more_bytes beyond: an estimate of what the next calls will take. One thread at a
// time.
void *fxi_arena_take(fxi_arena *a, size_t size_bytes, uint64_t more_bytes);

void fxi_arena_free(fxi_arena *a); // all of it; *a is empty then

#endif
