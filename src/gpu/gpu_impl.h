// gpu_impl.h - what the files of this folder share: a GPU that computes a model's passes.
//
//   gpu_open       the device and its life
//   gpu_memory     memory of the device and the host; weights on their way
//   gpu_pass       the operands of a pass; it begins with the batch, ends with results
//   gpu_steps      its steps: the arguments of kernels
//   gpu_graph      kernels by id; launches of a pass of decoding, kept as a graph for the next one
//   gpu_ranks      several GPUs that compute one model together
//
// Every kernel runs in the compute stream, in the order of the steps, so no step waits for another.
// The arrays of a batch lie in one block, pinned on the host and mirrored on the device; where in
// it depends on nothing but the number of rows that it is laid out for. How many rows, tiles and
// places there are, kernels read from the block, too: their arguments are the same for all batches
// laid out alike, and so are the nodes of a graph.
#ifndef FXI_GPU_IMPL_H
#define FXI_GPU_IMPL_H

#include "gpu/driver/cu.h"
#include "gpu/gpu.h"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_plan.h"

// ---- gpu_memory.c: memory that is taken piece by piece and freed as a whole ---------------------
//
// Pieces are cut from few large allocations, each of which the driver rounds up to 2 MiB. Nothing
// is freed before all is.

enum { FXI_GPU_ALIGN = 256 }; // bytes, of every piece

typedef struct fxi_gpu_slab {
    struct fxi_gpu_slab *next;
    char *at; // of the device
    size_t size_bytes;
} fxi_gpu_slab;

typedef struct fxi_gpu_heap {    // all zero: empty
    struct fxi_gpu_slab *newest; // of the allocations
    char *at, *end;              // what is left of it
    uint64_t size_bytes;         // of all
    bool counts;                 // nothing is taken: size_bytes adds up what would be
} fxi_gpu_heap;

// Takes size_bytes of any content. If a new allocation is needed, it has room for more_bytes
// beyond, an estimate of what the next calls will take, unless the device has not so much memory.
// Pre: entered (cu.h). Errors: FX_ENOMEM, FX_EINTERNAL.
fx_status fxi_gpu_heap_take(fxi_cu *cu, fxi_gpu_heap *h, size_t size_bytes, uint64_t more_bytes,
                            void **out, fx_error *err);
void fxi_gpu_heap_free(fxi_cu *cu, fxi_gpu_heap *h); // all of it; *h is empty then

// The same of pinned host memory, each piece an allocation of its own, aligned to 64 at least.
typedef struct fxi_gpu_pinned {
    struct fxi_gpu_pin *newest;
} fxi_gpu_pinned;

fx_status fxi_gpu_pinned_take(fxi_cu *cu, fxi_gpu_pinned *h, size_t size_bytes, void **out,
                              fx_error *err);
// Whether the device copies to and from these bytes directly.
bool fxi_gpu_pinned_has(const fxi_gpu_pinned *h, const void *bytes, size_t size_bytes);
void fxi_gpu_pinned_free(fxi_cu *cu, fxi_gpu_pinned *h);

// ---- transfers ----------------------------------------------------------------------------------

// What goes between host and device in large pieces passes through two pinned buffers: while the
// device copies from one, the host fills the other. So loading a model needs 2 x
// FXI_GPU_STAGE_BYTES of host memory next to the file, however large it is. Uploads run in the copy
// stream; fxi_gpu_stage_drain waits for them. All calls are made between fxi_cu_enter and
// fxi_cu_leave.
enum { FXI_GPU_STAGE_BYTES = 8 << 20 };

typedef struct fxi_gpu_stage { // all zero: nothing is allocated yet
    char *buffer[2];           // pinned
    size_t size_bytes;         // of each
    vti_cu_event done[2];      // of the last copy from it
    int next;                  // the one that is filled next
} fxi_gpu_stage;

void fxi_gpu_stage_free(fxi_cu *cu, fxi_gpu_stage *s); // waits for nothing; *s is all zero then

// Waits until the device has all that was given to it.
fx_status fxi_gpu_stage_drain(fxi_cu *cu, fxi_gpu_stage *s, fx_error *err);

// Copies from the device, to memory that need not be pinned, after what the compute stream was
// given; waits for it. Pre: drained.
fx_status fxi_gpu_stage_download(fxi_cu *cu, fxi_gpu_stage *s, void *dst, const void *src,
                                 size_t size_bytes, fx_error *err);

// ---- a device ----------------------------------------------------------------------------------

// The kernels of the program, on one device.
typedef struct fxi_gpu_kernels {
    vti_cu_module *module; // [n_module]
    int n_module;
    vti_cu_function function[FXI_CUDA_KERNEL_END]; // NULL: this build does not have it
    unsigned shared_bytes[FXI_CUDA_KERNEL_END];    // of dynamic shared memory, allowed so far
} fxi_gpu_kernels;

// Operands, sized by prepare for the largest pass; NULL: this model does not need it.
typedef struct fxi_gpu_operands {
    float *x, *held;         // [n_tok][dim]
    fxi_cuda_act h;          // [n_tok][dim]
    fxi_cuda_act narrow;     // [n_tok][width of embeddings] before embd_in and after embd_out
    float *q, *k, *v, *att;  // [n_tok][heads][head_dim]
    fxi_cuda_act att_in;     // [n_tok][n_head][head_dim] att, as o reads it
    float *gate, *up;        // [n_tok or n_place][n_ffn]
    fxi_cuda_act mid;        // the same, joined
    float *addends;          // [n_addend][n_tok][dim] h of all ranks
    float *part;             // partial results of attention
    float *logits;           // [n_logit][rows of output]
    int32_t *best;           // [n_logit]
    float *best_logit;       // [n_logit]
    float *router, *share;   // [n_tok][n_expert], [n_tok][n_used]
    int32_t *chosen, *place; // [n_tok][n_used]
    int32_t *place_row;      // [n_tok x n_used]
    int32_t *place_expert;   // [n_tok x n_used]
    int32_t *range;          // [n_expert + 1]
    fxi_cuda_act ex;         // [n_tok x n_used][dim]
    float *ex_out, *sh_out;  // [n_tok x n_used][dim], [n_tok][dim]
    float *sh_gate;          // [n_tok]
    int max_part;            // partial results that `part` has room for
} fxi_gpu_operands;

// Counts of a batch, at the beginning of its block.
typedef enum fxi_gpu_count {
    FXI_GPU_ROWS,   // of the batch
    FXI_GPU_KEPT,   // that are wanted
    FXI_GPU_LOGITS, // of these, the ones that want logits
    FXI_GPU_PLACES,
    FXI_GPU_KEPT_PLACES, // choices of experts by rows
    FXI_GPU_TILES,
    FXI_GPU_WINDOW_TILES, // of layers without and with windows
    FXI_GPU_LAST_TILES,   // of the last layer
    FXI_GPU_N_COUNT
} fxi_gpu_count;

// Where the arrays of a batch begin in its block, in bytes; laid out for so many rows and as many
// sequences.
typedef struct fxi_gpu_layout {
    size_t count;                                   // [FXI_GPU_N_COUNT]
    size_t token, pos, row_seq, gain, wanted, type; // [n_row]
    size_t cos[2], sin[2]; // [n_row][n_pair] of ropes without and with windows
    size_t seq;            // [n_row] fxi_cuda_seq
    size_t tile[2], last;  // [n_row] fxi_cuda_tile: by window, of the last layer
    size_t size_bytes;
} fxi_gpu_layout;

// The tables of paged caches, beside the block: how long they are is known only from the batch.
typedef struct fxi_gpu_tables {
    int32_t *host, *at; // pinned, and on the device
    size_t room;        // numbers that fit
} fxi_gpu_tables;

// What the host gets from a pass: rows, which lie there at a distance of their own.
typedef struct fxi_gpu_result {
    void *dst;
    const void *src; // of the device
    size_t n_row, row_bytes, pitch_bytes;
} fxi_gpu_result;

enum { FXI_GPU_MAX_RESULT = 4, FXI_GPU_MAX_GRAPH = 32 };

// What becomes of a step's launches.
typedef enum fxi_gpu_mode {
    FXI_GPU_DIRECT, // they are given to the device at once
    FXI_GPU_RECORD, // to a graph, which submit gives to the device
    FXI_GPU_REPLAY  // they are in the graph already
} fxi_gpu_mode;

typedef struct fxi_gpu_pass {
    const fxi_batch *batch;
    float *dst_logits;
    fxi_gpu_layout at;
    int n_row;                   // that grids are made for; at least those that are computed
    int n_kept;                  // the same from keep_rows on
    bool kept;                   // keep_rows was called
    bool ended;                  // only rows of logits are left
    bool holds;                  // `held` has a branch
    fxi_cuda_plan plan[2], last; // of tiles; n_tile and max_range are those of grids
    fxi_gpu_mode mode;
    struct fxi_gpu_graph *graph; // whose sizes grids have; NULL: those of the batch
    int i_chain;                 // of the graph: what is given now belongs to it
    fxi_gpu_result result[FXI_GPU_MAX_RESULT];
    int n_result;
} fxi_gpu_pass;

// Passes of one kind: so many sequences that decode, at most. Their launches are a chain; of one of
// several ranks, a chain up to each sum, and one for the rest.
typedef struct fxi_gpu_graph {
    int n_row;     // laid out for; 0: a free place
    int max_range; // ranges of attention that grids have
    bool best;     // ends with the largest logits
    int n_seen;
    uint64_t used;    // the last pass of it
    bool is_recorded; // all of its chains can run
} fxi_gpu_graph;

typedef struct fxi_gpu {
    fxi_device device; // first: a fxi_device is cast to this
    fxi_cu cu;
    char path[32];      // "sm_90 exact"
    fxi_cuda_math math; // of kernels
    fxi_pool *pool;
    fxi_gpu_kernels kernels;
    fxi_gpu_heap weights, scratch;
    fxi_gpu_pinned pinned;
    const fxi_gpu_pinned *first_pinned; // of the first of several ranks; NULL: there is one
    fxi_gpu_stage stage;
    bool has_wide; // attention has a kernel for wide tiles
    const fxi_transformer *plan;
    fxi_pass_limits most;
    fxi_gpu_operands s;
    char *block_host, *block; // of a batch: pinned, and on the device
    fxi_gpu_tables tables;
    fxi_gpu_pass pass;
    bool no_graphs;
    bool is_ranked; // one of several that add up between the halves of layers
    int n_addend;   // ranks whose h are gathered and added here; 0: none are
    fxi_gpu_graph graph[FXI_GPU_MAX_GRAPH];
    fxi_cu_chain *chain; // [FXI_GPU_MAX_GRAPH][n_chain]
    int n_chain;
    uint64_t n_pass;
    fx_error lost; // why the device is of no more use; FX_OK: it is not
} fxi_gpu;

static inline fxi_gpu *fxi_gpu_of(fxi_device *d)
{
    return (fxi_gpu *)d;
}

// ---- gpu_memory.c ------------------------------------------------------------------------------

fx_status fxi_gpu_take(fxi_device *d, size_t size_bytes, uint64_t more_bytes, void **out,
                       fx_error *err);
fx_status fxi_gpu_upload(fxi_device *d, void *dst, const void *src, size_t size_bytes,
                         fx_error *err);
fx_status fxi_gpu_take_linear(fxi_device *d, fxi_linear *w, int n, uint64_t more_bytes,
                              fx_error *err);
fx_status fxi_gpu_put_linear(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                             const void *rows, fx_error *err);
fx_status fxi_gpu_view_rows(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                            fxi_linear *out, fx_error *err);
fx_status fxi_gpu_take_host(fxi_device *d, size_t size_bytes, void **out, fx_error *err);

// ---- gpu_pass.c --------------------------------------------------------------------------------

fx_status fxi_gpu_prepare(fxi_device *d, const fxi_transformer *plan, const fxi_pass_limits *most,
                          fx_error *err);
fx_status fxi_gpu_begin(fxi_device *d, const fxi_batch *batch, float *logits, fx_error *err);
void fxi_gpu_tables_free(fxi_gpu *g); // between enter and leave

fx_status fxi_gpu_submit(fxi_device *d, fx_error *err);
fx_status fxi_gpu_wait(fxi_device *d, fx_error *err);

// ---- gpu_graph.c -------------------------------------------------------------------------------

fx_status fxi_gpu_kernels_load(fxi_gpu *g, fx_error *err);
void fxi_gpu_kernels_free(fxi_gpu *g); // between enter and leave
// Gives a kernel to the compute stream, unless there is nothing for it to do. args: its struct.
fx_status fxi_gpu_launch(fxi_gpu *g, fxi_cuda_kernel_id id, const void *args, fx_error *err);

// After a failure: finds out whether the device is still of use. Returns st.
fx_status fxi_gpu_failed(fxi_gpu *g, fx_status st, const fx_error *err);
// Whether the pass has a graph, or will have one: sets its mode and the sizes of its grids. Pre:
// the batch is planned.
void fxi_gpu_graph_choose(fxi_gpu *g, const fxi_batch *b);
// For how many rows the batch is laid out.
int fxi_gpu_graph_rows(const fxi_gpu *g, const fxi_batch *b);
// Host memory for all of them. Pre: g->plan. Errors: FX_ENOMEM.
fx_status fxi_gpu_graphs_reserve(fxi_gpu *g, fx_error *err);
fx_status fxi_gpu_graph_begin(fxi_gpu *g, fx_error *err);
// Gives the device what comes before a sum: work that is no launch follows. What an error means,
// fxi_gpu_failed finds out.
fx_status fxi_gpu_graph_cut(fxi_gpu *g, fx_error *err);
fx_status fxi_gpu_graph_run(fxi_gpu *g, fx_error *err); // between enter and leave
void fxi_gpu_graph_drop(fxi_gpu *g);                    // the one that is being recorded
void fxi_gpu_graphs_free(fxi_gpu *g);                   // between enter and leave

// ---- gpu_steps.c -------------------------------------------------------------------------------

fx_status fxi_gpu_embed(fxi_device *d, const fxi_next_norm *next, fx_error *err);
fx_status fxi_gpu_add_norm(fxi_device *d, const fxi_branch_end *end, fx_error *err);
fx_status fxi_gpu_rows(fxi_device *d, int n_row, fx_error *err);
fx_status fxi_gpu_logits(fxi_device *d, int n_row, fx_error *err);
fx_status fxi_gpu_best(fxi_device *d, int n_row, fx_error *err);
fx_status fxi_gpu_linear(fxi_device *d, fxi_operand a, const fxi_device_linear *job, int n_job,
                         fx_error *err);
fx_status fxi_gpu_rope_store(fxi_device *d, const fxi_layer *l, fx_error *err);
fx_status fxi_gpu_keep_rows(fxi_device *d, fx_error *err);
fx_status fxi_gpu_attention(fxi_device *d, const fxi_layer *l, fx_error *err);
fx_status fxi_gpu_ffn(fxi_device *d, const fxi_ffn *f, fx_error *err);
fx_status fxi_gpu_experts(fxi_device *d, const fxi_experts *x, fx_error *err);

// Whether layers with weights of one of these types (bits) read rows in this form.
bool fxi_gpu_reads_form(const fxi_gpu *g, uint64_t types, fxi_cuda_form form);

#endif
