// vmm_host.c - the backend on host memory: one sparse memfd holds every chunk.
//
//   offset 0           n_index x slice_bytes       2 x n_index x slice_bytes
//          | slice 0    | slice 1                  | ...                          n_slice planes
//          | 0 1 2 3 ...| 0 1 2 3 ...              | ...                          chunk indices
//
//   reserve    mmap PROT_NONE, anonymous, MAP_NORESERVE
//   map        mmap the memfd over it, MAP_FIXED
//   unmap      mmap PROT_NONE over it again
//   create     fallocate, a range for each slice
//   destroy    punch holes
//   resident   st_blocks
//
// - The file is as long as all indices, and sealed so: its holes cost nothing, and no mapping can
//   ever lie beyond its end.
// - Neighbouring indices are neighbours in every plane of the file, so their mappings merge into
//   one however many calls made them.
// - MAP_POPULATE: touching pages one by one later costs 5 to 12 times more than at map time.
// - The system lets a process have vm.max_map_count mappings. A run costs up to two, itself and the
//   reserved addresses behind it. At the limit mmap fails, and not only ours: threads could not be
//   started and malloc could not grow. So max_runs leaves an eighth of them to the rest of the
//   process. Where that is used up all the same, ENOMEM of mmap is VT_NOSPACE like any other.
// - Where the administrator has made transparent huge pages the rule for shared memory
//   (shmem_enabled = always, within_size or force), the system may back more than was asked for,
//   and st_blocks shows it.
//
// After configure nothing of the struct changes, so calls on different chunks may run at once.
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#    define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MAP_FIXED_NOREPLACE
#    define MAP_FIXED_NOREPLACE 0x100000
#endif

enum {
    DEFAULT_MAX_MAP_COUNT = 65530,
    RESERVED_FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
    STAT_BLOCK_BYTES = 512, // whatever st_blksize says
    PIECE_BYTES = 1 << 20,  // of one fallocate: about 100 us
};

typedef struct vmm_host {
    vt_vmm vmm;
    int fd;
    size_t page_bytes;
    vt_vmm_geometry geo;
    uint64_t max_runs;
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
    return host_of(vmm)->page_bytes;
}

static uint64_t read_max_map_count(void)
{
    unsigned long long n = DEFAULT_MAX_MAP_COUNT;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    if (!f) return n;
    if (fscanf(f, "%llu", &n) != 1) n = DEFAULT_MAX_MAP_COUNT;
    fclose(f);
    return n;
}

// Beyond RLIMIT_FSIZE ftruncate would not only fail: SIGXFSZ ends the process.
static vt_status file_resize(int fd, uint64_t size_bytes)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_FSIZE, &lim) == 0 && size_bytes > lim.rlim_cur) return VT_NOSPACE;
    int rc;
    do rc = ftruncate(fd, (off_t)size_bytes);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? VT_OK : status_of_errno();
}

static vt_status host_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    vmm_host *h = host_of(vmm);
    assert(geo->n_slice > 0 && geo->n_index > 0 && geo->slice_bytes > 0);
    assert(geo->slice_bytes % h->page_bytes == 0);
    assert(geo->n_index <= (uint64_t)INT64_MAX / geo->slice_bytes / geo->n_slice);
    VT_TRY(file_resize(h->fd, geo->n_slice * geo->n_index * geo->slice_bytes));
    if (fcntl(h->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        vt_status st = status_of_errno();
        return file_resize(h->fd, 0) == VT_OK ? st : VT_EDEVICE;
    }
    h->geo = *geo;
    uint64_t max_map_count = read_max_map_count();
    h->max_runs = (max_map_count - max_map_count / 8) / 2;
    return VT_OK;
}

static uint64_t host_max_runs(vt_vmm *vmm)
{
    return host_of(vmm)->max_runs;
}

static vt_status host_reserve(vt_vmm *vmm, size_t size_bytes, uintptr_t *addr)
{
    (void)vmm;
    assert(size_bytes > 0 && size_bytes % host_of(vmm)->page_bytes == 0);
    void *p = mmap(NULL, size_bytes, PROT_NONE, RESERVED_FLAGS, -1, 0);
    if (p == MAP_FAILED) return status_of_errno();
    *addr = (uintptr_t)p;
    return VT_OK;
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

// fallocate that is tried again when a signal interrupts it: then it has done nothing.
static vt_status file_allocate(const vmm_host *h, int mode, off_t offset, size_t size_bytes)
{
    int rc;
    do rc = fallocate(h->fd, mode, offset, (off_t)size_bytes);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? VT_OK : status_of_errno();
}

// In pieces, so that signals that come at a steady beat cannot interrupt it for ever.
static vt_status slice_fill(const vmm_host *h, uint32_t slice, uint64_t index, uint64_t n)
{
    off_t offset = host_offset(h, slice, index);
    for (size_t left = n * h->geo.slice_bytes; left > 0;) {
        size_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;
        VT_TRY(file_allocate(h, 0, offset, piece));
        offset += (off_t)piece;
        left -= piece;
    }
    return VT_OK;
}

// Punching where nothing is does no harm.
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

// On a memfd punching whole pages cannot fail. Should it, what is gone already is filled again.
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

// mmap with MAP_FIXED may have removed what was there before it failed. If so, reserves the hole
// again before anything else in the process is placed there; does nothing otherwise.
static vt_status put_reservation_back(uintptr_t addr, size_t size_bytes, vt_status st)
{
    (void)mmap((void *)addr, size_bytes, PROT_NONE, RESERVED_FLAGS | MAP_FIXED_NOREPLACE, -1, 0);
    return st;
}

static vt_status host_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n)
{
    vmm_host *h = host_of(vmm);
    size_t size_bytes = n * h->geo.slice_bytes;
    assert(n > 0 && slice < h->geo.n_slice && addr % h->page_bytes == 0);
    void *p = mmap((void *)addr, size_bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED | MAP_POPULATE, h->fd, host_offset(h, slice, index));
    return p != MAP_FAILED ? VT_OK : put_reservation_back(addr, size_bytes, status_of_errno());
}

// Here a failure leaves the mapping as it was: the checks that fail (the count of mappings, the
// address space) come before the old mapping is touched.
static vt_status host_unmap(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)vmm;
    void *p = mmap((void *)addr, size_bytes, PROT_NONE, RESERVED_FLAGS | MAP_FIXED, -1, 0);
    return p != MAP_FAILED ? VT_OK : VT_EDEVICE;
}

static vt_status host_copy(vt_vmm *vmm, uintptr_t dst, uintptr_t src, size_t size_bytes)
{
    (void)vmm;
    memcpy((void *)dst, (const void *)src, size_bytes);
    return VT_OK;
}

static vt_status host_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes)
{
    (void)vmm;
    memset((void *)addr, 0, size_bytes);
    return VT_OK;
}

static vt_status host_resident(vt_vmm *vmm, uint64_t *size_bytes)
{
    struct stat st;
    if (fstat(host_of(vmm)->fd, &st) != 0) return VT_EDEVICE;
    *size_bytes = (uint64_t)st.st_blocks * STAT_BLOCK_BYTES;
    return VT_OK;
}

static void host_close(vt_vmm *vmm)
{
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
    .copy = host_copy,
    .zero = host_zero,
    .resident = host_resident,
    .close = host_close,
};

// Linux before 6.3 does not know MFD_NOEXEC_SEAL; later ones may be set up to ask for it.
static int open_memfd(void)
{
    int fd = memfd_create("vtensor", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create("vtensor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

vt_status vt_vmm_host_open(vt_vmm **out)
{
    *out = NULL;
    vmm_host *h = calloc(1, sizeof *h);
    if (!h) return VT_ENOMEM;
    h->fd = open_memfd();
    if (h->fd < 0) {
        vt_status st = status_of_errno();
        free(h);
        return st;
    }
    h->vmm.ops = &host_ops;
    h->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    *out = &h->vmm;
    return VT_OK;
}
