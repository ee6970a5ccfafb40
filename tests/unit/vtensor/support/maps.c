// maps.c - see maps.h. The files are read with plain read(), so that counting maps nothing.
#include "maps.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16 }; // some files of /proc refuse to be read into much more

static char text[1 << 24];

static size_t slurp(const char *path)
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    for (ssize_t got = 1; got > 0 && n < sizeof text - 1; n += (size_t)got) {
        size_t room = sizeof text - 1 - n;
        got = read(fd, text + n, room < READ_BYTES ? room : READ_BYTES);
        if (got < 0) break;
    }
    close(fd);
    text[n] = '\0';
    return n;
}

// Lines that hold both. Each is ended where it ends: a sanitizer's strstr looks at all of a string.
static uint64_t count_lines(const char *what, const char *and)
{
    uint64_t n = 0;
    (void)slurp("/proc/self/maps");
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        n += strstr(line, what) && strstr(line, and);
    }
    return n;
}

uint64_t maps_of_memfd(void)
{
    return count_lines("/memfd:vtensor", "");
}

uint64_t read_only_maps_of_memfd(void)
{
    return count_lines(" r--s ", "/memfd:vtensor");
}

uint64_t maps_in_all(void)
{
    return count_lines("", "");
}

// A VMA's entry is a line as in maps, and then lines "Field:   n kB".
uint64_t smaps_of_memfd(const char *field)
{
    uint64_t kb = 0;
    (void)slurp("/proc/self/smaps");
    for (const char *p = text; (p = strstr(p, "/memfd:vtensor"));) {
        if (!(p = strstr(p, field))) break;
        kb += strtoull(p + strlen(field), NULL, 10);
    }
    return kb * 1024;
}

uint64_t max_map_count(void)
{
    (void)slurp("/proc/sys/vm/max_map_count");
    return strtoull(text, NULL, 10);
}

bool read_faults(const void *p)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        (void)*(const volatile char *)p;
        _exit(0);
    }
    int how = 0;
    if (child < 0 || waitpid(child, &how, 0) != child) abort();
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV;
}
