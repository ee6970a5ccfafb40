// kv_managers.h - what the managers share: the table of each, one per file, and libvtensor's
// statuses as those of the port.
#ifndef FXI_KV_MANAGERS_H
#define FXI_KV_MANAGERS_H

#include "kv/kv.h"
#include "vtensor/status.h"

extern const fxi_kv_ops fxi_kv_vtensor;          // kv_vtensor.c
extern const fxi_kv_ops fxi_kv_vattention;       // kv_vattention.c
extern const fxi_kv_ops fxi_kv_vattention_mega;  // the same
extern const fxi_kv_ops fxi_kv_vattention_start; // the same
extern const fxi_kv_ops fxi_kv_paged;            // paged/kv_paged.c

static inline fx_status fxi_kv_status_of(vt_status st)
{
    static const fx_status map[] = {
        [VT_OK] = FX_OK,
        [VT_NOSPACE] = FX_ENOSPACE,
        [VT_EDEVICE] = FX_EIO,
        [VT_EINVAL] = FX_EINVAL,
        [VT_ENOMEM] = FX_ENOMEM,
        [VT_NOMAPS] = FX_ENOSPACE,
        [VT_NOSPANS] = FX_ENOSPACE,
        [VT_NOPINS] = FX_ENOSPACE,
        [VT_NOSWAP] = FX_ENOSPACE,
        [VT_BUSY] = FX_ENOSPACE,
    };
    return map[st];
}

#endif
