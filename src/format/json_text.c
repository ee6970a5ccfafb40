// json_text.c - wraps jansson's allocation function in one that records failures.
#include "format/json_text.h"

#include <pthread.h>

static _Thread_local bool failed;
static json_malloc_t usual;

static void *watched_malloc(size_t n)
{
    void *p = usual(n);
    failed |= !p;
    return p;
}

static void install_watch(void)
{
    json_free_t usual_free;
    json_get_alloc_funcs(&usual, &usual_free);
    json_set_alloc_funcs(watched_malloc, usual_free);
}

json_t *fxi_json_text(const char *text, size_t n, size_t flags, bool *no_memory, json_error_t *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_watch);
    failed = false;
    json_t *root = json_loadb(text, n, flags, e);
    *no_memory = failed;
    if (!failed) return root;
    json_decref(root);
    return NULL;
}
