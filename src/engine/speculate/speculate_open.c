// speculate_open.c - what an engine needs to speculate.
#include "engine/speculate/speculate.h"

#include "base/system/clock.h" // defines: fxi_thread_cpu_ns

#include <stdlib.h>
#include <string.h>

enum { PRESET_TOK = 8 };

static const struct source_row {
    const char *name;
    unsigned sources;
} source_rows[] = {
    {"off", 0},
    {"prompt", FXI_SPECULATE_PROMPT},
    {"prefix", FXI_SPECULATE_PREFIX},
    {"auto", FXI_SPECULATE_PROMPT | FXI_SPECULATE_PREFIX},
};

bool fxi_speculate_sources(const char *name, unsigned *sources)
{
    *sources = 0;
    for (size_t i = 0; name && i < sizeof source_rows / sizeof *source_rows; i++)
        if (!strcmp(name, source_rows[i].name)) {
            *sources = source_rows[i].sources;
            return true;
        }
    return !name;
}

fx_status fxi_speculate_open(fx_engine *eng, fx_error *err)
{
    const size_t n = (size_t)eng->opt.max_seq;
    unsigned sources;
    (void)fxi_speculate_sources(eng->opt.speculate, &sources);
    if (!sources && !eng->drafter && !eng->draft_model) return FX_OK;
    fxi_speculator *x = calloc(1, sizeof *x);
    eng->spec = x;
    if (x) {
        x->sources = sources;
        x->most_tok = eng->opt.draft_tok ? eng->opt.draft_tok : PRESET_TOK;
        x->offer = calloc(n, sizeof *x->offer);
        x->seq = calloc(n, sizeof *x->seq);
        x->wish = calloc(n, sizeof *x->wish);
    }
    if (x && x->offer && x->seq && x->wish) return FX_OK;
    return fxi_fail(err, FX_ENOMEM, "no memory for the drafts of %d sequences", eng->opt.max_seq);
}

void fxi_speculate_close(fx_engine *eng)
{
    fxi_speculator *x = eng->spec;
    if (!x) return;
    free(x->offer);
    free(x->seq);
    free(x->wish);
    free(x);
    eng->spec = NULL;
}

uint64_t fxi_speculate_clock_us(const fx_engine *eng)
{
    const bool own_clock = eng->now_us != fxi_monotonic_us;
    if (!eng->spec || !eng->is_on_host || own_clock) return fxi_now_us(eng);
    return fxi_thread_cpu_ns() / 1000;
}
