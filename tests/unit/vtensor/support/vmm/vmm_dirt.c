// vmm_dirt.c - see vmm_dirt.h.
#include "vmm_dirt.h"

static vt_extent *list_page(const void *pages, size_t k)
{
    return (vt_extent *)pages + k;
}

vt_place vt_place_in_list(vt_extent *list, uint64_t offset)
{
    return (vt_place){.page = list_page, .pages = list, .offset = offset};
}

static bool is_empty(vt_extent e)
{
    return e.lo == e.hi;
}

static vt_extent meet(vt_extent a, vt_extent b)
{
    vt_extent both = {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    return both.lo < both.hi ? both : (vt_extent){0, 0};
}

void vt_extent_add(vt_extent *e, vt_extent more)
{
    if (is_empty(more)) return;
    if (is_empty(*e)) *e = more;
    if (more.lo < e->lo) e->lo = more.lo;
    if (more.hi > e->hi) e->hi = more.hi;
}

static void cut(vt_extent *e, vt_extent less)
{
    if (less.lo <= e->lo && less.hi > e->lo) e->lo = less.hi < e->hi ? less.hi : e->hi;
    if (less.hi >= e->hi && less.lo < e->hi) e->hi = less.lo > e->lo ? less.lo : e->lo;
}

vt_extent *vt_place_part(const vt_place *p, size_t at, size_t size_bytes, vt_extent *part)
{
    size_t in_page = (p->offset + at) % VT_DIRT_PAGE_BYTES;
    size_t n = VT_DIRT_PAGE_BYTES - in_page;
    if (n > size_bytes - at) n = size_bytes - at;
    *part = (vt_extent){(uint16_t)in_page, (uint16_t)(in_page + n)};
    return p->page(p->pages, (p->offset + at) / VT_DIRT_PAGE_BYTES);
}

void vt_place_add(const vt_place *p, size_t size_bytes)
{
    vt_extent part;
    for (size_t at = 0; at < size_bytes; at += (size_t)(part.hi - part.lo))
        vt_extent_add(vt_place_part(p, at, size_bytes, &part), part);
}

void vt_place_cut(const vt_place *p, size_t size_bytes)
{
    vt_extent part;
    for (size_t at = 0; at < size_bytes; at += (size_t)(part.hi - part.lo))
        cut(vt_place_part(p, at, size_bytes, &part), part);
}

bool vt_place_is_clean(const vt_place *p, size_t size_bytes)
{
    vt_extent part;
    for (size_t at = 0; at < size_bytes; at += (size_t)(part.hi - part.lo))
        if (!is_empty(meet(*vt_place_part(p, at, size_bytes, &part), part))) return false;
    return true;
}

bool vt_place_is_full(const vt_place *p, size_t size_bytes)
{
    vt_extent part;
    for (size_t at = 0; at < size_bytes; at += (size_t)(part.hi - part.lo)) {
        vt_extent have = *vt_place_part(p, at, size_bytes, &part);
        if (have.lo > part.lo || have.hi < part.hi) return false;
    }
    return true;
}

static vt_extent moved(vt_extent e, uint16_t from, uint16_t to)
{
    return (vt_extent){(uint16_t)(e.lo - from + to), (uint16_t)(e.hi - from + to)};
}

// In pieces that end where a page of either place ends.
void vt_place_copy(const vt_place *to, const vt_place *from, size_t size_bytes)
{
    vt_place_cut(to, size_bytes);
    size_t n;
    for (size_t at = 0; at < size_bytes; at += n) {
        vt_extent src_part, dst_part;
        vt_extent src = *vt_place_part(from, at, size_bytes, &src_part);
        vt_extent *dst = vt_place_part(to, at, size_bytes, &dst_part);
        size_t n_src = (size_t)(src_part.hi - src_part.lo);
        size_t n_dst = (size_t)(dst_part.hi - dst_part.lo);
        n = n_src < n_dst ? n_src : n_dst;
        src_part.hi = (uint16_t)(src_part.lo + n);
        src = meet(src, src_part);
        if (!is_empty(src)) vt_extent_add(dst, moved(src, src_part.lo, dst_part.lo));
    }
}
