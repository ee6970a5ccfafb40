// host_file.c - the files of the host backend: the memfd with every chunk, the swap, and those of
// /proc and /sys; see vmm_host.h.
//
// The swap:
// - The file has no name from the start (O_TMPFILE), or if the file system does not support that,
//   it is unlinked right after it is created: its room is freed however the process ends.
// - It takes room as it is written, so a full disk shows then; a write that fails is dropped, so
//   that its room is free for others.
// - Bytes are summed and written in pieces that stay in the cache between the two.
// - Beyond RLIMIT_FSIZE a write does not only fail: SIGXFSZ ends the process. The limit may change
//   at any time, so it is checked at each write.
//
// What the system reports: all files of /proc and /sys are read with plain read() into the stack,
// so that counting mappings makes none.
//
// A line of /proc/self/maps:
//
//     7f5e00000000-7f5e00200000 rw-s 00100000 00:01 2051      /memfd:vtensor
//
// The name at its end may contain anything, so only the front is read: addresses, permissions,
// offset, device and inode. Between two reads the system may have moved the borders of a mapping
// that was read already; addresses count only once.
#include "vmm_host.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "vtensor/core/common.h"

// ---- What the system reports

#define THP "/sys/kernel/mm/transparent_hugepage/"

enum {
    DEFAULT_MAX_MAPS = 65530,
    SMALL_BYTES = 128, // of a file with one line
    FRONT_BYTES = 128, // of a line of maps: everything but the name takes at most 88
    READ_BYTES = 1 << 14,
};

vt_status vti_system_status(void)
{
    return errno == ENOMEM || errno == ENOSPC || errno == EAGAIN ? VT_NOSPACE : VT_EDEVICE;
}

static ssize_t read_some(int fd, char *at, size_t size_bytes)
{
    ssize_t n;
    do n = read(fd, at, size_bytes);
    while (n < 0 && errno == EINTR);
    return n;
}

static bool read_small(const char *path, char text[SMALL_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read_some(fd, text, SMALL_BYTES - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static uint64_t read_number_in(const char *path, uint64_t otherwise)
{
    char text[SMALL_BYTES];
    if (!read_small(path, text)) return otherwise;
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    return end != text ? n : otherwise;
}

uint64_t vti_system_max_maps(void)
{
    return read_number_in("/proc/sys/vm/max_map_count", DEFAULT_MAX_MAPS);
}

// Whether the choice in brackets is one of the words: "always [advise] never".
static bool is_chosen(const char *path, const char *const *words, size_t n_word)
{
    char text[SMALL_BYTES];
    if (!read_small(path, text)) return false;
    const char *from = strchr(text, '[');
    const char *to = from ? strchr(from, ']') : NULL;
    if (!to) return false;
    size_t len = (size_t)(to - from - 1);
    for (size_t i = 0; i < n_word; i++)
        if (strlen(words[i]) == len && memcmp(from + 1, words[i], len) == 0) return true;
    return false;
}

size_t vti_system_thp_bytes(void)
{
    static const char *const given[] = {"advise", "within_size", "always", "force"};
    if (!is_chosen(THP "shmem_enabled", given, 4)) return 0;
    return (size_t)read_number_in(THP "hpage_pmd_size", 0);
}

const char *vt_vmm_host_advice(void)
{
    static const char *const withheld[] = {"never", "deny"};
    if (!is_chosen(THP "shmem_enabled", withheld, 2)) return NULL;
    return "transparent huge pages are off for shared memory: echo advise > " THP
           "shmem_enabled makes sharing prefixes and reading them first cheaper";
}

uint64_t vti_system_huge_pages(size_t huge_page_bytes)
{
    static const char *const counts[] = {"nr_hugepages", "nr_overcommit_hugepages"};
    uint64_t n = 0;
    for (int i = 0; i < 2; i++) {
        char path[SMALL_BYTES];
        snprintf(path, sizeof path, "/sys/kernel/mm/hugepages/hugepages-%zukB/%s",
                 huge_page_bytes / 1024, counts[i]);
        n += read_number_in(path, 0);
    }
    return n;
}

typedef struct maps_tally {
    dev_t device;
    ino_t inode;
    uint64_t counted_to; // addresses below are counted
    uint64_t size_bytes, n_mapping;
} maps_tally;

// Reads a number and the character that must follow it.
static bool take_number(const char **at, int base, char after, unsigned long long *out)
{
    char *end;
    *out = strtoull(*at, &end, base);
    if (end == *at || *end != after) return false;
    *at = end + 1;
    return true;
}

static bool skip_word(const char **at)
{
    const char *space = strchr(*at, ' ');
    if (space) *at = space + 1;
    return space != NULL;
}

static bool count_line(maps_tally *t, const char *line)
{
    unsigned long long from, to, major_no, minor_no, inode;
    if (!take_number(&line, 16, '-', &from) || !take_number(&line, 16, ' ', &to) ||
        !skip_word(&line) || !skip_word(&line) || !take_number(&line, 16, ':', &major_no) ||
        !take_number(&line, 16, ' ', &minor_no))
        return false;
    char *end;
    inode = strtoull(line, &end, 10);
    if (end == line) return false;
    if (inode != t->inode || major_no != major(t->device) || minor_no != minor(t->device))
        return true;
    if (from < t->counted_to) from = t->counted_to;
    if (to <= from) return true;
    t->counted_to = to;
    t->size_bytes += to - from;
    t->n_mapping++;
    return true;
}

// Splits blocks of any size into lines and keeps the front of each.
static bool count_map_lines(maps_tally *t, int fd)
{
    char block[READ_BYTES], front[FRONT_BYTES];
    size_t n_front = 0;
    ssize_t n;
    while ((n = read_some(fd, block, sizeof block)) > 0)
        for (const char *p = block, *end = block + n; p < end;) {
            const char *newline = memchr(p, '\n', (size_t)(end - p));
            size_t len = (size_t)((newline ? newline : end) - p);
            size_t room = sizeof front - 1 - n_front;
            memcpy(front + n_front, p, len < room ? len : room);
            n_front += len < room ? len : room;
            p += len + (newline != NULL);
            if (!newline) continue;
            front[n_front] = '\0';
            if (!count_line(t, front)) return false;
            n_front = 0;
        }
    return n == 0;
}

vt_status vti_system_mapped(dev_t device, ino_t inode, uint64_t *size_bytes, uint64_t *n_mapping)
{
    maps_tally t = {.device = device, .inode = inode};
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return VT_EDEVICE;
    bool complete = count_map_lines(&t, fd);
    close(fd);
    if (!complete) return VT_EDEVICE;
    *size_bytes = t.size_bytes;
    *n_mapping = t.n_mapping;
    return VT_OK;
}

// ---- Whole transfers

// Whether a file may be this long. Beyond RLIMIT_FSIZE a call would not only fail: SIGXFSZ ends the
// process.
static bool file_may_reach(uint64_t end_bytes)
{
    struct rlimit lim;
    return getrlimit(RLIMIT_FSIZE, &lim) != 0 || end_bytes <= lim.rlim_cur;
}

bool vti_file_read(int fd, void *dst, size_t size_bytes, off_t offset)
{
    for (size_t done = 0; done < size_bytes;) {
        errno = 0;
        ssize_t n = pread(fd, (char *)dst + done, size_bytes - done, offset + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

bool vti_file_write(int fd, const void *src, size_t size_bytes, off_t offset)
{
    for (size_t done = 0; done < size_bytes;) {
        errno = 0;
        ssize_t n = pwrite(fd, (const char *)src + done, size_bytes - done, offset + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

// fallocate, retried when a signal interrupts it. False: errno says why; nothing was done.
static bool allocate_room(int fd, int mode, off_t offset, size_t size_bytes)
{
    int rc;
    do rc = fallocate(fd, mode, offset, (off_t)size_bytes);
    while (rc != 0 && errno == EINTR);
    return rc == 0;
}

// ---- The memfd

#ifndef MFD_NOEXEC_SEAL
#    define MFD_NOEXEC_SEAL 0x0008U
#endif

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
static const char *trouble_of(int error)
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

const char *vti_chunk_file_trouble(void)
{
    int fd = open_memfd(0);
    if (fd < 0) return trouble_of(errno);
    close(fd);
    if (!file_may_reach(INT64_MAX / 2)) return "the length of files is limited (ulimit -f)";
    return NULL;
}

vt_status vti_chunk_file_open(vti_chunk_file *f, size_t unit_bytes, unsigned memfd_flags)
{
    *f = (vti_chunk_file){.fd = open_memfd(memfd_flags), .pid = getpid(), .unit_bytes = unit_bytes};
    return f->fd >= 0 ? VT_OK : vti_system_status();
}

void vti_chunk_file_close(vti_chunk_file *f)
{
    close(f->fd);
}

bool vti_chunk_file_is_foreign(const vti_chunk_file *f)
{
    return getpid() != f->pid;
}

static vt_status file_resize(int fd, uint64_t size_bytes)
{
    if (!file_may_reach(size_bytes)) return VT_NOSPACE;
    int rc;
    do rc = ftruncate(fd, (off_t)size_bytes);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? VT_OK : vti_system_status();
}

// Adds a class at byte `end` of the file and index `first`, and moves both. False: the file would
// be longer than an offset can say.
static bool class_add(vti_chunk_file *f, const vt_vmm_class *c, size_t thp_bytes, uint64_t *end,
                      uint64_t *first)
{
    assert(c->n_slice > 0 && c->n_index > 0 && c->slice_bytes > 0);
    assert(c->slice_bytes % f->unit_bytes == 0);
    bool is_huge = thp_bytes > 0 && c->slice_bytes % thp_bytes == 0;
    uint64_t align = is_huge ? thp_bytes : f->unit_bytes;
    uint64_t at = (*end + align - 1) / align * align;
    if (at > INT64_MAX || c->n_index > ((uint64_t)INT64_MAX - at) / c->slice_bytes / c->n_slice)
        return false;
    f->cls[f->n_class++] = (vti_chunk_class){
        c->n_slice, c->slice_bytes, *first, *first + c->n_index, at, is_huge,
    };
    if (is_huge) f->thp_bytes = thp_bytes;
    *end = at + c->n_slice * c->n_index * c->slice_bytes;
    *first += c->n_index;
    return true;
}

vt_status vti_chunk_file_configure(vti_chunk_file *f, const vt_vmm_geometry *geo)
{
    assert(geo->n_class > 0 && geo->n_class <= VT_VMM_MAX_CLASS);
    vti_chunk_file laid = {.fd = f->fd, .pid = f->pid, .unit_bytes = f->unit_bytes};
    uint64_t end = 0, first = 0;
    size_t thp_bytes = vti_system_thp_bytes();
    // Transparent huge pages are larger than the granularity; reserved ones have none below.
    if (f->unit_bytes != (size_t)sysconf(_SC_PAGESIZE) || thp_bytes <= f->unit_bytes) thp_bytes = 0;
    for (uint32_t c = 0; c < geo->n_class; c++)
        if (!class_add(&laid, &geo->cls[c], thp_bytes, &end, &first)) return VT_NOSPACE;
    VT_TRY(file_resize(f->fd, end));
    if (fcntl(f->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        vt_status st = vti_system_status();
        return file_resize(f->fd, 0) == VT_OK ? st : VT_EDEVICE;
    }
    *f = laid;
    return VT_OK;
}

const vti_chunk_class *vti_chunk_class_of(const vti_chunk_file *f, uint64_t index)
{
    assert(f->n_class > 0 && index < f->cls[f->n_class - 1].end);
    const vti_chunk_class *c = f->cls;
    while (index >= c->end) c++;
    return c;
}

off_t vti_chunk_offset(const vti_chunk_class *c, uint32_t slice, uint64_t index)
{
    assert(slice < c->n_slice && index >= c->first && index < c->end);
    uint64_t position = slice * (c->end - c->first) + (index - c->first);
    return (off_t)(c->offset + position * c->slice_bytes);
}

// Asks for huge pages under a range through a temporary mapping. It may fail: the range is filled
// with small pages afterwards.
static void prefer_huge(const vti_chunk_file *f, off_t offset, size_t size_bytes)
{
    size_t room_bytes = size_bytes + f->thp_bytes;
    char *room = mmap(NULL, room_bytes, PROT_NONE, VTI_RESERVED_FLAGS, -1, 0);
    if (room == MAP_FAILED) return;
    char *at = room + (f->thp_bytes - (uintptr_t)room % f->thp_bytes);
    void *p = mmap(at, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f->fd, offset);
    if (p != MAP_FAILED && madvise(p, size_bytes, MADV_HUGEPAGE) == 0)
        (void)madvise(p, size_bytes, MADV_POPULATE_WRITE);
    (void)munmap(room, room_bytes);
}

// In pieces, so that periodic signals cannot interrupt it forever.
static vt_status slice_fill(const vti_chunk_file *f, const vti_chunk_class *c, uint32_t slice,
                            uint64_t index, uint64_t n)
{
    off_t offset = vti_chunk_offset(c, slice, index);
    size_t left = n * c->slice_bytes;
    size_t most = f->unit_bytes > FILL_BYTES ? f->unit_bytes : FILL_BYTES;
    if (c->is_huge) prefer_huge(f, offset, left);
    while (left > 0) {
        size_t piece = left < most ? left : most;
        if (!allocate_room(f->fd, 0, offset, piece)) return vti_system_status();
        offset += (off_t)piece;
        left -= piece;
    }
    return VT_OK;
}

// Punching a hole in a hole does no harm.
static vt_status slice_punch(const vti_chunk_file *f, const vti_chunk_class *c, uint32_t slice,
                             uint64_t index, uint64_t n)
{
    bool is_done = allocate_room(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 vti_chunk_offset(c, slice, index), n * c->slice_bytes);
    return is_done ? VT_OK : vti_system_status();
}

vt_status vti_chunk_file_create(const vti_chunk_file *f, uint64_t index, uint64_t n)
{
    if (vti_chunk_file_is_foreign(f)) return VT_EDEVICE;
    const vti_chunk_class *c = vti_chunk_class_of(f, index);
    assert(n > 0 && n <= c->end - index);
    vt_status st = VT_OK;
    uint32_t s = 0;
    while (s < c->n_slice && (st = slice_fill(f, c, s, index, n)) == VT_OK) s++;
    if (st == VT_OK) return VT_OK;
    for (uint32_t done = 0; done <= s; done++)
        if (slice_punch(f, c, done, index, n) != VT_OK) st = VT_EDEVICE;
    return st;
}

// On a memfd, punching whole pages cannot fail. If it does, what is gone already is filled again.
vt_status vti_chunk_file_destroy(const vti_chunk_file *f, uint64_t index, uint64_t n)
{
    if (vti_chunk_file_is_foreign(f)) return VT_EDEVICE;
    const vti_chunk_class *c = vti_chunk_class_of(f, index);
    assert(n > 0 && n <= c->end - index);
    uint32_t s = 0;
    while (s < c->n_slice && slice_punch(f, c, s, index, n) == VT_OK) s++;
    if (s == c->n_slice) return VT_OK;
    while (s-- > 0) (void)slice_fill(f, c, s, index, n);
    return VT_EDEVICE;
}

vt_status vti_chunk_file_resident(const vti_chunk_file *f, uint64_t *size_bytes)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0) return VT_EDEVICE;
    *size_bytes = (uint64_t)st.st_blocks * STAT_BLOCK_BYTES;
    return VT_OK;
}

// ---- The swap

enum { SWAP_PIECE_BYTES = 1 << 18 };

static vt_status status_of_errno(void)
{
    static const int of_room[] = {ENOSPC, EDQUOT, EFBIG, ENOMEM};
    for (size_t i = 0; i < sizeof of_room / sizeof *of_room; i++)
        if (errno == of_room[i]) return VT_NOSPACE;
    return VT_EDEVICE;
}

static int open_and_unlink(const char *dir)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/vtensor-swap-XXXXXX", dir);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) (void)unlink(path);
    return fd;
}

// Kernels and file systems without O_TMPFILE understand it as opening a directory for writing.
static int open_nameless(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) fd = open_and_unlink(dir);
    return fd;
}

vt_status vti_swap_file_open(vti_swap_file *f, const char *dir, uint64_t size_bytes)
{
    assert(size_bytes > 0);
    if (size_bytes > INT64_MAX || !file_may_reach(size_bytes)) return VT_NOSPACE;
    int fd = open_nameless(dir);
    if (fd < 0) return status_of_errno();
    *f = (vti_swap_file){.fd = fd, .size_bytes = size_bytes};
    return VT_OK;
}

static void assert_inside(const vti_swap_file *f, uint64_t offset, size_t size_bytes)
{
    assert(f->fd >= 0 && size_bytes > 0);
    assert(offset <= f->size_bytes && size_bytes <= f->size_bytes - offset);
    (void)f, (void)offset, (void)size_bytes;
}

static size_t piece_length(size_t size_bytes, size_t done)
{
    return size_bytes - done < SWAP_PIECE_BYTES ? size_bytes - done : SWAP_PIECE_BYTES;
}

vt_status vti_swap_file_write(const vti_swap_file *f, uint64_t offset, const void *src,
                              size_t size_bytes, uint64_t *sum)
{
    assert_inside(f, offset, size_bytes);
    if (!file_may_reach(offset + size_bytes)) return VT_NOSPACE;
    uint64_t so_far = 0;
    for (size_t done = 0; done < size_bytes; done += piece_length(size_bytes, done)) {
        const char *piece = (const char *)src + done;
        size_t n = piece_length(size_bytes, done);
        so_far = vt_vmm_checksum(so_far, piece, n);
        if (vti_file_write(f->fd, piece, n, (off_t)(offset + done))) continue;
        vt_status st = status_of_errno();
        vti_swap_file_drop(f, offset, size_bytes);
        return st;
    }
    *sum = so_far;
    return VT_OK;
}

vt_status vti_swap_file_read(const vti_swap_file *f, void *dst, uint64_t offset, size_t size_bytes,
                             uint64_t *sum)
{
    assert_inside(f, offset, size_bytes);
    uint64_t so_far = 0;
    for (size_t done = 0; done < size_bytes; done += piece_length(size_bytes, done)) {
        char *piece = (char *)dst + done;
        size_t n = piece_length(size_bytes, done);
        // The end of the file is an error, too: these bytes were written.
        if (!vti_file_read(f->fd, piece, n, (off_t)(offset + done))) return VT_EDEVICE;
        so_far = vt_vmm_checksum(so_far, piece, n);
    }
    *sum = so_far;
    return VT_OK;
}

// Not every file system can; then the room is reused when these bytes are written again.
void vti_swap_file_drop(const vti_swap_file *f, uint64_t offset, size_t size_bytes)
{
    assert_inside(f, offset, size_bytes);
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    (void)allocate_room(f->fd, mode, (off_t)offset, size_bytes);
}

void vti_swap_file_close(vti_swap_file *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}
