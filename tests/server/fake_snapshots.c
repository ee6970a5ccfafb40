// fake_snapshots.c - snapshots of the fake engine: requests that wait, and nothing else.
#include "server/fake_snapshots.h"

#include <pthread.h>
#include <stdlib.h>

#include "server/fake_engine.h"

typedef struct fake_snapshot {
    fx_snapshot head; // first
    int n_ref;
    fx_request_view request[];
} fake_snapshot;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static fake_snapshots count;
static uint64_t n_taken;
static fake_snapshot *newest;
static void (*tell)(void *ud);
static void *tell_ud;

static void drop_snapshot_locked(fake_snapshot *s)
{
    if (!s || --s->n_ref) return;
    count.n_alive--;
    free(s);
}

fake_snapshots fake_snapshots_counts(void)
{
    pthread_mutex_lock(&mu);
    const fake_snapshots c = count;
    pthread_mutex_unlock(&mu);
    return c;
}

static fake_snapshot *make_snapshot_locked(int n_request)
{
    fake_snapshot *s = calloc(1, sizeof *s + (size_t)n_request * sizeof s->request[0]);
    if (!s) abort();
    for (int i = 0; i < n_request; i++)
        s->request[i] = (fx_request_view){.id = (uint64_t)i + 1, .place = (uint32_t)i + 1};
    s->head.number = ++n_taken;
    s->head.manager = "fake";
    s->head.request = s->request;
    s->head.n_request = s->head.n_all_request = (size_t)n_request;
    s->n_ref = 1;
    count.n_alive++;
    return s;
}

void fake_snapshots_take(int n_request)
{
    pthread_mutex_lock(&mu);
    const bool is_wanted = count.n_subscriber > 0;
    if (is_wanted) {
        drop_snapshot_locked(newest);
        newest = make_snapshot_locked(n_request);
    }
    void (*fn)(void *) = is_wanted ? tell : NULL;
    void *ud = tell_ud;
    pthread_mutex_unlock(&mu);
    if (fn) fn(ud);
}

static void count_subscriber(int more)
{
    pthread_mutex_lock(&mu);
    count.n_subscriber += more;
    if (!count.n_subscriber) {
        drop_snapshot_locked(newest);
        newest = NULL;
    }
    pthread_mutex_unlock(&mu);
}

void fx_snapshot_subscribe(fx_engine *e)
{
    (void)e;
    count_subscriber(1);
}

void fx_snapshot_unsubscribe(fx_engine *e)
{
    (void)e;
    count_subscriber(-1);
}

void fx_snapshot_charge(fx_engine *e, uint64_t us)
{
    (void)e;
    pthread_mutex_lock(&mu);
    count.charged_us += us;
    pthread_mutex_unlock(&mu);
}

const fx_snapshot *fx_snapshot_get(fx_engine *e, uint64_t after)
{
    (void)e;
    pthread_mutex_lock(&mu);
    fake_snapshot *s = newest && newest->head.number > after ? newest : NULL;
    if (s) s->n_ref++;
    pthread_mutex_unlock(&mu);
    return s ? &s->head : NULL;
}

void fx_snapshot_unref(const fx_snapshot *s)
{
    pthread_mutex_lock(&mu);
    drop_snapshot_locked((fake_snapshot *)s);
    pthread_mutex_unlock(&mu);
}

void fx_engine_on_snapshot(fx_engine *e, void (*fn)(void *ud), void *ud)
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
