// vmm_fake_swap.c - see vmm_fake_swap.h.
#include "vmm_fake_swap.h"

#include <stdlib.h>

enum { PAGE = VT_DIRT_PAGE_BYTES };

void vt_fake_swap_free(vt_fake_swap *s)
{
    free(s->held);
    free(s->dirty);
    free(s->stamp);
    *s = (vt_fake_swap){0};
}

bool vt_fake_swap_open(vt_fake_swap *s, uint64_t size_bytes)
{
    size_t n_page = (size_bytes + PAGE - 1) / PAGE;
    s->held = calloc(n_page, sizeof *s->held);
    s->dirty = calloc(n_page, sizeof *s->dirty);
    s->stamp = calloc(n_page, sizeof *s->stamp);
    s->size_bytes = size_bytes;
    if (s->held && s->dirty && s->stamp) return true;
    vt_fake_swap_free(s);
    return false;
}

const char *vt_fake_swap_check(const vt_fake_swap *s, uint64_t offset, size_t size_bytes)
{
    if (s->size_bytes == 0) return "use of a swap that is not open";
    if (offset % PAGE != 0) return "swap at an odd offset";
    if (size_bytes == 0 || offset >= s->size_bytes || size_bytes > s->size_bytes - offset)
        return "swap out of range";
    return NULL;
}

static uint64_t sum_of(const vt_fake_swap *s, uint64_t offset, size_t size_bytes)
{
    uint64_t sum = size_bytes;
    for (uint64_t at = offset; at < offset + size_bytes; at += PAGE)
        sum = (sum ^ s->stamp[at / PAGE]) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ (sum >> 32);
}

uint64_t vt_fake_swap_write(vt_fake_swap *s, uint64_t offset, const vt_place *from,
                            size_t size_bytes)
{
    vt_place held = vt_place_in_list(s->held, offset);
    vt_place dirty = vt_place_in_list(s->dirty, offset);
    vt_place_copy(&dirty, from, size_bytes);
    s->last_stamp++;
    for (uint64_t at = offset; at < offset + size_bytes; at += PAGE) {
        s->n_page += s->held[at / PAGE].hi == 0;
        s->stamp[at / PAGE] = s->last_stamp;
    }
    vt_place_add(&held, size_bytes);
    return sum_of(s, offset, size_bytes);
}

const char *vt_fake_swap_read(vt_fake_swap *s, const vt_place *to, uint64_t offset,
                              size_t size_bytes, uint64_t *sum)
{
    vt_place held = vt_place_in_list(s->held, offset);
    vt_place dirty = vt_place_in_list(s->dirty, offset);
    if (!vt_place_is_full(&held, size_bytes)) return "swap read of what was never written";
    vt_place_copy(to, &dirty, size_bytes);
    *sum = sum_of(s, offset, size_bytes);
    return NULL;
}

void vt_fake_swap_drop(vt_fake_swap *s, uint64_t offset, size_t size_bytes)
{
    for (uint64_t at = offset; at < offset + size_bytes; at += PAGE) {
        s->n_page -= s->held[at / PAGE].hi > 0;
        s->held[at / PAGE] = s->dirty[at / PAGE] = (vt_extent){0, 0};
    }
}

void vt_fake_swap_corrupt(vt_fake_swap *s, uint64_t offset)
{
    if (offset < s->size_bytes) s->stamp[offset / PAGE] = ++s->last_stamp;
}
