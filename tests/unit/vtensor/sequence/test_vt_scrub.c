// test_vt_scrub.c - no tenant can read what another one wrote, through any address, file or slot:
// tenant A fills its rows with a canary; then everything that is mapped for tenant B, up to the
// last page of its spans and not only to its length, is searched for it.

#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "family.h"
#include "vtensor/core/manager.h"

enum { CHUNK_TOK = 32, N_PLANE = 2, CANARY = 0xA5 };

static family f;
static vt_layout layout; // of the run

VT_FIXTURE(setup)
{
    family_setup s = {
        .backend = ON_HOST,
        .layout = layout,
        .n_plane = N_PLANE,
        .row_bytes = layout == VT_LAYOUT_PACKED ? 60 : 120, // a slice holds no whole number of them
        .slice_pages = 1,
        .n_seq = 4,
        .budget_chunks = 16,
        .swap_chunks = 16,
        .mapper = VT_MAPPER_OWNER};
    family_open(&f, &s, 1);
}

VT_FIXTURE(teardown)
{
    family_close(&f);
}

static void canaries(vt_seq *s, uint32_t first)
{
    for (uint32_t p = 0; p < N_PLANE; p++)
        for (uint32_t t = first; t < vt_seq_len(s); t++)
            memset((char *)vt_seq_plane(s, p) + t * vt_seq_stride(s), CANARY, f.setup.row_bytes);
}

// A's sequence of n_tok canaries.
static vt_seq *seq_of_a(uint32_t n_tok)
{
    vt_seq *s;
    assert_ok(vt_seq_create(f.m, 0, &s));
    assert_ok(vt_seq_extend(s, n_tok));
    canaries(s, 0);
    return s;
}

// Whatever is mapped under a sequence, page by page as the manager has it; vt_check has compared
// that with the system's word.
static void search(vt_seq *s)
{
    const vti_lane_geo *gr = &f.m->geo.group[0];
    const vti_lane *l = &s->span->lane[0];
    assert_ok(vt_check(f.m, NULL));
    for (uint32_t v = 0; v < gr->n_view; v++)
        for (uint32_t p = 0; p < gr->n_position; p++) {
            if (vti_lane_at(l, p) == VTI_NO_CHUNK) continue;
            const uint8_t *bytes = (const uint8_t *)vti_lane_addr(&f.m->geo, s->span, 0, v, p);
            for (size_t i = 0; i < gr->slice_bytes; i++)
                if (bytes[i] == CANARY) fail_msg("view %u, position %u, byte %zu", v, p, i);
        }
}

// B's sequence, searched at every length it grows to.
static void b_sees_nothing(uint32_t expect_tok)
{
    vt_seq *s;
    assert_ok(vt_seq_create(f.m, expect_tok, &s));
    search(s);
    for (uint32_t len_tok = 0; len_tok < 8 * CHUNK_TOK; len_tok += 11) {
        assert_ok(vt_seq_extend(s, len_tok));
        search(s);
    }
    vt_seq_release(s);
}

FX_TEST(test_in_a_warm_span)
{
    vt_seq_release(seq_of_a(5 * CHUNK_TOK + 7));
    b_sees_nothing(0);
    vt_seq_release(seq_of_a(5 * CHUNK_TOK + 7));
    b_sees_nothing(2 * CHUNK_TOK);
}

FX_TEST(test_in_what_was_cut_off)
{
    vt_seq *a = seq_of_a(5 * CHUNK_TOK + 7);
    assert_ok(vt_seq_truncate(a, CHUNK_TOK + 3));
    b_sees_nothing(0);
    vt_seq_release(a);
    b_sees_nothing(0);
}

FX_TEST(test_in_chunks_that_were_given_back_and_made_again)
{
    for (int k = 0; k < 2; k++) {
        vt_seq_release(seq_of_a(9 * CHUNK_TOK));
        assert_ok(vt_trim(f.m, k * f.chunk_bytes, NULL));
        b_sees_nothing(9 * CHUNK_TOK);
    }
}

FX_TEST(test_in_evicted_prefixes)
{
    static uint32_t tok[FAMILY_MAX_TOK];
    vt_seq *a = seq_of_a(4 * CHUNK_TOK + 9);
    assert_ok(vt_seq_record(a, f.domain[0], tok, 4 * CHUNK_TOK + 9, NULL));
    vt_seq_release(a);
    assert_int_equal(vt_match(f.domain[1], tok, 100), 0);
    b_sees_nothing(0); // beside the prefix
    assert_ok(vt_evict(f.m, UINT64_MAX, NULL));
    b_sees_nothing(0); // in its place
}

FX_TEST(test_in_copies_of_tails)
{
    vt_seq *a = seq_of_a(CHUNK_TOK + 9), *child;
    assert_ok(vt_seq_fork(a, CHUNK_TOK + 9, &child));
    assert_ok(vt_seq_extend(child, CHUNK_TOK + 20)); // beside its copy of the tail
    canaries(child, CHUNK_TOK + 9);
    vt_seq_release(child);
    b_sees_nothing(0);
    vt_seq_release(a);
    b_sees_nothing(0);
}

// The budget is full of A's prefix and of sequences, so that the copy of the tail would take the
// place of the prefix; and there is no room for the rest.
FX_TEST(test_in_a_tail_before_an_extend_that_fails)
{
    static uint32_t tok[2 * CHUNK_TOK];
    enum { FULL_TOK = 34 }; // begin in a chunk
    vt_seq *a = seq_of_a(2 * CHUNK_TOK), *b, *child, *rest;
    assert_ok(vt_seq_record(a, f.domain[0], tok, 2 * CHUNK_TOK, NULL));
    vt_seq_release(a);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 1));
    const uint32_t n_hit = vt_match(f.domain[0], tok, 2 * CHUNK_TOK);
    assert_ok(vt_seq_create(f.m, 0, &b));
    assert_ok(vt_seq_extend(b, 3 * FULL_TOK));
    assert_ok(vt_seq_fork(b, 3 * FULL_TOK, &child));
    assert_ok(vt_seq_truncate(b, FULL_TOK + 8)); // into a chunk that the child has, too
    assert_ok(vt_seq_create(f.m, 0, &rest));
    assert_ok(vt_seq_extend(rest, FAMILY_MAX_TOK));
    assert_int_equal(vt_match(f.domain[0], tok, 2 * CHUNK_TOK), n_hit);
    assert_status(VT_NOSPACE, vt_seq_extend(b, FAMILY_MAX_TOK));
    assert_int_equal(vt_seq_len(b), FULL_TOK + 8);
    assert_int_equal(vt_match(f.domain[0], tok, 2 * CHUNK_TOK), n_hit); // it is not lost
    search(b);
    vt_seq_release(rest);
    assert_ok(vt_seq_extend(b, 5 * CHUNK_TOK));
    search(b);
    vt_seq_release(child);
    vt_seq_release(b);
}

FX_TEST(test_in_slots_of_the_swap)
{
    vt_seq *a = seq_of_a(3 * CHUNK_TOK), *b;
    assert_ok(swap_out_now(a));
    b_sees_nothing(0);
    assert_ok(vt_seq_create(f.m, 0, &b));
    assert_ok(vt_seq_extend(b, 50));
    vt_seq_release(a); // its slots are free
    assert_ok(swap_out_now(b));
    assert_ok(swap_in_now(b));
    search(b);
    vt_seq_release(b);
}

// Two of one tenant: the second matches a prefix of the first's, and what is behind it is not
// there.
FX_TEST(test_in_the_rest_of_a_matched_chunk)
{
    static uint32_t tok[FAMILY_MAX_TOK];
    vt_seq *a, *b;
    uint32_t n_hit;
    for (uint32_t t = 0; t < FAMILY_MAX_TOK; t++) tok[t] = t;
    assert_ok(vt_seq_create(f.m, 0, &a));
    assert_ok(vt_seq_extend(a, 2 * CHUNK_TOK));
    canaries(a, 20); // rows 0 to 19 are common
    assert_ok(vt_seq_record(a, f.domain[0], tok, 2 * CHUNK_TOK, NULL));
    for (int k = 0; k < 2; k++) {
        assert_ok(vt_seq_match(f.domain[0], tok, 20, 0, &b, &n_hit));
        assert_int_equal(n_hit, 20);
        search(b);
        assert_ok(vt_seq_extend(b, 40));
        search(b);
        vt_seq_release(b);
        vt_seq_release(a); // then the tree holds it alone
        a = NULL;
    }
}

FX_TEST(test_in_memory_made_ahead)
{
    vt_seq_release(seq_of_a(6 * CHUNK_TOK));
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    vt_work(f.m, UINT32_MAX, NULL);
    b_sees_nothing(3 * CHUNK_TOK);
}

// B grows into what A had, at once or ahead, and call i of that fails. False: it has no such call.
static bool grow_into_what_a_had(uint64_t i, bool ahead)
{
    vt_seq *b, *a = seq_of_a(9 * CHUNK_TOK);
    assert_ok(vt_set_budget(f.m, 9 * f.chunk_bytes));
    assert_ok(vt_seq_create(f.m, 0, &b));
    vt_seq_release(a);
    if (ahead) { // into the pool, from which a job takes it
        assert_int_equal(vt_seq_prepare(b, 1, 1), VT_NOSPACE);
        vt_work(f.m, UINT32_MAX, NULL);
    }
    vt_fault_arm(f.fault, i, 0, VT_EDEVICE);
    vt_status st = ahead ? vt_seq_prepare(b, 4 * CHUNK_TOK, 1) : vt_seq_extend(b, 4 * CHUNK_TOK);
    if (ahead) vt_work(f.m, UINT32_MAX, NULL);
    bool has_fired = vt_fault_fired(f.fault) > 0;
    vt_fault_disarm(f.fault);
    if (ahead) assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0)); // looks at it
    assert_false(vt_seq_is_lost(b));
    search(b);
    if (!has_fired) assert_ok(st);
    if (ahead) st = vt_seq_prepare(b, 0, 1); // tells how it went
    assert_true(st == VT_OK || st == VT_EDEVICE || vt_is_shortage(st));
    assert_ok(vt_seq_extend(b, 4 * CHUNK_TOK));
    search(b);
    vt_seq_release(b);
    return has_fired;
}

FX_TEST(test_in_chunks_that_could_not_be_wiped)
{
    for (int ahead = 0; ahead < 2; ahead++) {
        bool has_fired = true;
        for (uint64_t i = 0; has_fired; i++) {
            has_fired = grow_into_what_a_had(i, ahead);
            (void)teardown(state);
            (void)setup(state);
        }
    }
}

FX_SUITE(test_vt_scrub)
{
    return run_in_both_layouts("test_vt_scrub", &layout, setup, teardown);
}
