// events.c - a bounded ring under a lock.
#include "events.h"

#include <pthread.h>
#include <stdlib.h>

struct vti_events {
    pthread_mutex_t mu; // guards all below
    uint64_t now_ms;
    uint64_t n_added, n_taken; // n_taken: numbers below are taken or overwritten
    uint32_t cap;
    vt_event ring[]; // [cap] event i is at i % cap
};

vt_status vti_events_new(uint32_t n_event, vti_events **out)
{
    vti_events *ev = *out = calloc(1, sizeof *ev + n_event * sizeof ev->ring[0]);
    if (!ev) return VT_ENOMEM;
    ev->cap = n_event;
    pthread_mutex_init(&ev->mu, NULL);
    return VT_OK;
}

void vti_events_free(vti_events *ev)
{
    if (ev) pthread_mutex_destroy(&ev->mu);
    free(ev);
}

void vti_events_clock(vti_events *ev, uint64_t now_ms)
{
    if (!ev) return;
    pthread_mutex_lock(&ev->mu);
    ev->now_ms = now_ms;
    pthread_mutex_unlock(&ev->mu);
}

void vti_events_add(vti_events *ev, vt_event event)
{
    if (!ev) return;
    pthread_mutex_lock(&ev->mu);
    event.number = ev->n_added++;
    event.now_ms = ev->now_ms;
    ev->ring[event.number % ev->cap] = event;
    if (ev->n_added - ev->n_taken > ev->cap) ev->n_taken = ev->n_added - ev->cap;
    pthread_mutex_unlock(&ev->mu);
}

uint32_t vti_events_take(vti_events *ev, vt_event *out, uint32_t max_n)
{
    uint32_t n = 0;
    if (!ev) return 0;
    pthread_mutex_lock(&ev->mu);
    while (n < max_n && ev->n_taken < ev->n_added) out[n++] = ev->ring[ev->n_taken++ % ev->cap];
    pthread_mutex_unlock(&ev->mu);
    return n;
}
