// host_system.h - what the system reports about memory, for the host backend: files of /proc and
// /sys.
#ifndef VTI_HOST_SYSTEM_H
#define VTI_HOST_SYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vtensor/status.h"

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
