// engine_snapshot.c - taking a snapshot: requests and spans from the engine's lists, chunks,
// segments and nodes from the KV manager, figures as they were published last.
//
// The next snapshot waits until FX_SNAPSHOT_SHARE times the cost of the newest one has passed, and
// at least LEAST_GAP_US. Limits on all lists (FX_MAX_*) bound the cost of one.
#include "engine/engine_snapshot.h"

#include "engine/engine.h"
#include "kv/kv_snapshot.h"

#include <stdlib.h>

enum { LEAST_GAP_US = 100000 };

typedef struct fxi_taken_snapshot {
    fx_snapshot head; // first: what others have of it; its lists lie in the buffers below
    _Atomic unsigned refs;
    fxi_kv_snapshot kv;
    fxi_buf span, request;
} fxi_taken_snapshot;

static void free_taken(fxi_taken_snapshot *t)
{
    fxi_kv_snapshot_free(&t->kv);
    fxi_buf_free(&t->span);
    fxi_buf_free(&t->request);
    free(t);
}

// ---- requests and sequences --------------------------------------------------------------------

static bool add_request_view(fxi_buf *list, const fxi_live_request *r, uint32_t place)
{
    static const uint32_t states[FXI_N_STATE] = {
        [FXI_SWAPPING_OUT] = FX_REQUEST_leaving,
        [FXI_SWAPPED] = FX_REQUEST_away,
        [FXI_SWAPPING_IN] = FX_REQUEST_coming,
        [FXI_RUNNING] = FX_REQUEST_running,
    };
    fx_request_view view = {.id = r->id,
                            .submit_us = r->submit_us,
                            .state = states[r->state],
                            .place = place,
                            .n_prompt = (uint32_t)r->spec.n_prompt,
                            .n_cached = (uint32_t)r->n_cached,
                            .n_seq = (uint32_t)r->n_seq,
                            .max_tok = (uint32_t)r->max_tok,
                            .priority = r->spec.priority};
    for (int i = 0; i < r->n_seq; i++) {
        const fxi_seq *s = &r->seq[i];
        if (s->state != FXI_SEQ_UNBORN) view.n_generated += (uint32_t)fxi_seq_n_generated(s);
    }
    return fxi_buf_add(list, &view, sizeof view);
}

// Adds the requests of a list, and to `seq` their sequences that have a cache. False: no memory.
static bool add_requests(fxi_taken_snapshot *t, fxi_buf *seq, const fxi_request_list *list)
{
    fx_snapshot *h = &t->head;
    uint32_t place = 0;
    bool ok = true;
    for (const fxi_live_request *r = list->head; ok && r; r = r->next) {
        if (r->state == FXI_WAITING) place++;
        if (h->n_all_request++ < FX_MAX_REQUEST_VIEW)
            ok = add_request_view(&t->request, r, r->state == FXI_WAITING ? place : 0);
        for (int i = 0; ok && i < r->n_seq; i++) {
            const fxi_seq *s = &r->seq[i];
            if (s->kv && h->n_all_span++ < FX_MAX_SPAN) ok = fxi_buf_add(seq, &s, sizeof s);
        }
    }
    return ok;
}

static int compare_cached_seqs(const void *a, const void *b)
{
    const fxi_seq *x = *(const fxi_seq *const *)a, *y = *(const fxi_seq *const *)b;
    if (x->request->id != y->request->id) return x->request->id < y->request->id ? -1 : 1;
    return (x->choice > y->choice) - (x->choice < y->choice);
}

// ---- their caches ------------------------------------------------------------------------------

// Has the KV manager fill t->kv for these sequences, and makes their spans. False: no memory.
static bool collect_spans(fxi_taken_snapshot *t, fxi_kv *kv, const fxi_seq *const *seq, size_t n)
{
    const fxi_kv_seq **of = calloc(n + 1, sizeof(const fxi_kv_seq *));
    uint32_t *n_run = calloc(n + 1, sizeof *n_run);
    bool ok = of && n_run;
    for (size_t i = 0; ok && i < n; i++) of[i] = seq[i]->kv;
    t->kv.seq = of;
    t->kv.n_run = n_run;
    t->kv.n_seq = (int)n;
    if (ok) fxi_kv_collect(kv, &t->kv);
    ok = ok && !t->kv.has_failed;
    for (size_t i = 0, run = 0; ok && i < n; run += n_run[i++]) {
        const fxi_seq *s = seq[i];
        const fx_span span = {.request = s->request->id,
                              .choice = (uint32_t)s->choice,
                              .n_tok = (uint32_t)s->n_computed,
                              .n_generating = s->n_tok > (int)s->request->spec.n_prompt,
                              .first_run = run,
                              .n_run = n_run[i]};
        ok = fxi_buf_add(&t->span, &span, sizeof span);
    }
    free(of);
    free(n_run);
    fxi_kv_snapshot_sort(&t->kv);
    return ok;
}

static bool collect_engine(fxi_taken_snapshot *t, fx_engine *eng)
{
    fxi_buf seq = {0}; // of const fxi_seq *
    const bool ok = add_requests(t, &seq, &eng->sched.running) &&
                    add_requests(t, &seq, &eng->sched.waiting) &&
                    add_requests(t, &seq, &eng->sched.aside);
    const size_t n_seq = FXI_N_ROW(const fxi_seq *, &seq);
    fxi_snapshot_sort_rows(&t->request, sizeof(fx_request_view));
    if (n_seq) qsort(seq.p, n_seq, sizeof(const fxi_seq *), compare_cached_seqs);
    const bool done = ok && collect_spans(t, eng->kv, FXI_ROWS(const fxi_seq *, &seq), n_seq);
    fxi_buf_free(&seq);
    return done;
}

static void fill_head(fx_engine *eng, fxi_taken_snapshot *t)
{
    fx_snapshot *h = &t->head;
    h->number = ++eng->snapshots.n_taken;
    h->at_us = fxi_now_us(eng);
    h->manager = eng->kv->ops->name;
    pthread_mutex_lock(&eng->stats.mu);
    eng->stats.now.n_picture = ++eng->stats.now.n_snapshot;
    h->stats = eng->stats.now;
    pthread_mutex_unlock(&eng->stats.mu);
    h->n_group = t->kv.n_group;
    memcpy(h->group, t->kv.group, sizeof h->group);
    memcpy(h->n_chunk, t->kv.n_chunk, sizeof h->n_chunk);
    h->n_all_node = t->kv.n_all_node;
    h->chunk = FXI_ROWS(fx_chunk_run, &t->kv.chunk);
    h->n_chunk_run = FXI_N_ROW(fx_chunk_run, &t->kv.chunk);
    h->segment = FXI_ROWS(fx_segment_run, &t->kv.segment);
    h->n_segment_run = FXI_N_ROW(fx_segment_run, &t->kv.segment);
    h->node = FXI_ROWS(fx_prefix_node, &t->kv.node);
    h->n_node = FXI_N_ROW(fx_prefix_node, &t->kv.node);
    h->span = FXI_ROWS(fx_span, &t->span);
    h->n_span = FXI_N_ROW(fx_span, &t->span);
    h->request = FXI_ROWS(fx_request_view, &t->request);
    h->n_request = FXI_N_ROW(fx_request_view, &t->request);
}

// ---- one after the other -----------------------------------------------------------------------

// Makes `taken`, whose reference it takes over, the newest one, if there are still subscribers, and
// tells of it.
static void publish_taken(fxi_snapshots *s, const fx_snapshot *taken)
{
    const fx_snapshot *drop = taken;
    pthread_mutex_lock(&s->mu);
    if (atomic_load(&s->n_subscriber) > 0) {
        drop = s->newest;
        s->newest = taken;
    }
    pthread_mutex_unlock(&s->mu);
    fx_snapshot_unref(drop);
    pthread_mutex_lock(&s->tell_mu);
    if (s->tell) s->tell(s->tell_ud);
    pthread_mutex_unlock(&s->tell_mu);
}

// Without memory there is none this time; the next one may find some. False then.
static bool take_due_snapshot(fx_engine *eng)
{
    fxi_taken_snapshot *t = calloc(1, sizeof *t);
    if (!t) return false;
    atomic_init(&t->refs, 1);
    const bool ok = collect_engine(t, eng);
    if (!ok) {
        free_taken(t);
        return false;
    }
    fill_head(eng, t);
    publish_taken(&eng->snapshots, &t->head);
    return true;
}

int fxi_snapshot_act(fx_engine *eng)
{
    fxi_snapshots *s = &eng->snapshots;
    if (atomic_load_explicit(&s->n_subscriber, memory_order_relaxed) <= 0) return 0;
    const uint64_t now_us = fxi_now_us(eng);
    const uint64_t gap_us = s->cost_us * FX_SNAPSHOT_SHARE;
    const uint64_t due_us =
        s->taken_us ? s->taken_us + (gap_us > LEAST_GAP_US ? gap_us : LEAST_GAP_US) : 0;
    if (now_us < due_us) return (int)((due_us - now_us) / 1000 + 1);
    const uint64_t start_ns = fxi_thread_cpu_ns();
    s->taken_us = now_us;
    s->cost_us = 0;
    const bool ok = take_due_snapshot(eng);
    const uint64_t took_us = (fxi_thread_cpu_ns() - start_ns) / 1000;
    fx_snapshot_charge(eng, took_us);
    fxi_stats_add(&eng->stats, &eng->stats.now.snapshot_us, took_us);
    fxi_stats_add(&eng->stats, &eng->stats.now.picture_us, took_us);
    return ok ? 0 : LEAST_GAP_US / 1000;
}

// ---- from any thread ---------------------------------------------------------------------------

void fx_snapshot_subscribe(fx_engine *eng)
{
    pthread_mutex_lock(&eng->snapshots.mu);
    atomic_fetch_add(&eng->snapshots.n_subscriber, 1);
    pthread_mutex_unlock(&eng->snapshots.mu);
    fxi_mailbox_signal(&eng->mailbox, &eng->mailbox.wants_snapshot);
}

void fx_snapshot_unsubscribe(fx_engine *eng)
{
    fxi_snapshots *s = &eng->snapshots;
    const fx_snapshot *drop = NULL;
    pthread_mutex_lock(&s->mu);
    if (atomic_fetch_sub(&s->n_subscriber, 1) == 1) {
        drop = s->newest;
        s->newest = NULL;
    }
    pthread_mutex_unlock(&s->mu);
    fx_snapshot_unref(drop);
}

void fx_snapshot_charge(fx_engine *eng, uint64_t us)
{
    eng->snapshots.cost_us += us;
}

const fx_snapshot *fx_snapshot_get(fx_engine *eng, uint64_t after)
{
    fxi_snapshots *s = &eng->snapshots;
    pthread_mutex_lock(&s->mu);
    const fx_snapshot *newer = s->newest && s->newest->number > after ? s->newest : NULL;
    if (newer) atomic_fetch_add(&((fxi_taken_snapshot *)newer)->refs, 1);
    pthread_mutex_unlock(&s->mu);
    return newer;
}

void fx_snapshot_unref(const fx_snapshot *s)
{
    fxi_taken_snapshot *t = (fxi_taken_snapshot *)s;
    if (t && atomic_fetch_sub(&t->refs, 1) == 1) free_taken(t);
}

void fx_engine_on_snapshot(fx_engine *eng, void (*fn)(void *ud), void *ud)
{
    fxi_snapshots *s = &eng->snapshots;
    pthread_mutex_lock(&s->tell_mu);
    s->tell = fn;
    s->tell_ud = ud;
    pthread_mutex_unlock(&s->tell_mu);
}

#define NAME_OF(name) #name,

const char *fx_chunk_state_name(unsigned state)
{
    static const char *const names[] = {FX_CHUNK_STATES(NAME_OF)};
    return state < FX_N_CHUNK_STATE ? names[state] : "?";
}

const char *fx_request_state_name(unsigned state)
{
    static const char *const names[] = {FX_REQUEST_STATES(NAME_OF)};
    return state < FX_N_REQUEST_STATE ? names[state] : "?";
}
