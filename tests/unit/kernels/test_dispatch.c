// test_dispatch.c - the choice of a path, and that every path's table is complete.
#include "kernels_test.h"
#include "suite.h"

FX_TEST(test_ref_is_always_there)
{
    assert_non_null(ref_path());
    assert_string_equal(ref_path()->name, "ref");
    assert_non_null(fxi_kernels_get(NULL));
}

FX_TEST(test_unknown_paths_are_null)
{
    assert_null(fxi_kernels_get("avx"));
    assert_null(fxi_kernels_get(""));
    assert_null(fxi_kernels_get("REF"));
}

// The best path is the widest one that runs.
FX_TEST(test_best_is_the_last_fast_path)
{
    const fxi_kernels *best = ref_path(), *k;
    for (int i = 0; (k = fast_path(i)); i++) best = k;
    assert_ptr_equal(fxi_kernels_get(NULL), best);
}

static void table_is_full(const fxi_kernels *k)
{
    assert_non_null(k->quant_q8);
    assert_non_null(k->rms_norm);
    assert_non_null(k->layer_norm);
    assert_non_null(k->add);
    assert_non_null(k->add_scaled);
    assert_non_null(k->scale);
    assert_non_null(k->softcap);
    for (int i = 0; i < FXI_ACT_END; i++) {
        assert_true(!k->act[i] == (i == FXI_ACT_CLAMPED));
        assert_non_null(k->gate[i]);
    }
    assert_non_null(k->rope);
    static const fxi_dtype kv_types[] = {FXI_F32, FXI_F16, FXI_BF16, FXI_Q8_0};
    for (int i = 0; i < 4; i++) assert_non_null(k->store_kv[kv_types[i]]);
    assert_non_null(k->attention);
    assert_non_null(k->attention_part);
    assert_non_null(k->attention_merge);
    for (uint32_t id = 0; id < 64; id++) {
        const fxi_dtype_info *t = fxi_dtype_find(id);
        if (t && t->runs) assert_non_null(k->linear[id]);
    }
}

FX_TEST(test_every_table_is_full)
{
    const fxi_kernels *k;
    table_is_full(ref_path());
    for (int i = 0; (k = fast_path(i)); i++) {
        assert_ptr_equal(fxi_kernels_get(k->name), k);
        table_is_full(k);
    }
}

FX_RUN(test_dispatch)
