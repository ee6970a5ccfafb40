// test_memory.c - free memory, read from folders that replace "/": the machine alone, cgroups of
// both versions, containers, and files that make no sense.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/memory.h"
#include "unit/cmocka_all.h"

#define MIB        (1024ull * 1024)
#define PATH_BYTES 512

#define V1 "/sys/fs/cgroup/memory"
#define V2 "/sys/fs/cgroup"

// ---- a folder that replaces "/" -----------------------------------------------------------------

static char root[PATH_BYTES];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/test-memory-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_folders_to(char *path)
{
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        mkdir(path, 0700); // most exist already
        *slash = '/';
    }
}

static void put_bytes(const char *folder, const char *name, const void *p, size_t n)
{
    char path[2 * PATH_BYTES];
    int len = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    assert_in_range(len, 1, sizeof path - 1);
    make_folders_to(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void put(const char *folder, const char *name, const char *text)
{
    put_bytes(folder, name, text, strlen(text));
}

static void put_mib(const char *folder, const char *name, uint64_t mib)
{
    char text[32];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)(mib * MIB));
    put(folder, name, text);
}

static void put_machine(uint64_t available_mib)
{
    char text[256];
    snprintf(text, sizeof text,
             "MemTotal:       99999999 kB\nMemFree:          111111 kB\n"
             "MemAvailable:   %8llu kB\nBuffers:           14380 kB\n",
             (unsigned long long)(available_mib * 1024));
    put("/proc", "meminfo", text);
}

static void put_group(const char *line)
{
    put("/proc/self", "cgroup", line);
}

static void put_v2(const char *folder, uint64_t limit_mib, uint64_t usage_mib, uint64_t cache_mib)
{
    char text[256];
    put_mib(folder, "memory.max", limit_mib);
    put(folder, "memory.high", "max\n");
    put_mib(folder, "memory.current", usage_mib);
    snprintf(text, sizeof text, "anon 1\nfile 2\ninactive_anon 3\ninactive_file %llu\nslab 5\n",
             (unsigned long long)(cache_mib * MIB));
    put(folder, "memory.stat", text);
}

static void put_v1(const char *folder, uint64_t limit_mib, uint64_t usage_mib, uint64_t cache_mib)
{
    char text[256];
    put_mib(folder, "memory.limit_in_bytes", limit_mib);
    put_mib(folder, "memory.usage_in_bytes", usage_mib);
    snprintf(text, sizeof text,
             "cache 1\ninactive_file 7\ntotal_cache 2\ntotal_inactive_file %llu\n",
             (unsigned long long)(cache_mib * MIB));
    put(folder, "memory.stat", text);
}

#define EXPECT_MIB(mib) assert_int_equal(fxi_free_memory_bytes(root), (mib)*MIB)

// ---- the machine alone --------------------------------------------------------------------------

static uint64_t physical_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

FX_TEST(test_plain_machine)
{
    put_machine(3000);
    EXPECT_MIB(3000);
    put_group("0::/\n"); // the root of version 2 has no limits
    put(V2, "cgroup.procs", "1\n");
    EXPECT_MIB(3000);
}

FX_TEST(test_nothing_known_is_all_there_is)
{
    assert_int_equal(fxi_free_memory_bytes(root), physical_bytes());
    assert_int_equal(fxi_free_memory_bytes("/no/such/folder"), physical_bytes());
    put("/proc", "meminfo", "MemTotal: 4 kB\nXMemAvailable: 3 kB\nMemAvailable:\n");
    assert_int_equal(fxi_free_memory_bytes(root), physical_bytes());
}

FX_TEST(test_this_machine)
{
    assert_in_range(fxi_free_memory_bytes(""), 0, physical_bytes());
}

// ---- version 2 ----------------------------------------------------------------------------------

FX_TEST(test_v2_limit)
{
    put_machine(3000);
    put_group("0::/app\n");
    put_v2(V2 "/app", 1000, 400, 0);
    EXPECT_MIB(600);
    put_v2(V2 "/app", 1000, 400, 150); // the kernel reclaims that
    EXPECT_MIB(750);
    put(V2 "/app", "memory.stat", "active_file 104857600\nactive_anon 9\ninactive_file 52428800\n");
    EXPECT_MIB(1000 - 400 + 150);
    put_v2(V2 "/app", 1000, 400, 500); // inconsistent: read at two moments
    EXPECT_MIB(1000);
    put_v2(V2 "/app", 9000, 400, 0); // more than the machine has
    EXPECT_MIB(3000);
}

FX_TEST(test_v2_high_is_a_limit_too)
{
    put_machine(3000);
    put_group("0::/app\n");
    put_v2(V2 "/app", 1000, 400, 100);
    put_mib(V2 "/app", "memory.high", 800);
    EXPECT_MIB(500);
    put_mib(V2 "/app", "memory.high", 2000);
    EXPECT_MIB(700);
    put(V2 "/app", "memory.max", "max\n");
    EXPECT_MIB(1700);
}

FX_TEST(test_v2_tighter_parent)
{
    put_machine(3000);
    put_group("0::/slice/service/app\n");
    put_v2(V2 "/slice/service/app", 2000, 100, 0);
    put_v2(V2 "/slice", 1500, 1300, 50); // "service" between them says nothing
    EXPECT_MIB(250);
    put_v2(V2, 1200, 1100, 0); // the mount itself: in a container it has limits
    EXPECT_MIB(100);
    put_v2(V2 "/slice/other", 10, 10, 0); // of other processes
    EXPECT_MIB(100);
}

FX_TEST(test_v2_max_is_none)
{
    put_machine(3000);
    put_group("0::/app\n");
    put_v2(V2 "/app", 1, 400, 0);
    put(V2 "/app", "memory.max", "max\n");
    EXPECT_MIB(3000);
}

FX_TEST(test_v2_path_of_the_host)
{
    static const char *const lines[] = {"0::/docker/abc\n", "0::/docker/abc (deleted)\n",
                                        "0::/../docker\n", "0::docker\n", "0::\n"};
    put_machine(3000);
    put_v2(V2, 900, 200, 0);
    put_v2(V2 "/docker", 10, 10, 0); // one that was made in the container, and is not ours
    put_v2(V2 "/../docker", 10, 10, 0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        put_group(lines[i]);
        EXPECT_MIB(700);
    }
}

// ---- version 1 ----------------------------------------------------------------------------------

FX_TEST(test_v1_limit)
{
    put_machine(3000);
    put_group("9:name=memory:/none\n5:cpu,cpuacct:/none\n4:hugetlb,memory:/job/step:1\n0::/\n");
    put_v1(V1 "/job/step:1", 1000, 400, 100);
    EXPECT_MIB(700);
    put_v1(V1 "/job", 800, 750, 150); // a tighter parent
    EXPECT_MIB(200);
    put_v1(V1 "/none", 10, 10, 0); // of controllers that are not memory
    EXPECT_MIB(200);
}

FX_TEST(test_v1_huge_is_none)
{
    put_machine(3000);
    put_group("4:memory:/job\n");
    put_v1(V1 "/job", 1, 400, 100);
    put(V1 "/job", "memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_MIB(3000);
    put("/proc", "meminfo", ""); // no limit is not an answer
    assert_int_equal(fxi_free_memory_bytes(root), physical_bytes());
}

FX_TEST(test_v1_path_of_the_host)
{
    put_machine(3000);
    put_group("4:memory:/docker/abc\n");
    put_v1(V1, 900, 200, 50);
    EXPECT_MIB(750);
}

FX_TEST(test_both_versions)
{
    put_machine(3000);
    put_group("4:memory:/job\n0::/app\n");
    put_v1(V1 "/job", 1000, 400, 100);
    put_v2(V2 "/app", 1000, 400, 0);
    EXPECT_MIB(600);
}

// ---- at the limit, and beyond what makes sense --------------------------------------------------

FX_TEST(test_above_the_limit_is_zero)
{
    put_machine(3000);
    put_group("0::/app\n");
    put_v2(V2 "/app", 1000, 1000, 0);
    EXPECT_MIB(0);
    put_v2(V2 "/app", 1000, 1400, 300); // a limit that was lowered
    EXPECT_MIB(0);
    put_v2(V2 "/app", 1000, 1400, 500);
    EXPECT_MIB(100);
    put_machine(0);
    EXPECT_MIB(0);
}

FX_TEST(test_garbage_is_no_limit)
{
    // clang-format off
    static const char *const bad[] = {
        "", "\n", "-1\n", "lots\n", "12x\n", " 12\n", "0x10\n", "1e3\n", "\n", "1048576;", "max 7",
        "\xff\n", "99999999999999999999999999999999\n",
    };
    // clang-format on
    put_machine(3000);
    put_group("0::/app\n");
    put_v2(V2 "/app", 1000, 400, 100);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put(V2 "/app", "memory.max", bad[i]);
        EXPECT_MIB(3000);
    }
}

FX_TEST(test_garbage_in_usage)
{
    put_machine(3000);
    put_group("0::/app\n");
    put_v2(V2 "/app", 1000, 400, 100);
    put(V2 "/app", "memory.stat", "inactive_file104857600 9\n inactive_file 9\ninactive_file\n");
    EXPECT_MIB(600);
    put(V2 "/app", "memory.stat", "inactive_file 99999999999999999999999999\n");
    EXPECT_MIB(600);
    put(V2 "/app", "memory.stat", "\n\ninactive_file 104857600"); // the last line may have no end
    EXPECT_MIB(700);
    put(V2 "/app", "memory.current", "?\n"); // the limit is known
    EXPECT_MIB(1000);
}

FX_TEST(test_garbage_in_meminfo)
{
    static const char *const bad[] = {"MemAvailable: -5 kB\n", "MemAvailable: many kB\n",
                                      "MemAvailable: 18014398509481984 kB\n",
                                      "MemAvailable: 99999999999999999999 kB\n", "MemAvailable"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("/proc", "meminfo", bad[i]);
        assert_int_equal(fxi_free_memory_bytes(root), physical_bytes());
    }
}

FX_TEST(test_garbage_in_cgroup)
{
    static const char bytes[] = "0::/a\0b\n4:memory:/job\n";
    static const char *const bad[] = {
        "",           "\n\n\n",     "memory",  "memory:",     ":::::::",  "4:memory",
        "4:memory;/", "x:,,,:/\n:", "4:mem:/", "4:memory2:/", "4:,cpu,:/"};
    put_machine(3000);
    put_v1(V1, 10, 0, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_group(bad[i]);
        EXPECT_MIB(3000);
    }
    put_bytes("/proc/self", "cgroup", bytes, sizeof bytes - 1);
    EXPECT_MIB(3000);
    put("/proc/self/cgroup.d", "x", ""); // a folder instead of a file
    put_group("0::/a\n");
    put(V2 "/a/memory.max", "x", "");
    EXPECT_MIB(3000);
}

// ---- sizes --------------------------------------------------------------------------------------

FX_TEST(test_long_paths_are_ignored)
{
    static char line[6000] = "0::/";
    put_machine(3000);
    put_v2(V2, 900, 200, 0);
    memset(line + 4, 'a', sizeof line - 5);
    put_group(line);
    EXPECT_MIB(700); // like a missing path
    for (size_t i = 4; i + 1 < sizeof line; i += 2) line[i] = '/';
    put_group(line);
    EXPECT_MIB(700);
    assert_int_equal(fxi_free_memory_bytes(line + 3), physical_bytes());
}

// A number cut off at the end of what is read is ignored.
FX_TEST(test_long_files_are_cut_at_a_line)
{
    static char text[9000];
    put_machine(3000);
    put_group("0::/app\n");
    put_v2(V2 "/app", 1000, 400, 0);
    for (size_t at = 8100; at < 8260; at++) {
        memset(text, 'a', sizeof text);
        memcpy(text + at, "\ninactive_file 104857600\n", 25);
        put_bytes(V2 "/app", "memory.stat", text, sizeof text);
        EXPECT_MIB(at + 25 <= 8191 ? 700 : 600);
    }
}

// What there is at all: memory and swap, or the least limit, whatever is in use.
FX_TEST(test_whole_memory)
{
    put("/proc", "meminfo", "MemTotal: 8388608 kB\nMemAvailable: 1024 kB\nSwapTotal: 1048576 kB\n");
    assert_int_equal(fxi_whole_memory_bytes(root), 9216 * MIB);
    put("/proc", "meminfo", "MemTotal: 8388608 kB\nMemAvailable: 1024 kB\n");
    assert_int_equal(fxi_whole_memory_bytes(root), 8192 * MIB);
    put_group("0::/app/web\n");
    put_v2(V2 "/app", 5000, 4999, 0);
    put_v2(V2 "/app/web", 6000, 100, 0);
    assert_int_equal(fxi_whole_memory_bytes(root), 5000 * MIB);
    put_group("4:cpu,memory:/box\n");
    put_v1(V1 "/box", 3000, 2999, 0);
    assert_int_equal(fxi_whole_memory_bytes(root), 3000 * MIB);
    put("/proc", "meminfo", "nothing\n");
    put_group("0::/none\n");
    assert_int_equal(fxi_whole_memory_bytes(root), physical_bytes());
}

static unsigned long filter_below(const char *at)
{
    char path[2 * PATH_BYTES], text[32] = "";
    snprintf(path, sizeof path, "%s/proc/self/coredump_filter", at);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    return strtoul(text, NULL, 16);
}

FX_TEST(test_core_dumps_lack_shared_memory)
{
    fxi_core_dump_shrink(root); // no such file: nothing happens
    put_bytes("/proc/self", "coredump_filter", "00000033\n", 9);
    fxi_core_dump_shrink(root);
    assert_int_equal(filter_below(root), 0x31);
}

FX_TEST(test_a_filter_that_somebody_set_is_kept)
{
    put_bytes("/proc/self", "coredump_filter", "0000007f\n", 9);
    fxi_core_dump_shrink(root);
    assert_int_equal(filter_below(root), 0x7f);
}

FX_TEST(test_the_systems_own_filter)
{
    if (access("/proc/self/coredump_filter", W_OK) != 0 || filter_below("") != 0x33) skip();
    fxi_core_dump_shrink("");
    assert_int_equal(filter_below(""), 0x31);
}

FX_RUN_EACH(test_memory, make_root, remove_root)
