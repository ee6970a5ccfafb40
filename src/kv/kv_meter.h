// kv_meter.h - a backend of libvtensor that passes every call on to another one, and counts the
// calls by operation, with their failures and the time they take. The manager's thread and the
// engine's call it at the same time, so the counts are atomic.
#ifndef FXI_KV_METER_H
#define FXI_KV_METER_H

#include "kv/kv.h"
#include "vtensor/vmm.h"

// Puts a meter in front of `inner`, which its close leaves open, or of a new backend on host memory
// if that is NULL. Of the mappings that the system allows, run_share is the manager's limit; 0:
// all. Errors: those of vt_vmm_host_open, VT_ENOMEM; then *out is NULL.
vt_status fxi_meter_open(vt_vmm *inner, double run_share, vt_vmm **out);
// Adds its calls to those in `out`. Any thread.
void fxi_meter_add(const vt_vmm *meter, fx_op_stats out[FX_N_DRIVER_OP]);
fxi_kv_moved fxi_meter_moved(const vt_vmm *meter); // by the calls of the swap

#endif
