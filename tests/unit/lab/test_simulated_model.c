// test_simulated_model.c - how long a pass takes, and what a device leaves for caches.
#include "unit/cmocka_all.h"

#include "lab/simulated_model.h"

static const fxi_geometry geometry = {"test", 10, 64, 4, 2, 16, 1e9, 1000};
static const fxi_simulated_device device = {
    .name = "test", .memory_gb = 8, .tflops = 2, .read_gb_s = 100, .pass_us = 7};

static void assert_near(double got, double want)
{
    assert_true(got > want * (1 - 1e-9) && got < want * (1 + 1e-9));
}

// One token: reading 2 GB at 100 GB/s takes 20 ms, far longer than 2 G operations at 2 TFLOP/s.
FX_TEST(test_decoding_is_bound_by_reads)
{
    assert_near(fxi_pass_us(&geometry, &device, 1, 0, 0), 7 + 20000);
    const double row_bytes = 2 * 10 * 2 * 16 * 2; // K and V, layers, heads, head size, f16
    assert_near(fxi_pass_us(&geometry, &device, 1, 1000, 1000), 7 + (2e9 + 1000 * row_bytes) / 1e5);
}

// 1000 tokens: 2 T operations take a second; attention adds 4 x layers x heads x head size for each
// pair.
FX_TEST(test_prompts_are_bound_by_arithmetic)
{
    assert_near(fxi_pass_us(&geometry, &device, 1000, 0, 0), 7 + 1e6);
    assert_near(fxi_pass_us(&geometry, &device, 1000, 5e8, 0),
                7 + 1e6 + 4.0 * 10 * 4 * 16 * 5e8 / 2e6);
}

// vLLM's table 1: 12 GB for OPT-13B, 21 GB for OPT-66B on four, 264 GB for OPT-175B on eight.
FX_TEST(test_memory_as_in_the_paper)
{
    static const struct {
        const char *geometry, *device;
        double gb;
    } cases[] = {{"opt-13b", "a100-40g", 12},
                 {"opt-66b", "4xa100-40g", 21},
                 {"opt-175b", "8xa100-80g", 264}};
    for (int i = 0; i < 3; i++) {
        const double gb = (double)fxi_setting_kv_bytes(fxi_geometry_find(cases[i].geometry),
                                                       fxi_simulated_device_find(cases[i].device)) /
                          1e9;
        assert_true(gb > cases[i].gb * 0.95 && gb < cases[i].gb * 1.05);
    }
    assert_int_equal(
        fxi_setting_kv_bytes(fxi_geometry_find("opt-66b"), fxi_simulated_device_find("a100-40g")),
        0);
    assert_null(fxi_geometry_find("none"));
    assert_null(fxi_simulated_device_find("none"));
}

// 800 KB for a token of OPT-13B, as the paper says.
FX_TEST(test_bytes_of_a_token)
{
    const fxi_geometry *g = fxi_geometry_find("opt-13b");
    assert_int_equal(2 * (size_t)g->n_layer * fxi_geometry_row_bytes(g), 800 << 10);
}

FX_RUN(test_simulated_model)
