// test_vt_check.c - vt_check finds what is broken: each invariant is broken by hand, found, and put
// right again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vtensor/internal.h"
#include "world.h"

#define assert_ok(expr) assert_string_equal(vt_status_name(expr), "VT_OK")

static world w;

// Span 0: live, four chunks. Span 1: live, empty. Span 2 and 3: idle, two warm chunks each.
static int setup(void **state)
{
    (void)state;
    world_setup s = {.n_plane = 2,
                     .row_bytes = 128,
                     .max_tok = 320,
                     .max_seq = 6,
                     .budget_chunks = 12,
                     .spare_chunks = UINT64_MAX};
    world_open(&w, &s, 1);
    static const uint32_t n_chunk[] = {4, 0, 2, 2};
    for (uint32_t i = 0; i < 4; i++) {
        assert_ok(world_create(&w, i));
        assert_ok(world_extend(&w, i, 32 * n_chunk[i]));
    }
    world_release(&w, 2);
    world_release(&w, 3);
    world_verify(&w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_verify(&w);
    world_close(&w);
    return 0;
}

// Each breaks something with by = 1 and repairs it with by = -1.
#define BREAK(name, what, type, n)                  \
    static void name(int by)                        \
    {                                               \
        (what) = (type)((what) + (type)(by * (n))); \
    }

BREAK(unknown_state, w.m->pset.region[0].state[0], uint8_t, 1)
BREAK(state_out_of_order, w.m->pset.region[0].state[9], uint8_t, 1)
BREAK(spare_for_owned, w.m->pset.region[0].state[3], uint8_t, -1)
BREAK(region_count, w.m->pset.region[2].n_in[VTI_CHUNK_SPARE], uint32_t, 1)
BREAK(pset_count, w.m->pset.n_in[VTI_CHUNK_FREE], uint64_t, -1)
BREAK(region_of_another, w.m->pset.region[1].span, uint32_t, 1)
BREAK(region_of_nobody, w.m->pset.region[1].span, uint32_t, 100)
BREAK(span_of_another_region, w.m->vset.span[1]->region, uint32_t, 1)
BREAK(span_id, w.m->vset.span[1]->id, uint32_t, 1)
BREAK(owned_too_many, w.m->vset.span[0]->n_owned, uint32_t, 1)
BREAK(owned_by_idle, w.m->vset.span[2]->n_owned, uint32_t, 1)
BREAK(dirty_beyond, w.m->vset.span[2]->n_dirty, uint32_t, 1)
BREAK(owned_not_mapped, w.m->vset.span[0]->n_mapped[1], uint32_t, -1)
BREAK(mapped_not_created, w.m->vset.span[2]->n_mapped[0], uint32_t, 1)
BREAK(run_count, w.m->vset.n_run, uint64_t, 1)
BREAK(idle_count, w.m->vset.n_idle, uint32_t, 1)
BREAK(idle_count_low, w.m->vset.n_idle, uint32_t, -1)
BREAK(seq_count, w.m->n_seq, uint32_t, 1)
BREAK(seq_length, w.m->vset.span[0]->seq->len_tok, uint32_t, -40)
BREAK(seq_too_long, w.m->vset.span[0]->seq->len_tok, uint32_t, 1000)
BREAK(live_count, w.m->live_tok, uint64_t, 1)
BREAK(live_peak, w.m->tally.peak_tok, uint64_t, -129)
BREAK(chunk_peak, w.m->tally.peak_chunks, uint64_t, -1)
BREAK(over_budget, w.m->budget_chunks, uint64_t, -5)
BREAK(over_max_runs, w.m->max_runs, uint64_t, 3) // no limit, and 3 more: a limit of 2

static void region_unused(int by)
{
    w.m->pset.region[1].open = by < 0;
}

static void swap_spans(vti_span **a, vti_span **b)
{
    vti_span *t = *a;
    *a = *b;
    *b = t;
}

static void idle_ends(int by)
{
    (void)by;
    swap_spans(&w.m->vset.newest, &w.m->vset.oldest);
}

static void idle_tail(int by)
{
    (void)by;
    static vti_span *other;
    swap_spans(&w.m->vset.oldest, &other);
}

static void idle_links(int by)
{
    (void)by;
    swap_spans(&w.m->vset.span[2]->newer, &w.m->vset.span[2]->older);
}

static void live_listed_as_idle(int by)
{
    (void)by;
    static vti_span *other;
    if (by > 0) other = w.m->vset.span[3];
    swap_spans(&w.m->vset.span[1]->older, &other);
}

static void seq_elsewhere(int by)
{
    w.m->vset.span[1]->seq->span = w.m->vset.span[by > 0 ? 0 : 1];
}

static void memory_nobody_knows(int by)
{
    vt_vmm *in = w.inner;
    if (by > 0)
        assert_ok(in->ops->create(in, 50, 1));
    else
        assert_ok(in->ops->destroy(in, 50, 1));
}

static void each_broken_invariant_is_found(void **state)
{
    (void)state;
    static void (*const breaks[])(int by) = {
        unknown_state,    state_out_of_order,  spare_for_owned,
        region_count,     pset_count,          region_of_another,
        region_of_nobody, region_unused,       span_of_another_region,
        span_id,          owned_too_many,      owned_by_idle,
        dirty_beyond,     owned_not_mapped,    mapped_not_created,
        run_count,        idle_count,          idle_count_low,
        seq_count,        seq_length,          seq_too_long,
        live_count,       live_peak,           chunk_peak,
        over_budget,      over_max_runs,       idle_ends,
        idle_tail,        idle_links,          live_listed_as_idle,
        seq_elsewhere,    memory_nobody_knows,
    };
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        const char *what = NULL;
        breaks[i](1);
        vt_status st = vt_check(w.m, &what);
        breaks[i](-1);
        if (st != VT_EINVAL || !what) fail_msg("break %zu is not found", i);
        if (vt_check(w.m, &what) != VT_OK) fail_msg("break %zu is not repaired: %s", i, what);
        assert_null(what);
    }
}

static void a_backend_that_cannot_tell_is_no_broken_invariant(void **state)
{
    (void)state;
    const char *what = "";
    vt_fault_arm(w.fault, 0, 0, VT_EDEVICE);
    assert_int_equal(vt_check(w.m, &what), VT_EDEVICE);
    assert_null(what);
    vt_fault_disarm(w.fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_broken_invariant_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(a_backend_that_cannot_tell_is_no_broken_invariant, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
