// sdpa.h - attention by cuDNN, over caches that lie at arbitrary addresses: its graph, whether the
// library supports it, and its execution.
//
// One call treats a batch of sequences, each with one new token or several. K and V of a
// sequence are [n_tok][n_kv_head][head_dim] with `token_step` numbers from token to token, as in
// a cache whose layers are interleaved; the sequence begins at an offset of its own, a 64-bit
// number of the tensor's elements ("ragged"). So the caches of a batch need not lie side by
// side: offsets count from the lowest of them.
//
// As the library sees it:
//   Q, OUT    [n_seq][n_head][max_q_tok][head_dim], ragged, too: it wants all of them so, or none
//   K, V      [n_seq][n_kv_head][max_kv_tok][head_dim], ragged
//   N_Q, N_KV [n_seq] 32-bit numbers of tokens; positions from N_KV on do not count
//   SCALE     one f32 by value
// Sequences that decode see their whole cache: the library's own operation of attention does that.
// Tokens of a prompt see what is before them, and that operation has no mask, so the graph is made
// of two products, masks and a softmax (sdpa_masked.c), which the library fuses.
//
// The library answers from the properties of a device alone; no GPU is needed to ask, nor to plan.
//
// Threads: one at a time. Errors: FX_EINVAL: the library does not support this; FX_ENOMEM;
// FX_EINTERNAL: it failed.
#ifndef FXI_GPU_SDPA_H
#define FXI_GPU_SDPA_H

#include <stdbool.h>

#include "base/number/dtype.h"
#include "gpu/library/dnn_api.h"

typedef struct fxi_sdpa_shape {
    fxi_dtype type; // of q, k, v and the result: f16 or bf16
    int n_seq, n_head, n_kv_head, head_dim;
    int max_q_tok;      // new tokens of any sequence; 1: all decode
    int64_t max_kv_tok; // of any sequence
    int64_t token_step; // in numbers; at least n_kv_head x head_dim
} fxi_sdpa_shape;

// The tensors, by their ids.
typedef enum fxi_sdpa_tensor {
    FXI_SDPA_Q,
    FXI_SDPA_K,
    FXI_SDPA_V,
    FXI_SDPA_OUT,
    FXI_SDPA_SCALE,
    FXI_SDPA_N_Q,
    FXI_SDPA_N_KV,
    FXI_SDPA_Q_AT,
    FXI_SDPA_KV_AT, // [n_seq + 1] offsets of q and the result, and of k and v
    FXI_SDPA_N_DATA,
    FXI_SDPA_LOWEST = FXI_SDPA_N_DATA, // what masked scores become, one f32 by value
    FXI_SDPA_N_TENSOR
} fxi_sdpa_tensor;

enum { FXI_SDPA_MAX_CONFIG = 8, FXI_SDPA_MAX_OBJECT = 96 };

// Whose attention it is to be: the device of a handle, or the one that a text in cuDNN's JSON
// describes.
typedef struct fxi_sdpa_device {
    fxi_dnn_handle handle; // NULL: json
    const char *json;
} fxi_sdpa_device;

typedef struct fxi_sdpa { // all zero: none
    const fxi_dnn_api *dnn;
    bool is_masked;                             // LOWEST is one of its tensors
    fxi_dnn_object object[FXI_SDPA_MAX_OBJECT]; // what describes it, in the order of making
    int n_object;
    fxi_dnn_object graph, device;               // two of them
    fxi_dnn_object config[FXI_SDPA_MAX_CONFIG]; // how the library would compute it, best first
    int64_t n_config;                           // that it supports; the others are unused
    fxi_dnn_object plan;                        // NULL: none was made
    int64_t workspace_bytes;                    // that the plan needs
} fxi_sdpa;

// Describes the graph and asks for the best way to compute it on a device. *s is then all zero, or
// is closed with fxi_sdpa_close. dnn is borrowed.
fx_status fxi_sdpa_open(fxi_sdpa *s, const fxi_dnn_api *dnn, const fxi_sdpa_shape *shape,
                        const fxi_sdpa_device *device, fx_error *err);
// Makes a plan of the best way that needs no more than so many bytes of workspace.
fx_status fxi_sdpa_plan(fxi_sdpa *s, int64_t max_workspace_bytes, fx_error *err);
// Executes the plan in the stream of the handle. data: [FXI_SDPA_N_DATA], of the device, SCALE a
// float of the host; workspace as large as the plan says, or NULL if it needs none.
fx_status fxi_sdpa_run(const fxi_sdpa *s, fxi_dnn_handle handle, void *const *data, void *workspace,
                       fx_error *err);
void fxi_sdpa_close(fxi_sdpa *s); // also one that is all zero

#endif
