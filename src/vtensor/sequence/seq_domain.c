// seq_domain.c - the public face of domains: opening, quotas, statistics, enumeration, events.
#include "sequence.h"

vt_status vt_domain_open(vt_manager *m, const void *key, size_t key_bytes, vt_domain **out)
{
    enum { MAX_KEY_BYTES = 4096 };
    *out = NULL;
    if (key_bytes > MAX_KEY_BYTES) return VT_EINVAL;
    return vti_rtree_open(m->rtree, key, key_bytes, out);
}

void vt_domain_close(vt_domain *d)
{
    if (d) vti_rtree_close(d);
}

void vt_domain_forget(vt_domain *d)
{
    vti_rtree_forget(d);
}

void vt_domain_set_quota(vt_domain *d, uint64_t quota_bytes)
{
    vti_domain_set_quota(d, quota_bytes);
}

void vt_domain_get_stats(const vt_domain *d, vt_domain_stats *out)
{
    vt_domain_stats all = vti_domain_stats_of(d);
    vti_struct_out(out, &all, sizeof all, out->struct_bytes);
}

void vt_domain_each(vt_manager *m,
                    bool (*fn)(void *ud, vt_domain *d, const void *key, size_t key_bytes), void *ud)
{
    vti_domain_walk(m->rtree, fn, ud);
}

void vt_prefix_each(const vt_domain *d, bool (*fn)(void *ud, const vt_prefix_info *node), void *ud)
{
    vti_rtree_walk(d, fn, ud);
}

void vt_prefix_watch(vt_manager *m, bool is_on)
{
    vti_rtree_watch(m->rtree, is_on);
}

void vt_prefix_changes(vt_manager *m, const vt_prefix_watcher *to)
{
    vti_rtree_changes(m->rtree, to);
}

uint64_t vt_domain_id(const vt_domain *d)
{
    return vti_domain_id_of(d);
}

uint32_t vt_events_take(vt_manager *m, vt_event *out, uint32_t max_n)
{
    return vti_events_take(m->events, out, max_n);
}
