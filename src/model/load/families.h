// families.h - the architectures that run: a row of what distinguishes each from the others.
//
// Tensors and keys have the names that GGUF files give them; a key KEY of architecture A is A.KEY.
#ifndef FXI_MODEL_FAMILIES_H
#define FXI_MODEL_FAMILIES_H

#include "base/text/str.h"
#include "model/plan/plan.h"

// How queries and keys are rotated, and how their rows lie in the file.
typedef enum fxi_rope_layout {
    FXI_ROPE_NONE,
    FXI_ROPE_PAIRS, // number 2i with 2i + 1
    FXI_ROPE_HALVES // number i with i + n_rot / 2: loading makes pairs of them
} fxi_rope_layout;

typedef enum fxi_qk_norm {
    FXI_QK_NONE,
    FXI_QK_HEAD, // of each head
    FXI_QK_ROW,  // of all heads together
    FXI_QK_MAYBE // of each head, with weights of its own, where the file has them
} fxi_qk_norm;

enum { // fxi_family.flags
    FXI_GATED = 1,
    FXI_PARALLEL = 2,          // always; otherwise the key use_parallel_residual says so
    FXI_LEARNED_POSITIONS = 4, // position_embd.weight
    FXI_EMBD_SQRT_DIM = 8,     // embeddings are multiplied by sqrt(dim)
    FXI_LOGIT_DIVIDED = 16,    // logit_scale divides
    FXI_SINKS = 32,            // attn_sinks.weight
    FXI_SUMS_TO_1 = 64,        // the chosen experts' weights, unless a key says otherwise
    FXI_ROUGH_YARN = 128,      // the ramp between frequencies does not begin at whole pairs
    FXI_PLAIN_WINDOWS = 256,   // rope scaling is not for windowed layers
    // attn_out and ffn_out name the norms of x after attention's result and the feed-forward
    // block's are added to it; there is no output_norm.
    FXI_POST_NORM = 512,
    FXI_EMBD_NORM = 1024,   // token_embd_norm of what the first layer reads; with FXI_POST_NORM
    FXI_TOKEN_TYPES = 2048, // token_types.weight: every token is of the first type
    FXI_READS_ALL = 4096,   // a token sees all of its text, unless attention.causal says otherwise
    // do_layer_norm_before may say that attn_in and ffn_in follow, as with FXI_POST_NORM; and
    // embeddings may be of another width, which project_in.weight and project_out.weight change.
    FXI_SMALL_OPT = 8192,
};

typedef struct fxi_family {
    const char *name; // value of general.architecture
    fxi_rownorm_kind norm;
    // Tensors of the norms before and after attention and the feed-forward block; NULL: none. In
    // parallel models, where one of the two before is not in the file, the other stands for both.
    const char *attn_in, *attn_out, *ffn_in, *ffn_out;
    fxi_qk_norm qk_norm;
    fxi_rope_layout rope;
    fxi_activation act;
    unsigned flags;
    int window_every;  // of every so many layers the last has no window; 0: all have
    int no_rope_every; // of every so many layers the last is not rotated; 0: all are
    float window_base; // rope.freq_base of windowed layers, if no key says it; 0: as the others
    int square_layers; // of the one size whose scale is 1 / sqrt(dim / n_head); 0: none
} fxi_family;

// NULL: unknown.
const fxi_family *fxi_family_find(fxi_str name);
// The names of all families, separated by ", ".
void fxi_family_list(char *out, size_t size_bytes);

#endif
