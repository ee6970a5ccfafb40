// memory.c - reads /proc/meminfo and the files of memory cgroups, versions 1 and 2.
//
// A cgroup is a folder below a mount, and its limit holds for everything below it: the walk goes
// from the process's own folder up to the mount. A value that cannot be read or makes no sense is
// NO_LIMIT, so the minimum of all values is the answer and no error needs a path of its own.
#include "base/system/memory.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_LIMIT     UINT64_MAX
#define ABSURD_BYTES (1ull << 60) // more than any machine has: version 1 writes 2^63 for "no limit"
#define TEXT_BYTES   8192         // of a file; the rest is ignored
#define PATH_BYTES   4096

// The file names of a version of cgroups.
typedef struct cgroup_version {
    const char *mount;    // below the root
    const char *limit[2]; // the lower one holds; NULL: none
    const char *usage;
    const char *cache[2]; // in memory.stat: page cache of the group and all below it
} cgroup_version;

static const cgroup_version version_1 = {.mount = "/sys/fs/cgroup/memory",
                                         .limit = {"memory.limit_in_bytes", NULL},
                                         .usage = "memory.usage_in_bytes",
                                         .cache = {"total_inactive_file", "total_active_file"}};
static const cgroup_version version_2 = {.mount = "/sys/fs/cgroup",
                                         .limit = {"memory.max", "memory.high"},
                                         .usage = "memory.current",
                                         .cache = {"inactive_file", "active_file"}};

// A memory cgroup of this process.
typedef struct cgroup_dir {
    const char *root;
    const cgroup_version *kind;
    char *path; // below the mount: "/a/b", or "" for the mount itself
} cgroup_dir;

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// ---- text ---------------------------------------------------------------------------------------

// The file of this path as one string, "" if it cannot be read. A long file is cut at the end of a
// line: half a number would be a wrong one.
__attribute__((format(printf, 2, 3))) static void read_text_file(char text[TEXT_BYTES],
                                                                 const char *path_fmt, ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, path_fmt);
    const bool fits = vsnprintf(path, sizeof path, path_fmt, args) < PATH_BYTES;
    va_end(args);
    text[0] = 0;
    const int fd = fits ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) return;
    size_t n = 0;
    for (ssize_t got; (got = read(fd, text + n, TEXT_BYTES - 1 - n)) > 0;) n += (size_t)got;
    close(fd);
    if (n == TEXT_BYTES - 1)
        while (n > 0 && text[n - 1] != '\n') n--;
    text[n] = 0;
}

// The number that s begins with; NO_LIMIT if there is none ("max") or it is absurd.
static uint64_t leading_number(const char *s)
{
    const size_t n = strspn(s, "0123456789");
    if (n == 0 || !strchr(" \n", s[n])) return NO_LIMIT; // strchr finds the end of s, too
    const uint64_t v = strtoull(s, NULL, 10);
    return v < ABSURD_BYTES ? v : NO_LIMIT;
}

// The number in the line "key  123"; NO_LIMIT if there is none.
static uint64_t number_after(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, n) != 0 || line[n] != ' ') continue;
        return leading_number(line + n + strspn(line + n, " "));
    }
    return NO_LIMIT;
}

// ---- the machine --------------------------------------------------------------------------------

static uint64_t physical_bytes(void)
{
    long n_page = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return n_page > 0 && page_bytes > 0 ? (uint64_t)n_page * (uint64_t)page_bytes : NO_LIMIT;
}

// A line of /proc/meminfo; NO_LIMIT if it is not there.
static uint64_t meminfo_bytes(const char *root, const char *key)
{
    char text[TEXT_BYTES];
    read_text_file(text, "%s/proc/meminfo", root);
    uint64_t kib = number_after(text, key);
    return kib < ABSURD_BYTES / 1024 ? kib * 1024 : NO_LIMIT;
}

// ---- one cgroup ---------------------------------------------------------------------------------

// Reads a file of the group into text, "" if there is none.
static void read_group_file(const cgroup_dir *g, const char *name, char text[TEXT_BYTES])
{
    read_text_file(text, "%s%s%s/%s", g->root, g->kind->mount, g->path, name);
}

static uint64_t limit_bytes(const cgroup_dir *g)
{
    char text[TEXT_BYTES];
    uint64_t limit = NO_LIMIT;
    for (int i = 0; i < 2 && g->kind->limit[i]; i++) {
        read_group_file(g, g->kind->limit[i], text);
        limit = smaller_of(limit, leading_number(text));
    }
    return limit;
}

// Memory that cannot be reclaimed; 0 if unknown.
static uint64_t usage_bytes(const cgroup_dir *g)
{
    char text[TEXT_BYTES];
    read_group_file(g, g->kind->usage, text);
    uint64_t usage = leading_number(text);
    if (usage == NO_LIMIT) return 0;
    read_group_file(g, "memory.stat", text);
    for (int i = 0; i < 2; i++) {
        uint64_t cache = number_after(text, g->kind->cache[i]);
        if (cache != NO_LIMIT) usage -= smaller_of(usage, cache);
    }
    return usage;
}

static uint64_t group_left_bytes(const cgroup_dir *g)
{
    uint64_t limit = limit_bytes(g);
    if (limit == NO_LIMIT) return NO_LIMIT;
    return limit - smaller_of(limit, usage_bytes(g));
}

// ---- all cgroups --------------------------------------------------------------------------------

// In a container the path may be the host's and not exist below the mount seen here.
static bool is_below_mount(const cgroup_dir *g)
{
    char path[PATH_BYTES];
    if (g->path[0] != '/' || strstr(g->path, "/..")) return false;
    int n = snprintf(path, sizeof path, "%s%s%s", g->root, g->kind->mount, g->path);
    return n < PATH_BYTES && access(path, F_OK) == 0;
}

typedef uint64_t group_bytes_fn(const cgroup_dir *g);

// The least of the group in a line and its ancestors: "4:cpu,memory:/path" (version 1) or
// "0::/path" (version 2), which is cut on the way up.
static uint64_t named_bytes(const char *root, char *line, group_bytes_fn *bytes_of)
{
    strsep(&line, ":");
    char *controllers = strsep(&line, ":");
    if (!line) return NO_LIMIT;
    cgroup_dir g = {.root = root, .kind = &version_2, .path = line};
    if (controllers[0]) {
        char *name;
        while ((name = strsep(&controllers, ",")) && strcmp(name, "memory") != 0) continue;
        if (!name) return NO_LIMIT;
        g.kind = &version_1;
    }
    if (!is_below_mount(&g)) g.path[0] = 0;
    uint64_t least = bytes_of(&g);
    while (g.path[0]) {
        *strrchr(g.path, '/') = 0;
        least = smaller_of(least, bytes_of(&g));
    }
    return least;
}

static uint64_t cgroups_bytes(const char *root, group_bytes_fn *bytes_of)
{
    char text[TEXT_BYTES];
    read_text_file(text, "%s/proc/self/cgroup", root);
    uint64_t least = NO_LIMIT;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
        least = smaller_of(least, named_bytes(root, line, bytes_of));
    return least;
}

uint64_t fxi_group_left_bytes(const char *root)
{
    return cgroups_bytes(root, group_left_bytes);
}

uint64_t fxi_free_memory_bytes(const char *root)
{
    uint64_t machine = meminfo_bytes(root, "MemAvailable:");
    if (machine == NO_LIMIT) machine = physical_bytes();
    uint64_t left = smaller_of(machine, fxi_group_left_bytes(root));
    return left == NO_LIMIT ? 0 : left;
}

uint64_t fxi_whole_memory_bytes(const char *root)
{
    uint64_t machine = meminfo_bytes(root, "MemTotal:"), swap = meminfo_bytes(root, "SwapTotal:");
    if (machine == NO_LIMIT)
        machine = physical_bytes();
    else if (swap != NO_LIMIT)
        machine += swap;
    return smaller_of(machine, cgroups_bytes(root, limit_bytes));
}

// ---- core dumps ---------------------------------------------------------------------------------

// Bits of coredump_filter: private and shared anonymous memory, headers, private huge pages.
enum { PRESET_FILTER = 0x33, SHARED_ANONYMOUS = 0x02 };

void fxi_core_dump_shrink(const char *root)
{
    char path[PATH_MAX], text[32] = "";
    const int n = snprintf(path, sizeof path, "%s/proc/self/coredump_filter", root);
    if (n < 0 || (size_t)n >= sizeof path) return;
    FILE *f = fopen(path, "r+e");
    if (!f) return;
    if (fgets(text, sizeof text, f) && strtoul(text, NULL, 16) == PRESET_FILTER) {
        rewind(f);
        fprintf(f, "0x%x\n", PRESET_FILTER & ~SHARED_ANONYMOUS);
    }
    fclose(f);
}
