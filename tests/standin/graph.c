// graph.c - graphs that are made node by node. A launch gives all of their work to a stream, in an
// order that the edges allow, the node made last first where there is a choice.
#include "state.h"

#include <stdlib.h>
#include <string.h>

struct CUgraphNode_st {
    struct CUgraphNode_st *next; // made before
    size_t n_after;
    vti_cu_node *after; // [n_after]
    standin_work *work; // NULL: a transfer
    standin_transfer transfer;
};

struct CUgraph_st {
    struct CUgraph_st *next;
    struct CUgraphNode_st *nodes; // the last made first
    size_t n_node;
};

// In the order in which they run. `of` is only compared: the graph may be gone.
typedef struct step {
    vti_cu_node of;
    standin_work *work;
    standin_transfer transfer;
} step;

struct CUgraphExec_st {
    struct CUgraphExec_st *next;
    size_t n_step;
    step *steps;
};

static struct CUgraph_st *graphs;
static struct CUgraphExec_st *execs;

static struct CUgraph_st **link_of_graph(const void *graph)
{
    struct CUgraph_st **at = &graphs;
    while (*at && *at != graph) at = &(*at)->next;
    return *at ? at : NULL;
}

static struct CUgraphExec_st **link_of_exec(vti_cu_exec exec)
{
    struct CUgraphExec_st **at = &execs;
    while (*at && *at != exec) at = &(*at)->next;
    return *at ? at : NULL;
}

static void drop_node(vti_cu_node n)
{
    standin_work_free(n->work);
    free(n->after);
    free(n);
}

bool standin_graph_drop(void *graph)
{
    struct CUgraph_st **link = link_of_graph(graph), *g;
    if (!link) return false;
    g = *link;
    *link = g->next;
    for (vti_cu_node n = g->nodes, next; n; n = next) {
        next = n->next;
        drop_node(n);
    }
    free(g);
    return true;
}

static void drop_exec(struct CUgraphExec_st **link)
{
    struct CUgraphExec_st *e = *link;
    *link = e->next;
    for (size_t i = 0; i < e->n_step; i++) standin_work_free(e->steps[i].work);
    free(e->steps);
    free(e);
}

void standin_graph_reset(void)
{
    pthread_mutex_lock(&standin_mu);
    while (graphs) (void)standin_graph_drop(graphs);
    while (execs) drop_exec(&execs);
    pthread_mutex_unlock(&standin_mu);
}

void standin_graph_look(standin_report *r)
{
    for (const struct CUgraph_st *g = graphs; g; g = g->next) r->n_graph++;
    for (const struct CUgraphExec_st *e = execs; e; e = e->next) r->n_exec++;
}

vti_cu_result cuGraphCreate(vti_cu_graph *graph, unsigned flags)
{
    STANDIN_BEGIN(F_graph_create);
    if (flags != 0) return standin_end(standin_breach("a graph with flags"));
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (!g) return standin_end(VTI_CU_OUT_OF_MEMORY);
    g->next = graphs;
    *graph = graphs = g;
    return standin_end(VTI_CU_SUCCESS);
}

static bool has_node(const struct CUgraph_st *g, vti_cu_node node)
{
    for (vti_cu_node n = g->nodes; n; n = n->next)
        if (n == node) return true;
    return false;
}

static vti_cu_node make_node(size_t n_after, const vti_cu_node *after)
{
    vti_cu_node n = calloc(1, sizeof *n);
    if (!n) return NULL;
    n->after = calloc(n_after + 1, sizeof *after);
    if (!n->after) {
        free(n);
        return NULL;
    }
    if (n_after > 0) memcpy(n->after, after, n_after * sizeof *after);
    n->n_after = n_after;
    return n;
}

// What the work of the node is has been checked; takes it, whatever happens.
static vti_cu_result add_node(vti_cu_node *out, vti_cu_graph graph, const vti_cu_node *after,
                              size_t n_after, standin_work *work, const standin_transfer *transfer)
{
    struct CUgraph_st **link = link_of_graph(graph);
    for (size_t i = 0; link && i < n_after; i++)
        if (!has_node(*link, after[i])) link = NULL;
    vti_cu_node n = link ? make_node(n_after, after) : NULL;
    if (!n) {
        standin_work_free(work);
        return link ? VTI_CU_OUT_OF_MEMORY : standin_breach("a node of, or after, what is none");
    }
    n->work = work;
    if (transfer) n->transfer = *transfer;
    n->next = (*link)->nodes;
    (*link)->nodes = *out = n;
    (*link)->n_node++;
    return VTI_CU_SUCCESS;
}

vti_cu_result cuGraphAddKernelNode_v2(vti_cu_node *node, vti_cu_graph graph,
                                      const vti_cu_node *after, size_t n_after,
                                      const vti_cu_kernel_node *params)
{
    STANDIN_BEGIN(F_graph_add_kernel);
    standin_work *w;
    vti_cu_result r = standin_work_make(params, &w);
    if (r == VTI_CU_SUCCESS) r = add_node(node, graph, after, n_after, w, NULL);
    return standin_end(r);
}

static uintptr_t side_of(const standin_copy_side *s, bool *on_host)
{
    *on_host = s->type == VTI_CU_MEMORY_HOST;
    return (*on_host ? (uintptr_t)s->host : (uintptr_t)s->device) + s->x_bytes;
}

static bool odd_side(const standin_copy_side *s)
{
    return s->y || s->z || s->lod || s->array ||
           (s->type != VTI_CU_MEMORY_HOST && s->type != VTI_CU_MEMORY_DEVICE);
}

vti_cu_result cuGraphAddMemcpyNode(vti_cu_node *node, vti_cu_graph graph, const vti_cu_node *after,
                                   size_t n_after, const standin_copy_params *params,
                                   vti_cu_context context)
{
    STANDIN_BEGIN(F_graph_add_memcpy);
    standin_transfer t = {.size_bytes = params->width_bytes};
    if (odd_side(&params->src) || odd_side(&params->dst) || params->height != 1 ||
        params->depth != 1 || t.size_bytes == 0 || !context)
        return standin_end(standin_breach("a copy in a graph that is not a plain one"));
    t.src = side_of(&params->src, &t.host_src);
    t.dst = side_of(&params->dst, &t.host_dst);
    return standin_end(add_node(node, graph, after, n_after, NULL, &t));
}

vti_cu_result cuGraphAddMemsetNode(vti_cu_node *node, vti_cu_graph graph, const vti_cu_node *after,
                                   size_t n_after, const standin_fill_params *params,
                                   vti_cu_context context)
{
    STANDIN_BEGIN(F_graph_add_memset);
    standin_transfer t = {.dst = (uintptr_t)params->dst,
                          .value = (unsigned char)params->value,
                          .size_bytes = params->width};
    if (params->element_bytes != 1 || params->height != 1 || t.size_bytes == 0 || !context)
        return standin_end(standin_breach("a fill in a graph that is not one of bytes"));
    return standin_end(add_node(node, graph, after, n_after, NULL, &t));
}

// ---- instances

static bool is_behind(const struct CUgraphExec_st *e, vti_cu_node node)
{
    for (size_t i = 0; i < e->n_step; i++)
        if (e->steps[i].of == node) return true;
    return false;
}

static vti_cu_node next_node(const struct CUgraph_st *g, const struct CUgraphExec_st *e)
{
    for (vti_cu_node n = g->nodes; n; n = n->next) {
        size_t i = 0;
        while (i < n->n_after && is_behind(e, n->after[i])) i++;
        if (i == n->n_after && !is_behind(e, n)) return n;
    }
    return NULL;
}

// Nodes can only be made after those that they follow, so there are no circles.
static bool fill_exec(struct CUgraphExec_st *e, const struct CUgraph_st *g)
{
    e->steps = calloc(g->n_node + 1, sizeof *e->steps);
    if (!e->steps) return false;
    for (vti_cu_node n; (n = next_node(g, e)) != NULL; e->n_step++) {
        step s = {.of = n, .transfer = n->transfer};
        if (n->work && !(s.work = standin_work_copy(n->work))) return false;
        e->steps[e->n_step] = s;
    }
    return true;
}

vti_cu_result cuGraphInstantiateWithFlags(vti_cu_exec *exec, vti_cu_graph graph,
                                          unsigned long long flags)
{
    STANDIN_BEGIN(F_graph_instantiate);
    struct CUgraph_st **link = link_of_graph(graph);
    if (!link || flags != 0)
        return standin_end(standin_breach("an instance of what is none, or with flags"));
    struct CUgraphExec_st *e = calloc(1, sizeof *e);
    if (!e) return standin_end(VTI_CU_OUT_OF_MEMORY);
    e->next = execs;
    execs = e;
    if (!fill_exec(e, *link)) {
        drop_exec(&execs);
        return standin_end(VTI_CU_OUT_OF_MEMORY);
    }
    *exec = e;
    return standin_end(VTI_CU_SUCCESS);
}

static vti_cu_result give_step(vti_cu_stream stream, const step *s)
{
    if (!s->work) return standin_give_transfer(stream, &s->transfer);
    standin_work *w = standin_work_copy(s->work);
    return w ? standin_give_work(stream, w) : VTI_CU_OUT_OF_MEMORY;
}

vti_cu_result cuGraphLaunch(vti_cu_exec exec, vti_cu_stream stream)
{
    STANDIN_BEGIN(F_graph_launch);
    vti_cu_result r = VTI_CU_SUCCESS;
    if (!link_of_exec(exec)) return standin_end(standin_breach("a launch of what is none"));
    for (size_t i = 0; i < exec->n_step && r == VTI_CU_SUCCESS; i++)
        r = give_step(stream, &exec->steps[i]);
    return standin_end(r);
}

vti_cu_result cuGraphExecKernelNodeSetParams_v2(vti_cu_exec exec, vti_cu_node node,
                                                const vti_cu_kernel_node *params)
{
    STANDIN_BEGIN(F_exec_set_kernel);
    size_t i = 0;
    while (link_of_exec(exec) && i < exec->n_step && exec->steps[i].of != node) i++;
    if (!link_of_exec(exec) || i == exec->n_step || !exec->steps[i].work)
        return standin_end(standin_breach("parameters for a node that is none"));
    standin_work *w;
    vti_cu_result r = standin_work_make(params, &w);
    if (r != VTI_CU_SUCCESS) return standin_end(r);
    standin_work_free(exec->steps[i].work);
    exec->steps[i].work = w;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuGraphExecDestroy(vti_cu_exec exec)
{
    STANDIN_BEGIN(F_graph_exec_destroy);
    struct CUgraphExec_st **link = link_of_exec(exec);
    if (!link) return standin_end(standin_breach("an instance destroyed that is none"));
    drop_exec(link);
    return standin_end(VTI_CU_SUCCESS);
}
