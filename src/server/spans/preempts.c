// preempts.c - a small ring of preemptions: one begins with "preempt" and ends with the next
// "admit", or with "finish".
#include "server/spans/preempts.h"

#include <stddef.h>

enum { PIECE = 256 };

static uint64_t oldest_of_ring(const fxi_preempts *p)
{
    return p->n > FXI_N_PREEMPT ? p->n - FXI_N_PREEMPT : 0;
}

static void begin_preempt(fxi_preempts *p, const fx_record *ev)
{
    p->at[p->n++ % FXI_N_PREEMPT] = (fxi_preempt){
        .request = ev->request, .from_us = ev->at_us, .n_tok = ev->n_tok, .is_swap = ev->is_swap};
}

static void end_preempt(fxi_preempts *p, const fx_record *ev)
{
    for (uint64_t k = p->n; k > oldest_of_ring(p); k--) {
        fxi_preempt *e = &p->at[(k - 1) % FXI_N_PREEMPT];
        if (e->request != ev->request) continue;
        if (!e->to_us) e->to_us = ev->at_us;
        return;
    }
}

void fxi_preempts_follow(fxi_preempts *p, const fx_engine *eng)
{
    fx_record ev[PIECE];
    uint64_t first;
    for (size_t n; (n = fx_record_copy(eng, p->next, ev, PIECE, &first)) > 0; p->next = first + n)
        for (size_t i = 0; i < n; i++) {
            const bool ends = ev[i].kind == FX_RECORD_admit || ev[i].kind == FX_RECORD_finish;
            if (ev[i].kind == FX_RECORD_preempt) begin_preempt(p, &ev[i]);
            if (ends && p->n) end_preempt(p, &ev[i]);
        }
}

const fxi_preempt *fxi_preempts_next(const fxi_preempts *p, uint64_t request, uint64_t *from)
{
    if (*from < oldest_of_ring(p)) *from = oldest_of_ring(p);
    while (*from < p->n) {
        const fxi_preempt *e = &p->at[(*from)++ % FXI_N_PREEMPT];
        if (e->request == request) return e;
    }
    return NULL;
}
