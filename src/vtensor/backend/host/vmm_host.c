// vmm_host.c - the backend on host memory: one sparse memfd mapped into reserved addresses.
//
//   reserve    mmap PROT_NONE, anonymous, MAP_NORESERVE
//   map        mmap the memfd over it, MAP_FIXED; populated where it will be written
//   protect    mprotect
//   unmap      mmap PROT_NONE over it again
//   create     fallocate, a range for each slice
//   destroy    punch holes
//   fetch      pread, so the chunk need not be mapped
//   copy_each  memcpy for each copy
//   store      pwrite; hugetlbfs has no write, so on reserved huge pages through a mapping
//   resident   st_blocks
//   mapped     /proc/self/maps, see host_file.c
//   swap       a file without a name, see host_file.c
//
// - Nothing runs concurrently with the caller, so calls with VT_VMM_QUEUED take effect at once.
// - Populating: touching pages one by one later costs 5 to 12 times more than populating at map
//   time, and MADV_POPULATE_WRITE costs two thirds of MAP_POPULATE, which reads first (pages of
//   fallocate are cleared at the first touch). But pages that others have mapped and that are only
//   read are mapped 16 at a time by a fault, and populating them would cost as much as copying the
//   bytes; so aliases are not populated.
// - protect costs about 5 us where it parts a mapping, and 1 us where it does not. Pages that were
//   present stay so and are written without a fault; populating the others would double the cost.
// - Where the system may give transparent huge pages, reservations are aligned for them and
//   mappings ask for them.
// - A process may have vm.max_map_count mappings. Mappings merge if their bytes follow each other
//   in the file and their access is equal, so a run (see max_runs in vmm.h) costs up to two: itself
//   and the reserved addresses after it. At the limit every mmap and every mprotect of a part of a
//   mapping fails: threads could not start and malloc could not grow. So max_runs leaves an eighth
//   of the limit to the rest of the process. If that is used up too, ENOMEM of mmap and mprotect is
//   VT_NOSPACE like any other.
//
// - The file is shared with a child of fork(2), and so are the mappings. There create, destroy,
//   store and swap_write are VT_EDEVICE, swap_drop does nothing, and close closes descriptors only.
//
// After configure only the swap's fields change, so calls on different chunks may run at once.
#include "vmm_host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_HUGE_SHIFT
#    define MFD_HUGE_SHIFT 26
#endif
#ifndef MAP_FIXED_NOREPLACE
#    define MAP_FIXED_NOREPLACE 0x100000
#endif

typedef struct vmm_host {
    vt_vmm vmm;
    vti_chunk_file file;
    uint64_t max_runs;
    int populate_flag; // of mmap, where the system has no MADV_POPULATE_WRITE
    vti_swap_file swap;
} vmm_host;

static vmm_host *host_of(vt_vmm *vmm)
{
    return (vmm_host *)vmm;
}

static size_t host_granularity(vt_vmm *vmm)
{
    return host_of(vmm)->file.unit_bytes;
}

static vt_status host_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    return vti_chunk_file_configure(&host_of(vmm)->file, geo);
}

static uint64_t host_max_runs(vt_vmm *vmm)
{
    return host_of(vmm)->max_runs;
}

static bool host_can_protect(vt_vmm *vmm)
{
    (void)vmm;
    return true;
}

static bool host_creates_zeroed(vt_vmm *vmm)
{
    (void)vmm;
    return true;
}

// Reserves more than requested, for the alignment, and returns the rest.
static vt_status host_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    vmm_host *h = host_of(vmm);
    assert(size_bytes > 0 && size_bytes % h->file.unit_bytes == 0);
    size_t align = h->file.thp_bytes > 0 ? h->file.thp_bytes : h->file.unit_bytes;
    size_t slack = align - (size_t)sysconf(_SC_PAGESIZE);
    if (size_bytes > SIZE_MAX - slack) return VT_NOSPACE;
    char *p = mmap(NULL, size_bytes + slack, PROT_NONE, VTI_RESERVED_FLAGS, -1, 0);
    if (p == MAP_FAILED) return vti_system_status();
    size_t head = (align - (uintptr_t)p % align) % align, tail = slack - head;
    char *begin = p; // of what is still reserved
    if (head == 0 || munmap(p, head) == 0) {
        begin = p + head;
        *addr = (uintptr_t)begin;
        if (tail == 0 || munmap(begin + size_bytes, tail) == 0) return VT_OK;
    }
    vt_status st = vti_system_status();
    (void)munmap(begin, size_bytes + slack - (size_t)(begin - p));
    return st;
}

static vt_status host_unreserve(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)vmm;
    return munmap((void *)addr, size_bytes) == 0 ? VT_OK : VT_EDEVICE;
}

static vt_status host_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    return vti_chunk_file_create(&host_of(vmm)->file, index, n);
}

static vt_status host_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    return vti_chunk_file_destroy(&host_of(vmm)->file, index, n);
}

// mmap of a file with MAP_FIXED may have removed the reservation before it failed. If so, this
// tries to reserve the hole again before another thread's mapping is placed there.
static void restore_reservation(uintptr_t addr, size_t size_bytes)
{
    int flags = VTI_RESERVED_FLAGS | MAP_FIXED_NOREPLACE;
    (void)mmap((void *)addr, size_bytes, PROT_NONE, flags, -1, 0);
}

static int access_of_use(vt_vmm_use use)
{
    return use == VT_VMM_READ ? PROT_READ : PROT_READ | PROT_WRITE;
}

// Advice that fails is ignored: the range is mapped all the same.
static vt_status host_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                          vt_vmm_use use)
{
    vmm_host *h = host_of(vmm);
    const vti_chunk_class *c = vti_chunk_class_of(&h->file, index);
    size_t size_bytes = n * c->slice_bytes;
    assert(n > 0 && n <= c->end - index && addr % h->file.unit_bytes == 0);
    int flags = MAP_SHARED | MAP_FIXED | (use == VT_VMM_WRITE ? h->populate_flag : 0);
    void *p = mmap((void *)addr, size_bytes, access_of_use(use), flags, h->file.fd,
                   vti_chunk_offset(c, slice, index));
    if (p == MAP_FAILED) {
        vt_status st = vti_system_status();
        restore_reservation(addr, size_bytes);
        return st;
    }
    if (c->is_huge && addr % h->file.thp_bytes == 0)
        (void)madvise((void *)addr, size_bytes, MADV_HUGEPAGE);
    if (use == VT_VMM_WRITE && h->populate_flag == 0)
        (void)madvise((void *)addr, size_bytes, MADV_POPULATE_WRITE);
    return VT_OK;
}

// The system may have changed a part when it has no mapping left to split the last one. Changing
// that back splits nothing.
static vt_status host_protect(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_use use)
{
    (void)vmm;
    assert(use == VT_VMM_WRITE || use == VT_VMM_READ);
    if (mprotect((void *)addr, size_bytes, access_of_use(use)) == 0) return VT_OK;
    vt_status st = vti_system_status();
    vt_vmm_use before = use == VT_VMM_READ ? VT_VMM_WRITE : VT_VMM_READ;
    return mprotect((void *)addr, size_bytes, access_of_use(before)) == 0 ? st : VT_EDEVICE;
}

// A failure leaves the mapping as it was: the new mapping has no file and no pages, so only the
// checks before the change can fail (the count of mappings, the address space).
static vt_status host_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)vmm;
    void *p = mmap((void *)addr, size_bytes, PROT_NONE, VTI_RESERVED_FLAGS | MAP_FIXED, -1, 0);
    return p != MAP_FAILED ? VT_OK : VT_EDEVICE;
}

// Where byte `offset` of the slice lies in the file.
static off_t offset_of_bytes(const vmm_host *h, uint32_t slice, uint64_t index, size_t offset,
                             size_t size_bytes)
{
    const vti_chunk_class *c = vti_chunk_class_of(&h->file, index);
    assert(size_bytes > 0 && offset <= c->slice_bytes && size_bytes <= c->slice_bytes - offset);
    (void)size_bytes;
    return vti_chunk_offset(c, slice, index) + (off_t)offset;
}

// Reads the file directly into the destination: no mapping of the chunk is needed.
static vt_status host_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index,
                            size_t offset, size_t size_bytes, vt_vmm_order order)
{
    (void)order;
    vmm_host *h = host_of(vmm);
    off_t at = offset_of_bytes(h, slice, index, offset, size_bytes);
    return vti_file_read(h->file.fd, (void *)dst, size_bytes, at) ? VT_OK : VT_EDEVICE;
}

static vt_status store_by_mapping(const vmm_host *h, off_t at, const void *src, size_t size_bytes)
{
    size_t in_unit = (size_t)at % h->file.unit_bytes, room_bytes = in_unit + size_bytes;
    room_bytes += (h->file.unit_bytes - room_bytes % h->file.unit_bytes) % h->file.unit_bytes;
    char *p =
        mmap(NULL, room_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, h->file.fd, at - (off_t)in_unit);
    if (p == MAP_FAILED) return VT_EDEVICE;
    memcpy(p + in_unit, src, size_bytes);
    (void)munmap(p, room_bytes);
    return VT_OK;
}

static vt_status host_store(vt_vmm *vmm, uint32_t slice, uint64_t index, size_t offset,
                            uintptr_t src, size_t size_bytes)
{
    vmm_host *h = host_of(vmm);
    off_t at = offset_of_bytes(h, slice, index, offset, size_bytes);
    if (vti_chunk_file_is_foreign(&h->file)) return VT_EDEVICE;
    if (h->file.unit_bytes > (size_t)sysconf(_SC_PAGESIZE))
        return store_by_mapping(h, at, (const void *)src, size_bytes);
    return vti_file_write(h->file.fd, (const void *)src, size_bytes, at) ? VT_OK : VT_EDEVICE;
}

static vt_status host_copy_each(vt_vmm *vmm, const vt_vmm_copy *copy, uint64_t n,
                                vt_vmm_order order)
{
    (void)vmm, (void)order;
    for (uint64_t i = 0; i < n; i++)
        memcpy((void *)copy[i].dst, (const void *)copy[i].src, copy[i].size_bytes);
    return VT_OK;
}

static vt_status host_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order)
{
    (void)vmm, (void)order;
    memset((void *)addr, 0, size_bytes);
    return VT_OK;
}

static vt_status host_fence(vt_vmm *vmm, uint64_t *ticket)
{
    (void)vmm;
    *ticket = 0;
    return VT_OK;
}

static vt_status host_passed(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed)
{
    (void)vmm, (void)ticket, (void)wait;
    assert(ticket == 0);
    *is_passed = true;
    return VT_OK;
}

static vt_status host_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    return vti_chunk_file_resident(&host_of(vmm)->file, size_bytes);
}

static vt_status host_mapped(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping)
{
    struct stat st;
    if (fstat(host_of(vmm)->file.fd, &st) != 0) return VT_EDEVICE;
    return vti_system_mapped(st.st_dev, st.st_ino, size_bytes, n_mapping);
}

static vt_status host_swap_open(vt_vmm *vmm, const char *dir, uint64_t size_bytes)
{
    assert(host_of(vmm)->swap.fd < 0);
    return vti_swap_file_open(&host_of(vmm)->swap, dir, size_bytes);
}

static vt_status host_swap_write(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                                 uint64_t *sum)
{
    if (vti_chunk_file_is_foreign(&host_of(vmm)->file)) return VT_EDEVICE;
    return vti_swap_file_write(&host_of(vmm)->swap, offset, (const void *)src, size_bytes, sum);
}

static vt_status host_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                                uint64_t *sum)
{
    return vti_swap_file_read(&host_of(vmm)->swap, (void *)dst, offset, size_bytes, sum);
}

static void host_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    if (vti_chunk_file_is_foreign(&host_of(vmm)->file)) return;
    vti_swap_file_drop(&host_of(vmm)->swap, offset, size_bytes);
}

static void host_close(vt_vmm *vmm)
{
    vti_swap_file_close(&host_of(vmm)->swap);
    vti_chunk_file_close(&host_of(vmm)->file);
    free(vmm);
}

static const vt_vmm_ops host_ops = {
    .name = "host",
    .granularity = host_granularity,
    .configure = host_configure,
    .max_runs = host_max_runs,
    .can_protect = host_can_protect,
    .creates_zeroed = host_creates_zeroed,
    .reserve = host_reserve,
    .unreserve = host_unreserve,
    .create = host_create,
    .destroy = host_destroy,
    .map = host_map,
    .protect = host_protect,
    .unmap = host_unmap,
    .fetch = host_fetch,
    .store = host_store,
    .copy_each = host_copy_each,
    .zero = host_zero,
    .fence = host_fence,
    .passed = host_passed,
    .resident = host_resident,
    .mapped = host_mapped,
    .swap_open = host_swap_open,
    .swap_write = host_swap_write,
    .swap_read = host_swap_read,
    .swap_drop = host_swap_drop,
    .close = host_close,
};

static vt_status host_open(size_t unit_bytes, unsigned memfd_flags, vt_vmm **out)
{
    *out = NULL;
    vmm_host *h = calloc(1, sizeof *h);
    if (!h) return VT_ENOMEM;
    vt_status st = vti_chunk_file_open(&h->file, unit_bytes, memfd_flags);
    if (st != VT_OK) {
        free(h);
        return st;
    }
    h->vmm.ops = &host_ops;
    h->swap.fd = -1;
    const uint64_t max_map_count = vti_system_max_maps();
    h->max_runs = (max_map_count - max_map_count / 8) / 2;
    h->populate_flag = madvise(NULL, 0, MADV_POPULATE_WRITE) == 0 ? 0 : MAP_POPULATE;
    *out = &h->vmm;
    return VT_OK;
}

const char *vt_vmm_host_trouble(void)
{
    struct rlimit lim;
    const char *trouble = vti_chunk_file_trouble();
    if (trouble) return trouble;
    bool is_limited = getrlimit(RLIMIT_AS, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY;
    return is_limited ? "the addresses of a process are limited (ulimit -v)" : NULL;
}

vt_status vt_vmm_host_open(vt_vmm **out)
{
    return host_open((size_t)sysconf(_SC_PAGESIZE), 0, out);
}

vt_status vt_vmm_host_open_huge(size_t huge_page_bytes, vt_vmm **out)
{
    *out = NULL;
    if (huge_page_bytes == 0 || (huge_page_bytes & (huge_page_bytes - 1)) != 0) return VT_EINVAL;
    if (vti_system_huge_pages(huge_page_bytes) == 0) return VT_EINVAL;
    unsigned log2 = (unsigned)__builtin_ctzll(huge_page_bytes);
    return host_open(huge_page_bytes, MFD_HUGETLB | (log2 << MFD_HUGE_SHIFT), out);
}
