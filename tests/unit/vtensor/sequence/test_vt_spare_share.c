// test_vt_spare_share.c - spare_high_bytes keeps its share of a budget that changes.
#include "assert_vt.h"
#include "suite.h"

#include "vtensor/core/manager.h"

enum { BUDGET = 1 << 20 };

static void test_spare_high_follows_the_budget(void **state)
{
    (void)state;
    static const uint64_t high[][2] = {{BUDGET / 16, BUDGET}, {UINT64_MAX, UINT64_MAX}};
    for (size_t i = 0; i < sizeof high / sizeof high[0]; i++) {
        vt_config cfg = vt_config_default();
        cfg.n_plane = 2, cfg.row_bytes = 128, cfg.max_tok = 512, cfg.max_seq = 4;
        cfg.budget_bytes = BUDGET;
        cfg.spare_high_bytes = high[i][0];
        cfg.mapper = VT_MAPPER_OWNER;
        vt_manager *m;
        assert_ok(vt_manager_create(&cfg, &m));
        assert_ok(vt_set_budget(m, 16 * BUDGET));
        assert_int_equal(m->spare_high_bytes, high[i][1]);
        assert_ok(vt_set_budget(m, BUDGET));
        assert_int_equal(m->spare_high_bytes, high[i][0]);
        assert_status(VT_EINVAL, vt_set_budget(m, 1));
        assert_int_equal(m->spare_high_bytes, high[i][0]);
        vt_manager_destroy(m);
    }
}

FX_SUITE(test_vt_spare_share)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spare_high_follows_the_budget)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
