// paint.c - a picture of the engine: requests and spans from the groups, chunks, segments and nodes
// from the KV manager, figures as they were published last.
//
// How often that is done is picture_budget.h's to say.
#include "engine/picture/paint.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)FX_N_CHUNK_STATE == (int)FXI_KV_N_CHUNK_STATE, "one list, in two rooms");
_Static_assert((int)FX_MAX_CHUNK_GROUP == FXI_MAX_RANK * FXI_KV_MAX_GROUP, "room for all");
_Static_assert(FX_SWAP_CHUNK == FXI_KV_SWAP_CHUNK, "one name, in two rooms");

// Which span shows the cache of a sequence.
typedef struct span_of_cache {
    const fxi_kv_seq *kv;
    size_t index;
} span_of_cache;

typedef struct painting {
    fxi_exhibit *p;
    fxi_buf cache;    // of span_of_cache, by address once complete
    fxi_buf node;     // of fx_prefix_node: new or different; all of them, if
    bool nodes_anew;  // the manager says so
    fxi_buf gone;     // ids of nodes
    span_of_cache at; // found last
    bool chunks_rise; // so far, the names of chunks have grown,
    bool nodes_rise;  // and those of nodes
    bool ok;          // there was memory
} painting;

#define ITEMS(type, buf) ((type *)(void *)(buf)->p)
#define COUNT(type, buf) ((buf)->n / sizeof(type))

static void keep_item(painting *to, fxi_buf *list, const void *item, size_t n_bytes)
{
    to->ok = to->ok && fxi_buf_add(list, item, n_bytes);
}

static void sort_items(fxi_buf *list, size_t item_bytes, int (*compare)(const void *, const void *))
{
    if (list->n) qsort(list->p, list->n / item_bytes, item_bytes, compare);
}

// ---- requests and spans ------------------------------------------------------------------------

static uint32_t view_state(const fxi_live_request *g)
{
    static const uint32_t states[FXI_N_STATE] = {
        [FXI_SWAPPING_OUT] = FX_REQUEST_leaving,
        [FXI_SWAPPED] = FX_REQUEST_away,
        [FXI_SWAPPING_IN] = FX_REQUEST_coming,
        [FXI_RUNNING] = FX_REQUEST_running,
    };
    return states[g->state];
}

static void paint_span(painting *to, const fxi_seq *s)
{
    const fx_span span = {.request = s->request->id,
                          .choice = (uint32_t)s->choice,
                          .n_tok = (uint32_t)s->n_computed,
                          .n_generating = s->n_tok > (int)s->request->spec.n_prompt};
    const span_of_cache of = {s->kv, COUNT(fx_span, &to->p->span)};
    keep_item(to, &to->p->span, &span, sizeof span);
    keep_item(to, &to->cache, &of, sizeof of);
}

static void paint_group(painting *to, const fxi_live_request *g, uint32_t place)
{
    fx_request_view view = {.id = g->id,
                            .submit_us = g->submit_us,
                            .state = view_state(g),
                            .place = place,
                            .n_prompt = (uint32_t)g->spec.n_prompt,
                            .n_cached = (uint32_t)g->n_cached,
                            .n_seq = (uint32_t)g->n_seq,
                            .max_tok = (uint32_t)g->max_tok,
                            .priority = g->spec.priority};
    for (int i = 0; i < g->n_seq; i++) {
        const fxi_seq *s = &g->seq[i];
        if (s->state != FXI_SEQ_UNBORN) view.n_generated += (uint32_t)fxi_seq_n_generated(s);
    }
    keep_item(to, &to->p->request, &view, sizeof view);
}

static void paint_groups(painting *to, const fxi_request_list *l)
{
    uint32_t place = 0;
    for (const fxi_live_request *g = l->head; g; g = g->next)
        paint_group(to, g, g->state == FXI_WAITING ? ++place : 0);
}

static int compare_requests(const void *a, const void *b)
{
    const fx_request_view *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static void paint_spans_of(painting *to, const fxi_request_list *l)
{
    for (const fxi_live_request *g = l->head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++)
            if (g->seq[i].kv) paint_span(to, &g->seq[i]);
}

static int compare_spans(const void *a, const void *b)
{
    const fx_span *x = a, *y = b;
    if (x->request != y->request) return x->request < y->request ? -1 : 1;
    return (x->choice > y->choice) - (x->choice < y->choice);
}

static int compare_caches(const void *a, const void *b)
{
    const span_of_cache *x = a, *y = b;
    return (x->kv > y->kv) - (x->kv < y->kv);
}

static void paint_engine(painting *to, const fx_engine *eng)
{
    paint_groups(to, &eng->sched.running);
    paint_groups(to, &eng->sched.waiting);
    paint_groups(to, &eng->sched.aside);
    paint_spans_of(to, &eng->sched.running);
    paint_spans_of(to, &eng->sched.waiting);
    paint_spans_of(to, &eng->sched.aside);
    sort_items(&to->p->request, sizeof(fx_request_view), compare_requests);
    sort_items(&to->cache, sizeof(span_of_cache), compare_caches);
}

// ---- what the KV manager shows -----------------------------------------------------------------

static void show_group(void *ud, uint64_t chunk_bytes, int chunk_tok, int device)
{
    fx_picture *p = &((painting *)ud)->p->head;
    if (p->n_group < FX_MAX_CHUNK_GROUP)
        p->group[p->n_group++] = (fx_chunk_group){.chunk_bytes = chunk_bytes,
                                                  .chunk_tok = (uint32_t)chunk_tok,
                                                  .device = (uint32_t)device};
}

static void show_chunk(void *ud, int group, uint64_t chunk, uint32_t n, fxi_kv_chunk_state state)
{
    painting *to = ud;
    fxi_buf *list = &to->p->chunk;
    fx_chunk_run *last = list->n ? ITEMS(fx_chunk_run, list) + COUNT(fx_chunk_run, list) - 1 : NULL;
    if (last && last->first + last->n == chunk && last->state == state && last->group == group) {
        last->n += n;
        return;
    }
    to->chunks_rise = to->chunks_rise && (!last || last->first < chunk);
    const fx_chunk_run run = {chunk, n, (uint16_t)group, (uint16_t)state};
    keep_item(to, list, &run, sizeof run);
}

// The span of a cache; NULL: its sequence is in no list.
static fx_span *find_span(painting *to, const fxi_kv_seq *s)
{
    if (to->at.kv != s) {
        const span_of_cache key = {.kv = s}, *found = NULL;
        if (to->cache.n)
            found = bsearch(&key, to->cache.p, COUNT(span_of_cache, &to->cache), sizeof key,
                            compare_caches);
        if (!found) return NULL;
        to->at = *found;
    }
    return ITEMS(fx_span, &to->p->span) + to->at.index;
}

static void show_segment(void *ud, const fxi_kv_seq *s, int group, int at, uint64_t chunk,
                         uint32_t n)
{
    painting *to = ud;
    fxi_buf *list = &to->p->segment;
    fx_span *span = to->ok ? find_span(to, s) : NULL;
    if (!span) return;
    if (!span->n_run) span->first_run = COUNT(fx_segment_run, list);
    fx_segment_run *last =
        span->n_run ? ITEMS(fx_segment_run, list) + span->first_run + span->n_run - 1 : NULL;
    if (last && last->chunk + last->n == chunk && last->at + last->n == (uint32_t)at &&
        last->group == (uint64_t)group) {
        last->n += n;
        return;
    }
    const fx_segment_run run = {chunk, (uint32_t)at, n, (uint64_t)group};
    span->n_run++;
    keep_item(to, list, &run, sizeof run);
}

static void show_node(void *ud, const fxi_kv_node *node)
{
    painting *to = ud;
    const fx_prefix_node shown = {.id = node->id,
                                  .parent = node->parent_id,
                                  .domain = node->domain_id,
                                  .held_bytes = node->held_bytes,
                                  .n_tok = (uint32_t)node->n_tok,
                                  .n_seq = (uint32_t)node->n_seq};
    const fxi_buf *list = &to->node;
    const fx_prefix_node *last =
        list->n ? ITEMS(fx_prefix_node, list) + COUNT(fx_prefix_node, list) - 1 : NULL;
    to->nodes_rise = to->nodes_rise && (!last || last->id < node->id);
    keep_item(to, &to->node, &shown, sizeof shown);
}

static void show_all_nodes(void *ud)
{
    ((painting *)ud)->nodes_anew = true;
}

static void show_gone_node(void *ud, uint64_t id)
{
    painting *to = ud;
    keep_item(to, &to->gone, &id, sizeof id);
}

static int compare_chunks(const void *a, const void *b)
{
    const fx_chunk_run *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static int compare_nodes(const void *a, const void *b)
{
    const fx_prefix_node *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static bool paint_memory(painting *to, fxi_kv *kv)
{
    const fxi_kv_painter painter = {.ud = to,
                                    .group = show_group,
                                    .chunk = show_chunk,
                                    .segment = show_segment,
                                    .nodes_anew = show_all_nodes,
                                    .gone_node = show_gone_node,
                                    .node = show_node};
    if (fxi_kv_paint(kv, &painter) != FX_OK) return false;
    if (!to->chunks_rise) sort_items(&to->p->chunk, sizeof(fx_chunk_run), compare_chunks);
    if (!to->nodes_rise) sort_items(&to->node, sizeof(fx_prefix_node), compare_nodes);
    // Not before: caches know their spans by number.
    sort_items(&to->p->span, sizeof(fx_span), compare_spans);
    return to->ok;
}

// Brings the engine's list of nodes up to date. False: no memory.
static bool change_nodes(const painting *from, fxi_mosaic *m)
{
    bool ok = true;
    if (from->nodes_anew)
        return fxi_mosaic_set(m, ITEMS(fx_prefix_node, &from->node),
                              COUNT(fx_prefix_node, &from->node));
    for (size_t i = 0; ok && i < COUNT(uint64_t, &from->gone); i++)
        ok = fxi_mosaic_drop(m, ITEMS(uint64_t, &from->gone)[i]);
    for (size_t i = 0; ok && i < COUNT(fx_prefix_node, &from->node); i++)
        ok = fxi_mosaic_put(m, ITEMS(fx_prefix_node, &from->node) + i);
    return ok;
}

// ---- the whole ---------------------------------------------------------------------------------

static void fill_head(fx_engine *eng, fxi_exhibit *p)
{
    fx_picture *h = &p->head;
    h->number = ++eng->gallery.n_taken;
    h->at_us = fxi_now_us(eng);
    h->manager = eng->kv->ops->name;
    pthread_mutex_lock(&eng->stats.mu);
    eng->stats.now.n_picture++;
    h->stats = eng->stats.now;
    pthread_mutex_unlock(&eng->stats.mu);
    h->chunk = ITEMS(fx_chunk_run, &p->chunk);
    h->n_chunk_run = COUNT(fx_chunk_run, &p->chunk);
    h->span = ITEMS(fx_span, &p->span);
    h->n_span = COUNT(fx_span, &p->span);
    h->segment = ITEMS(fx_segment_run, &p->segment);
    h->n_segment_run = COUNT(fx_segment_run, &p->segment);
    h->request = ITEMS(fx_request_view, &p->request);
    h->n_request = COUNT(fx_request_view, &p->request);
}

static bool hang_nodes(fx_picture *h, const fxi_mosaic *m)
{
    h->node = fxi_mosaic_share(m);
    h->n_node_block = h->node ? m->n : 0;
    h->n_node = m->n_node;
    return h->node != NULL;
}

static void watch_nodes(fx_engine *eng, bool is_on)
{
    eng->gallery.is_watching = is_on;
    fxi_kv_watch_nodes(eng->kv, is_on);
    fxi_mosaic_clear(&eng->gallery.nodes);
}

// Without memory there is no picture now; the next one may find some, and begins anew.
static void take_picture(fx_engine *eng)
{
    fxi_gallery *g = &eng->gallery;
    painting to = {.p = fxi_exhibit_make(), .chunks_rise = true, .nodes_rise = true, .ok = true};
    if (!to.p) return;
    if (!g->is_watching) watch_nodes(eng, true);
    paint_engine(&to, eng);
    const bool ok = to.ok && paint_memory(&to, eng->kv) && change_nodes(&to, &g->nodes) &&
                    hang_nodes(&to.p->head, &g->nodes);
    fxi_buf_free(&to.cache);
    fxi_buf_free(&to.node);
    fxi_buf_free(&to.gone);
    if (ok) {
        fill_head(eng, to.p);
        fxi_gallery_hang(g, to.p);
    } else {
        fx_picture_unref(&to.p->head);
        watch_nodes(eng, false);
    }
}

// The first one after nobody has looked costs more, and comes with a whole one.
static uint64_t picture_due_us(fxi_gallery *g, uint64_t now_us, bool *is_first)
{
    pthread_mutex_lock(&g->mu);
    *is_first = !g->newest;
    const uint64_t gap_us = fxi_picture_budget_gap_us(&g->budget),
                   wait_us = fxi_picture_budget_whole_wait_us(&g->budget, now_us),
                   due_us = g->taken_us ? g->taken_us + gap_us : 0;
    pthread_mutex_unlock(&g->mu);
    return *is_first && due_us < now_us + wait_us ? now_us + wait_us : due_us;
}

static void charge_taking(fx_engine *eng, bool is_first, uint64_t took_us)
{
    fxi_gallery *g = &eng->gallery;
    pthread_mutex_lock(&g->mu);
    if (is_first)
        fxi_picture_budget_charge_whole(&g->budget, g->taken_us, took_us);
    else
        fxi_picture_budget_charge(&g->budget, took_us);
    pthread_mutex_unlock(&g->mu);
    pthread_mutex_lock(&eng->stats.mu);
    eng->stats.now.picture_us += took_us;
    pthread_mutex_unlock(&eng->stats.mu);
}

static void take_timed_picture(fx_engine *eng, uint64_t now_us, bool is_first)
{
    fxi_gallery *g = &eng->gallery;
    const uint64_t start_ns = fxi_thread_cpu_ns();
    g->taken_us = now_us;
    pthread_mutex_lock(&g->mu);
    fxi_picture_budget_begin(&g->budget, now_us);
    pthread_mutex_unlock(&g->mu);
    take_picture(eng);
    charge_taking(eng, is_first, (fxi_thread_cpu_ns() - start_ns) / 1000);
}

int fxi_picture_act(fx_engine *eng)
{
    fxi_gallery *g = &eng->gallery;
    if (!fxi_gallery_is_open(g)) {
        if (g->is_watching) watch_nodes(eng, false);
        return 0;
    }
    bool is_first;
    const uint64_t now_us = fxi_now_us(eng), due_us = picture_due_us(g, now_us, &is_first);
    if (now_us < due_us) return (int)((due_us - now_us) / 1000 + 1);
    take_timed_picture(eng, now_us, is_first);
    return 0;
}

// ---- from any thread ---------------------------------------------------------------------------

static void count_viewers(fx_engine *eng, int more)
{
    fxi_gallery *g = &eng->gallery;
    pthread_mutex_lock(&g->mu);
    fxi_exhibit *drop = NULL;
    if (atomic_fetch_add(&g->n_viewer, more) + more == 0) {
        drop = g->newest;
        g->newest = NULL;
    }
    pthread_mutex_unlock(&g->mu);
    fx_picture_unref(drop ? &drop->head : NULL);
}

void fx_picture_want(fx_engine *eng)
{
    fxi_mailbox_signal(&eng->mailbox, &eng->mailbox.wants_picture);
}

void fx_picture_begin(fx_engine *eng)
{
    count_viewers(eng, 1);
    fx_picture_want(eng);
}

void fx_picture_charge(fx_engine *eng, uint64_t us)
{
    fxi_gallery *g = &eng->gallery;
    pthread_mutex_lock(&g->mu);
    fxi_picture_budget_charge(&g->budget, us);
    pthread_mutex_unlock(&g->mu);
}

void fx_picture_charge_whole(fx_engine *eng, uint64_t us)
{
    fxi_gallery *g = &eng->gallery;
    const uint64_t now_us = fxi_now_us(eng);
    pthread_mutex_lock(&g->mu);
    fxi_picture_budget_charge_whole(&g->budget, now_us, us);
    pthread_mutex_unlock(&g->mu);
}

uint64_t fx_picture_whole_wait_us(fx_engine *eng)
{
    fxi_gallery *g = &eng->gallery;
    const uint64_t now_us = fxi_now_us(eng);
    pthread_mutex_lock(&g->mu);
    const uint64_t wait_us = fxi_picture_budget_whole_wait_us(&g->budget, now_us);
    pthread_mutex_unlock(&g->mu);
    return wait_us;
}

void fx_picture_end(fx_engine *eng)
{
    count_viewers(eng, -1);
}

const fx_picture *fx_picture_get(fx_engine *eng, uint64_t after)
{
    fxi_gallery *g = &eng->gallery;
    pthread_mutex_lock(&g->mu);
    fxi_exhibit *p = g->newest && g->newest->head.number > after ? g->newest : NULL;
    if (p) atomic_fetch_add(&p->refs, 1);
    pthread_mutex_unlock(&g->mu);
    return p ? &p->head : NULL;
}

void fx_engine_on_picture(fx_engine *eng, void (*fn)(void *ud), void *ud)
{
    fxi_gallery *g = &eng->gallery;
    pthread_mutex_lock(&g->tell_mu);
    g->tell = fn;
    g->tell_ud = ud;
    pthread_mutex_unlock(&g->tell_mu);
}
