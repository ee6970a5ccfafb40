// test_vt_vattention_check.c - vt_va_check finds every planted breach of the invariants that
// vattention_internal.h lists.
#include <string.h>

#include "suite.h"
#include "va_world.h"
#include "vtensor/vattention/vattention_internal.h"

static va_world w;

VT_FIXTURE(setup)
{
    va_open_small(&w, false, false);
}

VT_FIXTURE(teardown)
{
    va_done(&w);
}

static void expect_broken(const char *want)
{
    const char *what = NULL;
    assert_status(VT_EINVAL, vt_va_check(w.va, &what));
    assert_non_null(what);
    if (!strstr(what, want)) fail_msg("wanted '%s', got '%s'", want, what);
}

FX_TEST(test_check_finds_wrong_requests)
{
    vti_va_req *r = &w.va->req[va_begin(&w, 2 * VA_PAGE_TOK)];
    r->n_dirty = 9, expect_broken("dirty"), r->n_dirty = 2;
    r->n_torn = 9;
    expect_broken("room");
    r->n_torn = 0;
    r->torn_view = 3, expect_broken("torn"), r->torn_view = 0;
    r->len_tok = 1000, expect_broken("max_tok"), r->len_tok = 2 * VA_PAGE_TOK;
    r->len_tok = 1, expect_broken("need"), r->len_tok = 2 * VA_PAGE_TOK;
    r->is_active = false, expect_broken("inactive"), r->is_active = true;
    r->n_given = 3, expect_broken("needed"), r->n_given = 2;
    r->n_dirty = 1, expect_broken("clean"), r->n_dirty = 2;
}

FX_TEST(test_check_finds_wrong_groups)
{
    vti_va_req *r = &w.va->req[va_begin(&w, 2 * VA_PAGE_TOK)];
    uint32_t n_preferred = w.va->geo.n_preferred;
    va_leave_behind(&w, 1);
    assert_ok(va_step(&w, true)); // one is spare
    r->name[1] = 0, expect_broken("twice"), r->name[1] = 1;
    r->name[1] = 2 * n_preferred, expect_broken("does not exist"), r->name[1] = 1;
    r->name[1] = n_preferred, expect_broken("another position"), r->name[1] = 1;
    w.va->state[1] = VTI_VA_SPARE, expect_broken("twice"), w.va->state[1] = VTI_VA_MAPPED;
    w.va->state[5] = VTI_VA_MAPPED, expect_broken("nowhere"), w.va->state[5] = VTI_VA_NONE;
    w.va->state[5] = VTI_VA_SPARE, expect_broken("spare"), w.va->state[5] = VTI_VA_NONE;
    w.va->n_created = 4;
    expect_broken("count of groups");
    w.va->n_created = 3;
    w.va->budget_groups = 2, expect_broken("budget"), w.va->budget_groups = 20;
    w.va->n_run++, expect_broken("count of runs"), w.va->n_run--;
}

FX_TEST(test_check_compares_with_the_system)
{
    vti_va_req *r = &w.va->req[va_begin(&w, 2 * VA_PAGE_TOK)];
    w.va->state[7] = VTI_VA_SPARE; // the sums agree
    w.va->n_spare = 1;
    w.va->n_created = 3;
    expect_broken("holds");
    w.va->state[7] = VTI_VA_NONE;
    w.va->n_spare = 0;
    w.va->n_created = 2;
    r->len_tok = r->n_given = r->n_need = r->n_dirty = 1;
    r->n_mapped = r->n_torn = 1; // of no view
    expect_broken("maps");
    r->n_torn = 0;
    r->n_mapped = r->n_dirty = r->n_need = r->n_given = 2;
    r->len_tok = 2 * VA_PAGE_TOK;
}

FX_TEST(test_check_finds_too_many_runs)
{
    va_setup s = va_small();
    s.host = false;
    s.max_batch = 2;
    s.max_runs = 4 * s.n_plane; // one for each request, and two more
    va_open(&w, &s, 1);
    uint32_t a = va_begin(&w, VA_PAGE_TOK);
    va_leave_behind(&w, 1);
    assert_ok(va_step(&w, true));
    w.len[a] = 2 * VA_PAGE_TOK; // takes the spare group: a second run
    assert_ok(va_step(&w, false));
    va_begin(&w, VA_PAGE_TOK);
    w.va->max_jump = 0, expect_broken("mappings"), w.va->max_jump = 2;
}

FX_RUN_EACH(test_vt_vattention_check, setup, teardown)
