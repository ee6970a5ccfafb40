// rtree_watch.c - which nodes have changed since somebody looked: those that are new or different,
// each once, and the names of those that are gone. While nobody watches, a change costs one branch.
//
// Whoever watches gets all nodes at first; and again if there was no memory to note a change, or
// more nodes have gone than there are. rtree_walk.c tells of them.
#include <stdlib.h>

#include "rtree_node.h"
#include "vtensor/core/common.h"

enum { FEW_GONE = 1024, FIRST_CAP = 64 };

void vti_watch_forget(vti_watch *w)
{
    for (size_t i = 0; i < w->n_changed; i++) w->changed[i]->at_watch = 0;
    w->n_changed = w->n_gone = 0;
}

static void begin_anew(vti_watch *w)
{
    vti_watch_forget(w);
    w->is_anew = true;
}

// Room for one more item.
static bool list_has_room(void **list, size_t n, size_t *cap, size_t item_bytes)
{
    if (n < *cap) return true;
    const size_t more = *cap ? 2 * *cap : FIRST_CAP;
    void *p = realloc(*list, more * item_bytes);
    if (!p) return false;
    *list = p;
    *cap = more;
    return true;
}

VTI_COLD void vti_watch_changed(vti_rtree *t, vti_node *n)
{
    vti_watch *w = &t->watch;
    if (w->is_anew || n->at_watch || !n->parent) return; // a root is not shown
    void *list = w->changed;
    const bool has_room = w->n_changed < UINT32_MAX &&
                          list_has_room(&list, w->n_changed, &w->cap_changed, sizeof(vti_node *));
    w->changed = list;
    if (!has_room) {
        begin_anew(w);
        return;
    }
    w->changed[w->n_changed++] = n;
    n->at_watch = (uint32_t)w->n_changed;
}

static void unlist_node(vti_watch *w, vti_node *n)
{
    vti_node *last = w->changed[--w->n_changed];
    w->changed[n->at_watch - 1] = last;
    last->at_watch = n->at_watch;
    n->at_watch = 0;
}

VTI_COLD void vti_watch_gone(vti_rtree *t, vti_node *n)
{
    vti_watch *w = &t->watch;
    if (n->at_watch) unlist_node(w, n);
    if (w->is_anew) return;
    void *list = w->gone;
    const bool has_room = w->n_gone < t->n_node + FEW_GONE &&
                          list_has_room(&list, w->n_gone, &w->cap_gone, sizeof(uint64_t));
    w->gone = list;
    if (has_room)
        w->gone[w->n_gone++] = n->id;
    else
        begin_anew(w);
}

void vti_rtree_watch(vti_rtree *t, bool is_on)
{
    vti_watch *w = &t->watch;
    vti_watch_forget(w);
    if (!is_on) {
        free(w->changed);
        free(w->gone);
    }
    *w = is_on ? (vti_watch){.is_on = true,
                             .is_anew = true,
                             .changed = w->changed,
                             .cap_changed = w->cap_changed,
                             .gone = w->gone,
                             .cap_gone = w->cap_gone}
               : (vti_watch){.is_on = false};
}
