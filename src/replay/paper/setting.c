// setting.c - the tables of geometries and devices.
//
// Geometries are those of the published configurations. Of a device, speeds are what large products
// and streaming reads reach, about 70 % of the data sheet's peak and 80 % of its bandwidth; costs
// of the driver's memory calls are those measured on an A100 by others.
#include "replay/paper/setting.h"

#include <string.h>

const fxi_geometry fxi_geometries[FXI_N_GEOMETRY] = {
    // name, layers, dim, heads, kv heads, head size, parameters, context
    {"opt-13b", 40, 5120, 40, 40, 128, 12.85e9, 2048},
    {"opt-66b", 64, 9216, 72, 72, 128, 65.7e9, 2048},
    {"opt-175b", 96, 12288, 96, 96, 128, 175e9, 2048},
    {"llama-13b", 40, 5120, 40, 40, 128, 13.0e9, 2048},
    {"llama-3-8b", 32, 4096, 32, 8, 128, 8.03e9, 8192},
    {"yi-6b", 32, 4096, 32, 4, 128, 6.06e9, 200000},
    {"yi-9b", 48, 4096, 32, 4, 128, 8.83e9, 200000},
    {"yi-34b", 60, 7168, 56, 8, 128, 34.4e9, 200000},
};

#define GPU_COSTS                         \
    {                                     \
        19, 195, 1.5, 36, 26, 1.5e3, 45e3 \
    }

const fxi_paper_device fxi_paper_devices[FXI_N_DEVICE] = {
    {"a100-40g", 40, 218, 1244, 3000, GPU_COSTS},
    {"4xa100-40g", 160, 4 * 218, 4 * 1244, 5000, GPU_COSTS},
    {"8xa100-80g", 640, 8 * 218, 8 * 1631, 6000, GPU_COSTS},
    {"a100-80g", 80, 218, 1631, 3000, GPU_COSTS},
    {"2xa100-80g", 160, 2 * 218, 2 * 1631, 4000, GPU_COSTS},
    {"h100-80g", 80, 692, 2680, 2500, GPU_COSTS},
};

const fxi_geometry *fxi_geometry_find(const char *name)
{
    for (int i = 0; i < FXI_N_GEOMETRY; i++)
        if (!strcmp(fxi_geometries[i].name, name)) return &fxi_geometries[i];
    return NULL;
}

const fxi_paper_device *fxi_paper_device_find(const char *name)
{
    for (int i = 0; i < FXI_N_DEVICE; i++)
        if (!strcmp(fxi_paper_devices[i].name, name)) return &fxi_paper_devices[i];
    return NULL;
}

uint64_t fxi_setting_kv_bytes(const fxi_geometry *g, const fxi_paper_device *d)
{
    const double used = 0.9 * d->memory_gb * 1.0737; // sizes of GPUs are powers of 1024
    const double weights = 2 * g->n_param / 1e9, activations = 0.01 * d->memory_gb;
    const double left = used - weights - activations;
    return left > 0 ? (uint64_t)(left * 1e9) : 0;
}
