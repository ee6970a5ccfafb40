// fake_views.c - what the fake engine shows apart from snapshots: made-up statistics and events.
#include "server/fake_engine.h"

void fx_engine_details(const fx_engine *e, fx_details *out)
{
    (void)e;
    *out = (fx_details){.kv[FX_KV_extend] = {5, 1, 2500000000}};
    out->step_tok.count[3] = 7;
    out->step_tok.sum = 50;
}

// What a request of two choices makes, after 7 events that are lost; one step goes on.
size_t fx_record_copy(const fx_engine *e, uint64_t from, fx_record *out, size_t max_n,
                      uint64_t *first)
{
    static const fx_record events[] = {
        {.kind = FX_RECORD_arrive, .at_us = 1000, .request = 9, .n_tok = 5, .n = 2},
        {.kind = FX_RECORD_match, .at_us = 1010, .took_ns = 2500, .request = 9, .n = 1},
        {.kind = FX_RECORD_admit, .at_us = 1010, .request = 9, .n_tok = 5, .n = 2},
        {.kind = FX_RECORD_step_begin, .at_us = 1020, .n_tok = 5, .n = 1},
        {.kind = FX_RECORD_step_end, .at_us = 2020, .n_tok = 2},
        {.kind = FX_RECORD_release, .at_us = 2030, .request = 9, .n_tok = 6, .n = 1},
        {.kind = FX_RECORD_finish, .at_us = 2040, .request = 9, .n_tok = 5, .n = 2, .finish = 1},
        {.kind = FX_RECORD_step_begin, .at_us = 2050, .n_tok = 1, .n = 1},
        {.kind = FX_RECORD_evict, .at_us = 2060, .n = 3},
        {.kind = FX_RECORD_memory, .at_us = 2060, .mapped_kib = 64, .live_kib = 40},
    };
    const uint64_t n_lost = 7, end = n_lost + sizeof events / sizeof events[0];
    (void)e;
    *first = from < n_lost ? n_lost : from < end ? from : end;
    size_t n = 0;
    for (uint64_t k = *first; k < end && n < max_n; k++) out[n++] = events[k - n_lost];
    return n;
}

const char *fx_record_name(int kind)
{
#define RECORD_NAME(name) #name,
    static const char *const names[] = {FX_RECORDS(RECORD_NAME)};
#undef RECORD_NAME
    return names[kind];
}
