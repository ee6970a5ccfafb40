// test_vt_fork.c - fork(2): a child that destroys its copy of a manager, or asks the backend to
// change memory, leaves the parent's as it is, and does not wait for threads that it does not have.
#include "assert_vt.h"
#include "suite.h"

#include <string.h>

#include "unit/in_child.h"
#include "vtensor/vattention.h"
#include "vtensor/vmm.h"
#include "vtensor/vtensor.h"

enum { N_PLANE = 4, ROW_BYTES = 1024, N_TOK = 256, PLANE_BYTES = N_TOK * ROW_BYTES };

static void destroy_copy(void *of)
{
    vt_manager_destroy(of);
}

static bool reads_all(const vt_seq *s, unsigned char byte)
{
    for (uint32_t plane = 0; plane < N_PLANE; plane++) {
        const unsigned char *at = vt_seq_plane(s, plane);
        if (at[0] != byte || memcmp(at, at + 1, PLANE_BYTES - 1) != 0) return false;
    }
    return true;
}

static void destroyed_by_child(vt_mapper mapper)
{
    vt_config cfg = vt_config_default();
    cfg.n_plane = N_PLANE, cfg.row_bytes = ROW_BYTES, cfg.max_tok = 4 * N_TOK, cfg.max_seq = 4;
    cfg.budget_bytes = 16 << 20;
    cfg.mapper = mapper;
    vt_manager *m;
    vt_seq *s;
    const char *what = NULL;
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_seq_create(m, 0, &s));
    assert_ok(vt_seq_extend(s, N_TOK));
    for (uint32_t plane = 0; plane < N_PLANE; plane++)
        memset(vt_seq_plane(s, plane), 0x5a, PLANE_BYTES);
    run_in_child(destroy_copy, m);
    assert_true(reads_all(s, 0x5a));
    assert_ok(vt_check(m, &what));
    assert_ok(vt_seq_extend(s, 2 * N_TOK)); // it goes on
    vt_manager_destroy(m);
}

static void test_a_child_that_destroys_leaves_the_parents_rows(void **state)
{
    (void)state;
    destroyed_by_child(VT_MAPPER_OWNER);
    destroyed_by_child(VT_MAPPER_THREAD);
}

static void clean_up_copy(void *of)
{
    vt_va_cleanup(of);
}

static void test_a_child_that_cleans_up_leaves_the_parents_requests(void **state)
{
    (void)state;
    vt_va_config cfg = {.n_plane = 2};
    cfg.row_bytes = ROW_BYTES, cfg.max_tok = N_TOK, cfg.max_batch = 2;
    cfg.budget_bytes = 4 << 20;
    vt_va *va;
    uint32_t id, len[2] = {0, 0};
    assert_ok(vt_va_init(&cfg, &va));
    assert_ok(vt_va_alloc_reqid(va, N_TOK, &id));
    len[id] = N_TOK;
    assert_ok(vt_va_step(va, len, false));
    unsigned char *row = (unsigned char *)vt_va_tensor(va, 1) + id * vt_va_request_stride(va);
    memset(row, 0x5a, PLANE_BYTES);
    run_in_child(clean_up_copy, va);
    assert_int_equal(row[0], 0x5a);
    assert_memory_equal(row, row + 1, PLANE_BYTES - 1);
    vt_va_cleanup(va);
}

static void change_memory(void *of)
{
    vt_vmm *vmm = of;
    uint64_t sum;
    char bytes[4096] = {1};
    bool is_refused = vmm->ops->create(vmm, 1, 1) == VT_EDEVICE &&
                      vmm->ops->destroy(vmm, 0, 1) == VT_EDEVICE &&
                      vmm->ops->store(vmm, 0, 0, 0, (uintptr_t)bytes, 8) == VT_EDEVICE &&
                      vmm->ops->swap_write(vmm, 0, (uintptr_t)bytes, 8, &sum) == VT_EDEVICE;
    vmm->ops->swap_drop(vmm, 0, sizeof bytes);
    vmm->ops->close(vmm);
    if (!is_refused) _exit(1);
}

static void test_a_child_changes_neither_memory_nor_swap(void **state)
{
    (void)state;
    const vt_vmm_geometry geo = {.n_class = 1, .cls = {{1, 4096, 2}}};
    char bytes[4096], back[4096];
    uint64_t sum, resident;
    vt_vmm *vmm;
    memset(bytes, 0x5a, sizeof bytes);
    assert_ok(vt_vmm_host_open(&vmm));
    assert_ok(vmm->ops->configure(vmm, &geo));
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(vmm->ops->store(vmm, 0, 0, 0, (uintptr_t)bytes, sizeof bytes));
    assert_ok(vmm->ops->swap_open(vmm, "/tmp", sizeof bytes));
    assert_ok(vmm->ops->swap_write(vmm, 0, (uintptr_t)bytes, sizeof bytes, &sum));
    run_in_child(change_memory, vmm);
    assert_ok(vmm->ops->resident(vmm, &resident));
    assert_int_equal(resident, sizeof bytes);
    assert_ok(vmm->ops->fetch(vmm, (uintptr_t)back, 0, 0, 0, sizeof back, VT_VMM_NOW));
    assert_memory_equal(back, bytes, sizeof back);
    assert_ok(vmm->ops->swap_read(vmm, (uintptr_t)back, 0, sizeof back, &sum));
    assert_memory_equal(back, bytes, sizeof back);
    vmm->ops->close(vmm);
}

FX_SUITE(test_vt_fork)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_that_destroys_leaves_the_parents_rows),
        cmocka_unit_test(test_a_child_that_cleans_up_leaves_the_parents_requests),
        cmocka_unit_test(test_a_child_changes_neither_memory_nor_swap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
