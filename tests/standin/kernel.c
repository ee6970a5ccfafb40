// kernel.c - modules and launches: kernels are those of a library of emulated kernels, which is
// loaded with the first module; see standin.h.
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
    MAX_PARAM_BYTES = 4096,
    MAX_PARAM = 32,
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
    unsigned char params[]; // each at a multiple of 16
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

static void tell_new(vti_cu_ptr at, size_t size_bytes)
{
    standin_kernel_memory(at, size_bytes, EMU_MEMORY_NEW);
}

// What was mapped before the library was there may have been written.
static void tell_mapped(vti_cu_ptr at, size_t size_bytes)
{
    tell_new(at, size_bytes);
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
    standin_each_alloc(tell_mapped);
    standin_each_mapping(tell_mapped);
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

void standin_kernel_reset(void)
{
    pthread_mutex_lock(&standin_mu);
    while (modules) drop_module(&modules);
    if (library) library->clear();
    why_none[0] = 0;
    pthread_mutex_unlock(&standin_mu);
}

void standin_kernel_look(standin_report *r)
{
    for (const struct CUmod_st *m = modules; m; m = m->next) r->n_module++;
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

vti_cu_result cuFuncGetAttribute(int *value, vti_cu_func_attribute attribute,
                                 vti_cu_function function)
{
    STANDIN_BEGIN(F_func_get_attribute);
    struct CUfunc_st *f = function_of(function);
    if (!f || (attribute != VTI_CU_FUNC_DYNAMIC_SHARED && attribute != STANDIN_FUNC_MAX_THREADS))
        return standin_end(standin_breach("an attribute, or a function, that is unknown"));
    *value = attribute == STANDIN_FUNC_MAX_THREADS ? MAX_THREAD : f->dynamic_shared;
    return standin_end(VTI_CU_SUCCESS);
}

// Registers are not known: threads, shared memory and blocks alone count.
vti_cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n_block, vti_cu_function function,
                                                          int n_thread, size_t shared_bytes)
{
    STANDIN_BEGIN(F_occupancy);
    if (!function_of(function) || n_thread <= 0 || n_thread > MAX_THREAD)
        return standin_end(CU_INVALID_VALUE);
    int by_threads = 2048 / ((n_thread + 31) / 32 * 32);
    size_t by_shared = (228 << 10) / (shared_bytes + (1 << 10)); // a block's own kilobyte
    *n_block = by_threads < 32 ? by_threads : 32;
    if (by_shared < (size_t)*n_block) *n_block = (int)by_shared;
    return standin_end(VTI_CU_SUCCESS);
}

// ---- launches

static size_t param_room(const emu_kernel *k)
{
    size_t n = 0;
    for (int i = 0; i < k->n_arg; i++) n += (k->arg_bytes[i] + 15) / 16 * 16;
    return n;
}

static bool odd_launch(const vti_cu_kernel_node *p, const struct CUfunc_st *f)
{
    const unsigned *g = p->grid, *b = p->block;
    if (!f || f->device != standin_current_device() || p->extra ||
        (!p->params && f->kernel->n_arg > 0))
        return true;
    if (g[0] == 0 || g[1] == 0 || g[2] == 0 || b[0] == 0 || b[1] == 0 || b[2] == 0) return true;
    if (g[0] > 0x7FFFFFFF || g[1] > 65535 || g[2] > 65535 || b[2] > 64) return true;
    if ((uint64_t)b[0] * b[1] * b[2] > MAX_THREAD) return true;
    return p->shared_bytes > (unsigned)f->dynamic_shared || f->kernel->n_arg > MAX_PARAM ||
           param_room(f->kernel) > MAX_PARAM_BYTES;
}

vti_cu_result standin_work_make(const vti_cu_kernel_node *p, standin_work **out)
{
    const struct CUfunc_st *f = function_of(p->function);
    if (odd_launch(p, f)) return CU_INVALID_VALUE;
    standin_work *w = calloc(1, sizeof *w + param_room(f->kernel));
    if (!w) return VTI_CU_OUT_OF_MEMORY;
    w->kernel = f->kernel;
    memcpy(w->grid, p->grid, sizeof w->grid);
    memcpy(w->block, p->block, sizeof w->block);
    w->shared_bytes = p->shared_bytes;
    unsigned char *at = w->params;
    for (int i = 0; i < w->kernel->n_arg; i++) {
        memcpy(at, p->params[i], w->kernel->arg_bytes[i]);
        at += (w->kernel->arg_bytes[i] + 15) / 16 * 16;
    }
    *out = w;
    return VTI_CU_SUCCESS;
}

standin_work *standin_work_copy(const standin_work *w)
{
    size_t n = sizeof *w + param_room(w->kernel);
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
    _Alignas(16) unsigned char params[MAX_PARAM_BYTES];
    void *args[MAX_PARAM];
    size_t at = 0;
    for (int i = 0; i < w->kernel->n_arg; i++) {
        args[i] = params + at;
        at += (w->kernel->arg_bytes[i] + 15) / 16 * 16;
    }
    memcpy(params, w->params, at);
    emu_launch l = {.kernel = w->kernel, .dynamic_bytes = w->shared_bytes, .args = args};
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
    vti_cu_result r = standin_work_make(&p, &w);
    return standin_end(r == VTI_CU_SUCCESS ? standin_give_work(stream, w) : r);
}
