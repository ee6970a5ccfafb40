// test_same_bits_managers.c - the same bits whoever manages the KV cache: the answers of every
// manager, under what the engine does to a request, are those of the first one; see
// test_same_bits.c.
#include "unit/cmocka_all.h"

#include "unit/engine/same_bits/variants.h"
#include "vmm_fault.h"

enum { N_PROMPT = 66, N_GEN = 12, N_LEVEL = 7 };

// The reference of each kind of request is the other rig's.
static void expect_same_answers(rig *r, rig *reference)
{
    char what[128];
    for (int kind = 0; kind < N_KIND; kind++)
        if (!bits_same_answer(rig_want(r, kind), rig_want(reference, kind), what))
            fail_msg("%s, kind %d: %s", r->eng[0]->kv->ops->name, kind, what);
}

FX_TEST(test_every_manager)
{
    rig *reference = rig_open(TINY, N_PROMPT, N_GEN);
    for (int i = 1; fxi_kv_manager_name(i); i++) {
        rig *r = rig_open_managed(TINY, fxi_kv_manager_name(i), N_PROMPT, N_GEN);
        expect_same_answers(r, reference);
        rig_compare_pairs(r, N_LEVEL);
        rig_check_preemptions(r);
        rig_check_drafts(r);
        rig_close(r);
    }
    rig_close(reference);
}

static void check_managers(int model)
{
    enum { FEW = 5, N_FEW_LEVEL = 3 };
    for (int i = 1; fxi_kv_manager_name(i); i++) {
        rig *r = rig_open_managed(model, fxi_kv_manager_name(i), N_PROMPT, FEW);
        rig *reference = rig_open_managed(model, fxi_kv_manager_name(0), N_PROMPT, FEW);
        expect_same_answers(r, reference);
        rig_compare_pairs(r, N_FEW_LEVEL);
        rig_close(reference);
        rig_close(r);
    }
}

// Layers with a window, whose rows other managers keep.
FX_TEST(test_every_manager_with_windows)
{
    check_managers(WINDOWED);
}

// Latent layers, which have one plane each: an odd number of them.
FX_TEST(test_every_manager_with_latent_layers)
{
    check_managers(LATENT);
}

static struct vt_vmm *make_large_pages(void)
{
    vt_vmm *host, *large;
    assert_int_equal(vt_vmm_host_open(&host), VT_OK);
    assert_non_null(large = vt_fault_open(host));
    vt_fault_set_granularity(large, 64 << 10);
    return large;
}

// As on a device, where the first manager lays the planes of a group side by side.
FX_TEST(test_large_pages)
{
    enum { FEW = 5, N_FEW_LEVEL = 3 };
    static const int on[] = {TINY, WINDOWED, LATENT};
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        rig *r = rig_open_over(on[i], make_large_pages, N_PROMPT, FEW);
        rig *reference = rig_open(on[i], N_PROMPT, FEW);
        expect_same_answers(r, reference);
        rig_compare_pairs(r, N_FEW_LEVEL);
        rig_close(reference);
        rig_close(r);
    }
}

FX_RUN(test_same_bits_managers)
