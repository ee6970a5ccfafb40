// test_emulator_faults.c - the checked build finds every planted fault at its line, in every order
// of the threads, and says nothing of kernels that are right.
#include "emu_rig.h"
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const emu_library *library;
static const char *const orders[] = {"up", "down", "1", "2", "3"};

enum { N_ORDER = sizeof orders / sizeof orders[0], N_IN = 1024, N_OUT = 1024 };

static int open_library(void **state)
{
    (void)state;
    library = emu_rig_open(EMU_FAULTS);
    return library && library->checked ? 0 : -1;
}

// Memory as the stand-in for the driver gives it: nothing lies before it or after it.
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
    emu_size grid = {p->n_block, 1, 1}, block = {p->n_thread, 1, 1};
    const float *const args[] = {in, out};
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
    {"with_barrier", 3, 64, 0, 0},
    {"with_syncwarp", 1, 32, 0, 0},
};

// Runs the kernel in every order, and asks for its fault, or for none.
static void check_plant(const plant *p, bool is_faulty)
{
    for (int o = 0; o < N_ORDER; o++) {
        setenv("EMU_ORDER", orders[o], 1);
        const int fault = run_plant(p);
        const bool found = fault == EMU_FAULT_LAUNCH || fault == EMU_FAULT_ADDRESS;
        if (is_faulty != found || (is_faulty && !names_marked_line(p->kernel)))
            fail_msg("%s, order %s: %d\n%s", p->kernel, orders[o], fault, library->faults());
    }
    unsetenv("EMU_ORDER");
}

FX_TEST(test_every_planted_fault_is_found_at_its_line)
{
    for (size_t i = 0; i < sizeof faulty / sizeof faulty[0]; i++) check_plant(&faulty[i], true);
}

FX_TEST(test_what_is_right_passes)
{
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) check_plant(&right[i], false);
}

// A fault is one line, however many threads commit it.
FX_TEST(test_a_fault_is_told_once)
{
    (void)run_plant(&(plant){"unwritten_global", 1, 64, 0, 0});
    const char *text = library->faults();
    assert_non_null(strstr(text, "unwritten_global: faults.cu:"));
    assert_non_null(strstr(text, "(block 0,0,0 thread 0,0,0)"));
    assert_string_equal(strchr(text, '\n'), "\n");
}

FX_RUN_GROUP(test_emulator_faults, open_library, NULL)
