// gallery.h - who looks at pictures of the engine, and the newest one.
//
// The engine thread takes them (paint.c) and hands them over; any thread looks.
#ifndef FXI_ENGINE_GALLERY_H
#define FXI_ENGINE_GALLERY_H

#include "base/text/buf.h"
#include "engine/picture/mosaic.h"
#include "engine/picture/picture_budget.h"
#include "flexinfer/picture.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct fxi_exhibit {
    fx_picture head; // first; its lists lie in the buffers below, but for its nodes
    _Atomic unsigned refs;
    fxi_buf chunk, span, segment, request;
} fxi_exhibit;

typedef struct fxi_gallery {
    _Atomic int n_viewer;      // changes under mu
    pthread_mutex_t mu;        // a leaf
    fxi_exhibit *newest;       // guarded by mu; NULL: none, or nobody looks
    fxi_picture_budget budget; // guarded by mu
    pthread_mutex_t tell_mu;   // held while `tell` runs
    void (*tell)(void *ud);    // guarded by tell_mu
    void *tell_ud;
    // engine thread
    uint64_t n_taken, taken_us; // when the newest one was taken
    bool is_watching;           // the KV manager notes which nodes change,
    fxi_mosaic nodes;           // and these are all, as of the newest one
} fxi_gallery;

int fxi_gallery_init(fxi_gallery *g); // 0, or an errno
void fxi_gallery_free(fxi_gallery *g);

// A new picture, empty, with one reference. NULL: no memory.
fxi_exhibit *fxi_exhibit_make(void);
// Engine thread: makes *p, which is taken over, the newest one, and tells of it.
void fxi_gallery_hang(fxi_gallery *g, fxi_exhibit *p);

static inline bool fxi_gallery_is_open(const fxi_gallery *g)
{
    return atomic_load_explicit(&g->n_viewer, memory_order_relaxed) > 0;
}

#endif
