// process.c - this process as the system sees it: memory, time, open files, from /proc and
// getrusage.
#include "server/metrics/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static bool read_text(const char *path, char *text, size_t cap)
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, cap - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return n > 0;
}

static uint64_t resident_bytes(void)
{
    char text[128];
    unsigned long long n_all, n_resident;
    if (!read_text("/proc/self/statm", text, sizeof text)) return 0;
    if (sscanf(text, "%llu %llu", &n_all, &n_resident) != 2) return 0;
    return n_resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

// Field 22 of /proc/self/stat is the start in clock ticks since the boot. The second field, the
// program's name, may contain anything but ends with the last ')'.
static double start_since_boot_s(void)
{
    char text[1024];
    unsigned long long ticks = 0;
    if (!read_text("/proc/self/stat", text, sizeof text)) return 0;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %llu", &ticks) != 1) return 0;
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t count_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    uint64_t n = 0;
    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n ? n - 1 : 0; // not the directory itself
}

void fxi_process_read(fxi_process *p)
{
    struct rlimit files;
    *p = (fxi_process){.resident_bytes = resident_bytes(),
                       .start_s = seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME) +
                                  start_since_boot_s(),
                       .cpu_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID),
                       .n_file = count_files()};
    if (!getrlimit(RLIMIT_NOFILE, &files)) p->max_file = files.rlim_cur;
}
