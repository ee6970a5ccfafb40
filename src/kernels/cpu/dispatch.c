// dispatch.c - the one place that knows which paths exist and which CPU features each needs.
#include <string.h>

#ifdef FXI_X86
#    include <cpuid.h>
#endif

#include "kernels/cpu/cpu.h"
#include "kernels/ref/ref.h"

#ifdef FXI_X86
// clang 14's __builtin_cpu_supports refuses "f16c". gcc's reads a table that is filled at start;
// CPUID itself takes about 10 us in a virtual machine.
#    ifdef __clang__
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#    else
static bool has_f16c(void)
{
    return __builtin_cpu_supports("f16c");
}
#    endif

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

// CPUID leaf 7, subleaf 1: not every compiler's __builtin_cpu_supports knows the feature.
static bool has_avx2_vnni(void)
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static bool has_avx512_vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
#endif

// Best first. AVX-512 without VNNI comes before AVX2 with VNNI because its floats are twice as
// fast; no known CPU has to choose between the two.
static const struct kernel_path {
    const fxi_kernels *table;
    const fxi_probe_loops *probe;
    bool (*runs_here)(void); // NULL: any machine does
} paths[] = {
#ifdef FXI_X86
    {&fxi_kernels_avx512_vnni, &fxi_probe_loops_avx512_vnni, has_avx512_vnni},
    {&fxi_kernels_avx512, &fxi_probe_loops_avx512, has_avx512},
    {&fxi_kernels_avx2_vnni, &fxi_probe_loops_avx2_vnni, has_avx2_vnni},
    {&fxi_kernels_avx2, &fxi_probe_loops_avx2, has_avx2},
#endif
    {&fxi_kernels_ref, &fxi_probe_loops_ref, NULL},
};

static const struct kernel_path *find_path(const char *want)
{
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if ((!want || !strcmp(want, paths[i].table->name)) &&
            (!paths[i].runs_here || paths[i].runs_here()))
            return &paths[i];
    return NULL;
}

const fxi_kernels *fxi_kernels_get(const char *want)
{
    const struct kernel_path *p = find_path(want);
    return p ? p->table : NULL;
}

// Panels that are computed at once and lie row by row are one stream of memory. AMD's cores read
// that fastest; Intel's keep up with a stream per panel, and not with one (docs/design/kernels.md).
int fxi_linear_best_group(const fxi_kernels *k)
{
#ifdef FXI_X86
    if (fxi_cpu_is_intel()) return 0;
#endif
    return k->linear_group;
}

const fxi_probe_loops *fxi_probe_loops_get(void)
{
    return find_path(NULL)->probe;
}
