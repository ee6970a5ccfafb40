// setting.h - what a replay takes place on: the geometries of models and the devices of the papers,
// as tables.
#ifndef FXI_REPLAY_SETTING_H
#define FXI_REPLAY_SETTING_H

#include <stddef.h>
#include <stdint.h>

#include "replay/paper/paper_memory.h"

typedef struct fxi_geometry {
    const char *name; // "opt-13b"
    int n_layer, dim, n_head, n_kv_head, head_dim;
    double n_param;
    int ctx_tok; // trained
} fxi_geometry;

// A device, or several that share a model by tensor parallelism: sums over all of them.
typedef struct fxi_paper_device {
    const char *name; // "a100-40g"
    double memory_gb; // 10^9 bytes
    double tflops;    // dense 16 bit, what is reached of it in large products
    double read_gb_s; // what is reached of it
    double pass_us;   // of a forward pass beside that: launches, sampling, scheduling
    fxi_memory_costs costs;
} fxi_paper_device;

enum { FXI_N_GEOMETRY = 8, FXI_N_DEVICE = 6 };
extern const fxi_geometry fxi_geometries[FXI_N_GEOMETRY];
extern const fxi_paper_device fxi_paper_devices[FXI_N_DEVICE];

// By name; NULL: unknown.
const fxi_geometry *fxi_geometry_find(const char *name);
const fxi_paper_device *fxi_paper_device_find(const char *name);

static inline size_t fxi_geometry_row_bytes(const fxi_geometry *g) // of a token in one plane, f16
{
    return 2 * (size_t)g->n_kv_head * (size_t)g->head_dim;
}

// Memory left for caches when 90 % of the device are used: without weights (16 bit) and a share for
// activations, which is what vLLM leaves (arXiv 2309.06180, table 1). 0: the model does not fit.
uint64_t fxi_setting_kv_bytes(const fxi_geometry *g, const fxi_paper_device *d);

#endif
