// wakes.c - two lists, and the moment before which one of them is not taken.
#include "server/work/wakes.h"

#include <math.h>
#include <stdint.h>
#include <unistd.h>

#define SEND_S 10e-6 // a short send to the same machine, with its reader's wake-up, caches cold

void fxi_wakes_open(fxi_wakes *ws)
{
    *ws = (fxi_wakes){.alarm_fd = -1};
    pthread_mutex_init(&ws->mu, NULL);
}

void fxi_wakes_close(fxi_wakes *ws)
{
    pthread_mutex_destroy(&ws->mu);
}

void fxi_wakes_set_share(fxi_wakes *ws, double share)
{
    ws->each_s = share < 1 ? SEND_S / share : 0;
}

// ---- lists ------------------------------------------------------------------------------------

static void list_wake(fxi_wake_list *l, fxi_wake *w)
{
    w->next = NULL;
    *(l->first ? l->end : &l->first) = w;
    l->end = &w->next;
    l->n++;
}

static fxi_wake_list take_list(fxi_wake_list *l)
{
    const fxi_wake_list taken = *l;
    *l = (fxi_wake_list){.n = 0};
    return taken;
}

static fxi_wake_list join_lists(fxi_wake_list a, fxi_wake_list b)
{
    if (!a.first) return b;
    if (!b.first) return a;
    *a.end = b.first;
    return (fxi_wake_list){a.first, b.end, a.n + b.n};
}

fxi_wake *fxi_wakes_pop(fxi_wakes *ws, fxi_wake_list *l)
{
    fxi_wake *w = l->first;
    if (!w) return NULL;
    pthread_mutex_lock(&ws->mu);
    l->first = w->next;
    l->n--;
    w->is_listed = false;
    pthread_mutex_unlock(&ws->mu);
    return w;
}

// ---- the alarm --------------------------------------------------------------------------------

static void alarm_locked(fxi_wakes *ws)
{
    const uint64_t one = 1;
    if (!ws->held.n || ws->is_looked || ws->alarm_fd < 0) return;
    ws->is_looked = true;
    const ssize_t n = write(ws->alarm_fd, &one, sizeof one);
    (void)n; // fails only if the count is full, and then it has been heard too
}

double fxi_wakes_due_s(fxi_wakes *ws)
{
    pthread_mutex_lock(&ws->mu);
    ws->is_looked = ws->held.n > 0;
    const double due_s = ws->is_looked ? ws->held_since_s + FXI_WAKES_HOLD_S : INFINITY;
    pthread_mutex_unlock(&ws->mu);
    return due_s;
}

// ---- coming and going -------------------------------------------------------------------------

bool fxi_wakes_add(fxi_wakes *ws, fxi_wake *w, fxi_wake_when when, double now_s)
{
    pthread_mutex_lock(&ws->mu);
    const bool is_new = !w->is_listed;
    if (is_new) {
        w->is_listed = true;
        if (when != FXI_WAKE_SOON && !ws->held.n) ws->held_since_s = now_s;
        list_wake(when == FXI_WAKE_SOON ? &ws->soon : &ws->held, w);
        if (when == FXI_WAKE_LATER) alarm_locked(ws);
    }
    pthread_mutex_unlock(&ws->mu);
    return is_new;
}

static fxi_wake_list take_held_locked(fxi_wakes *ws, double now_s)
{
    ws->next_s = now_s + fmin(ws->held.n * ws->each_s, FXI_WAKES_HOLD_S);
    return take_list(&ws->held);
}

fxi_wake_list fxi_wakes_after_step(fxi_wakes *ws, double now_s)
{
    pthread_mutex_lock(&ws->mu);
    fxi_wake_list l = take_list(&ws->soon);
    if (ws->held.n && now_s >= ws->next_s) l = join_lists(l, take_held_locked(ws, now_s));
    alarm_locked(ws);
    pthread_mutex_unlock(&ws->mu);
    return l;
}

fxi_wake_list fxi_wakes_late(fxi_wakes *ws, double now_s)
{
    fxi_wake_list l = {.n = 0};
    pthread_mutex_lock(&ws->mu);
    if (ws->held.n && now_s >= ws->held_since_s + FXI_WAKES_HOLD_S) l = take_held_locked(ws, now_s);
    pthread_mutex_unlock(&ws->mu);
    return l;
}

fxi_wake_list fxi_wakes_take(fxi_wakes *ws)
{
    pthread_mutex_lock(&ws->mu);
    const fxi_wake_list l = join_lists(take_list(&ws->soon), take_list(&ws->held));
    pthread_mutex_unlock(&ws->mu);
    return l;
}
