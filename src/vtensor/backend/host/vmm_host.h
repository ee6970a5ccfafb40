// vmm_host.h - what the host backend has of host_file.c: the swap file, whole transfers, and what
// the system reports.
#ifndef VTI_VMM_HOST_H
#define VTI_VMM_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vtensor/vmm.h"

// A file without a name.
typedef struct vti_swap_file {
    int fd; // -1: not open
    uint64_t size_bytes;
} vti_swap_file;

// Creates the file in the directory. Errors: VT_NOSPACE, VT_EDEVICE; `f` is untouched then.
vt_status vti_swap_file_open(vti_swap_file *f, const char *dir, uint64_t size_bytes);

// As swap_write, swap_read and swap_drop of vmm.h. The bytes of a write that failed are dropped.
vt_status vti_swap_file_write(const vti_swap_file *f, uint64_t offset, const void *src,
                              size_t size_bytes, uint64_t *sum);
vt_status vti_swap_file_read(const vti_swap_file *f, void *dst, uint64_t offset, size_t size_bytes,
                             uint64_t *sum);
void vti_swap_file_drop(const vti_swap_file *f, uint64_t offset, size_t size_bytes);

// Closes the file, which frees its room. Does nothing if it is not open.
void vti_swap_file_close(vti_swap_file *f);

// Transfer all bytes, however often the system interrupts or transfers less. False: errno says why,
// 0 at the end of the file.
bool vti_file_read(int fd, void *dst, size_t size_bytes, off_t offset);
bool vti_file_write(int fd, const void *src, size_t size_bytes, off_t offset);
// Whether a file may be this long. Beyond RLIMIT_FSIZE a call would not only fail: SIGXFSZ ends the
// process.
bool vti_file_may_reach(uint64_t end_bytes);
// fallocate, retried when a signal interrupts it. False: errno says why; nothing was done.
bool vti_file_allocate(int fd, int mode, off_t offset, size_t size_bytes);

// ---- What the system reports

// What errno means: VT_NOSPACE or VT_EDEVICE.
vt_status vti_system_status(void);

// How many mappings a process may have.
uint64_t vti_system_max_maps(void);

// Bytes of a transparent huge page of shared memory; 0 if the system gives none.
size_t vti_system_thp_bytes(void);

// How many huge pages of that size are reserved or may be made on demand; 0 also if the system does
// not support the size.
uint64_t vti_system_huge_pages(size_t huge_page_bytes);

// Bytes of addresses where this process maps the file, and in how many mappings. Exact if no thread
// maps or unmaps meanwhile. Errors: VT_EDEVICE.
vt_status vti_system_mapped(dev_t device, ino_t inode, uint64_t *size_bytes, uint64_t *n_mapping);

#endif
