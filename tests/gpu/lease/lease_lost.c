// lease_lost.c - a kernel that reads where no memory is: the pass ends with one line, the device is
// lost, and says so again.
//
//     lease_lost TREE
#include "gpu_model_rig.h"

#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

static const char *model_path;

static void test_an_illegal_address(void **state)
{
    (void)state;
    static const gpu_way way = {"lost", .n_prompt = 4, .chunk = 4};
    gpu_model_rig g;
    fx_error err = {0}, again = {0};
    gpu_model_open(&g, (runner_model){model_path, NULL}, &way);
    gpu_model_run(&g, &way, 4);
    const int32_t token = 5;
    fxi_batch_seq seq = {.views = fxi_kv_get_views(g.r.kv, g.r.seq[0]), .pos = 3, .n_tok = 1};
    seq.n_logit = 1;
    seq.views.group[0].base += (size_t)1 << 40;
    const fxi_batch b = {.token = &token, .n_tok = 1, .seq = &seq, .n_seq = 1};
    assert_int_equal(fxi_model_forward(g.r.model, &b, g.out, &err), FX_EINTERNAL);
    printf("%s\n", err.text);
    assert_memory_equal(err.text, "cuda:0: ", 8);
    assert_non_null(strstr(err.text, "CUDA_ERROR_"));
    assert_true(g.device->ops->is_lost(g.device));
    assert_int_equal(fxi_model_forward(g.r.model, &b, g.out, &again), FX_EINTERNAL);
    assert_string_equal(again.text, err.text);
    gpu_model_close(&g);
}

int main(int argc, char **argv)
{
    char path[1024];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_an_illegal_address)};
    if (argc < 2) return 2;
    snprintf(path, sizeof path, "%s/tests/vectors/models/llama.gguf", argv[1]);
    model_path = path;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
