// standin_library.c - see standin_library.h.
#include "standin/library/standin_library.h"

#include <stdlib.h>

#include "standin/state.h"

void standin_library_reset(standin_library *l)
{
    pthread_mutex_lock(&standin_mu);
    l->n_call = l->n_failed = l->fail_at = 0;
    pthread_mutex_unlock(&standin_mu);
}

void standin_library_fail(standin_library *l, uint64_t i, int status)
{
    pthread_mutex_lock(&standin_mu);
    l->fail_at = l->n_call + i + 1;
    l->fail_status = status;
    pthread_mutex_unlock(&standin_mu);
}

uint64_t standin_library_count(standin_library *l, int kind)
{
    uint64_t n = 0;
    pthread_mutex_lock(&standin_mu);
    for (const standin_object *o = l->objects; o; o = o->next) n += kind < 0 || o->kind == kind;
    pthread_mutex_unlock(&standin_mu);
    return n;
}

int standin_library_enter(standin_library *l)
{
    pthread_mutex_lock(&standin_mu);
    if (++l->n_call != l->fail_at) return 0;
    l->n_failed++;
    return l->fail_status;
}

void standin_library_hold(void)
{
    pthread_mutex_lock(&standin_mu);
}

int standin_library_leave(int status)
{
    pthread_mutex_unlock(&standin_mu);
    return status;
}

void *standin_library_make(standin_library *l, int kind, size_t size_bytes)
{
    standin_object *o = calloc(1, size_bytes);
    if (!o) return NULL;
    *o = (standin_object){l->objects, kind};
    return l->objects = o;
}

void *standin_library_find(const standin_library *l, const void *object, int kind)
{
    for (standin_object *o = l->objects; o; o = o->next)
        if (o == object) return kind < 0 || o->kind == kind ? o : NULL;
    return NULL;
}

bool standin_library_drop(standin_library *l, void *object, int kind)
{
    standin_object *o = standin_library_find(l, object, kind), **at = &l->objects;
    if (!o) return false;
    while (*at != o) at = &(*at)->next;
    *at = o->next;
    free(o);
    return true;
}
