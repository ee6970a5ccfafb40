// vattention_walk.c - every page group that exists, and where it is.
#include "vtensor/vattention/vattention_internal.h"

static void walk_request(const vt_va *va, uint32_t reqid,
                         void (*fn)(void *ud, const vt_va_group *group), void *ud)
{
    const vti_va_req *r = &va->req[reqid];
    const uint32_t n_mapped = r->n_mapped, n = n_mapped + r->n_torn,
                   n_need = !r->is_active          ? 0
                            : r->n_need < n_mapped ? r->n_need
                                                   : n_mapped;
    for (uint32_t i = 0; i < n; i++) {
        const vt_va_group g = {r->name[i], reqid, i, i < n_need};
        fn(ud, &g);
    }
}

void vt_va_each_group(vt_va *va, void (*fn)(void *ud, const vt_va_group *group), void *ud)
{
    vti_va_settle(va, true);
    for (uint32_t i = 0; i < va->geo.max_batch; i++) walk_request(va, i, fn, ud);
    for (uint32_t name = 0; name < 2 * va->geo.n_home; name++) {
        if (va->state[name] != VTI_VA_SPARE) continue;
        const vt_va_group g = {.name = name, .reqid = UINT32_MAX};
        fn(ud, &g);
    }
}
