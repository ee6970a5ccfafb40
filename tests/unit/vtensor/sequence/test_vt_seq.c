// test_vt_seq.c - the manager's operations one by one: what each answers, costs and leaves behind.
#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "family.h"

static family f;

// Two planes, 32 tokens of 128 bytes to a slice of one page.
static const family_setup plain = {
    .plain = true,
    .backend = ON_FAKE,
    .slice_pages = 1,
    .n_plane = 2,
    .row_bytes = 128,
    .n_seq = 4,
    .budget_chunks = 12,
    .mapper = VT_MAPPER_OWNER,
};

VT_FIXTURE(setup)
{
    family_open(&f, &plain, 1);
}

VT_FIXTURE(teardown)
{
    family_verify(&f);
    family_close(&f);
}

static void reopen(const family_setup *other)
{
    family_close(&f);
    family_open(&f, other, 1);
}

static uint32_t tok_of(uint32_t n_chunk)
{
    return 32 * n_chunk;
}

FX_TEST(test_a_sequence_starts_empty)
{
    assert_ok(family_create(&f, 0, 0));
    vt_seq *s = f.kin[0].s;
    assert_int_equal(vt_seq_len(s), 0);
    assert_int_equal(vt_seq_backed(s), 0);
    assert_int_equal(vt_seq_stride(s), 128);
    assert_int_equal((char *)vt_seq_plane(s, 1) - (char *)vt_seq_plane(s, 0),
                     vt_seq_plane_stride(s));
    vt_stats st = family_stats(&f);
    assert_int_equal(st.chunks_created, 0);
    assert_int_equal(st.mappings, 0);
    assert_int_equal(st.seqs, 1);
}

FX_TEST(test_extend_takes_whole_chunks_once)
{
    assert_ok(family_create(&f, 0, 0));
    assert_ok(family_extend(&f, 0, 1));
    assert_int_equal(vt_seq_backed(f.kin[0].s), 32);
    assert_int_equal(family_stats(&f).chunks_owned, 1);
    assert_int_equal(family_stats(&f).slack_bytes, 31 * 2 * 128);
    assert_ok(family_extend(&f, 0, 32));
    assert_ok(family_extend(&f, 0, 5)); // shorter: nothing changes
    assert_int_equal(vt_seq_len(f.kin[0].s), 32);
    assert_int_equal(family_stats(&f).create_calls, 1);
    assert_int_equal(family_stats(&f).map_calls, 2);
    // Six chunks more: one create, one map for each plane.
    assert_ok(family_extend(&f, 0, tok_of(7)));
    assert_int_equal(family_stats(&f).create_calls, 2);
    assert_int_equal(family_stats(&f).map_calls, 4);
    assert_int_equal(family_stats(&f).mappings, 2);
}

FX_TEST(test_bytes_are_foretold)
{
    static const uint32_t lens[] = {0, 1, 31, 32, 33, 320};
    for (int i = 0; i < 6; i++) {
        assert_ok(family_create(&f, 0, 0));
        assert_ok(family_extend(&f, 0, lens[i]));
        vt_stats st = family_stats(&f);
        assert_int_equal(vt_bytes_for(f.m, lens[i]), st.chunks_owned * st.chunk_bytes);
        assert_int_equal(vt_held_bytes(f.m), st.owned_bytes + st.shared_bytes);
        family_release(&f, 0);
    }
    assert_int_equal(vt_bytes_for(f.m, UINT32_MAX), vt_bytes_for(f.m, 320));
}

FX_TEST(test_beyond_max_tok_is_misuse)
{
    assert_ok(family_create(&f, 0, 0));
    assert_ok(family_extend(&f, 0, 320));
    assert_status(VT_EINVAL, family_extend(&f, 0, 321));
    assert_status(VT_EINVAL, family_extend(&f, 0, UINT32_MAX));
    assert_int_equal(vt_seq_len(f.kin[0].s), 320);
    assert_int_equal(family_stats(&f).shortages, 0);
}

FX_TEST(test_the_budget_is_kept_and_no_space_costs_nothing)
{
    for (uint32_t i = 0; i < 3; i++) assert_ok(family_create(&f, i, 0));
    assert_ok(family_extend(&f, 0, tok_of(5)));
    assert_ok(family_extend(&f, 1, tok_of(3)));
    family_release(&f, 1); // three spare chunks
    vt_stats before = family_stats(&f);
    assert_status(VT_NOSPACE, family_extend(&f, 2, tok_of(7) + 1));
    vt_stats after = family_stats(&f);
    assert_int_equal(after.shortages, 1);
    after.shortages = 0;
    assert_memory_equal(&before, &after, sizeof before);
    assert_ok(family_extend(&f, 2, tok_of(7))); // takes the place of the spare ones
    assert_int_equal(family_stats(&f).chunks_created, 12);
    assert_int_equal(family_stats(&f).chunks_spare, 0);
}

FX_TEST(test_sequences_are_bounded_by_max_seq)
{
    for (uint32_t i = 0; i < 4; i++) assert_ok(family_create(&f, i, 0));
    assert_status(VT_NOSPANS, family_create(&f, 4, 0));
    family_release(&f, 2);
    assert_ok(family_create(&f, 4, 0));
}

FX_TEST(test_a_released_span_is_handed_on_warm_and_wiped)
{
    assert_ok(family_create(&f, 0, 0));
    assert_ok(family_create(&f, 1, 0));
    assert_ok(family_extend(&f, 0, tok_of(4)));
    void *base = vt_seq_plane(f.kin[0].s, 0);
    family_release(&f, 1); // cold, and released last
    family_release(&f, 0);
    assert_int_equal(family_stats(&f).chunks_spare, 4);
    assert_int_equal(family_stats(&f).mappings, 2);
    vt_stats before = family_stats(&f);
    assert_ok(family_create(&f, 2, 0)); // looks that all is zero
    assert_ptr_equal(vt_seq_plane(f.kin[2].s, 0), base);
    assert_ok(family_extend(&f, 2, tok_of(3)));
    vt_stats after = family_stats(&f);
    assert_int_equal(after.create_calls, before.create_calls);
    assert_int_equal(after.map_calls, before.map_calls);
    assert_int_equal(after.chunks_owned, 3);
    assert_int_equal(after.chunks_spare, 1);
}

FX_TEST(test_the_newest_warm_span_comes_first)
{
    void *base[3];
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(family_create(&f, i, 0));
        assert_ok(family_extend(&f, i, i == 1 ? 0 : tok_of(1 + i)));
        base[i] = vt_seq_plane(f.kin[i].s, 0);
    }
    for (uint32_t i = 0; i < 3; i++) family_release(&f, i);
    assert_ok(family_create(&f, 0, 0));
    assert_ptr_equal(vt_seq_plane(f.kin[0].s, 0), base[2]);
    assert_ok(family_create(&f, 1, 0));
    assert_ptr_equal(vt_seq_plane(f.kin[1].s, 0), base[0]);
    assert_ok(family_create(&f, 2, 0)); // the cold one before a new one
    assert_ptr_equal(vt_seq_plane(f.kin[2].s, 0), base[1]);
}

FX_TEST(test_a_live_sequence_lends_what_it_has_not_grown_into)
{
    assert_ok(family_create(&f, 0, 0));
    assert_ok(family_extend(&f, 0, tok_of(10)));
    family_release(&f, 0);
    assert_ok(family_create(&f, 0, 0)); // ten warm chunks
    assert_ok(family_extend(&f, 0, tok_of(2)));
    assert_ok(family_create(&f, 1, 0));
    assert_ok(family_extend(&f, 1, tok_of(7))); // five from the other's warm ones
    assert_int_equal(family_stats(&f).chunks_created, 12);
    assert_int_equal(family_stats(&f).chunks_spare, 3);
    assert_ok(family_extend(&f, 0, tok_of(5)));
    assert_status(VT_NOSPACE, family_extend(&f, 0, tok_of(6)));
}

FX_TEST(test_the_longest_idle_gives_back_first)
{
    void *base[3];
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(family_create(&f, i, 0));
        assert_ok(family_extend(&f, i, tok_of(2)));
        base[i] = vt_seq_plane(f.kin[i].s, 0);
    }
    for (uint32_t i = 0; i < 3; i++) family_release(&f, i);
    uint64_t chunk = family_stats(&f).chunk_bytes, freed;
    assert_ok(vt_trim(f.m, 3 * chunk + chunk - 1, &freed));
    assert_int_equal(freed, 3 * chunk);
    for (uint32_t i = 0; i < 3; i++) assert_ok(family_create(&f, i, 0));
    assert_ptr_equal(vt_seq_plane(f.kin[0].s, 0), base[2]); // two chunks
    assert_ptr_equal(vt_seq_plane(f.kin[1].s, 0), base[1]); // one
    assert_ptr_equal(vt_seq_plane(f.kin[2].s, 0), base[0]); // none
    vt_stats before = family_stats(&f);
    assert_ok(family_extend(&f, 0, tok_of(2)));
    assert_ok(family_extend(&f, 1, tok_of(1)));
    assert_int_equal(family_stats(&f).create_calls, before.create_calls);
}

FX_TEST(test_release_keeps_no_more_than_spare_bytes)
{
    family_setup other = plain;
    other.high_chunks = 3;
    reopen(&other);
    assert_ok(family_create(&f, 0, 0));
    assert_ok(family_extend(&f, 0, tok_of(2)));
    assert_ok(family_create(&f, 1, 0));
    assert_ok(family_extend(&f, 1, tok_of(6)));
    family_release(&f, 0);
    assert_int_equal(family_stats(&f).chunks_spare, 2);
    family_release(&f, 1);
    for (int k = 0; k < 6; k++) { // unmapped, then destroyed
        vt_work(f.m, UINT32_MAX, NULL);
        assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0));
    }
    assert_int_equal(family_stats(&f).chunks_spare, 3);
    assert_int_equal(family_stats(&f).peak_mapped_bytes, 8 * family_stats(&f).chunk_bytes);
}

FX_TEST(test_trim_gives_back_to_the_system)
{
    family_setup other = plain;
    other.backend = ON_HOST;
    reopen(&other);
    uint64_t freed, resident, chunk = family_stats(&f).chunk_bytes;
    assert_ok(family_create(&f, 0, 0));
    assert_ok(family_extend(&f, 0, tok_of(3)));
    assert_ok(family_create(&f, 1, 0));
    assert_ok(family_extend(&f, 1, tok_of(6)));
    family_release(&f, 1);
    assert_ok(f.inner->ops->resident(f.inner, &resident));
    assert_int_equal(resident, 9 * chunk);
    assert_ok(vt_trim(f.m, 2 * chunk, &freed));
    assert_int_equal(freed, 4 * chunk);
    assert_ok(vt_trim(f.m, 0, NULL));
    assert_ok(vt_trim(f.m, 0, &freed)); // nothing is left to give
    assert_int_equal(freed, 0);
    assert_ok(f.inner->ops->resident(f.inner, &resident));
    assert_int_equal(resident, 3 * chunk);
}

FX_TEST(test_idle_spans_lend_their_mappings)
{
    family_setup other = plain;
    other.max_runs = 5; // of two planes: two sequences
    reopen(&other);
    for (uint32_t i = 0; i < 3; i++) assert_ok(family_create(&f, i, 0));
    assert_ok(family_extend(&f, 0, tok_of(1)));
    assert_ok(family_extend(&f, 1, tok_of(1)));
    assert_status(VT_NOMAPS, family_extend(&f, 2, 1));
    assert_ok(family_extend(&f, 1, tok_of(4))); // no new run
    family_release(&f, 1);
    assert_int_equal(family_stats(&f).mappings, 4);
    assert_ok(family_extend(&f, 2, 1));
    assert_int_equal(family_stats(&f).mappings, 4);
    assert_int_equal(family_stats(&f).chunks_spare, 4); // in the pool now, mapped nowhere
}

// In each of the two planes two runs at least, and one more than there are.
FX_TEST(test_mappings_are_foretold)
{
    assert_int_equal(vt_mappings_for(f.m, NULL), 4);
    assert_ok(family_create(&f, 0, 0));
    assert_int_equal(vt_mappings_for(f.m, f.kin[0].s), 4);
    assert_ok(family_extend(&f, 0, tok_of(2)));
    assert_int_equal(family_stats(&f).mappings, 2);
    assert_int_equal(vt_mappings_for(f.m, f.kin[0].s), 4);
}

FX_TEST(test_where_the_system_is_short_spare_chunks_go_first)
{
    for (uint32_t i = 0; i < 2; i++) assert_ok(family_create(&f, i, 0));
    assert_ok(family_extend(&f, 0, tok_of(4)));
    family_release(&f, 0);
    vt_fake_set_max_chunks(f.inner, 5); // fewer than the budget
    assert_ok(family_extend(&f, 1, tok_of(5)));
    assert_status(VT_NOSPACE, family_extend(&f, 1, tok_of(6)));
}

FX_TEST(test_warm_costs_less_than_cold)
{
    uint64_t cost_us[2];
    for (int warm = 0; warm < 2; warm++) {
        uint64_t start = vt_fake_look(f.inner).clock_us;
        assert_ok(family_create(&f, 0, 0));
        assert_ok(family_extend(&f, 0, tok_of(10)));
        family_release(&f, 0);
        cost_us[warm] = vt_fake_look(f.inner).clock_us - start;
    }
    assert_true(4 * cost_us[1] < cost_us[0]);
}

FX_TEST(test_null_is_allowed_where_it_is_said)
{
    vt_seq_release(NULL);
    vt_manager_destroy(NULL);
    assert_ok(vt_check(f.m, NULL));
}

FX_TEST(test_a_manager_on_the_host_by_default)
{
    vt_manager *m;
    vt_seq *a, *b;
    vt_config c = small_config();
    assert_ok(vt_manager_create(&c, &m));
    assert_ok(vt_seq_create(m, 0, &a));
    assert_ok(vt_seq_create(m, 0, &b));
    assert_ok(vt_seq_extend(a, 100));
    memset(vt_seq_plane(a, 1), 7, 100 * vt_seq_stride(a));
    assert_ok(vt_check(m, NULL));
    vt_manager_destroy(m); // with two sequences alive
}

FX_TEST(test_wrong_configurations_leave_the_backend_fresh)
{
    vt_manager *m;
    vt_fake_report end;
    vt_config c = small_config();
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

FX_RUN_EACH(test_vt_seq, setup, teardown)
