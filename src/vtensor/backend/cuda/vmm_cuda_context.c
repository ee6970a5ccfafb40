// vmm_cuda_context.c - the driver's context and its results, for all files of this backend.
#include "vmm_cuda.h"

vt_status vti_cuda_enter(vti_cuda *c, bool *pushed)
{
    vti_cu_context now = NULL;
    *pushed = false;
    if (c->cu.ctx_get_current(&now) != VTI_CU_SUCCESS) return VT_EDEVICE;
    if (now == c->context) return VT_OK;
    if (c->cu.ctx_push_current(c->context) != VTI_CU_SUCCESS) return VT_EDEVICE;
    *pushed = true;
    return VT_OK;
}

vt_status vti_cuda_leave(vti_cuda *c, bool pushed, vt_status st)
{
    vti_cu_context ours;
    if (pushed) (void)c->cu.ctx_pop_current(&ours);
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

vt_status vti_cuda_finish(vti_cuda *c, vt_status st)
{
    vti_cu_result r = c->cu.stream_synchronize(c->own_stream);
    return st != VT_OK ? st : vti_cuda_status(r);
}
