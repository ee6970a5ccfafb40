// model.h - a loaded model: weights packed for its device, and one forward pass over a mixed batch.
//
// A batch holds tokens of many sequences: one token of each sequence that decodes, several of each
// that reads its prompt. The model writes their keys and values where the sequences' views point
// and reads the rest from there; it owns no cache and opens no file. The families of architectures
// are the rows of load/families.c.
//
// Threads: load and forward are called by one thread, which spreads the work over the given pool.
#ifndef FXI_MODEL_H
#define FXI_MODEL_H

#include "base/number/dtype.h"
#include "base/system/pool.h"
#include "format/gguf.h"
#include "kernels/kv_view.h"

typedef struct fxi_model fxi_model;
struct fxi_device; // device.h

// How the rows of a text become its embedding (pooling.h).
typedef enum fxi_pooling { // the numbers of GGUF's key pooling_type
    FXI_POOL_NONE,         // the file does not say: it does not embed
    FXI_POOL_MEAN,
    FXI_POOL_FIRST,
    FXI_POOL_LAST,
    // The first row, or the last where tokens see only those before them, goes through a head: the
    // score of a pair of texts.
    FXI_POOL_RANK
} fxi_pooling;

// What makes a score of a row: tanh(row dense + dense_b) . out + out_b, or the sigmoid of that. It
// is so small that the host computes it, whatever the device.
typedef struct fxi_score_head {
    const float *dense;         // [dim][dim] NULL: the row itself, without tanh
    const float *dense_b, *out; // [dim]
    float out_b;
    bool is_raw; // the score is that number, not its sigmoid
} fxi_score_head;

typedef struct fxi_model_shape {
    int n_layer, dim, n_head, n_kv_head, head_dim, n_ffn, n_vocab;
    int train_ctx_tok;
    const int *window_tok; // [n_layer] positions that a token sees, itself included; 0: all
    fxi_kv_layout kv;      // of its cache. A window as long as the context counts as none
    int passing_tok;       // of rows that pass, a token needs so many
    bool is_causal;        // a token sees those before it; otherwise all of its text
    bool generates;        // it has an output matrix
    fxi_pooling pooling;
    bool has_unit_length;       // embeddings are divided by their length
    const fxi_score_head *head; // NULL: none
    const float *dense;         // [dim][dim] what pooled rows are multiplied with; NULL: nothing
    uint64_t n_param;
    uint64_t layer_mul, output_mul; // multiply-adds of linear layers per token, per row of logits
    uint64_t pass_bytes;            // of weights that one pass reads, whatever the batch
    const fxi_dtype_info *type;     // of most weights
} fxi_model_shape;

typedef struct fxi_model_options {
    fxi_pool *pool;            // borrowed; outlives the model
    struct fxi_device *device; // that has the weights and computes; borrowed, serves no other
                               // model, outlives this one. NULL: the host, with `pool`
    int ctx_tok;               // positions are 0 .. ctx_tok-1; 0: train_ctx_tok
    int max_batch_tok;         // most tokens of one forward pass
    int max_batch_logit;       // most rows of logits of one forward pass
    const char *kernel_path;   // of the host; NULL: the best that this machine runs
    const char *kv_type;       // of the cache: "f16" (NULL), "bf16", "f32", "q8_0"
    const char *pooling;       // its name (pooling.h); NULL: as the file says
    void (*on_progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes); // may be NULL
    void *progress_ud;
} fxi_model_options;

// Neighbouring tokens of one sequence.
typedef struct fxi_batch_seq {
    fxi_kv_views views; // backed up to position pos + n_tok - 1, from what the windows need on
    int pos;            // of the first token; everything before it is in the cache
    int n_tok;
    int n_logit; // rows wanted, for its last n_logit tokens
    bool embeds; // they are what the last norm leaves, not logits; such sequences come last
    int n_first; // of a pair of texts: tokens of the sequence up to the second one; 0: no pair
} fxi_batch_seq;

typedef struct fxi_batch {
    const int32_t *token; // [n_tok] sequence after sequence
    int n_tok;
    const fxi_batch_seq *seq; // [n_seq]
    int n_seq;
    float *rows;   // [n][dim] the rows of sequences that embed, in batch order; NULL: none does
    int32_t *best; // [n] of each row of logits the largest one's index, the first of equals, or -1
                   // if they are not all finite; NULL: not wanted
    float *best_logit; // [n] that number; NULL: not wanted
} fxi_batch;

// ---- a model ------------------------------------------------------------------------------------

// There is one in the product, the transformer of plan.h; tests put others in its place.
typedef struct fxi_model_ops {
    void (*free)(fxi_model *m);
    fx_status (*submit)(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err);
    fx_status (*wait)(fxi_model *m, fx_error *err); // NULL: submit has computed everything
} fxi_model_ops;

// The first member of every model.
struct fxi_model {
    const fxi_model_ops *ops;
    fxi_model_shape shape;
    const char *path; // its kernels
    fxi_pool *pool;
    fxi_dtype kv_type;
};

// Checks the file against its architecture and packs the weights; the file may be closed
// afterwards. Errors: FX_EFORMAT (names the key or tensor), FX_ENOMEM, FX_EINVAL (an option is out
// of range).
fx_status fxi_model_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                         fx_error *err);
// The same checks, without weights and buffers: a model that says what it is, and cannot run. Reads
// no tensor's data, so that a file's header suffices. Of the options, kv_type, ctx_tok and
// kernel_path count.
fx_status fxi_model_inspect(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                            fx_error *err);
void fxi_model_free(fxi_model *m); // NULL is allowed

// Begins a forward pass. logits: [n] rows of n_vocab, those that the sequences want, in batch
// order; NULL: they are not wanted, or batch->best suffices. Of sequences that embed, all rows may
// be wanted. A model that is not causal gets whole texts, from position 0 on. What the batch points
// to stays as it is until fxi_model_wait has returned; then the results are there. Pre: counts
// within the options, token ids within the vocabulary, positions within the context; logits only of
// a model that generates. Errors: FX_EINTERNAL, FX_ENOMEM, if a device fails; what the pass wrote
// is then undefined, and the next call is submit.
fx_status fxi_model_submit(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err);
fx_status fxi_model_wait(fxi_model *m, fx_error *err); // errors as submit
// Both.
fx_status fxi_model_forward(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err);

#endif
