// vmm_cuda_context.c - how a call of this backend meets the driver: the current context, the
// thread's capture mode, results, and the streams of our own.
//
// While some thread captures a stream into a graph, the driver forbids others to make "potentially
// unsafe" calls, such as allocating, and breaks the capture if they do; which calls these are is
// not documented. A thread in relaxed mode may make them. So every call of this backend runs in
// relaxed mode, which is a matter of the calling thread alone, and puts back the mode it found.
#include "vmm_cuda.h"

#include <unistd.h>

static vt_status push_context(vti_cuda *c, bool *pushed)
{
    vti_cu_context now = NULL;
    *pushed = false;
    if (c->cu.ctx_get_current(&now) != VTI_CU_SUCCESS) return VT_EDEVICE;
    if (now == c->context) return VT_OK;
    if (c->cu.ctx_push_current(c->context) != VTI_CU_SUCCESS) return VT_EDEVICE;
    *pushed = true;
    return VT_OK;
}

static void pop_context(vti_cuda *c, bool pushed)
{
    vti_cu_context ours;
    if (pushed) (void)c->cu.ctx_pop_current(&ours);
}

bool vti_cuda_is_foreign(const vti_cuda *c)
{
    return getpid() != c->pid;
}

vt_status vti_cuda_enter(vti_cuda *c, vti_cuda_scope *scope)
{
    if (vti_cuda_is_foreign(c)) return VT_EDEVICE;
    VT_TRY(push_context(c, &scope->pushed));
    scope->mode = VTI_CU_CAPTURE_MODE_RELAXED;
    if (c->cu.exchange_capture_mode(&scope->mode) == VTI_CU_SUCCESS) return VT_OK;
    pop_context(c, scope->pushed);
    return VT_EDEVICE;
}

vt_status vti_cuda_leave(vti_cuda *c, const vti_cuda_scope *scope, vt_status st)
{
    vti_cu_capture_mode mode = scope->mode;
    (void)c->cu.exchange_capture_mode(&mode);
    pop_context(c, scope->pushed);
    return st;
}

vt_status vti_cuda_status(vti_cu_result r)
{
    if (r == VTI_CU_SUCCESS) return VT_OK;
    return r == VTI_CU_OUT_OF_MEMORY ? VT_NOSPACE : VT_EDEVICE;
}

vt_status vti_cuda_hard(vt_status st)
{
    return st == VT_NOSPACE ? VT_EDEVICE : st;
}

// The default stream answers with an error while a stream that it is ordered with is captured.
bool vti_cuda_runs(vti_cuda *c, vti_cu_stream stream)
{
    vti_cu_capture_status status = VTI_CU_CAPTURE_NONE;
    return c->cu.stream_is_capturing(stream, &status) == VTI_CU_SUCCESS &&
           status == VTI_CU_CAPTURE_NONE;
}

vti_cu_stream vti_cuda_own_take(vti_cuda *c)
{
    pthread_mutex_lock(&c->mu);
    vti_cuda_own *least = &c->own[0];
    for (int i = 1; i < VTI_CUDA_N_OWN; i++)
        if (c->own[i].n_user < least->n_user) least = &c->own[i];
    least->n_user++;
    pthread_mutex_unlock(&c->mu);
    return least->stream;
}

vt_status vti_cuda_own_finish(vti_cuda *c, vti_cu_stream stream, vt_status st)
{
    vti_cu_result r = c->cu.stream_synchronize(stream);
    pthread_mutex_lock(&c->mu);
    for (int i = 0; i < VTI_CUDA_N_OWN; i++) c->own[i].n_user -= c->own[i].stream == stream;
    pthread_mutex_unlock(&c->mu);
    return st != VT_OK ? st : vti_cuda_status(r);
}
