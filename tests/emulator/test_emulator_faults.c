// test_emulator_faults.c - the checked build finds every planted fault at its line, in every order
// of the threads, and says nothing of kernels that are right.
#include "emu_rig.h"
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const emu_library *library;
static const char *const orders[] = {"up", "down", "1", "2", "3"};

enum { N_ORDER = sizeof orders / sizeof orders[0], N_IN = 1024, N_OUT = 1024 };

// Memory as the stand-in for the driver gives it: there is nothing before and behind it.

static float *new_memory(int n)
{
    size_t bytes = (size_t)n * sizeof(float), zone = 1 << 20;
    char *p = mmap(NULL, bytes + 2 * zone, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + zone, bytes, PROT_READ | PROT_WRITE), 0);
    library->memory((uintptr_t)(p + zone), bytes, EMU_MEMORY_NEW);
    return (float *)(void *)(p + zone);
}

static void drop_memory(float *at, int n)
{
    size_t bytes = (size_t)n * sizeof(float), zone = 1 << 20;
    library->memory((uintptr_t)at, bytes, EMU_MEMORY_GONE);
    munmap((char *)at - zone, bytes + 2 * zone);
}

typedef struct plant {
    const char *kernel;
    unsigned n_block, n_thread;
    int n_in; // floats; 0: N_IN
    size_t dynamic_bytes;
} plant;

static int run_plant(const plant *p)
{
    int n_in = p->n_in ? p->n_in : N_IN;
    float *in = new_memory(n_in), *out = new_memory(N_OUT);
    for (int i = 0; i < n_in; i++) in[i] = (float)(i % 7) - 2;
    library->memory((uintptr_t)in, (size_t)n_in * sizeof *in, EMU_MEMORY_WRITTEN);
    out[256] = 0;
    library->memory((uintptr_t)(out + 256), sizeof *out, EMU_MEMORY_WRITTEN);
    emu_size grid = {p->n_block, 1, 1}, block = {p->n_thread, 1, 1};
    void *args[] = {&in, &out};
    if (p->dynamic_bytes) args[0] = &out;
    int r = emu_rig_run(library, p->kernel, grid, block, p->dynamic_bytes, args);
    drop_memory(in, n_in);
    drop_memory(out, N_OUT);
    return r;
}

// Whether the faults name a line of faults.cu that is marked with the kernel's name.
static bool names_marked_line(const char *kernel)
{
    char row[512], mark[128], place[64];
    bool found = false;
    FILE *f = fopen(EMU_FAULTS_CU, "r");
    assert_non_null(f);
    snprintf(mark, sizeof mark, "// fault: %s\n", kernel);
    for (int line = 1; fgets(row, sizeof row, f); line++) {
        snprintf(place, sizeof place, "faults.cu:%d: ", line);
        if (strstr(row, mark) && strstr(library->faults(), place)) found = true;
    }
    fclose(f);
    return found;
}

static const plant faulty[] = {
    {"no_barrier", 1, 64, 0, 0},
    {"no_second_barrier", 1, 64, 0, 0},
    {"no_syncwarp", 1, 32, 0, 0},
    {"unwritten_shared", 1, 64, 0, 0},
    {"beyond_dynamic", 1, 64, 0, 256},
    {"beyond_global", 1, 64, 64, 0},
    {"unwritten_global", 1, 64, 0, 0},
    {"race_of_blocks", 2, 64, 0, 0},
    {"read_of_other_block", 2, 64, 0, 0},
    {"misaligned_float4", 1, 64, 0, 0},
    {"misaligned_plain_float4", 1, 64, 0, 0},
    {"divergent_barrier", 1, 64, 0, 0},
    {"barrier_after_return", 1, 64, 0, 0},
    {"barrier_in_branch", 1, 64, 0, 0},
    {"shuffle_from_nobody", 1, 32, 0, 0},
    {"shuffle_with_the_gone", 1, 32, 0, 0},
    {"uneven_mask", 1, 32, 0, 0},
    {"no_async_wait", 1, 64, 0, 0},
    {"async_wait_without_barrier", 1, 64, 0, 0},
    {"async_never_waited", 1, 64, 0, 0},
    {"async_overwrites_what_is_read", 1, 64, 0, 0},
    {"async_source_overwritten", 1, 64, 0, 0},
};

static const plant right[] = {
    {"with_barrier", 3, 64, 0, 0}, {"with_syncwarp", 1, 32, 0, 0}, {"last_block_adds", 2, 64, 0, 0},
    {"right_parts", 1, 64, 0, 0},  {"slow_strides", 1, 32, 0, 0},
};

static void test_every_planted_fault_is_found_at_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faulty / sizeof faulty[0]; i++)
        for (int o = 0; o < N_ORDER; o++) {
            setenv("EMU_ORDER", orders[o], 1);
            int r = run_plant(&faulty[i]);
            if (r != EMU_FAULT_LAUNCH && r != EMU_FAULT_ADDRESS)
                fail_msg("%s, order %s: %d", faulty[i].kernel, orders[o], r);
            if (!names_marked_line(faulty[i].kernel))
                fail_msg("%s, order %s: at other lines:\n%s", faulty[i].kernel, orders[o],
                         library->faults());
        }
    unsetenv("EMU_ORDER");
}

static void test_what_is_right_passes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        for (int o = 0; o < N_ORDER; o++) {
            setenv("EMU_ORDER", orders[o], 1);
            if (run_plant(&right[i]) != EMU_FAULT_NONE)
                fail_msg("%s, order %s:\n%s", right[i].kernel, orders[o], library->faults());
        }
    unsetenv("EMU_ORDER");
}

// A fault is one line, however many threads commit it.
static void test_a_fault_is_told_once(void **state)
{
    (void)state;
    (void)run_plant(&(plant){"unwritten_global", 1, 64, 0, 0});
    const char *text = library->faults();
    assert_non_null(strstr(text, "unwritten_global: faults.cu:"));
    assert_non_null(strstr(text, "(block 0,0,0 thread 0,0,0)"));
    assert_string_equal(strchr(text, '\n'), "\n");
}

// "good" and "bad" lines of slow_strides: sectors per request and bank conflicts.
static void test_the_profile_shows_what_is_slow(void **state)
{
    (void)state;
    char path[] = "/tmp/emu_profileXXXXXX", setting[64], row[512];
    int fd = mkstemp(path), n_bad = 0, n_good = 0;
    assert_true(fd >= 0);
    close(fd);
    snprintf(setting, sizeof setting, "slow_strides:0:%s", path);
    setenv("EMU_PROFILE", setting, 1);
    assert_int_equal(run_plant(&(plant){"slow_strides", 1, 32, 0, 0}), EMU_FAULT_NONE);
    unsetenv("EMU_PROFILE");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(row, sizeof row, f)) {
        bool bad = strstr(row, "<--") != NULL;
        n_bad += bad && strstr(row, "32 requests   32.00") != NULL;
        n_good += !bad && (strstr(row, "32 requests    4.00 sectors, best    4.00") ||
                           strstr(row, "32 requests    1.00 passes, best    1.00"));
    }
    fclose(f);
    unlink(path);
    assert_int_equal(n_bad, 2);
    assert_int_equal(n_good, 2);
}

FX_SUITE(test_emulator_faults)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_planted_fault_is_found_at_its_line),
        cmocka_unit_test(test_what_is_right_passes),
        cmocka_unit_test(test_a_fault_is_told_once),
        cmocka_unit_test(test_the_profile_shows_what_is_slow),
    };
    library = emu_rig_open(EMU_FAULTS);
    if (!library || !library->checked) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
