// cu_stream.c - waiting for streams, and for events in them; see cu.h.
#include "gpu/driver/cu.h"

fx_status fxi_cu_wait(fxi_cu *cu, fxi_cu_stream s, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.stream_synchronize(s), err, "cuStreamSynchronize");
}

fx_status fxi_cu_is_idle(fxi_cu *cu, fxi_cu_stream s, bool *is_idle, fx_error *err)
{
    const fxi_cu_result r = cu->api.stream_query(s);
    *is_idle = r == FXI_CU_SUCCESS;
    return r == FXI_CU_NOT_READY ? FX_OK : fxi_cu_done(cu, r, err, "cuStreamQuery");
}

fx_status fxi_cu_event_make(fxi_cu *cu, fxi_cu_event *event, fx_error *err)
{
    *event = NULL;
    return fxi_cu_done(
        cu, cu->api.event_create(event, FXI_CU_EVENT_BLOCKING_SYNC | FXI_CU_EVENT_DISABLE_TIMING),
        err, "cuEventCreate");
}

void fxi_cu_event_free(fxi_cu *cu, fxi_cu_event event)
{
    if (event) (void)cu->api.event_destroy(event);
}

fx_status fxi_cu_event_mark(fxi_cu *cu, fxi_cu_event event, fxi_cu_stream s, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.event_record(event, s), err, "cuEventRecord");
}

fx_status fxi_cu_event_wait(fxi_cu *cu, fxi_cu_event event, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.event_synchronize(event), err, "cuEventSynchronize");
}
