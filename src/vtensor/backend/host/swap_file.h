// swap_file.h - the swap of the host backend: a file without a name.
#ifndef VTI_SWAP_FILE_H
#define VTI_SWAP_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "vtensor/status.h"

typedef struct vti_swap_file {
    int fd; // -1: not open
    uint64_t size_bytes;
} vti_swap_file;

// Makes the file in the directory. Errors: VT_NOSPACE, VT_EDEVICE; `f` is untouched then.
vt_status vti_swap_file_open(vti_swap_file *f, const char *dir, uint64_t size_bytes);

// As swap_write, swap_read and swap_drop of vmm.h. The bytes of a write that failed are dropped.
vt_status vti_swap_file_write(const vti_swap_file *f, uint64_t offset, const void *src,
                              size_t size_bytes, uint64_t *sum);
vt_status vti_swap_file_read(const vti_swap_file *f, void *dst, uint64_t offset, size_t size_bytes,
                             uint64_t *sum);
void vti_swap_file_drop(const vti_swap_file *f, uint64_t offset, size_t size_bytes);

// Gives its room back to the system. Does nothing to one that is not open.
void vti_swap_file_close(vti_swap_file *f);

#endif
