// gpu_graph.c - passes of decoding as graphs: hundreds of launches in one call of the driver.
//
// Passes in which every sequence decodes one token are alike but for how many sequences there are
// and how far they reach. Both are rounded up to a power of two: that is the kind of a pass. The
// second pass of a kind is recorded, node by node; those that follow run the graph again, and their
// steps launch nothing. Blocks beyond the pass's own counts, which are in the uploaded block, end
// at once. Of the graphs, the one that was not used for the longest time makes room for a new one.
#include "gpu/device/gpu_impl.h"

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

static void drop_chain(fxi_gpu *g, fxi_gpu_graph *graph)
{
    fxi_cu_chain_free(&g->cu, &graph->chain);
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
    drop_chain(g, oldest);
    *oldest = (fxi_gpu_graph){.n_row = n_row, .max_range = max_range, .best = best};
    return oldest;
}

static int widest_range(const fxi_gpu_pass *p)
{
    int n = p->plan[0].max_range > p->last.max_range ? p->plan[0].max_range : p->last.max_range;
    return round_power(p->plan[1].max_range > n ? p->plan[1].max_range : n);
}

// Grids get the sizes of the kind.
static void widen_grids(fxi_gpu_pass *p, const fxi_gpu_graph *graph)
{
    fxi_cuda_plan *const all[] = {&p->plan[0], &p->plan[1], &p->last};
    for (int i = 0; i < 3; i++) {
        all[i]->n_tile = graph->n_row;
        all[i]->max_range = graph->max_range;
    }
    p->n_row = graph->n_row;
}

void fxi_gpu_graph_choose(fxi_gpu *g, const fxi_batch *b)
{
    fxi_gpu_pass *p = &g->pass;
    g->n_pass++;
    if (g->no_graphs || !only_decodes(b)) return;
    fxi_gpu_graph *graph =
        find_graph(g, fxi_gpu_graph_rows(g, b), widest_range(p), b->best != NULL);
    graph->used = g->n_pass;
    if (++graph->n_seen < RECORDED_WHEN_SEEN) return;
    p->mode = graph->chain.exec ? FXI_GPU_REPLAY : FXI_GPU_RECORD;
    p->graph = graph;
    widen_grids(p, graph);
}

fx_status fxi_gpu_graph_begin(fxi_gpu *g, fx_error *err)
{
    if (g->pass.mode != FXI_GPU_RECORD) return FX_OK;
    return fxi_cu_chain_begin(&g->cu, &g->pass.graph->chain, err);
}

fx_status fxi_gpu_graph_run(fxi_gpu *g, fx_error *err)
{
    fxi_gpu_pass *p = &g->pass;
    if (p->mode == FXI_GPU_DIRECT) return FX_OK;
    if (p->mode == FXI_GPU_RECORD) FX_TRY(fxi_cu_chain_finish(&g->cu, &p->graph->chain, err));
    p->mode = FXI_GPU_DIRECT;
    return fxi_cu_chain_run(&g->cu, &p->graph->chain, err);
}

void fxi_gpu_graph_drop(fxi_gpu *g)
{
    if (g->pass.mode != FXI_GPU_RECORD || fxi_cu_enter(&g->cu, NULL) != FX_OK) return;
    drop_chain(g, g->pass.graph);
    g->pass.mode = FXI_GPU_DIRECT;
    g->pass.graph = NULL;
    fxi_cu_leave(&g->cu);
}

void fxi_gpu_graphs_free(fxi_gpu *g)
{
    for (int i = 0; i < FXI_GPU_MAX_GRAPH; i++) fxi_cu_chain_free(&g->cu, &g->graph[i].chain);
}
