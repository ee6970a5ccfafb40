// device.h - where a model's weights lie and its passes are computed: a table of steps over whole
// batches, which the host's cores or a GPU fill.
//
// The forward pass (run/model.c) is written once over this table. It does no arithmetic and reads
// no memory of the device: it walks through the plan (plan.h), hands each layer's description to a
// step, and counts rows. What a step computes, plan.h states; in which order it sums, kernels.h
// (THE LAW OF ORDER), or for a GPU's own kinds of arithmetic its documentation.
//
//   memory    Every address in a plan (linear.data, vectors) and in the views
//             of a batch (base) is the device's. Host code compares it with NULL and reads nothing
//             there. Of a view, `table` is host memory; so are the plan itself and its tables of
//             angles.
//   operands  The rows of a pass on their way through a layer lie in buffers that the device
//             allocates in `prepare`, in the form that suits it. Steps name them.
//   rows      A pass begins with a row for each token, in the order of the batch; after keep_rows
//             its rows are those that are wanted, in the same order. Each step treats all of them.
//
//       begin  embed  { linear  rope_store  attention  linear  add_norm  ffn | experts  linear
//       add_norm } per layer; keep_rows in the last one, before attention;  rows  logits  best
//       submit  wait
//
// What steps are given is a part of the plan, or says which part (it is read during the call only),
// and never depends on the batch; the batch is known from `begin`. So a device may turn the steps
// of one pass into a graph and run that again in `submit` for the next batch of its kind, as long
// as the host's part of the decisions is the same: how many rows there are, and whether there are
// rows to return, and logits.
//
// A device serves one model, its caches and its engine. Two engines open two devices, which may be
// the same GPU.
//
// Threads: all calls come from one thread at a time, the one that loads the model and then the one
// that runs it; `device` itself must outlive model, caches and the memory opened from it.
//
// Errors: every call that can fail returns a status with a line of text that begins with the
// device's name ("cuda:0: ..."). FX_ENOMEM: its memory is used up; FX_EINVAL: it cannot run this
// (a type of weights, a head size), which only loading answers; FX_EINTERNAL: it failed. A step may
// report what an earlier one did wrong. After an error the pass is given up: nothing of it may be
// used, and the next call is `begin` or `close`. begin waits for what is still running and starts
// afresh; if the device is lost, it fails with the same text again, as is_lost then says.
#ifndef FXI_MODEL_DEVICE_H
#define FXI_MODEL_DEVICE_H

#include "model/plan.h"

struct vt_vmm; // include/vtensor/vmm.h

typedef struct fxi_device fxi_device;

// How much memory there is for models and caches.
typedef struct fxi_device_memory {
    uint64_t free_bytes, total_bytes;
    bool is_host; // shared with all other programs, and with what the process allocates otherwise
} fxi_device_memory;

// The largest pass.
typedef struct fxi_pass_limits {
    int max_tok, max_logit; // tokens of a batch, rows of logits; a sequence has at least one token
} fxi_pass_limits;

// Rows of a pass. Their widths are those of the layers that write them.
typedef enum fxi_operand {
    FXI_OPERAND_H,   // normalised, or what a branch adds to x: [n_row][dim]
    FXI_OPERAND_Q,   // [n_row][n_head][head_dim]
    FXI_OPERAND_K,   // [n_row][n_kv_head][head_dim]
    FXI_OPERAND_V,   //   of all tokens, as K; not defined after keep_rows
    FXI_OPERAND_ATT, // [n_row][n_head][head_dim] the result of attention
    FXI_OPERAND_MID, // [n_row][n_ffn] what `down` reads
    FXI_OPERAND_END
} fxi_operand;

enum { FXI_DEVICE_MAX_LINEAR = 3 }; // layers of one step

// One linear layer: y = a x w, without its bias.
typedef struct fxi_device_linear {
    const fxi_linear *w;
    fxi_operand y;
} fxi_device_linear;

// What follows the end of a branch, or the embedding: h = norm(x), or where the norm replaces x,
// x = norm(x) and h = x. Without a norm h = x.
typedef struct fxi_next_norm {
    const fxi_rownorm *norm; // norm->w may be NULL: none
    uint64_t read_by;        // bit t: a layer with weights of fxi_dtype t reads h next; 0: none
} fxi_next_norm;

// The end of a branch: what is left to do with its result, which lies in h.
typedef struct fxi_branch_end {
    const float *bias;       // [dim]; NULL: none
    const fxi_rownorm *norm; // NULL, or norm->w NULL: none
    // true: held = h, and x stays as it is; the next end of a branch adds both, `held` first.
    // (Parallel layers.)
    bool holds;
    fxi_next_norm next;
} fxi_branch_end;

typedef struct fxi_device_ops {
    // ---- the device ----------------------------------------------------------------------------

    // Frees everything that was taken from the device, and the device. Pre: the memory opened from
    // it is closed. A pass that is still running is waited for.
    void (*close)(fxi_device *d);

    void (*memory)(fxi_device *d, fxi_device_memory *out);

    // Opens the memory for caches (vmm.h), in whose order of work passes run; the caller closes it.
    // *out = NULL: the KV manager opens the host's itself.
    fx_status (*open_vmm)(fxi_device *d, struct vt_vmm **out, fx_error *err);

    // Memory of the host to which results of passes are copied fastest (pinned, for a GPU), aligned
    // to 64. It is freed with the device.
    fx_status (*take_host)(fxi_device *d, size_t size_bytes, void **out, fx_error *err);

    // Whether the device failed for good. May be NULL: it cannot.
    bool (*is_lost)(const fxi_device *d);

    // ---- loading -------------------------------------------------------------------------------

    // Memory for weights, aligned to 256 (64 on the host), not cleared. more_bytes: an estimate
    // of what the next calls will take, so that many pieces share an allocation. It is freed with
    // the device.
    fx_status (*take)(fxi_device *d, size_t size_bytes, uint64_t more_bytes, void **out,
                      fx_error *err);

    // Copies from the host. src may be reused when the call returns.
    fx_status (*upload)(fxi_device *d, void *dst, const void *src, size_t size_bytes,
                        fx_error *err);

    // Memory for n matrices of one shape: sets w[i].data; type, n_in and n_out are set. They lie at
    // equal distances in ascending order, so that a kernel finds expert i without a table.
    // FX_EINVAL: no kernel for this type or shape.
    fx_status (*take_linear)(fxi_device *d, fxi_linear *w, int n, uint64_t more_bytes,
                             fx_error *err);

    // Packs rows row0 .. row0 + n_row - 1 of w into the device's layout. rows: [n_row][n_in]
    // numbers of w->type in GGUF's layout, at any host address; free to be reused when the call
    // returns. Pre: row0 is a multiple of FXI_PANEL; n_row is, too, or the rows end with the
    // matrix. Each row is put once, in ascending order, before the next take_linear.
    fx_status (*put_linear)(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                            const void *rows, fx_error *err);

    // Sets *out to rows row0 .. row0 + n_row - 1 of w, in the memory of w. Pre: as put_linear; all
    // rows are put.
    fx_status (*view_rows)(fxi_device *d, const fxi_linear *w, int row0, int n_row, fxi_linear *out,
                           fx_error *err);

    // All weights are put: checks that the device can run the plan and allocates the operands for
    // the largest batch. Nothing is allocated after that. The plan is borrowed until close.
    fx_status (*prepare)(fxi_device *d, const fxi_transformer *plan, const fxi_pass_limits *most,
                         fx_error *err);

    // ---- a pass --------------------------------------------------------------------------------

    // Takes a batch: one upload of its tokens, positions, angles (plan->rope, whose tables have
    // them for all positions of the batch), views and wanted rows. Where results go: batch->rows,
    // logits [n_logit][n_vocab], batch->best and best_logit, host memory, the latter two from
    // take_host; each may be NULL if it is not wanted. Of a plan whose output has only some rows of
    // the vocabulary, `logits` is the place of the first of them: those of the next row of logits
    // are n_vocab numbers further on. The batch and what it points to stay as they are until `wait`
    // has returned.
    fx_status (*begin)(fxi_device *d, const fxi_batch *batch, float *logits, fx_error *err);

    // x = the embeddings: looked up in `embd`, made as wide as x by
    // embd_in, scaled, the type of a text and a learned position added; then `next`.
    fx_status (*embed)(fxi_device *d, const fxi_next_norm *next, fx_error *err);

    // h += bias; h = norm(h); h *= residual_scale; then, unless it holds, x += held (if a branch is
    // held), x += h; then `next`.
    fx_status (*add_norm)(fxi_device *d, const fxi_branch_end *end, fx_error *err);

    // Up to 3 layers over the same rows: H (-> Q, K, V), ATT (-> H) or MID (-> H), of which `a` is
    // in the form that they read, as the step that wrote it was told.
    fx_status (*linear)(fxi_device *d, fxi_operand a, const fxi_device_linear *job, int n_job,
                        fx_error *err);

    // Completes q, k and v of all rows: biases, norms of q and k, rotation by l->rope, and of q the
    // gain of fxi_query_gain; stores k and v in the cache (group l->kv_group, layer l->kv_layer of
    // it) at the rows' positions.
    fx_status (*rope_store)(fxi_device *d, const fxi_layer *l, fx_error *err);

    // From here on the rows of the pass are those that are wanted (fxi_batch_wanted), in x, q and
    // whatever follows; h is not defined. Pre: once, after rope_store of the last layer.
    fx_status (*keep_rows)(fxi_device *d, fx_error *err);

    // att = attention of q over the cache, which has the rows of this batch too: window
    // (rules.window, if l->is_windowed), cap, sinks; not causal: a token sees the positions of its
    // sequence up to the last one in the batch. In the form that l->o reads.
    fx_status (*attention)(fxi_device *d, const fxi_layer *l, fx_error *err);

    // mid = act(h gate + bias) * (h up + bias), or act(h up + bias), in the form that f->down
    // reads.
    fx_status (*ffn)(fxi_device *d, const fxi_ffn *f, fx_error *err);

    // h = the weighted sum of the experts that the router chooses for h, and of the shared expert;
    // with all their biases. NULL: the device has no experts, as prepare has then said.
    fx_status (*experts)(fxi_device *d, const fxi_experts *x, fx_error *err);

    // Copies h of the last n_row rows, those of sequences that embed, to batch->rows. Pre: the last
    // norm is done.
    fx_status (*rows)(fxi_device *d, int n_row, fx_error *err);

    // Logits of the first n_row rows, from h: embd_out (if the plan has it), output, its bias,
    // scale and cap; to the host where begin says, if it says so.
    fx_status (*logits)(fxi_device *d, int n_row, fx_error *err);

    // Where each of the first n_row rows of logits has its largest number, the first of equals, or
    // -1 if one of them is not finite; to batch->best, and that number to batch->best_logit.
    // Columns are those of the plan's output, from 0 on. Pre: logits.
    fx_status (*best)(fxi_device *d, int n_row, fx_error *err);

    // Lets the pass run. Does not wait for it if it runs in the background.
    fx_status (*submit)(fxi_device *d, fx_error *err);

    // Waits until the results of the pass are where begin says.
    fx_status (*wait)(fxi_device *d, fx_error *err);
} fxi_device_ops;

// Devices that compute one model together (tensor parallelism; Shoeybi et al., Megatron-LM, arXiv
// 1909.08053). Each has a part of every layer: whole heads of queries, keys and values and the
// columns of the output projection that read them, with their part of the cache; and a part of the
// numbers between the two halves of a feed-forward block. So each computes an addend of what a
// branch adds to x, and `sum` adds them up. The rest - embeddings, norms, x - each has and computes
// for itself. Of the output matrix each has some rows, a part of the vocabulary: it returns these
// columns of the logits, and the best of them. The first one alone returns rows of embeddings.
//
// Their holder sees them as one device: `close`, `memory`, `take_host`, `is_lost` and `wait`
// are those of all of them. Loading and the other steps of a pass are done on each by itself.
typedef struct fxi_device_ranks {
    int n;                     // up to FXI_MAX_RANK
    fxi_device *const *device; // [n]
    // h of every device becomes the sum of h of all, ((h0 + h1) + h2) .., in the order of each
    // device's work. Pre: the same steps have been given to all of them.
    fx_status (*sum)(fxi_device *all, fx_error *err);
    // A step of the pass failed on one of them: it is given up on all. If one is lost, all are.
    void (*give_up)(fxi_device *all);
} fxi_device_ranks;

// The first member of every device.
struct fxi_device {
    const fxi_device_ops *ops;
    const char *name; // "cpu", "cuda:0"
    const char *path; // its kernels: "avx512-vnni", "sm_90 exact"
    // Where `best` suffices it is asked for, and logits are not: they would have to be copied.
    bool prefers_best;
    const fxi_device_ranks *ranks; // NULL: it computes whole models by itself
};

// The cores of this machine: the threads of `pool`, which is borrowed and outlives the device, run
// the kernels of path `kernel_path` (NULL: the best that this machine runs). Errors: FX_EINVAL,
// FX_ENOMEM.
fx_status fxi_host_device_open(fxi_pool *pool, const char *kernel_path, fxi_device **out,
                               fx_error *err);

// ---- what devices share: the same numbers on each -----------------------------------------------

// Lists the rows that are wanted, in batch order: row[i] is the token of the batch. Returns their
// number; *n_logit of them, the first ones, want logits, the others are of sequences that embed.
// row may be NULL.
int fxi_batch_wanted(const fxi_batch *b, int *row, int *n_logit);

// The type of a sequence's token at this position, of n_type: 1 in the second text of a pair.
static inline int fxi_batch_type(const fxi_batch_seq *s, int pos, int n_type)
{
    return n_type > 1 && s->n_first && pos >= s->n_first;
}

// By what queries at this position are multiplied: 1 + log_scale x log(1 + floor(pos / log_tok)),
// in double, rounded to f32; 1: not at all.
float fxi_query_gain(const fxi_rules *r, int pos);

#endif
