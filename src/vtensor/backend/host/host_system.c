// host_system.c - what the system reports about memory; see vmm_host.h.
//
// All files are read with plain read() into the stack, so that counting mappings makes none.
//
// A line of /proc/self/maps:
//
//     7f5e00000000-7f5e00200000 rw-s 00100000 00:01 2051      /memfd:vtensor
//
// The name at its end may contain anything, so only the front is read: addresses, permissions,
// offset, device and inode. Between two reads the system may have moved the borders of a mapping
// that was read already; addresses count only once.
#include "vmm_host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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
