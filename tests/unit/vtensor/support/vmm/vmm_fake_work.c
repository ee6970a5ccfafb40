// vmm_fake_work.c - see vmm_fake_work.h.
#include "vmm_fake_work.h"

#include <stdlib.h>

static void forget_ended(vt_fake_works *w, uint64_t passed_ticket)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        if (w->list[i].ticket > passed_ticket) w->list[n++] = w->list[i];
    w->n = n;
}

bool vt_fake_work_add(vt_fake_works *w, vt_fake_work what, uint64_t passed_ticket)
{
    forget_ended(w, passed_ticket);
    if (w->n == w->room) {
        size_t room = w->room > 0 ? 2 * w->room : 16;
        vt_fake_work *list = realloc(w->list, room * sizeof *list);
        if (!list) return false;
        w->list = list;
        w->room = room;
    }
    w->list[w->n++] = what;
    return true;
}

bool vt_fake_work_touches(const vt_fake_works *w, uintptr_t addr, size_t size_bytes,
                          uint64_t passed_ticket)
{
    for (size_t i = 0; i < w->n; i++) {
        const vt_fake_work *k = &w->list[i];
        bool overlap = addr < k->addr + k->size_bytes && k->addr < addr + size_bytes;
        if (overlap && k->ticket > passed_ticket) return true;
    }
    return false;
}

void vt_fake_work_free(vt_fake_works *w)
{
    free(w->list);
    *w = (vt_fake_works){0};
}
