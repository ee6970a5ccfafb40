// fake_pictures.c - the fake engine takes no pictures.
#include "server/fake_engine.h"

void fx_picture_begin(fx_engine *e)
{
    (void)e;
}

void fx_picture_end(fx_engine *e)
{
    (void)e;
}

const fx_picture *fx_picture_get(fx_engine *e, uint64_t after)
{
    (void)e;
    (void)after;
    return NULL;
}

void fx_picture_ref(const fx_picture *p)
{
    (void)p;
}

void fx_picture_unref(const fx_picture *p)
{
    (void)p;
}

void fx_engine_on_picture(fx_engine *e, void (*fn)(void *ud), void *ud)
{
    (void)e;
    (void)fn;
    (void)ud;
}

const char *fx_request_state_name(unsigned state)
{
    (void)state;
    return "?";
}
