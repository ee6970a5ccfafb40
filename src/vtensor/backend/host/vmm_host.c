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
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vtensor/core/common.h"

#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#    define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MFD_HUGE_SHIFT
#    define MFD_HUGE_SHIFT 26
#endif
#ifndef MAP_FIXED_NOREPLACE
#    define MAP_FIXED_NOREPLACE 0x100000
#endif

// Flags of mmap for addresses that nothing backs.
#define RESERVED_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

typedef struct chunk_class {
    uint32_t n_slice;
    size_t slice_bytes;
    uint64_t first, end; // indices
    uint64_t offset;     // of slice 0 of the first chunk
    bool is_huge;        // slices are whole transparent huge pages
} chunk_class;

typedef struct vmm_host {
    vt_vmm vmm;
    int fd;            // of the memfd
    pid_t pid;         // of the process that opened it; a child of it changes nothing
    size_t unit_bytes; // of a page, or of a reserved huge page
    size_t thp_bytes;  // of transparent huge pages; 0: no class has any
    uint32_t n_class;
    chunk_class cls[VT_VMM_MAX_CLASS];
    uint64_t max_runs;
    int populate_flag; // of mmap, where the system has no MADV_POPULATE_WRITE
    vti_swap_file swap;
} vmm_host;

static vmm_host *host_of(vt_vmm *vmm)
{
    return (vmm_host *)vmm;
}

// ---- The memfd

enum {
    STAT_BLOCK_BYTES = 512, // whatever st_blksize says
    FILL_BYTES = 1 << 20,   // of one fallocate: about 100 us
};

// Linux before 6.3 does not know MFD_NOEXEC_SEAL; later ones may be configured to require it.
static int open_memfd(unsigned flags)
{
    flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("vtensor", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create("vtensor", flags);
    return fd;
}

// What an errno of memfd_create means.
static const char *memfd_trouble(int error)
{
    static const struct {
        int error;
        const char *text;
    } known[] = {
        {EMFILE, "no file descriptor is left for a memfd (ulimit -n)"},
        {ENFILE, "the system has no file left for a memfd (fs.file-max)"},
        {EPERM, "the system forbids memfd_create (a seccomp filter?)"},
        {EACCES, "the system forbids memfd_create (vm.memfd_noexec?)"},
        {ENOSYS, "the system has no memfd_create"},
        {ENOMEM, "the system has no memory for a memfd"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].error == error) return known[i].text;
    return "memfd_create fails";
}

static bool is_foreign(const vmm_host *h)
{
    return getpid() != h->pid;
}

static vt_status file_resize(int fd, uint64_t size_bytes)
{
    if (!vti_file_may_reach(size_bytes)) return VT_NOSPACE;
    int rc;
    do rc = ftruncate(fd, (off_t)size_bytes);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? VT_OK : vti_system_status();
}

// Adds a class at byte `end` of the file and index `first`, and moves both. False: the file would
// be longer than an offset can say.
static bool class_add(vmm_host *h, const vt_vmm_class *c, size_t thp_bytes, uint64_t *end,
                      uint64_t *first)
{
    assert(c->n_slice > 0 && c->n_index > 0 && c->slice_bytes > 0);
    assert(c->slice_bytes % h->unit_bytes == 0);
    bool is_huge = thp_bytes > 0 && c->slice_bytes % thp_bytes == 0;
    uint64_t align = is_huge ? thp_bytes : h->unit_bytes;
    uint64_t at = (*end + align - 1) / align * align;
    if (at > INT64_MAX || c->n_index > ((uint64_t)INT64_MAX - at) / c->slice_bytes / c->n_slice)
        return false;
    h->cls[h->n_class++] = (chunk_class){
        c->n_slice, c->slice_bytes, *first, *first + c->n_index, at, is_huge,
    };
    if (is_huge) h->thp_bytes = thp_bytes;
    *end = at + c->n_slice * c->n_index * c->slice_bytes;
    *first += c->n_index;
    return true;
}

static const chunk_class *chunk_class_of(const vmm_host *h, uint64_t index)
{
    assert(h->n_class > 0 && index < h->cls[h->n_class - 1].end);
    const chunk_class *c = h->cls;
    while (index >= c->end) c++;
    return c;
}

static off_t chunk_offset(const chunk_class *c, uint32_t slice, uint64_t index)
{
    assert(slice < c->n_slice && index >= c->first && index < c->end);
    uint64_t position = slice * (c->end - c->first) + (index - c->first);
    return (off_t)(c->offset + position * c->slice_bytes);
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

// In pieces, so that periodic signals cannot interrupt it forever.
static vt_status slice_fill(const vmm_host *h, const chunk_class *c, uint32_t slice, uint64_t index,
                            uint64_t n)
{
    off_t offset = chunk_offset(c, slice, index);
    size_t left = n * c->slice_bytes;
    size_t most = h->unit_bytes > FILL_BYTES ? h->unit_bytes : FILL_BYTES;
    if (c->is_huge) prefer_huge(h, offset, left);
    while (left > 0) {
        size_t piece = left < most ? left : most;
        if (!vti_file_allocate(h->fd, 0, offset, piece)) return vti_system_status();
        offset += (off_t)piece;
        left -= piece;
    }
    return VT_OK;
}

// Punching a hole in a hole does no harm.
static vt_status slice_punch(const vmm_host *h, const chunk_class *c, uint32_t slice,
                             uint64_t index, uint64_t n)
{
    bool is_done = vti_file_allocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                     chunk_offset(c, slice, index), n * c->slice_bytes);
    return is_done ? VT_OK : vti_system_status();
}

static vt_status host_configure(vt_vmm *vmm, const vt_vmm_geometry *geo)
{
    vmm_host *h = host_of(vmm), laid = *h;
    uint64_t end = 0, first = 0;
    size_t thp_bytes = vti_system_thp_bytes();
    assert(geo->n_class > 0 && geo->n_class <= VT_VMM_MAX_CLASS);
    laid.n_class = 0;
    laid.thp_bytes = 0;
    // Transparent huge pages are larger than the granularity; reserved ones have none below.
    if (h->unit_bytes != (size_t)sysconf(_SC_PAGESIZE) || thp_bytes <= h->unit_bytes) thp_bytes = 0;
    for (uint32_t c = 0; c < geo->n_class; c++)
        if (!class_add(&laid, &geo->cls[c], thp_bytes, &end, &first)) return VT_NOSPACE;
    VT_TRY(file_resize(h->fd, end));
    if (fcntl(h->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        vt_status st = vti_system_status();
        return file_resize(h->fd, 0) == VT_OK ? st : VT_EDEVICE;
    }
    *h = laid;
    return VT_OK;
}

static vt_status host_create(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    const vmm_host *h = host_of(vmm);
    if (is_foreign(h)) return VT_EDEVICE;
    const chunk_class *c = chunk_class_of(h, index);
    assert(n > 0 && n <= c->end - index);
    vt_status st = VT_OK;
    uint32_t s = 0;
    while (s < c->n_slice && (st = slice_fill(h, c, s, index, n)) == VT_OK) s++;
    if (st == VT_OK) return VT_OK;
    for (uint32_t done = 0; done <= s; done++)
        if (slice_punch(h, c, done, index, n) != VT_OK) st = VT_EDEVICE;
    return st;
}

// On a memfd, punching whole pages cannot fail. If it does, what is gone already is filled again.
static vt_status host_destroy(vt_vmm *vmm, uint64_t index, uint64_t n)
{
    const vmm_host *h = host_of(vmm);
    if (is_foreign(h)) return VT_EDEVICE;
    const chunk_class *c = chunk_class_of(h, index);
    assert(n > 0 && n <= c->end - index);
    uint32_t s = 0;
    while (s < c->n_slice && slice_punch(h, c, s, index, n) == VT_OK) s++;
    if (s == c->n_slice) return VT_OK;
    while (s-- > 0) (void)slice_fill(h, c, s, index, n);
    return VT_EDEVICE;
}

// ---- Addresses

static size_t host_granularity(vt_vmm *vmm)
{
    return host_of(vmm)->unit_bytes;
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
    assert(size_bytes > 0 && size_bytes % h->unit_bytes == 0);
    size_t align = h->thp_bytes > 0 ? h->thp_bytes : h->unit_bytes;
    size_t slack = align - (size_t)sysconf(_SC_PAGESIZE);
    if (size_bytes > SIZE_MAX - slack) return VT_NOSPACE;
    char *p = mmap(NULL, size_bytes + slack, PROT_NONE, RESERVED_FLAGS, -1, 0);
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

static int access_of_use(vt_vmm_use use)
{
    return use == VT_VMM_READ ? PROT_READ : PROT_READ | PROT_WRITE;
}

// Advice that fails is ignored: the range is mapped all the same.
static vt_status host_map(vt_vmm *vmm, uintptr_t addr, uint32_t slice, uint64_t index, uint64_t n,
                          vt_vmm_use use)
{
    vmm_host *h = host_of(vmm);
    const chunk_class *c = chunk_class_of(h, index);
    size_t size_bytes = n * c->slice_bytes;
    assert(n > 0 && n <= c->end - index && addr % h->unit_bytes == 0);
    int flags = MAP_SHARED | MAP_FIXED | (use == VT_VMM_WRITE ? h->populate_flag : 0);
    void *p = mmap((void *)addr, size_bytes, access_of_use(use), flags, h->fd,
                   chunk_offset(c, slice, index));
    if (p == MAP_FAILED) {
        // mmap with MAP_FIXED may have removed the reservation before it failed: tries to reserve
        // the hole again before another thread's mapping is placed there.
        vt_status st = vti_system_status();
        flags = RESERVED_FLAGS | MAP_FIXED_NOREPLACE;
        (void)mmap((void *)addr, size_bytes, PROT_NONE, flags, -1, 0);
        return st;
    }
    if (c->is_huge && addr % h->thp_bytes == 0)
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
    void *p = mmap((void *)addr, size_bytes, PROT_NONE, RESERVED_FLAGS | MAP_FIXED, -1, 0);
    return p != MAP_FAILED ? VT_OK : VT_EDEVICE;
}

// Where byte `offset` of the slice lies in the file.
static off_t offset_of_bytes(const vmm_host *h, uint32_t slice, uint64_t index, size_t offset,
                             size_t size_bytes)
{
    const chunk_class *c = chunk_class_of(h, index);
    assert(size_bytes > 0 && offset <= c->slice_bytes && size_bytes <= c->slice_bytes - offset);
    (void)size_bytes;
    return chunk_offset(c, slice, index) + (off_t)offset;
}

// Reads the file directly into the destination: no mapping of the chunk is needed.
static vt_status host_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index,
                            size_t offset, size_t size_bytes, vt_vmm_order order)
{
    (void)order;
    vmm_host *h = host_of(vmm);
    off_t at = offset_of_bytes(h, slice, index, offset, size_bytes);
    return vti_file_read(h->fd, (void *)dst, size_bytes, at) ? VT_OK : VT_EDEVICE;
}

static vt_status store_by_mapping(const vmm_host *h, off_t at, const void *src, size_t size_bytes)
{
    size_t in_unit = (size_t)at % h->unit_bytes, room_bytes = in_unit + size_bytes;
    room_bytes += (h->unit_bytes - room_bytes % h->unit_bytes) % h->unit_bytes;
    char *p =
        mmap(NULL, room_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, at - (off_t)in_unit);
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
    if (is_foreign(h)) return VT_EDEVICE;
    if (h->unit_bytes > (size_t)sysconf(_SC_PAGESIZE))
        return store_by_mapping(h, at, (const void *)src, size_bytes);
    return vti_file_write(h->fd, (const void *)src, size_bytes, at) ? VT_OK : VT_EDEVICE;
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
    if (is_foreign(host_of(vmm))) return VT_EDEVICE;
    return vti_swap_file_write(&host_of(vmm)->swap, offset, (const void *)src, size_bytes, sum);
}

static vt_status host_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                                uint64_t *sum)
{
    return vti_swap_file_read(&host_of(vmm)->swap, (void *)dst, offset, size_bytes, sum);
}

static void host_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    if (is_foreign(host_of(vmm))) return;
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
    *h = (vmm_host){.vmm.ops = &host_ops,
                    .fd = open_memfd(memfd_flags),
                    .pid = getpid(),
                    .unit_bytes = unit_bytes,
                    .swap.fd = -1};
    if (h->fd < 0) {
        vt_status st = vti_system_status();
        free(h);
        return st;
    }
    const uint64_t max_map_count = vti_system_max_maps();
    h->max_runs = (max_map_count - max_map_count / 8) / 2;
    h->populate_flag = madvise(NULL, 0, MADV_POPULATE_WRITE) == 0 ? 0 : MAP_POPULATE;
    *out = &h->vmm;
    return VT_OK;
}

const char *vt_vmm_host_trouble(void)
{
    struct rlimit lim;
    int fd = open_memfd(0);
    if (fd < 0) return memfd_trouble(errno);
    close(fd);
    if (!vti_file_may_reach(INT64_MAX / 2)) return "the length of files is limited (ulimit -f)";
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
