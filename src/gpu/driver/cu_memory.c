// cu_memory.c - memory of the device, pinned memory, and copies between them; see cu.h.
#include "gpu/driver/cu.h"

static fxi_cu_ptr to_ptr(const void *at)
{
    return (fxi_cu_ptr)(uintptr_t)at;
}

fx_status fxi_cu_memory(fxi_cu *cu, uint64_t *free_bytes, uint64_t *total_bytes, fx_error *err)
{
    size_t is_free = 0, total = 0;
    FX_TRY(fxi_cu_done(cu, cu->api.mem_get_info(&is_free, &total), err, "cuMemGetInfo"));
    *free_bytes = is_free;
    *total_bytes = total;
    return FX_OK;
}

fx_status fxi_cu_alloc(fxi_cu *cu, size_t size_bytes, void **at, fx_error *err)
{
    fxi_cu_ptr p = 0;
    *at = NULL;
    FX_TRY(fxi_cu_done(cu, cu->api.mem_alloc(&p, size_bytes), err, "cuMemAlloc of %zu bytes",
                       size_bytes));
    *at = (void *)(uintptr_t)p;
    return FX_OK;
}

void fxi_cu_free(fxi_cu *cu, void *at)
{
    if (at) (void)cu->api.mem_free(to_ptr(at));
}

fx_status fxi_cu_pin(fxi_cu *cu, size_t size_bytes, void **bytes, fx_error *err)
{
    *bytes = NULL;
    return fxi_cu_done(cu, cu->api.mem_host_alloc(bytes, size_bytes, 0), err,
                       "cuMemHostAlloc of %zu bytes", size_bytes);
}

void fxi_cu_unpin(fxi_cu *cu, void *bytes)
{
    if (bytes) (void)cu->api.mem_free_host(bytes);
}

fx_status fxi_cu_upload(fxi_cu *cu, fxi_cu_stream s, void *dst, const void *src, size_t size_bytes,
                        fx_error *err)
{
    if (!size_bytes) return FX_OK;
    return fxi_cu_done(cu, cu->api.memcpy_htod_async(to_ptr(dst), src, size_bytes, s), err,
                       "cuMemcpyHtoDAsync of %zu bytes", size_bytes);
}

fx_status fxi_cu_download(fxi_cu *cu, fxi_cu_stream s, void *dst, const void *src,
                          size_t size_bytes, fx_error *err)
{
    if (!size_bytes) return FX_OK;
    return fxi_cu_done(cu, cu->api.memcpy_dtoh_async(dst, to_ptr(src), size_bytes, s), err,
                       "cuMemcpyDtoHAsync of %zu bytes", size_bytes);
}

fx_status fxi_cu_download_rows(fxi_cu *cu, fxi_cu_stream s, void *dst, size_t pitch_bytes,
                               const void *src, size_t row_bytes, size_t n_row, fx_error *err)
{
    const fxi_cu_copy_2d copy = {.src_type = FXI_CU_MEMORY_DEVICE,
                                 .src_device = to_ptr(src),
                                 .src_pitch = row_bytes,
                                 .dst_type = FXI_CU_MEMORY_HOST,
                                 .dst_host = dst,
                                 .dst_pitch = pitch_bytes,
                                 .width_bytes = row_bytes,
                                 .height = n_row};
    if (!row_bytes || !n_row) return FX_OK;
    return fxi_cu_done(cu, cu->api.memcpy_2d_async(&copy, s), err,
                       "cuMemcpy2DAsync of %zu x %zu bytes", n_row, row_bytes);
}

fx_status fxi_cu_copy(fxi_cu *cu, fxi_cu_stream s, void *dst, const void *src, size_t size_bytes,
                      fx_error *err)
{
    if (!size_bytes) return FX_OK;
    return fxi_cu_done(cu, cu->api.memcpy_dtod_async(to_ptr(dst), to_ptr(src), size_bytes, s), err,
                       "cuMemcpyDtoDAsync of %zu bytes", size_bytes);
}

fx_status fxi_cu_zero(fxi_cu *cu, fxi_cu_stream s, void *dst, size_t size_bytes, fx_error *err)
{
    if (!size_bytes) return FX_OK;
    return fxi_cu_done(cu, cu->api.memset_async(to_ptr(dst), 0, size_bytes, s), err,
                       "cuMemsetD8Async of %zu bytes", size_bytes);
}
