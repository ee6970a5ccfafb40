// simulated_model.h - a model that computes nothing: a forward pass advances a clock by the time
// that it would take on a device, and its logits name a token that follows from the token before
// and its position. Models and devices are those of the papers, as tables.
#ifndef FXI_LAB_SIMULATED_MODEL_H
#define FXI_LAB_SIMULATED_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "lab/simulated_memory.h"
#include "model/model.h"

typedef struct fxi_geometry {
    const char *name; // "opt-13b"
    int n_layer, dim, n_head, n_kv_head, head_dim;
    double n_param;
    int ctx_tok; // trained
} fxi_geometry;

// A device, or several that share a model by tensor parallelism: sums over all of them.
typedef struct fxi_simulated_device {
    const char *name; // "a100-40g"
    double memory_gb; // 10^9 bytes
    double tflops;    // dense 16 bit, what is reached of it in large products
    double read_gb_s; // what is reached of it
    double pass_us;   // of a forward pass in addition: launches, sampling, scheduling
    fxi_memory_costs costs;
} fxi_simulated_device;

enum { FXI_N_GEOMETRY = 8, FXI_N_DEVICE = 6 };
extern const fxi_geometry fxi_geometries[FXI_N_GEOMETRY];
extern const fxi_simulated_device fxi_simulated_devices[FXI_N_DEVICE];

// By name; NULL: unknown.
const fxi_geometry *fxi_geometry_find(const char *name);
const fxi_simulated_device *fxi_simulated_device_find(const char *name);

static inline size_t fxi_geometry_row_bytes(const fxi_geometry *g) // of a token in one plane, f16
{
    return 2 * (size_t)g->n_kv_head * (size_t)g->head_dim;
}

// Memory left for caches when 90 % of the device are used: without weights (16 bit) and a share for
// activations, which is what vLLM leaves (arXiv 2309.06180, table 1). 0: the model does not fit.
uint64_t fxi_setting_kv_bytes(const fxi_geometry *g, const fxi_simulated_device *d);

// ---- the model ---------------------------------------------------------------------------------

// Enough that prompts which have nothing to do with each other differ in their first tokens.
enum { FXI_SIMULATED_VOCAB = 1024 };

typedef struct fxi_simulated_model {
    fxi_model model; // first: an fxi_model is cast to this
    fxi_geometry geometry;
    fxi_simulated_device device;
    double clock_us;               // of the replay
    void (*before_pass)(void *ud); // called when a pass begins; may be NULL
    void *ud;
    int n_candidate; // tokens of a row of logits that beams choose from; at least 1
    uint64_t n_pass; // so far
    double pass_us;  // of the last pass
    int n_seq;       // of the pass that begins, or was last
} fxi_simulated_model;

// Freed with fxi_model_free. NULL: no memory.
fxi_simulated_model *fxi_simulated_model_new(const fxi_geometry *g, const fxi_simulated_device *d);

// Time of a pass, by the roofline: the longer of all reads and all operations, plus the device's
// own time. n_seen: pairs of a new token and a token that it attends to. kv_tok: cached tokens that
// are read. n_logit: rows of logits.
double fxi_pass_us(const fxi_geometry *g, const fxi_simulated_device *d, int n_tok, double n_seen,
                   double kv_tok);

#endif
