// presets.c - the sampling of requests that say nothing of it.
#include <stddef.h>

#include "flexinfer/flexinfer.h"

fx_presets fx_presets_none(void)
{
    return (fx_presets){
        .temperature = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1, .top_k = -1};
}

void fx_sampling_preset(const fx_model_info *m, const fx_presets *own, fx_sampling *s)
{
    // Small models answer better so than by all of their vocabulary at temperature 1; large ones,
    // whose makers recommend other values, mostly say so in their files.
    static const fx_presets usual = {.temperature = 0.8F, .top_p = 0.95F, .repetition_penalty = 1};
    const fx_presets *const from[] = {&usual, &m->presets, own};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        const fx_presets *p = from[i];
        if (!p) continue;
        if (p->temperature >= 0) s->temperature = p->temperature;
        if (p->top_p > 0) s->top_p = p->top_p;
        if (p->min_p >= 0) s->min_p = p->min_p;
        if (p->repetition_penalty > 0) s->repetition_penalty = p->repetition_penalty;
        if (p->top_k >= 0) s->top_k = p->top_k;
    }
}
