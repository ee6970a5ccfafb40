// ref_probe.c - the loops of the probe in plain C, which the compiler may vectorise.
#include "kernels/ref/ref.h"

enum { N_LANE = 16 };

static float sum_lanes(const float *lane)
{
    float s = 0;
    for (int j = 0; j < N_LANE; j++) s += lane[j];
    return s;
}

static float probe_read(const float *p, size_t n)
{
    float lane[N_LANE] = {0};
    for (size_t i = 0; i + N_LANE <= n; i += N_LANE)
        for (int j = 0; j < N_LANE; j++) lane[j] += p[i + (size_t)j];
    return sum_lanes(lane);
}

static float probe_fma(float seed, int n_round)
{
    float lane[N_LANE] = {0}, half = seed / 2;
    for (int r = 0; r < n_round; r++)
        for (int j = 0; j < N_LANE; j++) lane[j] = lane[j] * half + half;
    return sum_lanes(lane);
}

const fxi_probe_loops fxi_probe_loops_ref = {probe_read, probe_fma, 2.0 * N_LANE, NULL};
