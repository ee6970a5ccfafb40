// gallery.c - references, and the newest picture.
#include "engine/picture/gallery.h"

#include <stdlib.h>

int fxi_gallery_init(fxi_gallery *g)
{
    const int rc = pthread_mutex_init(&g->mu, NULL);
    return rc ? rc : pthread_mutex_init(&g->tell_mu, NULL);
}

void fxi_gallery_free(fxi_gallery *g)
{
    fx_picture_unref(g->newest ? &g->newest->head : NULL);
    fxi_mosaic_clear(&g->nodes);
    pthread_mutex_destroy(&g->mu);
    pthread_mutex_destroy(&g->tell_mu);
}

fxi_exhibit *fxi_exhibit_make(void)
{
    fxi_exhibit *p = calloc(1, sizeof *p);
    if (p) atomic_init(&p->refs, 1);
    return p;
}

void fx_picture_ref(const fx_picture *shown)
{
    fxi_exhibit *p = (fxi_exhibit *)shown; // the head is its first member
    if (p) atomic_fetch_add(&p->refs, 1);
}

void fx_picture_unref(const fx_picture *shown)
{
    fxi_exhibit *p = (fxi_exhibit *)shown;
    if (!p || atomic_fetch_sub(&p->refs, 1) > 1) return;
    fxi_buf_free(&p->chunk);
    fxi_buf_free(&p->span);
    fxi_buf_free(&p->segment);
    fxi_blocks_unref(p->head.node, p->head.n_node_block);
    fxi_buf_free(&p->request);
    free(p);
}

static void tell_viewers(fxi_gallery *g)
{
    pthread_mutex_lock(&g->tell_mu);
    if (g->tell) g->tell(g->tell_ud);
    pthread_mutex_unlock(&g->tell_mu);
}

// If the last viewer has gone meanwhile, nobody is to keep it.
void fxi_gallery_hang(fxi_gallery *g, fxi_exhibit *p)
{
    pthread_mutex_lock(&g->mu);
    fxi_exhibit *drop = p;
    if (fxi_gallery_is_open(g)) {
        drop = g->newest;
        g->newest = p;
    }
    pthread_mutex_unlock(&g->mu);
    fx_picture_unref(drop ? &drop->head : NULL);
    tell_viewers(g);
}

const char *fx_chunk_state_name(unsigned state)
{
#define CHUNK_STATE_NAME(name) #name,
    static const char *const names[] = {FX_CHUNK_STATES(CHUNK_STATE_NAME)};
#undef CHUNK_STATE_NAME
    return state < FX_N_CHUNK_STATE ? names[state] : "?";
}

const char *fx_request_state_name(unsigned state)
{
#define REQUEST_STATE_NAME(name) #name,
    static const char *const names[] = {FX_REQUEST_STATES(REQUEST_STATE_NAME)};
#undef REQUEST_STATE_NAME
    return state < FX_N_REQUEST_STATE ? names[state] : "?";
}
