// core.c - the stand-in's calls and contexts: counting, failing on command, recording breaches of
// the rules.
#include "state.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 8

pthread_mutex_t standin_mu = PTHREAD_MUTEX_INITIALIZER;

static struct CUctx_st contexts[STANDIN_N_DEVICE] = {{0}, {1}, {2}, {3}};
static _Thread_local vti_cu_context stack[MAX_DEPTH];
static _Thread_local int depth;
static _Thread_local vti_cu_capture_mode mode = VTI_CU_CAPTURE_MODE_GLOBAL;
static _Thread_local uint64_t n_wait, n_here[N_FUNCTION];
static _Thread_local uint64_t waits_since; // n_reset when they were counted

#define SYMBOL(member, symbol, parameters) #symbol,
static const char *const symbols[N_FUNCTION] = {STANDIN_FUNCTIONS(SYMBOL)};

typedef struct order {
    const char *symbol;
    uint64_t i, n, seen, fired;
    int result;
} order;

static order failing;
static void (*hook)(void);
static const char *hook_symbol;
static uint64_t n_call[N_FUNCTION];
static uint64_t n_breach, n_reset;
static const char *first_breach;
static int broken;                    // by a kernel's fault: what calls answer; 0: not
static _Thread_local int known_break; // what of it the call that has begun does not answer

void standin_break(int result)
{
    if (broken == 0) broken = result;
}

bool standin_is_broken(void)
{
    return broken != 0;
}

void standin_mend(void)
{
    broken = 0;
}

vti_cu_result standin_breach(const char *what)
{
    if (getenv("STANDIN_ABORT")) abort(); // in the guilty call, for a debugger
    if (n_breach++ == 0) first_breach = what;
    return CU_INVALID_VALUE;
}

static vti_cu_result obey(standin_call f)
{
    if (failing.n == 0 ||
        (failing.symbol ? strcmp(failing.symbol, symbols[f]) != 0 : f == F_get_error_name))
        return VTI_CU_SUCCESS;
    uint64_t i = failing.seen++;
    if (i < failing.i || i - failing.i >= failing.n) return VTI_CU_SUCCESS;
    failing.fired++;
    return failing.result;
}

static const bool needs_no_context[N_FUNCTION] = {
    [F_init] = true,
    [F_driver_get_version] = true,
    [F_device_get] = true,
    [F_device_get_count] = true,
    [F_device_get_name] = true,
    [F_device_get_attribute] = true,
    [F_get_error_name] = true,
    [F_ctx_retain] = true,
    [F_ctx_release] = true,
    [F_ctx_set_current] = true,
    [F_ctx_get_current] = true,
    [F_ctx_push_current] = true,
    [F_exchange_capture_mode] = true,
};

static const bool frees[N_FUNCTION] = {
    [F_mem_address_free] = true,   [F_mem_release] = true,   [F_mem_unmap] = true,
    [F_mem_free_host] = true,      [F_mem_free] = true,      [F_stream_destroy] = true,
    [F_event_destroy] = true,      [F_module_unload] = true, [F_graph_destroy] = true,
    [F_graph_exec_destroy] = true,
};

static const bool asks_nothing[N_FUNCTION] = {
    [F_ctx_get_device] = true,
    [F_ctx_push_current] = true,
    [F_ctx_pop_current] = true,
    [F_stream_is_capturing] = true,
};

// The driver names no list; these allocate, map, wait or query.
static const bool breaks_captures[N_FUNCTION] = {
    [F_ctx_synchronize] = true,     [F_event_query] = true,    [F_event_synchronize] = true,
    [F_mem_address_free] = true,    [F_mem_create] = true,     [F_mem_free_host] = true,
    [F_mem_address_reserve] = true, [F_mem_host_alloc] = true, [F_mem_map] = true,
    [F_mem_release] = true,         [F_mem_set_access] = true, [F_mem_unmap] = true,
    [F_memcpy_dtoh] = true,         [F_memcpy_htod] = true,    [F_stream_create] = true,
    [F_stream_destroy] = true,      [F_stream_query] = true,   [F_stream_synchronize] = true,
    [F_mem_alloc] = true,           [F_mem_free] = true,       [F_module_load] = true,
    [F_module_unload] = true,
};

static const bool waits[N_FUNCTION] = {
    [F_ctx_synchronize] = true,    [F_event_synchronize] = true, [F_memcpy_dtoh] = true,
    [F_stream_synchronize] = true, [F_memcpy_htod] = true,       [F_mem_free] = true,
};

// Counts a call of this thread.
static void count_here(standin_call f)
{
    if (waits_since != n_reset) n_wait = 0, memset(n_here, 0, sizeof n_here);
    waits_since = n_reset;
    n_wait += waits[f];
    n_here[f]++;
}

static vti_cu_result meet_rules(standin_call f)
{
    if (!needs_no_context[f] && depth == 0) {
        (void)standin_breach("a call without a current context");
        return CU_INVALID_CONTEXT;
    }
    if (breaks_captures[f] && mode != VTI_CU_CAPTURE_MODE_RELAXED && standin_captures()) {
        (void)standin_breach("a call that breaks the capture of a stream");
        standin_break_captures();
        return CU_CAPTURE_UNSUPPORTED;
    }
    bool answers = !needs_no_context[f] && !asks_nothing[f];
    known_break = answers ? 0 : broken;
    return answers && !frees[f] ? broken : VTI_CU_SUCCESS;
}

static void run_hook(standin_call f)
{
    void (*run)(void) = NULL;
    pthread_mutex_lock(&standin_mu);
    if (hook && strcmp(hook_symbol, symbols[f]) == 0) {
        run = hook;
        hook = NULL;
    }
    pthread_mutex_unlock(&standin_mu);
    if (run) run();
}

vti_cu_result standin_begin(standin_call f)
{
    run_hook(f);
    pthread_mutex_lock(&standin_mu);
    n_call[f]++;
    count_here(f);
    vti_cu_result r = obey(f);
    if (r == VTI_CU_SUCCESS) r = meet_rules(f);
    return r == VTI_CU_SUCCESS ? r : standin_end(r);
}

vti_cu_result standin_end(vti_cu_result r)
{
    if (r == VTI_CU_SUCCESS && broken != known_break) r = broken;
    pthread_mutex_unlock(&standin_mu);
    return r;
}

void standin_reset(void)
{
    standin_stream_reset();
    standin_graph_reset();
    standin_kernel_reset();
    standin_alloc_reset();
    standin_memory_reset();
    standin_device_reset();
    pthread_mutex_lock(&standin_mu);
    memset(n_call, 0, sizeof n_call);
    failing = (order){0};
    hook = NULL;
    n_breach = 0;
    first_breach = NULL;
    broken = 0;
    n_reset++;
    pthread_mutex_unlock(&standin_mu);
}

standin_report standin_look(void)
{
    pthread_mutex_lock(&standin_mu);
    standin_report r = {.n_breach = n_breach, .breach = first_breach};
    standin_memory_look(&r);
    standin_stream_look(&r);
    standin_alloc_look(&r);
    standin_kernel_look(&r);
    standin_graph_look(&r);
    standin_device_look(&r);
    pthread_mutex_unlock(&standin_mu);
    return r;
}

vti_cu_context standin_context_of(int device)
{
    return &contexts[device];
}

void standin_use_context(int device)
{
    depth = device >= 0;
    stack[0] = device >= 0 ? &contexts[device] : NULL;
}

int standin_current_device(void)
{
    return depth > 0 ? stack[depth - 1]->device : -1;
}

int standin_context_depth(void)
{
    return depth;
}

int standin_capture_mode(void)
{
    return mode;
}

uint64_t standin_waits(void)
{
    pthread_mutex_lock(&standin_mu);
    uint64_t n = waits_since == n_reset ? n_wait : 0;
    pthread_mutex_unlock(&standin_mu);
    return n;
}

uint64_t standin_calls_here(const char *symbol)
{
    uint64_t n = 0;
    pthread_mutex_lock(&standin_mu);
    for (int f = 0; waits_since == n_reset && f < N_FUNCTION; f++)
        if (!symbol || strcmp(symbols[f], symbol) == 0) n += n_here[f];
    pthread_mutex_unlock(&standin_mu);
    return n;
}

void standin_fail(const char *symbol, uint64_t i, uint64_t n, int result)
{
    pthread_mutex_lock(&standin_mu);
    failing = (order){.symbol = symbol, .i = i, .n = n, .result = result};
    pthread_mutex_unlock(&standin_mu);
}

void standin_before(const char *symbol, void (*run)(void))
{
    pthread_mutex_lock(&standin_mu);
    hook = run;
    hook_symbol = symbol;
    pthread_mutex_unlock(&standin_mu);
}

uint64_t standin_fired(void)
{
    pthread_mutex_lock(&standin_mu);
    uint64_t fired = failing.fired;
    pthread_mutex_unlock(&standin_mu);
    return fired;
}

uint64_t standin_calls(const char *symbol)
{
    uint64_t n = 0;
    pthread_mutex_lock(&standin_mu);
    for (int f = 0; f < N_FUNCTION; f++)
        if (!symbol || strcmp(symbol, symbols[f]) == 0) n += n_call[f];
    pthread_mutex_unlock(&standin_mu);
    return n;
}

vti_cu_result cuCtxSetCurrent(vti_cu_context context)
{
    STANDIN_BEGIN(F_ctx_set_current);
    standin_use_context(context ? context->device : -1);
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuCtxGetCurrent(vti_cu_context *context)
{
    STANDIN_BEGIN(F_ctx_get_current);
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuCtxGetDevice(vti_cu_device *device)
{
    STANDIN_BEGIN(F_ctx_get_device);
    *device = stack[depth - 1]->device;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuCtxPushCurrent_v2(vti_cu_context context)
{
    STANDIN_BEGIN(F_ctx_push_current);
    if (!context || depth == MAX_DEPTH) return standin_end(standin_breach("context stack is full"));
    stack[depth++] = context;
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuCtxPopCurrent_v2(vti_cu_context *context)
{
    STANDIN_BEGIN(F_ctx_pop_current);
    *context = stack[--depth];
    return standin_end(VTI_CU_SUCCESS);
}

vti_cu_result cuThreadExchangeStreamCaptureMode(vti_cu_capture_mode *other)
{
    STANDIN_BEGIN(F_exchange_capture_mode);
    if (*other < VTI_CU_CAPTURE_MODE_GLOBAL || *other > VTI_CU_CAPTURE_MODE_RELAXED)
        return standin_end(standin_breach("an odd capture mode"));
    vti_cu_capture_mode before = mode;
    mode = *other;
    *other = before;
    return standin_end(VTI_CU_SUCCESS);
}
