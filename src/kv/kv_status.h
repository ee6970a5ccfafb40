// kv_status.h - libvtensor's statuses as those of the port (kv.h).
#ifndef FXI_KV_STATUS_H
#define FXI_KV_STATUS_H

#include "base/fail.h"
#include "vtensor/status.h"

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
