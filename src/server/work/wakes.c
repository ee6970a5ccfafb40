// wakes.c - two lists, and the moment before which one of them is not taken.
#include "server/work/wakes.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail

#define SEND_S 10e-6 // a short send to the same machine, with its reader's wake-up, caches cold

void fxi_wakes_open(fxi_wakes *ws)
{
    *ws = (fxi_wakes){.alarm_fd = -1};
    pthread_mutex_init(&ws->mu, NULL);
    pthread_cond_init(&ws->told, NULL);
}

void fxi_wakes_close(fxi_wakes *ws)
{
    pthread_cond_destroy(&ws->told);
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

// ---- the sender -------------------------------------------------------------------------------

static void *sender_main(void *ud)
{
    fxi_wakes *ws = ud;
    pthread_mutex_lock(&ws->mu);
    while (!ws->stop) {
        if (!ws->is_told) {
            pthread_cond_wait(&ws->told, &ws->mu);
            continue;
        }
        ws->is_told = false;
        pthread_mutex_unlock(&ws->mu);
        ws->send(ws->send_ud);
        pthread_mutex_lock(&ws->mu);
    }
    pthread_mutex_unlock(&ws->mu);
    return NULL;
}

fx_status fxi_wakes_start_sender(fxi_wakes *ws, void (*send)(void *ud), void *ud, fx_error *err)
{
    ws->send = send;
    ws->send_ud = ud;
    const int e = pthread_create(&ws->sender, NULL, sender_main, ws);
    if (e) return fxi_fail(err, FX_EINTERNAL, "cannot start a thread: %s", strerror(e));
    pthread_mutex_lock(&ws->mu);
    ws->has_sender = true;
    pthread_mutex_unlock(&ws->mu);
    return FX_OK;
}

void fxi_wakes_stop_sender(fxi_wakes *ws)
{
    pthread_mutex_lock(&ws->mu);
    const bool has_sender = ws->has_sender;
    ws->has_sender = false;
    ws->stop = true;
    pthread_cond_signal(&ws->told);
    pthread_mutex_unlock(&ws->mu);
    if (has_sender) pthread_join(ws->sender, NULL);
}

bool fxi_wakes_tell(fxi_wakes *ws, double now_s)
{
    pthread_mutex_lock(&ws->mu);
    const bool has_sender = ws->has_sender;
    if (has_sender && (ws->soon.n || (ws->held.n && now_s >= ws->next_s))) {
        ws->is_told = true;
        pthread_cond_signal(&ws->told);
    } else if (has_sender) {
        alarm_locked(ws);
    }
    pthread_mutex_unlock(&ws->mu);
    return has_sender;
}
