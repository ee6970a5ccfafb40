// device_open.h - what an engine computes on, and where its caches lie.
#ifndef FXI_ENGINE_DEVICE_OPEN_H
#define FXI_ENGINE_DEVICE_OPEN_H

#include "engine/engine.h"
#include "model/device.h"

// Opens the device that the options name. Pre: eng->pool. Errors: FX_EINVAL (there is none of this
// name, or it cannot be used), FX_ENOMEM, FX_EINTERNAL.
fx_status fxi_engine_open_device(fx_engine *eng, fx_error *err);

// Whether the device's memory is that of the host.
bool fxi_engine_is_on_host(const fx_engine *eng);

// The budget of the cache, unless an option says it: by what the device has free now.
uint64_t fxi_engine_kv_bytes(const fx_engine *eng);

// Opens the KV manager of the options over the device's memory, or over shape->vmm. Errors: those
// of fxi_kv_open and of the device.
fx_status fxi_engine_open_kv(fx_engine *eng, fxi_kv_shape *shape, fx_error *err);

#endif
