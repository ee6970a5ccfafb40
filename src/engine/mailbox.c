// mailbox.c - see mailbox.h.
#include "engine/mailbox.h"

#include <time.h>

#define OTHERS_SHARE 8 // an eighth of the queue, beyond its limit, is for clients with little in it

static bool by_id(const fxi_treap_node *a, const fxi_treap_node *b)
{
    return FXI_TREAP_OF(a, fxi_live_request, live_at)->id <
           FXI_TREAP_OF(b, fxi_live_request, live_at)->id;
}

int fxi_mailbox_init(fxi_mailbox *m, uint64_t seed)
{
    pthread_condattr_t attr;
    m->live = (fxi_treap){.before = by_id, .seed = seed};
    int rc = pthread_condattr_init(&attr);
    if (rc) return rc;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = pthread_mutex_init(&m->mu, NULL);
    if (!rc) rc = pthread_cond_init(&m->wake, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}

void fxi_mailbox_free(fxi_mailbox *m)
{
    pthread_mutex_destroy(&m->mu);
    pthread_cond_destroy(&m->wake);
}

// ---- any thread --------------------------------------------------------------------------------

// Whether n more of something, of which there are `sum` and of one client `own`, may wait. A client
// that has little there finds room beyond the limit, so that no client fills the queue for others.
static bool has_place(const fxi_live_request *r, int64_t n, int64_t sum, int64_t own, int64_t most)
{
    const int64_t beyond = r->spec.client ? most / OTHERS_SHARE : 0;
    return sum + n <= most || (own + n <= beyond && sum + n <= most + beyond);
}

static fx_status check_queue_locked(const fxi_mailbox *m, const fxi_sched *d,
                                    const fxi_live_request *r, const fx_options *o, fx_error *err)
{
    const fxi_client *c = fxi_clients_find_locked(&d->clients, r->spec.client);
    const int n_own = c ? c->n_queued : 0, n_queued = d->n_queued;
    const int64_t n_own_tok = c ? c->n_queued_tok : 0, n_queued_tok = d->n_queued_tok;
    if (m->is_closing) return fxi_fail(err, FX_ECLOSED, "the engine is shutting down");
    if (!has_place(r, r->n_seq, n_queued, n_own, o->max_queue + o->max_seq))
        return fxi_fail(err, FX_EQUEUE, "%d sequences are waiting already", n_queued);
    if (n_queued &&
        !has_place(r, (int64_t)r->spec.n_prompt, n_queued_tok, n_own_tok, o->max_queue_tok))
        return fxi_fail(err, FX_EQUEUE, "%lld prompt tokens are waiting already",
                        (long long)n_queued_tok);
    return FX_OK;
}

fx_status fxi_mailbox_post(fxi_mailbox *m, fxi_sched *d, fxi_live_request *r,
                           const fx_options *limits, uint64_t *id, fx_error *err)
{
    pthread_mutex_lock(&m->mu);
    const fx_status st = check_queue_locked(m, d, r, limits, err);
    if (st == FX_OK) {
        *id = r->id = ++m->next_id;
        fxi_treap_add(&m->live, &r->live_at);
        *(m->tail ? &m->tail->next_posted : &m->head) = r;
        m->tail = r;
        fxi_clients_enter_locked(&d->clients, r);
        fxi_sched_count_queued(d, r, +1);
        pthread_cond_signal(&m->wake);
    }
    pthread_mutex_unlock(&m->mu);
    return st;
}

fxi_live_request *fxi_mailbox_find_locked(const fxi_mailbox *m, uint64_t id)
{
    const fxi_live_request key = {.id = id};
    fxi_live_request *r =
        FXI_TREAP_OF(fxi_treap_find(&m->live, &key.live_at), fxi_live_request, live_at);
    return r && r->id == id ? r : NULL;
}

void fxi_mailbox_signal(fxi_mailbox *m, atomic_bool *flag)
{
    pthread_mutex_lock(&m->mu);
    if (flag) *flag = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->mu);
}

// ---- engine thread -----------------------------------------------------------------------------

fxi_live_request *fxi_mailbox_take(fxi_mailbox *m)
{
    pthread_mutex_lock(&m->mu);
    fxi_live_request *r = m->head;
    m->head = m->tail = NULL;
    m->has_new_budget = m->wants_snapshot = false;
    pthread_mutex_unlock(&m->mu);
    return r;
}

void fxi_mailbox_forget(fxi_mailbox *m, fxi_sched *d, fxi_live_request *r)
{
    pthread_mutex_lock(&m->mu);
    fxi_treap_remove(&m->live, &r->live_at);
    fxi_clients_leave_locked(&d->clients, r);
    pthread_mutex_unlock(&m->mu);
}

static void wait_locked(fxi_mailbox *m, uint64_t max_us)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(max_us % 1000000 * 1000);
    until.tv_sec += (time_t)(max_us / 1000000) + until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    pthread_cond_timedwait(&m->wake, &m->mu, &until);
}

void fxi_mailbox_wait(fxi_mailbox *m, int max_ms)
{
    pthread_mutex_lock(&m->mu);
    const bool nothing =
        !m->is_closing && !m->head && !m->has_new_budget && !m->must_clear && !m->wants_snapshot;
    if (nothing && max_ms)
        wait_locked(m, 1000ull * (uint64_t)max_ms);
    else if (nothing)
        pthread_cond_wait(&m->wake, &m->mu);
    pthread_mutex_unlock(&m->mu);
}

static bool is_urgent_locked(const fxi_mailbox *m)
{
    bool is_urgent = m->is_closing;
    for (fxi_treap_node *n = fxi_treap_first(&m->live); n && !is_urgent; n = fxi_treap_next(n))
        is_urgent = atomic_load(&FXI_TREAP_OF(n, fxi_live_request, live_at)->cancelled);
    return is_urgent;
}

bool fxi_mailbox_wait_others(fxi_mailbox *m, uint64_t max_us)
{
    pthread_mutex_lock(&m->mu);
    if (!m->head && !is_urgent_locked(m)) wait_locked(m, max_us);
    const bool is_urgent = is_urgent_locked(m);
    pthread_mutex_unlock(&m->mu);
    return !is_urgent;
}
