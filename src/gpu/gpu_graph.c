// gpu_graph.c - the kernels of the program on one device, found by name when it is opened and
// launched by id; and passes of decoding as graphs: hundreds of launches in one call of the driver.
//
// Passes in which every sequence decodes one token are alike but for how many sequences there are
// and how far they reach. Both are rounded up to a power of two: that is the kind of a pass. The
// second pass of a kind is recorded, node by node; those that follow run the graph again, and their
// steps launch nothing. Blocks beyond the pass's own counts, which are in the uploaded block, end
// at once. Of the graphs, the one that was not used for the longest time makes room for a new one.
//
// Between the halves of layers several ranks add up, which is NCCL's work and no node. So the pass
// of a rank is cut there, into two graphs for each layer and one for the rest. All ranks have to
// agree on how many rows they add, whatever became of each one's graphs: passes of such a kind have
// its sizes from the first one on.
#include <stdlib.h>

#include "gpu/gpu_image.h"
#include "gpu/gpu_impl.h"

enum { MAX_ROWS = 256, RECORDED_WHEN_SEEN = 2 };

static int round_power(int n)
{
    int up = 1;
    while (up < n) up *= 2;
    return up;
}

static bool only_decodes(const fxi_batch *b)
{
    if (b->n_tok != b->n_seq || b->n_seq > MAX_ROWS) return false;
    for (int i = 0; i < b->n_seq; i++)
        if (b->seq[i].n_tok != 1 || b->seq[i].n_logit != 1 || b->seq[i].embeds) return false;
    return true;
}

int fxi_gpu_graph_rows(const fxi_gpu *g, const fxi_batch *b)
{
    if (g->no_graphs || !only_decodes(b)) return b->n_tok;
    const int n = round_power(b->n_tok);
    return n < g->most.max_tok ? n : g->most.max_tok;
}

static void drop_chains(fxi_gpu *g, fxi_gpu_graph *graph)
{
    fxi_cu_chain *all = g->chain + (graph - g->graph) * g->n_chain;
    for (int i = 0; i < g->n_chain; i++) fxi_cu_chain_free(&g->cu, &all[i]);
    *graph = (fxi_gpu_graph){0};
}

// The kind of a pass, or the place that it takes: a free one, or the one used longest ago.
static fxi_gpu_graph *find_graph(fxi_gpu *g, int n_row, int max_range, bool best)
{
    fxi_gpu_graph *oldest = &g->graph[0];
    for (int i = 0; i < FXI_GPU_MAX_GRAPH; i++) {
        fxi_gpu_graph *it = &g->graph[i];
        if (it->n_row == n_row && it->max_range == max_range && it->best == best) return it;
        if (it->used < oldest->used) oldest = it;
    }
    drop_chains(g, oldest);
    *oldest = (fxi_gpu_graph){.n_row = n_row, .max_range = max_range, .best = best};
    return oldest;
}

void fxi_gpu_graph_choose(fxi_gpu *g, const fxi_batch *b)
{
    fxi_gpu_pass *p = &g->pass;
    g->n_pass++;
    if (g->no_graphs || !only_decodes(b)) return;
    fxi_cuda_plan *const all[] = {&p->plan[0], &p->plan[1], &p->last};
    int max_range = 0;
    for (int i = 0; i < 3; i++)
        if (all[i]->max_range > max_range) max_range = all[i]->max_range;
    fxi_gpu_graph *graph =
        find_graph(g, fxi_gpu_graph_rows(g, b), round_power(max_range), b->best != NULL);
    graph->used = g->n_pass;
    const bool is_new = ++graph->n_seen < RECORDED_WHEN_SEEN;
    if (is_new && !g->is_ranked) return;
    if (!is_new) p->mode = graph->is_recorded ? FXI_GPU_REPLAY : FXI_GPU_RECORD;
    p->graph = graph;
    p->n_row = graph->n_row; // grids get the sizes of the kind
    for (int i = 0; i < 3; i++) {
        all[i]->n_tile = graph->n_row;
        all[i]->max_range = graph->max_range;
    }
}

// ---- chains ------------------------------------------------------------------------------------

fx_status fxi_gpu_graphs_reserve(fxi_gpu *g, fx_error *err)
{
    const int n = g->is_ranked ? 2 * g->plan->model.shape.n_layer + 1 : 1;
    g->chain = calloc((size_t)FXI_GPU_MAX_GRAPH * (size_t)n, sizeof *g->chain);
    if (!g->chain) return fxi_fail(err, FX_ENOMEM, "%s: no host memory", g->cu.label);
    g->n_chain = n;
    return FX_OK;
}

static fxi_cu_chain *this_chain(fxi_gpu *g)
{
    return g->chain + (g->pass.graph - g->graph) * g->n_chain + g->pass.i_chain;
}

fx_status fxi_gpu_graph_begin(fxi_gpu *g, fx_error *err)
{
    if (g->pass.mode != FXI_GPU_RECORD) return FX_OK;
    return fxi_cu_chain_begin(&g->cu, this_chain(g), err);
}

static fx_status run_chain(fxi_gpu *g, fx_error *err)
{
    fxi_cu_chain *c = this_chain(g);
    if (!c->n_node) return FX_OK;
    if (g->pass.mode == FXI_GPU_RECORD) FX_TRY(fxi_cu_chain_finish(&g->cu, c, err));
    return fxi_cu_chain_run(&g->cu, c, err);
}

fx_status fxi_gpu_graph_cut(fxi_gpu *g, fx_error *err)
{
    if (g->pass.mode == FXI_GPU_DIRECT) return FX_OK;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = run_chain(g, err);
    if (st == FX_OK) {
        g->pass.i_chain++;
        st = fxi_gpu_graph_begin(g, err);
    }
    return fxi_cu_leave(&g->cu, st);
}

fx_status fxi_gpu_graph_run(fxi_gpu *g, fx_error *err)
{
    fxi_gpu_pass *p = &g->pass;
    if (p->mode == FXI_GPU_DIRECT) return FX_OK;
    FX_TRY(run_chain(g, err));
    p->graph->is_recorded = true;
    p->mode = FXI_GPU_DIRECT;
    return FX_OK;
}

void fxi_gpu_graph_drop(fxi_gpu *g)
{
    if (g->pass.mode != FXI_GPU_RECORD || fxi_cu_enter(&g->cu, NULL) != FX_OK) return;
    drop_chains(g, g->pass.graph);
    g->pass.mode = FXI_GPU_DIRECT;
    g->pass.graph = NULL;
    fxi_cu_leave(&g->cu, FX_OK);
}

void fxi_gpu_graphs_free(fxi_gpu *g)
{
    for (int i = 0; i < FXI_GPU_MAX_GRAPH; i++) drop_chains(g, &g->graph[i]);
    free(g->chain);
    g->chain = NULL;
    g->n_chain = 0;
}

// A context whose kernel failed answers every later call with the same error, so a wait tells.
fx_status fxi_gpu_failed(fxi_gpu *g, fx_status st, const fx_error *err)
{
    fx_error why;
    if (st == FX_OK || g->lost.status != FX_OK) return st;
    fxi_gpu_graph_drop(g);
    const bool lost = fxi_cu_enter(&g->cu, &why) != FX_OK ||
                      fxi_cu_leave(&g->cu, fxi_cu_wait(&g->cu, g->cu.compute, &why)) != FX_OK;
    if (lost) g->lost = err ? *err : why;
    return st;
}

// ---- kernels -----------------------------------------------------------------------------------

// More must be allowed; a kernel's own shared memory counts, too.
enum { PLAIN_SHARED_BYTES = (48 << 10) - FXI_CUDA_OWN_SHARED_BYTES };

fx_status fxi_gpu_kernels_load(fxi_gpu *g, fx_error *err)
{
    fxi_gpu_kernels *k = &g->kernels;
    size_t n = 0;
    while (fxi_gpu_images[n].name) n++;
    if (!n)
        return fxi_fail(err, FX_EINVAL, "%s: this build has no CUDA kernels (cmake --preset cuda)",
                        g->cu.label);
    k->module = calloc(n, sizeof *k->module);
    if (!k->module) return fxi_fail(err, FX_ENOMEM, "%s: no host memory", g->cu.label);
    for (; k->n_module < (int)n; k->n_module++)
        FX_TRY(fxi_cu_module_load(&g->cu, fxi_gpu_images[k->n_module].bytes,
                                  &k->module[k->n_module], err));
    for (int id = 0; id < FXI_CUDA_KERNEL_END; id++)
        for (int i = 0; i < k->n_module && !k->function[id]; i++)
            FX_TRY(fxi_cu_module_find(&g->cu, k->module[i],
                                      fxi_cuda_kernel_find((fxi_cuda_kernel_id)id)->name,
                                      &k->function[id], err));
    return FX_OK;
}

void fxi_gpu_kernels_free(fxi_gpu *g)
{
    for (int i = 0; i < g->kernels.n_module; i++) fxi_cu_module_free(&g->cu, g->kernels.module[i]);
    free(g->kernels.module);
    g->kernels = (fxi_gpu_kernels){0};
}

fx_status fxi_gpu_launch(fxi_gpu *g, fxi_cuda_kernel_id id, const void *args, fx_error *err)
{
    const fxi_cuda_kernel *k = fxi_cuda_kernel_find(id);
    fxi_cuda_grid at;
    if (g->pass.mode == FXI_GPU_REPLAY) return FX_OK;
    k->shape(args, &at);
    if (!at.grid[0] || !at.grid[1] || !at.grid[2]) return FX_OK;
    const fxi_cu_launch l = {.function = g->kernels.function[id],
                             .name = k->name,
                             .grid = {at.grid[0], at.grid[1], at.grid[2]},
                             .block = {at.block[0], at.block[1], at.block[2]},
                             .shared_bytes = at.shared_bytes,
                             .args = args};
    if (!l.function)
        return fxi_fail(err, FX_EINVAL, "%s: this build has no kernel %s", g->cu.label, k->name);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = FX_OK;
    unsigned *allowed = &g->kernels.shared_bytes[id];
    if (l.shared_bytes > PLAIN_SHARED_BYTES && l.shared_bytes > *allowed) {
        st = fxi_cu_allow_shared(&g->cu, l.function, (int)l.shared_bytes, err);
        if (st == FX_OK) *allowed = l.shared_bytes;
    }
    if (st == FX_OK)
        st = g->pass.mode == FXI_GPU_RECORD ? fxi_cu_chain_add(&g->cu, this_chain(g), &l, err)
                                            : fxi_cu_run(&g->cu, &l, err);
    return fxi_gpu_failed(g, fxi_cu_leave(&g->cu, st), err);
}
