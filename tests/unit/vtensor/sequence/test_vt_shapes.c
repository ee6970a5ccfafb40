// test_vt_shapes.c - managers of several groups (shapes.h): windows, groups of several shapes and
// recurrent state.
//
// Random traces in both layouts, on every backend, with and without faults; VT_TEST_SEED and
// VT_TEST_STEPS (environment) repeat a failure or make the run longer, and FX_TEST_LONG doubles it.
//
// Failing calls: for every operation and every i, the i-th backend call fails, once, or with the
// calls after it, so that undoing fails as well. Afterwards all sequences hold what they held, or
// are lost; vt_check holds, a retry succeeds where memory suffices, and nothing leaks. Each
// operation on each sequence fails once, and in one of two ways that go on, with FX_TEST_LONG in
// both.
#include "assert_vt.h"

#include "shapes.h"
#include "suite.h"

static family f;

static void run_trace(uint32_t shape, shape_where at, vt_layout layout, uint64_t n_step,
                      bool faulty)
{
    uint64_t seed = env_or("VT_TEST_SEED", 4711);
    const family_setup setup = shape_setup(shape, at, layout, VT_MAPPER_OWNER);
    n_step = env_or("VT_TEST_STEPS", suite_is_long() ? n_step : n_step / 2);
    print_message("%s, on %d, layout %d, seed %llu\n", setup.name, at, layout,
                  (unsigned long long)seed);
    family_open(&f, &setup, seed);
    for (uint64_t k = 0; k < n_step; k++) {
        if (faulty && k % 4 > 0)
            vt_fault_arm_random(f.fault, seed ^ (k << 20), 3 + (uint32_t)(k % 12));
        family_step(&f, faulty);
        if (k % 4 == 0) family_verify(&f);
    }
    family_verify(&f);
    family_close(&f);
}

typedef struct shapes_case {
    const char *name;
    shape_where at;
    uint64_t n_step;
    bool faulty;
} shapes_case;

static void test_trace_against_reference(void **state)
{
    const shapes_case *run = *state;
    for (uint32_t k = 0; k < SHAPE_N_SETUP; k++)
        for (int layout = VT_LAYOUT_SPLIT; layout <= VT_LAYOUT_PACKED; layout++)
            run_trace(k, run->at, (vt_layout)layout, run->n_step, run->faulty);
}

static const shapes_case runs[] = {
    {"host", SHAPE_ON_HOST, 250, false},           {"fake", SHAPE_ON_FAKE, 600, false},
    {"device", SHAPE_ON_DEVICE, 500, false},       {"cuda", SHAPE_ON_CUDA, 80, false},
    {"faulty host", SHAPE_ON_HOST, 250, true},     {"faulty fake", SHAPE_ON_FAKE, 600, true},
    {"faulty device", SHAPE_ON_DEVICE, 500, true}, {"faulty cuda", SHAPE_ON_CUDA, 80, true},
};

// ---- Failing calls

enum { N_PRELUDE = 85, MAX_CALL = 400 };

// The same state each time.
static void set_stage(uint32_t shape, vt_layout layout)
{
    const family_setup setup = shape_setup(shape, SHAPE_ON_FAKE, layout, VT_MAPPER_OWNER);
    family_open(&f, &setup, 97);
    for (int k = 0; k < N_PRELUDE; k++) family_step(&f, false);
}

// Which operation on which sequence, and how it fails: calls i .. i + n_more.
typedef struct failure {
    uint32_t shape;
    vt_layout layout;
    uint32_t op, place;
    uint64_t i, n_more;
    vt_status how;
} failure;

static vt_status run_op(const failure *x)
{
    return family_run_op(&f, x->op, x->place, x->op + 1);
}

static void retry(const failure *x)
{
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 1000)); // the system may have room again
    vt_work(f.m, 100, NULL);
    vt_status st = run_op(x);
    if (st == VT_EDEVICE) st = run_op(x); // the first told how an earlier prepare went
    if (!vt_is_shortage(st) && st != VT_EINVAL) assert_ok(st);
}

// False: the operation has no such call.
static bool fail_call(const failure *x)
{
    set_stage(x->shape, x->layout);
    vt_fault_arm(f.fault, x->i, x->n_more, x->how);
    vt_status st = run_op(x);
    bool has_fired = vt_fault_fired(f.fault) > 0;
    vt_fault_disarm(f.fault);
    bool is_foreseen = st == VT_OK || st == VT_EDEVICE || st == VT_EINVAL || vt_is_shortage(st);
    if (!is_foreseen || (st == VT_EDEVICE && !has_fired))
        fail_msg("%s, operation %u at %u, call %u: %s", f.setup.name, x->op, x->place,
                 (unsigned)x->i, vt_status_name(st));
    family_verify(&f);
    bool is_lost = family_release_lost(&f);
    if (x->n_more == 0) assert_false(is_lost);
    if (st != VT_OK && !is_lost) retry(x);
    family_verify(&f);
    family_close(&f);
    return has_fired;
}

// Answers how many calls it has.
static uint64_t sweep_op(failure x)
{
    bool has_fired = true;
    for (x.i = 0; has_fired; x.i++) {
        x.how = VT_EDEVICE;
        has_fired = fail_call(&x);
        x.how = VT_NOSPACE;
        if (has_fired) (void)fail_call(&x);
        assert_true(x.i < MAX_CALL);
    }
    return x.i - 1;
}

static void sweep_all(uint64_t n_more)
{
    for (uint32_t k = 0; k < SHAPE_N_SETUP; k++) {
        uint64_t n_call = 0;
        for (uint32_t op = 0; family_has_op(op); op++)
            for (uint32_t place = 0; place < SHAPE_N_SEQ; place++) {
                if (n_more && !suite_takes(op + place + (n_more > 1), 2)) continue;
                n_call += sweep_op((failure){.shape = k,
                                             .layout = (vt_layout)((op + place) % 2),
                                             .op = op,
                                             .place = place,
                                             .n_more = n_more});
            }
        print_message("%s: %u calls\n", f.setup.name, (unsigned)n_call);
        assert_true(n_call > 10 || n_more); // or the stage shows too little
    }
}

FX_TEST(test_each_call_fails_once)
{
    sweep_all(0);
}

FX_TEST(test_calls_go_on_failing)
{
    sweep_all(1);
    sweep_all(UINT64_MAX / 2);
}

FX_SUITE(test_vt_shapes)
{
    return RUN_CASES(test_vt_shapes, test_trace_against_reference, runs) +
           cmocka_run_group_tests_name("test_vt_shapes, failing calls", listed_tests, NULL, NULL);
}
