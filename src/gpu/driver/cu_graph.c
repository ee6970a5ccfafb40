// cu_graph.c - launches as a graph, node by node: no stream is captured, so that other threads'
// calls to the driver are not restricted meanwhile; see cu.h.
#include <string.h>

#include "gpu/driver/cu.h"

fx_status fxi_cu_chain_begin(fxi_cu *cu, fxi_cu_chain *c, fx_error *err)
{
    memset(c, 0, sizeof *c);
    return fxi_cu_done(cu, cu->api.graph_create(&c->graph, 0), err, "cuGraphCreate");
}

fx_status fxi_cu_chain_add(fxi_cu *cu, fxi_cu_chain *c, const fxi_cu_launch *l, fx_error *err)
{
    void *params[] = {(void *)l->args};
    const fxi_cu_kernel_node node = {.function = l->function,
                                     .grid = {l->grid[0], l->grid[1], l->grid[2]},
                                     .block = {l->block[0], l->block[1], l->block[2]},
                                     .shared_bytes = l->shared_bytes,
                                     .params = params};
    fxi_cu_node added;
    const fxi_cu_result r = cu->api.graph_add_kernel(&added, c->graph, c->last ? &c->last : NULL,
                                                     c->last != NULL, &node);
    FX_TRY(fxi_cu_done(cu, r, err, "cuGraphAddKernelNode of %s", l->name));
    c->last = added;
    c->n_node++;
    return FX_OK;
}

fx_status fxi_cu_chain_finish(fxi_cu *cu, fxi_cu_chain *c, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.graph_instantiate(&c->exec, c->graph, 0), err,
                       "cuGraphInstantiate of %d nodes", c->n_node);
}

fx_status fxi_cu_chain_run(fxi_cu *cu, const fxi_cu_chain *c, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.graph_launch(c->exec, cu->compute), err,
                       "cuGraphLaunch of %d nodes", c->n_node);
}

void fxi_cu_chain_free(fxi_cu *cu, fxi_cu_chain *c)
{
    if (c->exec) (void)cu->api.exec_destroy(c->exec);
    if (c->graph) (void)cu->api.graph_destroy(c->graph);
    memset(c, 0, sizeof *c);
}
