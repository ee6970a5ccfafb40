// gram_pay.c - what moves cost beside nodes.
#include "grammar/mask/gram_pay.h"

enum { NODES_PER_WORK = 12 }; // of a closure

fx_status fxi_mask_pay(fxi_mask_pay_book *p, size_t n, fx_error *err)
{
    const size_t work = fxi_auto_n_work(p->a), cost = n + NODES_PER_WORK * (work - p->seen);
    p->seen = work;
    if (p->left == FXI_PAY_NO_LIMIT) return FX_OK;
    if (cost < p->left) {
        p->left -= cost;
        return FX_OK;
    }
    p->left = 0;
    if (!p->pause || !p->pause(p->ud, &p->left))
        return fxi_fail(err, FX_ENOSPACE, "the work on a mask was ended");
    p->seen = fxi_auto_n_work(p->a);
    return FX_OK;
}
