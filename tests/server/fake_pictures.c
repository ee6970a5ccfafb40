// fake_pictures.c - what the fake engine shows: requests that wait, and nothing else.
#include "server/fake_pictures.h"

#include <pthread.h>
#include <stdlib.h>

#include "server/fake_engine.h"

typedef struct fake_picture {
    fx_picture head; // first
    int n_ref;
    fx_request_view request[];
} fake_picture;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static fake_pictures count;
static uint64_t n_taken, whole_wait_us;
static fake_picture *newest;
static void (*tell)(void *ud);
static void *tell_ud;

static void drop_picture_locked(fake_picture *p)
{
    if (!p || --p->n_ref) return;
    count.n_alive--;
    free(p);
}

fake_pictures fake_pictures_counts(void)
{
    pthread_mutex_lock(&mu);
    const fake_pictures c = count;
    pthread_mutex_unlock(&mu);
    return c;
}

static fake_picture *make_picture_locked(int n_request)
{
    fake_picture *p = calloc(1, sizeof *p + (size_t)n_request * sizeof p->request[0]);
    if (!p) abort();
    for (int i = 0; i < n_request; i++)
        p->request[i] = (fx_request_view){.id = (uint64_t)i + 1, .place = (uint32_t)i + 1};
    p->head.number = ++n_taken;
    p->head.manager = "fake";
    p->head.request = p->request;
    p->head.n_request = (size_t)n_request;
    p->n_ref = 1;
    count.n_alive++;
    return p;
}

void fake_pictures_take(int n_request)
{
    pthread_mutex_lock(&mu);
    const bool is_open = count.n_viewer > 0;
    if (is_open) {
        drop_picture_locked(newest);
        newest = make_picture_locked(n_request);
    }
    void (*fn)(void *) = is_open ? tell : NULL;
    void *ud = tell_ud;
    pthread_mutex_unlock(&mu);
    if (fn) fn(ud);
}

static void count_viewer(int more)
{
    pthread_mutex_lock(&mu);
    count.n_viewer += more;
    if (!count.n_viewer) {
        drop_picture_locked(newest);
        newest = NULL;
    }
    pthread_mutex_unlock(&mu);
}

void fx_picture_begin(fx_engine *e)
{
    (void)e;
    count_viewer(1);
}

void fx_picture_end(fx_engine *e)
{
    (void)e;
    count_viewer(-1);
}

void fx_picture_charge(fx_engine *e, uint64_t us)
{
    (void)e;
    pthread_mutex_lock(&mu);
    count.charged_us += us;
    pthread_mutex_unlock(&mu);
}

void fx_picture_charge_whole(fx_engine *e, uint64_t us)
{
    (void)e;
    pthread_mutex_lock(&mu);
    count.whole_us += us;
    pthread_mutex_unlock(&mu);
}

uint64_t fx_picture_whole_wait_us(fx_engine *e)
{
    (void)e;
    pthread_mutex_lock(&mu);
    const uint64_t us = whole_wait_us;
    pthread_mutex_unlock(&mu);
    return us;
}

void fake_pictures_hold_wholes(uint64_t wait_us)
{
    pthread_mutex_lock(&mu);
    whole_wait_us = wait_us;
    pthread_mutex_unlock(&mu);
}

void fx_picture_want(fx_engine *e)
{
    (void)e;
    pthread_mutex_lock(&mu);
    count.n_want++;
    pthread_mutex_unlock(&mu);
}

const fx_picture *fx_picture_get(fx_engine *e, uint64_t after)
{
    (void)e;
    pthread_mutex_lock(&mu);
    fake_picture *p = newest && newest->head.number > after ? newest : NULL;
    if (p) p->n_ref++;
    pthread_mutex_unlock(&mu);
    return p ? &p->head : NULL;
}

void fx_picture_ref(const fx_picture *p)
{
    pthread_mutex_lock(&mu);
    if (p) ((fake_picture *)p)->n_ref++;
    pthread_mutex_unlock(&mu);
}

void fx_picture_unref(const fx_picture *p)
{
    pthread_mutex_lock(&mu);
    drop_picture_locked((fake_picture *)p);
    pthread_mutex_unlock(&mu);
}

void fx_engine_on_picture(fx_engine *e, void (*fn)(void *ud), void *ud)
{
    (void)e;
    pthread_mutex_lock(&mu);
    tell = fn;
    tell_ud = ud;
    pthread_mutex_unlock(&mu);
}

const char *fx_request_state_name(unsigned state)
{
    (void)state;
    return "?";
}
