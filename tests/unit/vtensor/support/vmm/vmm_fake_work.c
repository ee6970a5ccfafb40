// vmm_fake_work.c - see vmm_fake_work.h.
#include "vmm_fake_work.h"

#include <stdlib.h>

static void forget_ended(vt_fake_works *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        if (w->list[i].ticket > w->passed_ticket) w->list[n++] = w->list[i];
    w->n = n;
}

bool vt_fake_work_add(vt_fake_works *w, vt_fake_work what)
{
    if (w->n == w->room) forget_ended(w);
    if (2 * w->n >= w->room) {
        size_t room = w->room > 0 ? 2 * w->room : 16;
        vt_fake_work *list = realloc(w->list, room * sizeof *list);
        if (!list) return false;
        w->list = list;
        w->room = room;
    }
    w->list[w->n++] = what;
    return true;
}

static bool overlap(uint64_t a, uint64_t n_a, uint64_t b, uint64_t n_b)
{
    return a < b ? n_a > b - a : n_b > a - b;
}

// The first that still runs. Tickets rise along the list, so all after it run, too.
static const vt_fake_work *first_running(const vt_fake_works *w)
{
    size_t i = w->n;
    while (i > 0 && w->list[i - 1].ticket > w->passed_ticket) i--;
    return w->list + i;
}

bool vt_fake_work_uses(const vt_fake_works *w, vt_fake_bytes bytes, bool writing)
{
    for (const vt_fake_work *k = first_running(w); k < w->list + w->n; k++)
        if ((k->writes || !writing) && k->bytes.index == bytes.index &&
            overlap(k->bytes.offset, k->bytes.size_bytes, bytes.offset, bytes.size_bytes))
            return true;
    return false;
}

bool vt_fake_work_at(const vt_fake_works *w, uintptr_t addr, size_t size_bytes, bool writing)
{
    for (const vt_fake_work *k = first_running(w); k < w->list + w->n; k++)
        if ((k->writes || !writing) && overlap(k->addr, k->bytes.size_bytes, addr, size_bytes))
            return true;
    return false;
}

void vt_fake_work_end(vt_fake_works *w)
{
    w->n = 0;
}

void vt_fake_work_free(vt_fake_works *w)
{
    free(w->list);
    *w = (vt_fake_works){0};
}
