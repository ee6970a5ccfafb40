// kernel.c - modules, launches and graphs. Kernels are those of a library of emulated kernels that
// the first module loads (standin.h). A graph is made node by node. Its launch gives all of its
// work to a stream, in an order that its edges allow, the last made first if it can choose.
#include "state.h"

#include "emulator/emu_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OWN_SHARED = 1 << 10, // arrays of a kernel's own count, too: so much is taken to be there
    PLAIN_SHARED = (48 << 10) - OWN_SHARED,
    MAX_SHARED = (227 << 10) - OWN_SHARED,
    MAX_THREAD = 1024,
};

struct CUfunc_st {
    struct CUfunc_st *next;
    const emu_kernel *kernel;
    int dynamic_shared; // allowed
    int device;
};

struct CUmod_st {
    struct CUmod_st *next;
    int device;
    struct CUfunc_st *functions;
};

struct standin_work {
    const emu_kernel *kernel;
    unsigned grid[3], block[3], shared_bytes;
    _Alignas(16) unsigned char arg[];
};

static const emu_library *library; // NULL: not loaded
static struct CUmod_st *modules;
static char why_none[4608]; // there is no library

// ---- the library

static void library_path(char *path, size_t n)
{
    Dl_info me;
    const char *named = getenv("STANDIN_KERNELS");
    if (named || !dladdr((const void *)library_path, &me)) {
        snprintf(path, n, "%s", named ? named : "");
        return;
    }
    const char *slash = strrchr(me.dli_fname, '/');
    int folder = slash ? (int)(slash - me.dli_fname) : 0;
    snprintf(path, n, "%.*s/libcuda_kernels.so", folder, me.dli_fname);
}

// What was mapped before the library was there may have been written.
static void tell_mapped(vti_cu_ptr at, size_t size_bytes)
{
    standin_kernel_memory(at, size_bytes, EMU_MEMORY_NEW);
    standin_kernel_memory(at, size_bytes, EMU_MEMORY_WRITTEN);
}

static bool load_library(void)
{
    char path[4096];
    if (library) return true;
    library_path(path, sizeof path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const emu_library *(*table)(void) = NULL;
    if (handle) *(void **)&table = dlsym(handle, EMU_LIBRARY_SYMBOL);
    const char *why = handle ? "it has no " EMU_LIBRARY_SYMBOL : dlerror();
    if (!table) {
        snprintf(why_none, sizeof why_none, "no kernels: %s: %s\n", path, why ? why : "?");
        return false;
    }
    library = table();
    standin_each_memory(tell_mapped);
    return true;
}

void standin_kernel_memory(vti_cu_ptr at, size_t size_bytes, int state)
{
    if (library) library->memory(at, size_bytes, state);
}

const char *standin_faults(void)
{
    pthread_mutex_lock(&standin_mu);
    const char *text = library ? library->faults() : why_none;
    pthread_mutex_unlock(&standin_mu);
    return text;
}

// ---- modules and functions

static struct CUmod_st **link_of_module(vti_cu_module module)
{
    struct CUmod_st **at = &modules;
    while (*at && *at != module) at = &(*at)->next;
    return *at ? at : NULL;
}

static struct CUfunc_st *function_of(vti_cu_function function)
{
    for (struct CUmod_st *m = modules; m; m = m->next)
        for (struct CUfunc_st *f = m->functions; f; f = f->next)
            if (f == function) return f;
    return NULL;
}

static void drop_module(struct CUmod_st **link)
{
    struct CUmod_st *m = *link;
    *link = m->next;
    for (struct CUfunc_st *f = m->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    free(m);
}

static bool is_image(const unsigned char *image)
{
    static const unsigned char fatbin[] = {0x50, 0xED, 0x55, 0xBA};
    return memcmp(image, fatbin, sizeof fatbin) == 0 ||
           memcmp(image, STANDIN_IMAGE, sizeof STANDIN_IMAGE) == 0;
}

vti_cu_result cuModuleLoadData(vti_cu_module *module, const void *image)
{
    STANDIN_BEGIN(F_module_load);
    if (!image || !is_image(image)) return standin_end(CU_INVALID_IMAGE);
    if (!load_library()) return standin_end(CU_NO_BINARY);
    struct CUmod_st *m = calloc(1, sizeof *m);
    if (!m) return standin_end(VTI_CU_OUT_OF_MEMORY);
    m->next = modules;
    m->device = standin_current_device();
    *module = modules = m;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuModuleUnload(vti_cu_module module)
{
    STANDIN_BEGIN(F_module_unload);
    struct CUmod_st **link = link_of_module(module);
    if (!link) return standin_end(standin_breach("a module unloaded that is none"));
    standin_finish_all();
    drop_module(link);
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuModuleGetFunction(vti_cu_function *function, vti_cu_module module, const char *name)
{
    STANDIN_BEGIN(F_module_get_function);
    struct CUmod_st **link = link_of_module(module);
    if (!link) return standin_end(standin_breach("a function of a module that is none"));
    const emu_kernel *kernel = library->find(name);
    if (!kernel) return standin_end(CU_NOT_FOUND);
    struct CUfunc_st *f = (*link)->functions;
    while (f && f->kernel != kernel) f = f->next;
    if (!f) {
        f = calloc(1, sizeof *f);
        if (!f) return standin_end(VTI_CU_OUT_OF_MEMORY);
        *f = (struct CUfunc_st){(*link)->functions, kernel, PLAIN_SHARED, (*link)->device};
        (*link)->functions = f;
    }
    *function = f;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuFuncSetAttribute(vti_cu_function function, vti_cu_func_attribute attribute,
                                 int value)
{
    STANDIN_BEGIN(F_func_set_attribute);
    struct CUfunc_st *f = function_of(function);
    if (!f || attribute != VTI_CU_FUNC_DYNAMIC_SHARED)
        return standin_end(standin_breach("an attribute, or a function, that is unknown"));
    if (value < 0 || value > MAX_SHARED) return standin_end(CU_INVALID_VALUE);
    f->dynamic_shared = value;
    return standin_end(VTI_CU_SUCCESS);
}

// ---- launches

static bool odd_launch(const vti_cu_kernel_node *p, const struct CUfunc_st *f)
{
    const unsigned *g = p->grid, *b = p->block;
    if (!f || f->device != standin_current_device() || p->extra || !p->params) return true;
    if (g[0] == 0 || g[1] == 0 || g[2] == 0 || b[0] == 0 || b[1] == 0 || b[2] == 0) return true;
    if (g[0] > 0x7FFFFFFF || g[1] > 65535 || g[2] > 65535 || b[2] > 64) return true;
    if ((uint64_t)b[0] * b[1] * b[2] > MAX_THREAD) return true;
    return p->shared_bytes > (unsigned)f->dynamic_shared;
}

static vti_cu_result make_work(const vti_cu_kernel_node *p, standin_work **out)
{
    const struct CUfunc_st *f = function_of(p->function);
    if (odd_launch(p, f)) return CU_INVALID_VALUE;
    standin_work *w = calloc(1, sizeof *w + f->kernel->arg_bytes);
    if (!w) return VTI_CU_OUT_OF_MEMORY;
    w->kernel = f->kernel;
    memcpy(w->grid, p->grid, sizeof w->grid);
    memcpy(w->block, p->block, sizeof w->block);
    w->shared_bytes = p->shared_bytes;
    memcpy(w->arg, p->params[0], w->kernel->arg_bytes);
    *out = w;
    return VTI_CU_SUCCESS;
}

static standin_work *copy_work(const standin_work *w)
{
    size_t n = sizeof *w + w->kernel->arg_bytes;
    standin_work *copy = malloc(n);
    if (copy) memcpy(copy, w, n);
    return copy;
}

void standin_work_free(standin_work *w)
{
    free(w);
}

void standin_work_run(const standin_work *w, int device)
{
    static const vti_cu_result results[] = {
        [EMU_FAULT_NONE] = VTI_CU_SUCCESS,
        [EMU_FAULT_LAUNCH] = CU_LAUNCH_FAILED,
        [EMU_FAULT_ADDRESS] = CU_ILLEGAL_ADDRESS,
        [EMU_FAULT_CONFIG] = CU_LAUNCH_FAILED,
    };
    emu_launch l = {.kernel = w->kernel, .dynamic_bytes = w->shared_bytes, .arg = w->arg};
    memcpy(l.grid, w->grid, sizeof l.grid);
    memcpy(l.block, w->block, sizeof l.block);
    standin_device_open(device);
    int fault = library->launch(&l);
    standin_device_close();
    if (fault != EMU_FAULT_NONE) standin_break(results[fault]);
}

vti_cu_result cuLaunchKernel(vti_cu_function function, unsigned grid_x, unsigned grid_y,
                             unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, vti_cu_stream stream, void **params,
                             void **extra)
{
    STANDIN_BEGIN(F_launch_kernel);
    vti_cu_kernel_node p = {.function = function,
                            .grid = {grid_x, grid_y, grid_z},
                            .block = {block_x, block_y, block_z},
                            .shared_bytes = shared_bytes,
                            .params = params,
                            .extra = extra};
    standin_work *w;
    vti_cu_result r = make_work(&p, &w);
    return standin_end(r == VTI_CU_SUCCESS ? standin_give_work(stream, w) : r);
}

// ---- graphs

struct CUgraphNode_st {
    struct CUgraphNode_st *next; // made before
    size_t n_after;
    vti_cu_node *after; // [n_after]
    standin_work *work;
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

static bool drop_graph(const void *graph)
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

// Takes the work, which has been checked, whatever happens.
static vti_cu_result add_node(vti_cu_node *out, vti_cu_graph graph, const vti_cu_node *after,
                              size_t n_after, standin_work *work)
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
    vti_cu_result r = make_work(params, &w);
    if (r == VTI_CU_SUCCESS) r = add_node(node, graph, after, n_after, w);
    return standin_end(r);
}

// ---- instances

static bool has_step(const struct CUgraphExec_st *e, vti_cu_node node)
{
    for (size_t i = 0; i < e->n_step; i++)
        if (e->steps[i].of == node) return true;
    return false;
}

static vti_cu_node next_node(const struct CUgraph_st *g, const struct CUgraphExec_st *e)
{
    for (vti_cu_node n = g->nodes; n; n = n->next) {
        size_t i = 0;
        while (i < n->n_after && has_step(e, n->after[i])) i++;
        if (i == n->n_after && !has_step(e, n)) return n;
    }
    return NULL;
}

// Nodes can only be made after those that they follow, so there are no circles.
static bool fill_exec(struct CUgraphExec_st *e, const struct CUgraph_st *g)
{
    e->steps = calloc(g->n_node + 1, sizeof *e->steps);
    if (!e->steps) return false;
    for (vti_cu_node n; (n = next_node(g, e)) != NULL; e->n_step++) {
        standin_work *work = copy_work(n->work);
        if (!work) return false;
        e->steps[e->n_step] = (step){n, work};
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

vti_cu_result cuGraphLaunch(vti_cu_exec exec, vti_cu_stream stream)
{
    STANDIN_BEGIN(F_graph_launch);
    vti_cu_result r = VTI_CU_SUCCESS;
    if (!link_of_exec(exec)) return standin_end(standin_breach("a launch of what is none"));
    for (size_t i = 0; i < exec->n_step && r == VTI_CU_SUCCESS; i++) {
        standin_work *work = copy_work(exec->steps[i].work);
        r = work ? standin_give_work(stream, work) : VTI_CU_OUT_OF_MEMORY;
    }
    return standin_end(r);
}

vti_cu_result cuGraphExecDestroy(vti_cu_exec exec)
{
    STANDIN_BEGIN(F_graph_exec_destroy);
    struct CUgraphExec_st **link = link_of_exec(exec);
    if (!link) return standin_end(standin_breach("an instance destroyed that is none"));
    drop_exec(link);
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuGraphDestroy(vti_cu_graph graph)
{
    STANDIN_BEGIN(F_graph_destroy);
    if (drop_graph(graph)) return standin_end(VTI_CU_SUCCESS);
    return standin_end(graph ? VTI_CU_SUCCESS : standin_breach("a graph that is none"));
}

// ---- all of them

void standin_kernel_reset(void)
{
    while (modules) drop_module(&modules);
    while (graphs) (void)drop_graph(graphs);
    while (execs) drop_exec(&execs);
    if (library) library->clear();
    why_none[0] = 0;
}

void standin_kernel_look(standin_report *r)
{
    for (const struct CUmod_st *m = modules; m; m = m->next) r->n_module++;
    for (const struct CUgraph_st *g = graphs; g; g = g->next) r->n_graph++;
    for (const struct CUgraphExec_st *e = execs; e; e = e->next) r->n_exec++;
}
