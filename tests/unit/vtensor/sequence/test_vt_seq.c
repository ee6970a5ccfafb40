// test_vt_seq.c - the manager's operations one by one: what each answers, costs and leaves behind.
#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "world.h"

static world w;

// Two planes, 32 tokens of 128 bytes to a slice of one page.
static const world_setup plain = {
    .n_plane = 2,
    .row_bytes = 128,
    .max_tok = 320,
    .max_seq = 4,
    .budget_chunks = 12,
    .spare_chunks = UINT64_MAX,
};

static uint32_t tok_of(uint32_t n_chunk)
{
    return 32 * n_chunk;
}

static void test_a_sequence_starts_empty(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    assert_ok(world_create(&w, 0));
    vt_seq *s = w.seq[0].s;
    assert_int_equal(vt_seq_len(s), 0);
    assert_int_equal(vt_seq_backed(s), 0);
    assert_int_equal(vt_seq_stride(s), 128);
    assert_int_equal((char *)vt_seq_plane(s, 1) - (char *)vt_seq_plane(s, 0),
                     vt_seq_plane_stride(s));
    vt_stats st = world_stats(&w);
    assert_int_equal(st.chunks_created, 0);
    assert_int_equal(st.mappings, 0);
    assert_int_equal(st.seqs, 1);
    world_verify(&w);
    world_close(&w);
}

static void test_extend_takes_whole_chunks_once(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    assert_ok(world_create(&w, 0));
    assert_ok(world_extend(&w, 0, 1));
    assert_int_equal(vt_seq_backed(w.seq[0].s), 32);
    assert_int_equal(world_stats(&w).chunks_owned, 1);
    assert_int_equal(world_stats(&w).slack_bytes, 31 * 2 * 128);
    assert_ok(world_extend(&w, 0, 32));
    assert_ok(world_extend(&w, 0, 5)); // shorter: nothing changes
    assert_int_equal(vt_seq_len(w.seq[0].s), 32);
    assert_int_equal(world_stats(&w).create_calls, 1);
    assert_int_equal(world_stats(&w).map_calls, 2);
    assert_ok(
        world_extend(&w, 0, tok_of(7))); // six chunks more: one create, one map for each plane
    assert_int_equal(world_stats(&w).create_calls, 2);
    assert_int_equal(world_stats(&w).map_calls, 4);
    assert_int_equal(world_stats(&w).mappings, 2);
    world_verify(&w);
    world_close(&w);
}

static void test_bytes_are_foretold(void **state)
{
    (void)state;
    static const uint32_t lens[] = {0, 1, 31, 32, 33, 320};
    world_open(&w, &plain, 1);
    for (int i = 0; i < 6; i++) {
        assert_ok(world_create(&w, 0));
        assert_ok(world_extend(&w, 0, lens[i]));
        vt_stats st = world_stats(&w);
        assert_int_equal(vt_bytes_for(w.m, lens[i]), st.chunks_owned * st.chunk_bytes);
        assert_int_equal(vt_held_bytes(w.m), st.owned_bytes + st.shared_bytes);
        world_release(&w, 0);
    }
    assert_int_equal(vt_bytes_for(w.m, UINT32_MAX), vt_bytes_for(w.m, 320));
    world_close(&w);
}

static void test_beyond_max_tok_is_misuse(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    assert_ok(world_create(&w, 0));
    assert_ok(world_extend(&w, 0, 320));
    assert_status(VT_EINVAL, world_extend(&w, 0, 321));
    assert_status(VT_EINVAL, world_extend(&w, 0, UINT32_MAX));
    assert_int_equal(vt_seq_len(w.seq[0].s), 320);
    assert_int_equal(world_stats(&w).shortages, 0);
    world_verify(&w);
    world_close(&w);
}

static void test_the_budget_is_kept_and_no_space_costs_nothing(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    for (uint32_t i = 0; i < 3; i++) assert_ok(world_create(&w, i));
    assert_ok(world_extend(&w, 0, tok_of(5)));
    assert_ok(world_extend(&w, 1, tok_of(3)));
    world_release(&w, 1); // three spare chunks
    vt_stats before = world_stats(&w);
    assert_status(VT_NOSPACE, world_extend(&w, 2, tok_of(7) + 1));
    vt_stats after = world_stats(&w);
    assert_int_equal(after.shortages, 1);
    after.shortages = 0;
    assert_memory_equal(&before, &after, sizeof before);
    assert_ok(world_extend(&w, 2, tok_of(7))); // takes the place of the spare ones
    assert_int_equal(world_stats(&w).chunks_created, 12);
    assert_int_equal(world_stats(&w).chunks_spare, 0);
    world_verify(&w);
    world_close(&w);
}

static void test_sequences_are_bounded_by_max_seq(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    for (uint32_t i = 0; i < 4; i++) assert_ok(world_create(&w, i));
    assert_status(VT_NOSPANS, world_create(&w, 4));
    world_release(&w, 2);
    assert_ok(world_create(&w, 4));
    world_verify(&w);
    world_close(&w);
}

static void test_a_released_span_is_handed_on_warm_and_wiped(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    assert_ok(world_create(&w, 0));
    assert_ok(world_create(&w, 1));
    assert_ok(world_extend(&w, 0, tok_of(4)));
    for (int i = 0; i < 20; i++) world_write(&w, 0);
    void *base = vt_seq_plane(w.seq[0].s, 0);
    world_release(&w, 1); // cold, and released last
    world_release(&w, 0);
    assert_int_equal(world_stats(&w).chunks_spare, 4);
    assert_int_equal(world_stats(&w).mappings, 2);
    vt_stats before = world_stats(&w);
    assert_ok(world_create(&w, 2)); // looks that all is zero
    assert_ptr_equal(vt_seq_plane(w.seq[2].s, 0), base);
    assert_ok(world_extend(&w, 2, tok_of(3)));
    vt_stats after = world_stats(&w);
    assert_int_equal(after.create_calls, before.create_calls);
    assert_int_equal(after.map_calls, before.map_calls);
    assert_int_equal(after.chunks_owned, 3);
    assert_int_equal(after.chunks_spare, 1);
    world_verify(&w);
    world_close(&w);
}

static void test_the_newest_warm_span_comes_first(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    void *base[3];
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(world_create(&w, i));
        assert_ok(world_extend(&w, i, i == 1 ? 0 : tok_of(1 + i)));
        base[i] = vt_seq_plane(w.seq[i].s, 0);
    }
    for (uint32_t i = 0; i < 3; i++) world_release(&w, i);
    assert_ok(world_create(&w, 0));
    assert_ptr_equal(vt_seq_plane(w.seq[0].s, 0), base[2]);
    assert_ok(world_create(&w, 1));
    assert_ptr_equal(vt_seq_plane(w.seq[1].s, 0), base[0]);
    assert_ok(world_create(&w, 2)); // the cold one before a new one
    assert_ptr_equal(vt_seq_plane(w.seq[2].s, 0), base[1]);
    world_close(&w);
}

static void test_a_live_sequence_lends_what_it_has_not_grown_into(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    assert_ok(world_create(&w, 0));
    assert_ok(world_extend(&w, 0, tok_of(10)));
    world_release(&w, 0);
    assert_ok(world_create(&w, 0)); // ten warm chunks
    assert_ok(world_extend(&w, 0, tok_of(2)));
    world_write(&w, 0);
    assert_ok(world_create(&w, 1));
    assert_ok(world_extend(&w, 1, tok_of(7))); // five from the other's warm ones
    assert_int_equal(world_stats(&w).chunks_created, 12);
    assert_int_equal(world_stats(&w).chunks_spare, 3);
    assert_ok(world_extend(&w, 0, tok_of(5)));
    assert_status(VT_NOSPACE, world_extend(&w, 0, tok_of(6)));
    world_verify(&w);
    world_close(&w);
}

static void test_the_longest_idle_gives_back_first(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    void *base[3];
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(world_create(&w, i));
        assert_ok(world_extend(&w, i, tok_of(2)));
        base[i] = vt_seq_plane(w.seq[i].s, 0);
    }
    for (uint32_t i = 0; i < 3; i++) world_release(&w, i);
    uint64_t chunk = world_stats(&w).chunk_bytes, freed;
    assert_ok(vt_trim(w.m, 3 * chunk + chunk - 1, &freed));
    assert_int_equal(freed, 3 * chunk);
    for (uint32_t i = 0; i < 3; i++) assert_ok(world_create(&w, i));
    assert_ptr_equal(vt_seq_plane(w.seq[0].s, 0), base[2]); // two chunks
    assert_ptr_equal(vt_seq_plane(w.seq[1].s, 0), base[1]); // one
    assert_ptr_equal(vt_seq_plane(w.seq[2].s, 0), base[0]); // none
    vt_stats before = world_stats(&w);
    assert_ok(world_extend(&w, 0, tok_of(2)));
    assert_ok(world_extend(&w, 1, tok_of(1)));
    assert_int_equal(world_stats(&w).create_calls, before.create_calls);
    world_verify(&w);
    world_close(&w);
}

static void test_release_keeps_no_more_than_spare_bytes(void **state)
{
    (void)state;
    world_setup setup = plain;
    setup.spare_chunks = 3;
    world_open(&w, &setup, 1);
    assert_ok(world_create(&w, 0));
    assert_ok(world_extend(&w, 0, tok_of(2)));
    assert_ok(world_create(&w, 1));
    assert_ok(world_extend(&w, 1, tok_of(6)));
    world_release(&w, 0);
    assert_int_equal(world_stats(&w).chunks_spare, 2);
    world_release(&w, 1);
    for (int k = 0; k < 6; k++) { // unmapped, then destroyed
        vt_work(w.m, UINT32_MAX, NULL);
        assert_ok(vt_step(w.m, VT_AHEAD_NONE, 0, 0));
    }
    assert_int_equal(world_stats(&w).chunks_spare, 3);
    assert_int_equal(world_stats(&w).peak_mapped_bytes, 8 * world_stats(&w).chunk_bytes);
    world_verify(&w);
    world_close(&w);
}

static void test_trim_gives_back_to_the_system(void **state)
{
    (void)state;
    world_setup setup = plain;
    setup.host = true;
    world_open(&w, &setup, 1);
    uint64_t freed, resident, chunk = world_stats(&w).chunk_bytes;
    assert_ok(world_create(&w, 0));
    assert_ok(world_extend(&w, 0, tok_of(3)));
    assert_ok(world_create(&w, 1));
    assert_ok(world_extend(&w, 1, tok_of(6)));
    world_release(&w, 1);
    assert_ok(w.inner->ops->resident(w.inner, &resident));
    assert_int_equal(resident, 9 * chunk);
    assert_ok(vt_trim(w.m, 2 * chunk, &freed));
    assert_int_equal(freed, 4 * chunk);
    assert_ok(vt_trim(w.m, 0, NULL));
    assert_ok(vt_trim(w.m, 0, &freed)); // nothing is left to give
    assert_int_equal(freed, 0);
    assert_ok(w.inner->ops->resident(w.inner, &resident));
    assert_int_equal(resident, 3 * chunk);
    world_verify(&w);
    world_close(&w);
}

static void test_idle_spans_lend_their_mappings(void **state)
{
    (void)state;
    world_setup setup = plain;
    setup.max_runs = 5; // of two planes: two sequences
    world_open(&w, &setup, 1);
    for (uint32_t i = 0; i < 3; i++) assert_ok(world_create(&w, i));
    assert_ok(world_extend(&w, 0, tok_of(1)));
    assert_ok(world_extend(&w, 1, tok_of(1)));
    assert_status(VT_NOMAPS, world_extend(&w, 2, 1));
    assert_ok(world_extend(&w, 1, tok_of(4))); // no new run
    world_release(&w, 1);
    assert_int_equal(world_stats(&w).mappings, 4);
    assert_ok(world_extend(&w, 2, 1));
    assert_int_equal(world_stats(&w).mappings, 4);
    assert_int_equal(world_stats(&w).chunks_spare, 4); // in the pool now, mapped nowhere
    world_verify(&w);
    world_close(&w);
}

// In each of the two planes two runs at least, and one more than there are.
static void test_mappings_are_foretold(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    assert_int_equal(vt_mappings_for(w.m, NULL), 4);
    assert_ok(world_create(&w, 0));
    assert_int_equal(vt_mappings_for(w.m, w.seq[0].s), 4);
    assert_ok(world_extend(&w, 0, tok_of(2)));
    assert_int_equal(world_stats(&w).mappings, 2);
    assert_int_equal(vt_mappings_for(w.m, w.seq[0].s), 4);
    world_close(&w);
}

static void test_where_the_system_is_short_spare_chunks_go_first(void **state)
{
    (void)state;
    world_open(&w, &plain, 1);
    for (uint32_t i = 0; i < 2; i++) assert_ok(world_create(&w, i));
    assert_ok(world_extend(&w, 0, tok_of(4)));
    world_release(&w, 0);
    vt_fake_set_max_chunks(w.inner, 5); // fewer than the budget
    assert_ok(world_extend(&w, 1, tok_of(5)));
    assert_status(VT_NOSPACE, world_extend(&w, 1, tok_of(6)));
    world_verify(&w);
    world_close(&w);
}

static void test_warm_costs_less_than_cold(void **state)
{
    (void)state;
    uint64_t cost_us[2];
    world_open(&w, &plain, 1);
    for (int warm = 0; warm < 2; warm++) {
        uint64_t start = vt_fake_look(w.inner).clock_us;
        assert_ok(world_create(&w, 0));
        assert_ok(world_extend(&w, 0, tok_of(10)));
        world_release(&w, 0);
        cost_us[warm] = vt_fake_look(w.inner).clock_us - start;
    }
    assert_true(4 * cost_us[1] < cost_us[0]);
    world_close(&w);
}

static void test_null_is_allowed_where_it_is_said(void **state)
{
    (void)state;
    vt_seq_release(NULL);
    vt_manager_destroy(NULL);
    world_open(&w, &plain, 1);
    assert_ok(vt_check(w.m, NULL));
    world_close(&w);
}

static void test_a_manager_on_the_host_by_default(void **state)
{
    (void)state;
    vt_manager *m;
    vt_seq *a, *b;
    vt_config c = world_small_config();
    assert_ok(vt_manager_create(&c, &m));
    assert_ok(vt_seq_create(m, 0, &a));
    assert_ok(vt_seq_create(m, 0, &b));
    assert_ok(vt_seq_extend(a, 100));
    memset(vt_seq_plane(a, 1), 7, 100 * vt_seq_stride(a));
    assert_ok(vt_check(m, NULL));
    vt_manager_destroy(m); // with two sequences alive
}

static void test_wrong_configurations_leave_the_backend_fresh(void **state)
{
    (void)state;
    vt_manager *m;
    vt_fake_report end;
    vt_config c = world_small_config();
    c.vmm = vt_fake_open();
    vt_fake_set_epitaph(c.vmm, &end);
    c.slice_bytes = 1000;
    assert_status(VT_EINVAL, vt_manager_create(&c, &m));
    assert_null(m);
    c.slice_bytes = 0;
    uint64_t high_bytes = c.spare_high_bytes;
    c.spare_low_bytes = 8193, c.spare_high_bytes = 8192;
    assert_status(VT_EINVAL, vt_manager_create(&c, &m));
    assert_null(m);
    c.spare_low_bytes = 0, c.spare_high_bytes = high_bytes;
    c.budget_bytes = 8191; // a chunk is two pages
    assert_status(VT_NOSPACE, vt_manager_create(&c, &m));
    assert_null(m);
    c.budget_bytes = 8192;
    assert_ok(vt_manager_create(&c, &m));
    vt_manager_destroy(m);
    assert_null(end.violation);
}

static void test_every_status_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(vt_status_name(VT_OK), "VT_OK");
    assert_string_equal(vt_status_name(VT_NOSPACE), "VT_NOSPACE");
    assert_string_equal(vt_status_name(VT_EDEVICE), "VT_EDEVICE");
    assert_string_equal(vt_status_name(VT_EINVAL), "VT_EINVAL");
    assert_string_equal(vt_status_name(VT_ENOMEM), "VT_ENOMEM");
    assert_string_equal(vt_status_name((vt_status)99), "VT_?");
}

FX_SUITE(test_vt_seq)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sequence_starts_empty),
        cmocka_unit_test(test_extend_takes_whole_chunks_once),
        cmocka_unit_test(test_bytes_are_foretold),
        cmocka_unit_test(test_beyond_max_tok_is_misuse),
        cmocka_unit_test(test_the_budget_is_kept_and_no_space_costs_nothing),
        cmocka_unit_test(test_sequences_are_bounded_by_max_seq),
        cmocka_unit_test(test_a_released_span_is_handed_on_warm_and_wiped),
        cmocka_unit_test(test_the_newest_warm_span_comes_first),
        cmocka_unit_test(test_a_live_sequence_lends_what_it_has_not_grown_into),
        cmocka_unit_test(test_the_longest_idle_gives_back_first),
        cmocka_unit_test(test_release_keeps_no_more_than_spare_bytes),
        cmocka_unit_test(test_trim_gives_back_to_the_system),
        cmocka_unit_test(test_idle_spans_lend_their_mappings),
        cmocka_unit_test(test_mappings_are_foretold),
        cmocka_unit_test(test_where_the_system_is_short_spare_chunks_go_first),
        cmocka_unit_test(test_warm_costs_less_than_cold),
        cmocka_unit_test(test_null_is_allowed_where_it_is_said),
        cmocka_unit_test(test_a_manager_on_the_host_by_default),
        cmocka_unit_test(test_wrong_configurations_leave_the_backend_fresh),
        cmocka_unit_test(test_every_status_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
