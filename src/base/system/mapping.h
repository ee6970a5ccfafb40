// mapping.h - a file as read-only memory, and its pages' way out of it.
#ifndef FXI_BASE_MAPPING_H
#define FXI_BASE_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/fail.h"

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

#endif
