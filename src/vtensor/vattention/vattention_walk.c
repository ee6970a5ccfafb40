// vattention_walk.c - every page group that exists, and where it is.
#include "vtensor/vattention/vattention_internal.h"

static void walk_request(const vt_va *va, uint32_t reqid,
                         void (*fn)(void *ud, const vt_va_group *group), void *ud)
{
    const vti_va_req *r = &va->req[reqid];
    const uint32_t n = r->n_mapped + r->n_torn;
    for (uint32_t i = 0; i < n; i++) {
        const vt_va_group g = {r->name[i], reqid, i, i < r->n_given};
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

void vt_va_each_group_of(vt_va *va, uint32_t reqid, void (*fn)(void *ud, const vt_va_group *group),
                         void *ud)
{
    vti_va_settle(va, true);
    if (reqid < va->geo.max_batch) walk_request(va, reqid, fn, ud);
}
