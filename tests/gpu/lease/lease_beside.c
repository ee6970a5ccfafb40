// lease_beside.c - mappings changed while a kernel reads, on a GPU: ranges next to its own come and
// go, and the chunks that it reads are mapped at a second address and unmapped there. The
// kernel must read the same words all the time, and live.
//
//     lease_beside
//
// Also prints what each call costs, in microseconds, alone and next to the kernel. A driver that
// takes no PTX, as the stand-in's, has no kernel to run: the calls are made all the same.
#include <stdatomic.h>
#include <stdio.h>

#include "../gpu_rig.h"
#include "base/system/clock.h"
#include "gpu/driver/cu.h"

enum { N_READ = 32, N_ROUND = 1000, N_BLOCK = 64, N_THREAD = 256, VALUE = 's' };

// What host and kernel tell each other, in pinned memory.
typedef struct gate {
    _Atomic uint32_t is_over, n_sweep, is_wrong;
} gate;

typedef struct read_args {
    uint64_t from, n_word, gate;
    uint32_t want;
} read_args;

// Sweeps over the words until is_over.
static const char read_ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry read_words(.param .align 8 .b8 args[32]) {\n"
    ".reg .pred %p<5>; .reg .b32 %r<11>; .reg .b64 %d<7>;\n"
    "ld.param.u64 %d0, [args]; ld.param.u64 %d1, [args+8];\n"
    "ld.param.u64 %d2, [args+16]; ld.param.u32 %r0, [args+24];\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %nctaid.x;\n"
    "mad.lo.u32 %r5, %r2, %r3, %r1; mul.lo.u32 %r6, %r3, %r4;\n"
    "cvt.u64.u32 %d4, %r6; mov.u32 %r8, 0; mov.u32 %r10, 1;\n"
    "sweep: cvt.u64.u32 %d3, %r5;\n"
    "word: setp.ge.u64 %p0, %d3, %d1; @%p0 bra told;\n"
    "shl.b64 %d5, %d3, 2; add.u64 %d5, %d0, %d5; ld.volatile.global.u32 %r7, [%d5];\n"
    "add.u64 %d3, %d3, %d4; setp.eq.u32 %p1, %r7, %r0; @%p1 bra word;\n"
    "st.volatile.global.u32 [%d2+8], %r10; bra word;\n"
    "told: add.u32 %r8, %r8, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra look;\n"
    "st.volatile.global.u32 [%d2+4], %r8;\n"
    "look: ld.volatile.global.u32 %r9, [%d2]; setp.eq.u32 %p3, %r9, 0; @%p3 bra sweep;\n"
    "ret; }\n";

static fxi_cu cu;
static vti_cu_module module;
static vti_cu_function kernel;
static gate *shared;
static bool is_reading;

static void must(fx_status st, const fx_error *err)
{
    if (st != FX_OK) fail_msg("%s", err->text);
}

// Without a kernel where the driver takes no PTX.
static void load_kernel(void)
{
    fx_error err = {0};
    if (fxi_cu_module_load(&cu, read_ptx, &module, &err) != FX_OK)
        print_message("nothing reads meanwhile: %s\n", err.text);
    else
        must(fxi_cu_module_find(&cu, module, "read_words", &kernel, &err), &err);
}

static void begin_reading(void)
{
    fx_error err = {0};
    if (!kernel) return;
    *shared = (gate){0};
    const read_args args = {place_at(0), N_READ * slice / 4, (uintptr_t)shared,
                            VALUE * 0x01010101u};
    const fxi_cu_launch l = {.function = kernel,
                             .name = "read_words",
                             .grid = {N_BLOCK, 1, 1},
                             .block = {N_THREAD, 1, 1},
                             .args = &args};
    must(fxi_cu_run(&cu, &l, &err), &err);
    for (const double end = fxi_now_s() + 10; !shared->n_sweep && fxi_now_s() < end;) {
    }
    assert_true(shared->n_sweep);
    is_reading = true;
}

static void end_reading(void)
{
    fx_error err = {0};
    if (!is_reading) return;
    const uint32_t n = shared->n_sweep;
    shared->is_over = 1;
    must(fxi_cu_wait(&cu, cu.compute, &err), &err);
    print_message("the kernel went over %zu MiB %u times\n", N_READ * slice >> 20, n);
    assert_int_equal(shared->is_wrong, 0);
    is_reading = false;
}

// ---- changes -----------------------------------------------------------------------------------

// Chunks that are not read, after the range that is.
static void map_next(int n)
{
    assert_ok(map_at(N_READ, 0, N_READ, (uint64_t)n));
    assert_ok(unmap_at(N_READ, n));
}

static void map_again(int n)
{
    assert_ok(vmm->ops->map(vmm, place_at(N_READ), 0, 0, (uint64_t)n, VT_VMM_ALIAS));
    assert_ok(unmap_at(N_READ, n));
}

static void create_and_destroy(int n)
{
    create_chunks(2 * N_READ, (uint64_t)n);
    destroy_chunks(2 * N_READ, (uint64_t)n);
}

typedef struct change {
    const char *name;
    void (*make)(int n);
} change;

static const change changes[] = {{"map + unmap next to it", map_next},
                                 {"map + unmap what is read", map_again},
                                 {"create + destroy", create_and_destroy}};
enum { N_CHANGE = sizeof changes / sizeof changes[0] };

static double us_of(const change *c, int n, int n_round)
{
    const double t0 = fxi_now_s();
    for (int i = 0; i < n_round; i++) c->make(n);
    return (fxi_now_s() - t0) * 1e6 / n_round;
}

static int open_reader(void **state)
{
    fx_error err = {0};
    void *pinned = NULL;
    if (fxi_cu_open(&cu, gpu_device(gpu), &err) != FX_OK || fxi_cu_enter(&cu, &err) != FX_OK ||
        fxi_cu_pin(&cu, sizeof(gate), &pinned, &err) != FX_OK) {
        print_message("%s\n", err.text);
        return -1;
    }
    shared = pinned;
    return setup(state);
}

static int close_reader(void **state)
{
    const int rc = teardown(state);
    fxi_cu_unpin(&cu, shared);
    fxi_cu_leave(&cu, FX_OK);
    fxi_cu_close(&cu);
    return rc;
}

FX_TEST_WITH(test_changes_while_a_kernel_reads, open_reader, close_reader)
{
    static const int sizes[] = {1, N_READ};
    load_kernel();
    create_chunks(0, 2 * N_READ);
    assert_ok(map_at(0, 0, 0, N_READ));
    fill_bytes(place_at(0), VALUE, N_READ * slice);
    for (int k = 0; k < N_CHANGE; k++)
        for (int s = 0; s < 2; s++) {
            const int n_round = N_ROUND / sizes[s];
            const double alone = us_of(&changes[k], sizes[s], n_round);
            begin_reading();
            const double reading = us_of(&changes[k], sizes[s], n_round);
            end_reading();
            print_message("%-24s of %2d: %8.1f us alone, %8.1f with the kernel\n", changes[k].name,
                          sizes[s], alone, reading);
        }
    assert_ok(unmap_at(0, N_READ));
    destroy_chunks(0, 2 * N_READ);
    fxi_cu_module_free(&cu, module);
}

int main(void)
{
    return run_on_gpu();
}
