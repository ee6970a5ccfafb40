// gpu_graph.c - passes of decoding as graphs: hundreds of launches in one call of the driver.
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

fx_status fxi_gpu_graph_add(fxi_gpu *g, const fxi_cu_launch *l, fx_error *err)
{
    return fxi_cu_chain_add(&g->cu, this_chain(g), l, err);
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
