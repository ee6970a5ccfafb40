// vmm_host.c - the backend on host memory: one sparse memfd holds every chunk.
//
//   offset 0           n_index x slice_bytes       2 x n_index x slice_bytes
//          | slice 0    | slice 1                  | ...                          n_slice planes
//          | 0 1 2 3 ...| 0 1 2 3 ...              | ...                          chunk indices
//
//   reserve    mmap PROT_NONE, anonymous, MAP_NORESERVE
//   map        mmap the memfd over it, MAP_FIXED; populated where it will be written
//   unmap      mmap PROT_NONE over it again
//   create     fallocate, a range for each slice
//   destroy    punch holes
//   fetch      pread, so the chunk need not be mapped
//   store      pwrite; hugetlbfs has no write, so on reserved huge pages through a mapping
//   resident   st_blocks
//   mapped     /proc/self/maps, see host_system.h
//   swap       see swap_file.h
//
// - The file is as long as all indices, and sealed: its holes cost nothing, and no mapping can lie
//   beyond its end.
// - Neighbouring indices are neighbours in every plane of the file, so their mappings merge into
//   one however many calls made them.
// - Populating: touching pages one by one later costs 5 to 12 times more than populating at map
//   time, and MADV_POPULATE_WRITE costs two thirds of MAP_POPULATE, which reads first (pages of
//   fallocate are cleared at the first touch). But pages that others have mapped and that are only
//   read are mapped 16 at a time by a fault, and populating them would cost as much as copying the
//   bytes; so aliases are not populated.
// - A process may have vm.max_map_count mappings. A run costs up to two: itself and the reserved
//   addresses after it. At the limit every mmap fails: threads could not start and malloc could not
//   grow. So max_runs leaves an eighth of the limit to the rest of the process. If that is used up
//   too, ENOMEM of mmap is VT_NOSPACE like any other.
//
// Huge pages make mapping and first reads cheaper. There are two kinds:
//
// - Reserved by the administrator (vt_vmm_host_open_huge, MFD_HUGETLB). Then they are the
//   granularity. fallocate takes them for good, so create finds a missing page, and no mapping
//   raises SIGBUS.
// - Transparent ones, if the system gives them to shared memory (shmem_enabled) and slices are
//   whole huge pages. With `advise` the system gives them to mappings that ask, not to fallocate:
//   create maps the range for a moment, asks for huge pages and touches it, and fallocate then
//   fills what is missing. Reservations are aligned for them. If the administrator has set always,
//   within_size or force, the system may back more than was requested, and st_blocks shows it.
//
// After configure only the swap's fields change, so calls on different chunks may run at once.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_file.h"
#include "host_system.h"
#include "swap_file.h"
#include "vtensor/common/try.h"
#include "vtensor/vmm.h"

#ifndef MFD_NOEXEC_SEAL
#    define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MFD_HUGE_SHIFT
#    define MFD_HUGE_SHIFT 26
#endif
#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_FIXED_NOREPLACE
#    define MAP_FIXED_NOREPLACE 0x100000
#endif

enum {
    RESERVED_FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
    STAT_BLOCK_BYTES = 512, // whatever st_blksize says
    PIECE_BYTES = 1 << 20,  // of one fallocate: about 100 us
};

typedef struct vmm_host {
    vt_vmm vmm;
    int fd;
    size_t unit_bytes; // the granularity: of a page, or of a reserved huge page
    size_t thp_bytes;  // of transparent huge pages; 0: slices have none
    vt_vmm_geometry geo;
    uint64_t max_runs;
    int populate_flag; // of mmap, where the system has no MADV_POPULATE_WRITE
    vti_swap_file swap;
} vmm_host;

static vmm_host *host_of(vt_vmm *vmm)
{
    return (vmm_host *)vmm;
}

static vt_status status_of_errno(void)
{
    return errno == ENOMEM || errno == ENOSPC || errno == EAGAIN ? VT_NOSPACE : VT_EDEVICE;
}

static size_t host_granularity(vt_vmm *vmm)
{
    return host_of(vmm)->unit_bytes;
}

static vt_status file_resize(int fd, uint64_t size_bytes)
{
    if (!vti_file_may_reach(size_bytes)) return VT_NOSPACE;
    int rc;
    do rc = ftruncate(fd, (off_t)size_bytes);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? VT_OK : status_of_errno();
}

// The size of transparent huge pages, if slices are whole ones; 0 on reserved huge pages.
static size_t thp_of_slices(const vmm_host *h)
{
    size_t thp_bytes = vti_system_thp_bytes();
    bool fit = thp_bytes > h->unit_bytes && h->geo.slice_bytes % thp_bytes == 0;
    return fit && h->unit_bytes == (size_t)sysconf(_SC_PAGESIZE) ? thp_bytes : 0;
}

static vt_status host_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    vmm_host *h = host_of(vmm);
    assert(geo->n_slice > 0 && geo->n_index > 0 && geo->slice_bytes > 0);
    assert(geo->slice_bytes % h->unit_bytes == 0);
    if (geo->n_index > (uint64_t)INT64_MAX / geo->slice_bytes / geo->n_slice) return VT_NOSPACE;
    VT_TRY(file_resize(h->fd, geo->n_slice * geo->n_index * geo->slice_bytes));
    if (fcntl(h->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        vt_status st = status_of_errno();
        return file_resize(h->fd, 0) == VT_OK ? st : VT_EDEVICE;
    }
    h->geo = *geo;
    h->thp_bytes = thp_of_slices(h);
    uint64_t max_map_count = vti_system_max_maps();
    h->max_runs = (max_map_count - max_map_count / 8) / 2;
    return VT_OK;
}

static uint64_t host_max_runs(vt_vmm *vmm)
{
    return host_of(vmm)->max_runs;
}

// Reserves more than requested, for the alignment, and returns the rest.
static vt_status host_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    vmm_host *h = host_of(vmm);
    assert(size_bytes > 0 && size_bytes % h->unit_bytes == 0);
    size_t align = h->thp_bytes > 0 ? h->thp_bytes : h->unit_bytes;
    size_t slack = align - (size_t)sysconf(_SC_PAGESIZE);
    if (size_bytes > SIZE_MAX - slack) return VT_NOSPACE;
    char *p = mmap(NULL, size_bytes + slack, PROT_NONE, RESERVED_FLAGS, -1, 0);
    if (p == MAP_FAILED) return status_of_errno();
    size_t head = (align - (uintptr_t)p % align) % align, tail = slack - head;
    char *begin = p; // of what is still reserved
    if (head == 0 || munmap(p, head) == 0) {
        begin = p + head;
        *addr = (uintptr_t)begin;
        if (tail == 0 || munmap(begin + size_bytes, tail) == 0) return VT_OK;
    }
    vt_status st = status_of_errno();
    (void)munmap(begin, size_bytes + slack - (size_t)(begin - p));
    return st;
}

static vt_status host_unreserve(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)vmm;
    return munmap((void *)addr, size_bytes) == 0 ? VT_OK : VT_EDEVICE;
}

static off_t host_offset(const vmm_host *h, uint32_t slice, uint64_t index)
{
    return (off_t)((slice * h->geo.n_index + index) * h->geo.slice_bytes);
}

static vt_status file_allocate(const vmm_host *h, int mode, off_t offset, size_t size_bytes)
{
    return vti_file_allocate(h->fd, mode, offset, size_bytes) ? VT_OK : status_of_errno();
}

// Asks for huge pages under a range through a temporary mapping. It may fail: the range is filled
// with small pages afterwards.
static void prefer_huge(const vmm_host *h, off_t offset, size_t size_bytes)
{
    size_t room_bytes = size_bytes + h->thp_bytes;
    char *room = mmap(NULL, room_bytes, PROT_NONE, RESERVED_FLAGS, -1, 0);
    if (room == MAP_FAILED) return;
    char *at = room + (h->thp_bytes - (uintptr_t)room % h->thp_bytes);
    void *p = mmap(at, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, h->fd, offset);
    if (p != MAP_FAILED && madvise(p, size_bytes, MADV_HUGEPAGE) == 0)
        (void)madvise(p, size_bytes, MADV_POPULATE_WRITE);
    (void)munmap(room, room_bytes);
}

// In pieces, so that periodic signals cannot interrupt it for ever.
static vt_status slice_fill(const vmm_host *h, uint32_t slice, uint64_t index, uint64_t n)
{
    off_t offset = host_offset(h, slice, index);
    size_t left = n * h->geo.slice_bytes;
    size_t most = h->unit_bytes > PIECE_BYTES ? h->unit_bytes : PIECE_BYTES;
    if (h->thp_bytes > 0) prefer_huge(h, offset, left);
    while (left > 0) {
        size_t piece = left < most ? left : most;
        VT_TRY(file_allocate(h, 0, offset, piece));
        offset += (off_t)piece;
        left -= piece;
    }
    return VT_OK;
}

// Punching a hole in a hole does no harm.
static vt_status slice_punch(const vmm_host *h, uint32_t slice, uint64_t index, uint64_t n)
{
    return file_allocate(h, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         host_offset(h, slice, index), n * h->geo.slice_bytes);
}

static vt_status host_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    vmm_host *h = host_of(vmm);
    assert(n > 0 && index < h->geo.n_index && n <= h->geo.n_index - index);
    vt_status st = VT_OK;
    uint32_t s = 0;
    while (s < h->geo.n_slice && (st = slice_fill(h, s, index, n)) == VT_OK) s++;
    if (st == VT_OK) return VT_OK;
    for (uint32_t done = 0; done <= s; done++)
        if (slice_punch(h, done, index, n) != VT_OK) st = VT_EDEVICE;
    return st;
}

// On a memfd, punching whole pages cannot fail. If it does, what is gone already is filled again.
static vt_status host_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    vmm_host *h = host_of(vmm);
    assert(n > 0 && index < h->geo.n_index && n <= h->geo.n_index - index);
    uint32_t s = 0;
    while (s < h->geo.n_slice && slice_punch(h, s, index, n) == VT_OK) s++;
    if (s == h->geo.n_slice) return VT_OK;
    while (s-- > 0) (void)slice_fill(h, s, index, n);
    return VT_EDEVICE;
}

// mmap of a file with MAP_FIXED may have removed the reservation before it failed. If so, this
// tries to reserve the hole again before another thread's mapping is placed there.
static vt_status put_reservation_back(uintptr_t addr, size_t size_bytes, vt_status st)
{
    (void)mmap((void *)addr, size_bytes, PROT_NONE, RESERVED_FLAGS | MAP_FIXED_NOREPLACE, -1, 0);
    return st;
}

// Lets the system replace small pages by huge ones later.
static void advise_huge(const vmm_host *h, uintptr_t addr, size_t size_bytes)
{
    if (h->thp_bytes > 0 && addr % h->thp_bytes == 0)
        (void)madvise((void *)addr, size_bytes, MADV_HUGEPAGE);
}

// A failure is ignored: the range is mapped all the same.
static void populate_range(const vmm_host *h, uintptr_t addr, size_t size_bytes)
{
    if (h->populate_flag == 0) (void)madvise((void *)addr, size_bytes, MADV_POPULATE_WRITE);
}

static vt_status host_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                          vt_vmm_use use)
{
    vmm_host *h = host_of(vmm);
    size_t size_bytes = n * h->geo.slice_bytes;
    assert(n > 0 && slice < h->geo.n_slice && addr % h->unit_bytes == 0);
    int flags = MAP_SHARED | MAP_FIXED | (use == VT_VMM_WRITE ? h->populate_flag : 0);
    void *p = mmap((void *)addr, size_bytes, PROT_READ | PROT_WRITE, flags, h->fd,
                   host_offset(h, slice, index));
    if (p == MAP_FAILED) return put_reservation_back(addr, size_bytes, status_of_errno());
    advise_huge(h, addr, size_bytes);
    if (use == VT_VMM_WRITE) populate_range(h, addr, size_bytes);
    return VT_OK;
}

// A failure leaves the mapping as it was: the new mapping has no file and no pages, so only the
// checks before the change can fail (the count of mappings, the address space).
static vt_status host_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)vmm;
    void *p = mmap((void *)addr, size_bytes, PROT_NONE, RESERVED_FLAGS | MAP_FIXED, -1, 0);
    return p != MAP_FAILED ? VT_OK : VT_EDEVICE;
}

// Reads the file directly into the destination: no mapping of the chunk is needed.
static vt_status host_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index,
                            size_t offset, size_t size_bytes)
{
    vmm_host *h = host_of(vmm);
    assert(slice < h->geo.n_slice && size_bytes > 0 && offset <= h->geo.slice_bytes);
    assert(size_bytes <= h->geo.slice_bytes - offset);
    off_t at = host_offset(h, slice, index) + (off_t)offset;
    return vti_file_read(h->fd, (void *)dst, size_bytes, at) ? VT_OK : VT_EDEVICE;
}

static vt_status store_by_mapping(const vmm_host *h, off_t slice_at, size_t offset, uintptr_t src,
                                  size_t size_bytes)
{
    char *p = mmap(NULL, h->geo.slice_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, slice_at);
    if (p == MAP_FAILED) return VT_EDEVICE;
    memcpy(p + offset, (const void *)src, size_bytes);
    (void)munmap(p, h->geo.slice_bytes);
    return VT_OK;
}

static vt_status host_store(vt_vmm *vmm, uint32_t slice, uint64_t index, size_t offset,
                            uintptr_t src, size_t size_bytes)
{
    vmm_host *h = host_of(vmm);
    assert(slice < h->geo.n_slice && size_bytes > 0 && offset <= h->geo.slice_bytes);
    assert(size_bytes <= h->geo.slice_bytes - offset);
    off_t at = host_offset(h, slice, index);
    if (h->unit_bytes > (size_t)sysconf(_SC_PAGESIZE))
        return store_by_mapping(h, at, offset, src, size_bytes);
    bool ok = vti_file_write(h->fd, (const void *)src, size_bytes, at + (off_t)offset);
    return ok ? VT_OK : VT_EDEVICE;
}

static vt_status host_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)vmm;
    memset((void *)addr, 0, size_bytes);
    return VT_OK;
}

// On the host, nothing runs concurrently with the caller.
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
    struct stat st;
    if (fstat(host_of(vmm)->fd, &st) != 0) return VT_EDEVICE;
    *size_bytes = (uint64_t)st.st_blocks * STAT_BLOCK_BYTES;
    return VT_OK;
}

static vt_status host_mapped(vt_vmm *vmm, uint64_t *size_bytes, uint64_t *n_mapping)
{
    struct stat st;
    if (fstat(host_of(vmm)->fd, &st) != 0) return VT_EDEVICE;
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
    return vti_swap_file_write(&host_of(vmm)->swap, offset, (const void *)src, size_bytes, sum);
}

static vt_status host_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                                uint64_t *sum)
{
    return vti_swap_file_read(&host_of(vmm)->swap, (void *)dst, offset, size_bytes, sum);
}

static void host_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    vti_swap_file_drop(&host_of(vmm)->swap, offset, size_bytes);
}

static void host_close(vt_vmm *vmm)
{
    vti_swap_file_close(&host_of(vmm)->swap);
    close(host_of(vmm)->fd);
    free(vmm);
}

static const vt_vmm_ops host_ops = {
    .name = "host",
    .granularity = host_granularity,
    .configure = host_configure,
    .max_runs = host_max_runs,
    .reserve = host_reserve,
    .unreserve = host_unreserve,
    .create = host_create,
    .destroy = host_destroy,
    .map = host_map,
    .unmap = host_unmap,
    .fetch = host_fetch,
    .store = host_store,
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

// Linux before 6.3 does not know MFD_NOEXEC_SEAL; later ones may be configured to require it.
static int open_memfd(unsigned flags)
{
    flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("vtensor", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create("vtensor", flags);
    return fd;
}

static vt_status host_open(size_t unit_bytes, unsigned memfd_flags, vt_vmm **out)
{
    *out = NULL;
    vmm_host *h = calloc(1, sizeof *h);
    if (!h) return VT_ENOMEM;
    h->fd = open_memfd(memfd_flags);
    if (h->fd < 0) {
        vt_status st = status_of_errno();
        free(h);
        return st;
    }
    h->vmm.ops = &host_ops;
    h->swap.fd = -1;
    h->unit_bytes = unit_bytes;
    h->populate_flag = madvise(NULL, 0, MADV_POPULATE_WRITE) == 0 ? 0 : MAP_POPULATE;
    *out = &h->vmm;
    return VT_OK;
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
