// replay_note.c - what the engine tells while it runs: the load at every pass, each request's first
// and last token.
#include "replay/replay_parts.h"

#include <stdlib.h>

// The KV memory and the sequences now.
static fxi_load_state load_now(const fxi_replay *r)
{
    fxi_kv_stats s;
    fxi_kv_get_stats(r->eng->kv, &s);
    return (fxi_load_state){.n_running = r->eng->sched.running.n_seq,
                            .n_waiting = r->eng->sched.waiting.n_seq + r->eng->sched.aside.n_seq,
                            .kv = {.mapped = (double)s.mapped_bytes,
                                   .live = (double)s.live_bytes,
                                   .used = (double)s.used_bytes,
                                   .reserved = (double)s.reserved_bytes,
                                   .internal = (double)s.internal_bytes,
                                   .external = (double)s.external_bytes,
                                   .cached = (double)s.cached_bytes,
                                   .spare = (double)s.spare_bytes}};
}

void fxi_replay_note_pass(void *replay)
{
    fxi_replay *r = replay;
    const fxi_load_state now = load_now(r);
    fxi_notes_state(&r->notes, fxi_replay_now_us(r), &now);
    r->batch_sum += r->model->n_seq;
}

static void note_last(fxi_replay_client *c, const fx_event *ev, double us)
{
    fxi_replay *r = c->r;
    if (ev->finish == FX_FINISH_ERROR || c->n_output == 0) {
        r->out->n_refused++;
        return;
    }
    r->out->n_prompt_tok += (uint64_t)ev->n_prompt;
    r->out->n_cached_tok += (uint64_t)ev->n_cached;
    r->out->n_output_tok += c->n_all;
    fxi_notes_done(&r->notes, us, c->n_output);
}

void fxi_replay_on_event(void *client, const fx_event *ev)
{
    fxi_replay_client *c = client;
    fxi_replay *r = c->r;
    const double us = fxi_replay_now_us(r) - c->arrival_us;
    c->n_all += ev->token >= 0;
    if (ev->token >= 0 && ev->choice == 0 && c->n_output++ == 0) fxi_notes_first(&r->notes, us);
    if (!ev->last) return;
    note_last(c, ev, us);
    r->n_open--;
    free(c);
}

fx_status fxi_replay_finish(fxi_replay *r, fx_error *err)
{
    fxi_replay_figures *f = r->out;
    f->n_pass = r->model->n_pass;
    f->mean_batch = f->n_pass ? r->batch_sum / (double)f->n_pass : 0;
    f->driver_s = (r->memory->owner_us - r->open_us) / 1e6;
    f->n_preempt_recompute = r->eng->stats.now.n_preempt_recompute;
    f->n_preempt_swap = r->eng->stats.now.n_preempt_swap;
    return fxi_notes_end(&r->notes, fxi_replay_now_us(r), err);
}
