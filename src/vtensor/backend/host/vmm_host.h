// vmm_host.h - what the files of the host backend share: the memfd with every chunk, the swap file,
// and what the system reports.
//
// The memfd is sparse:
//
//   class 0                                       class 1
//   | slice 0     | slice 1     | ... n_slice     | slice 0  | ...
//   | 0 1 2 3 ... | 0 1 2 3 ... | ... chunks      | 0 1 2 .. | ...
//
// - Classes follow each other, in a class the slices, in a slice the chunks. So chunks with
//   neighbouring indices are neighbours in every slice, and their mappings merge into one however
//   many calls made them.
// - The file is as long as all indices, and sealed: its holes cost nothing, and no mapping can lie
//   beyond its end.
//
// Huge pages make mapping and first reads cheaper. There are two kinds:
//
// - Reserved by the administrator (MFD_HUGETLB). Then they are the granularity. fallocate takes
//   them for good, so create finds a missing page, and no mapping raises SIGBUS.
// - Transparent ones, if the system gives them to shared memory (shmem_enabled), for the classes
//   whose slices are whole huge pages. With `advise` the system gives them to mappings that ask,
//   not to fallocate: create maps the range for a moment, asks for huge pages and touches it, and
//   fallocate then fills what is missing. If the administrator has set always, within_size or
//   force, the system may back more than was requested, and st_blocks shows it.
//
// After vti_chunk_file_configure nothing here changes, so calls for different chunks may run at
// once.
#ifndef VTI_VMM_HOST_H
#define VTI_VMM_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "vtensor/vmm.h"

// ---- host_file.c

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif

// Flags of mmap for addresses that nothing backs.
#define VTI_RESERVED_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

typedef struct vti_chunk_class {
    uint32_t n_slice;
    size_t slice_bytes;
    uint64_t first, end; // indices
    uint64_t offset;     // of slice 0 of the first chunk
    bool is_huge;        // slices are whole transparent huge pages
} vti_chunk_class;

typedef struct vti_chunk_file {
    int fd;
    pid_t pid;         // of the process that opened it; a child of it changes nothing
    size_t unit_bytes; // of a page, or of a reserved huge page
    size_t thp_bytes;  // of transparent huge pages; 0: no class has any
    uint32_t n_class;
    vti_chunk_class cls[VT_VMM_MAX_CLASS];
} vti_chunk_file;

// Why none can be opened, as vt_vmm_host_trouble says it; NULL: one can.
const char *vti_chunk_file_trouble(void);

// memfd_flags: MFD_HUGETLB and the size, or 0. Errors: VT_NOSPACE, VT_EDEVICE.
vt_status vti_chunk_file_open(vti_chunk_file *f, size_t unit_bytes, unsigned memfd_flags);
void vti_chunk_file_close(vti_chunk_file *f);

// Lays out the classes. Errors: VT_NOSPACE, VT_EDEVICE; the file is as before then.
vt_status vti_chunk_file_configure(vti_chunk_file *f, const vt_vmm_geometry *geo);

// The class of the chunk. Pre: there is one.
const vti_chunk_class *vti_chunk_class_of(const vti_chunk_file *f, uint64_t index);

// Where slice `slice` of the chunk lies.
off_t vti_chunk_offset(const vti_chunk_class *c, uint32_t slice, uint64_t index);

bool vti_chunk_file_is_foreign(const vti_chunk_file *f); // this is another process

// As create, destroy and resident of vmm.h. In another process create and destroy are VT_EDEVICE.
vt_status vti_chunk_file_create(const vti_chunk_file *f, uint64_t index, uint64_t n);
vt_status vti_chunk_file_destroy(const vti_chunk_file *f, uint64_t index, uint64_t n);
vt_status vti_chunk_file_resident(const vti_chunk_file *f, uint64_t *size_bytes);

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
