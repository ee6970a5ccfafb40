// scale_world.c - see scale_world.h.
#include "unit/cmocka_all.h"

#include "unit/engine/sim/scale_world.h"

#include "base/number/rng.h"
#include "engine/iteration.h"
#include "vtensor/core/mapper.h"

#include <stdlib.h>

#define TIB (UINT64_C(1) << 40)

// ---- counted work ------------------------------------------------------------------------------

static uint64_t n_block;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    n_block++;
}

// What the manager's thread would do is not the owner's.
bool __real_vti_mapper_work(vti_mapper_thread *mt);
bool __wrap_vti_mapper_work(vti_mapper_thread *mt);
bool __wrap_vti_mapper_work(vti_mapper_thread *mt)
{
    const uint64_t before = n_block;
    const bool did = __real_vti_mapper_work(mt);
    n_block = before;
    return did;
}

uint64_t scale_work(void)
{
    return n_block;
}

// ---- requests ----------------------------------------------------------------------------------

static int32_t token_of(uint64_t text, int i)
{
    return (int32_t)(1 + fxi_rng_u64(text, 0, (uint64_t)i) % (FXI_SIMULATED_VOCAB - 1));
}

// What the simulated model says after a token at a position.
static int32_t token_after(int32_t tok, int pos)
{
    return (int32_t)(fxi_rng_u64((uint64_t)pos << 32 | (uint32_t)tok, 0, 0) % FXI_SIMULATED_VOCAB);
}

static void note_wrong(scale_world *w, bool is_right, const char *what)
{
    if (!is_right && !w->wrong) w->wrong = what;
}

static void end_ask(scale_ask *a, const fx_event *ev)
{
    scale_world *w = a->w;
    const uint64_t took = w->iteration - a->asked_at, own = (uint64_t)a->max_tok;
    const bool is_cut = ev->finish == FX_FINISH_CANCEL || ev->finish == FX_FINISH_ABORT;
    note_wrong(w, is_cut || ev->finish == FX_FINISH_LENGTH, "an answer ends otherwise");
    note_wrong(w, is_cut || a->n_got == a->max_tok, "an answer has fewer tokens than it should");
    if (!is_cut && took > own && took - own > w->longest) w->longest = took - own;
    w->n_ended++;
    w->n_cut += is_cut;
    free(a);
}

static void on_event(void *ud, const fx_event *ev)
{
    scale_ask *a = ud;
    scale_world *w = a->w;
    if (ev->token >= 0) {
        const int pos = a->n_prompt + a->n_got;
        note_wrong(w, ev->position == pos, "a token has another position");
        note_wrong(w, ev->token == token_after(a->last_tok, pos - 1), "a token is wrong");
        a->last_tok = ev->token;
        a->n_got++;
        note_wrong(w, a->n_got <= a->max_tok, "an answer has more tokens than it should");
    }
    if (ev->last) end_ask(a, ev);
}

uint64_t scale_ask_for(scale_world *w, int doc, int n_doc_tok, int n_own_tok, int max_tok)
{
    scale_ask *a = calloc(1, sizeof *a);
    fx_error err = {0};
    uint64_t id = 0;
    assert_non_null(a);
    const int n = n_doc_tok + n_own_tok;
    const uint64_t own = (UINT64_C(1) << 32) + w->n_made++;
    for (int i = 0; i < n_doc_tok; i++) w->tok[i] = token_of((uint64_t)doc, i);
    for (int i = n_doc_tok; i < n; i++) w->tok[i] = token_of(own, i);
    *a = (scale_ask){.w = w,
                     .last_tok = w->tok[n - 1],
                     .n_prompt = n,
                     .max_tok = max_tok,
                     .asked_at = w->iteration};
    fx_request q = fx_request_default();
    q.prompt = w->tok;
    q.n_prompt = (size_t)n;
    q.max_tok = max_tok;
    q.ignore_eos = true;
    q.sampling.temperature = 0;
    q.on_event = on_event;
    q.ud = a;
    if (fx_submit(w->r.eng, &q, &id, &err) != FX_OK) fail_msg("%s", err.text);
    w->n_asked++;
    return id;
}

// ---- the world ---------------------------------------------------------------------------------

static uint64_t look_at_clock(void *ud)
{
    return ((scale_world *)ud)->clock_us;
}

// Two planes; 64 tokens of both fill a chunk.
static fxi_geometry geometry_for(const scale_size *size)
{
    const int row_numbers = (int)(size->chunk_bytes / SCALE_BLOCK_TOK / 2 / 2);
    return (fxi_geometry){"scale", 1, 64, 1, 1, row_numbers, 1e6, size->ctx_tok + 4096};
}

static void open_engine(scale_world *w)
{
    fx_error err = {0};
    w->opt = fxi_replay_options_start();
    w->device = *w->opt.device;
    w->device.costs = (fxi_memory_costs){0};
    w->geometry = geometry_for(&w->size);
    w->opt.device = &w->device;
    w->opt.geometry = &w->geometry;
    w->opt.page_bytes = w->size.chunk_bytes;
    w->opt.engine.kv_block_tok = SCALE_BLOCK_TOK;
    w->opt.engine.max_seq = w->size.n_seq;
    w->opt.engine.step_tok = 1 << 20;
    w->opt.engine.swap_bytes = (uint64_t)w->size.chunk_bytes << 19; // far more than is ever swapped
    w->opt.engine.kv_memory_bytes = w->size.kv_bytes ? w->size.kv_bytes : 8 * TIB;
    w->r = (fxi_replay){.opt = &w->opt};
    if (fxi_replay_open(&w->r, &err) != FX_OK) fail_msg("%s", err.text);
    w->r.model->before_pass = NULL;
    if (!w->size.keeps_up)
        w->r.eng->kv->ops = w->r.real_ops; // an iteration has one step of the manager
    w->clock_us = 1000000;
    w->r.eng->journal.now_us = look_at_clock;
    w->r.eng->journal.now_ud = w;
}

// Each document is a prompt of its own.
static void record_documents(scale_world *w)
{
    const int n_tok = w->size.ctx_tok / SCALE_BLOCK_TOK * SCALE_BLOCK_TOK;
    for (int n = 0; n < w->size.n_node; n += n_tok / SCALE_BLOCK_TOK)
        (void)scale_ask_for(w, w->n_doc++, n_tok, 0, 1);
    while (w->n_ended < w->n_asked) (void)scale_iteration(w);
    fxi_kv_stats kv;
    fxi_kv_get_stats(w->r.eng->kv, &kv);
}

void scale_forget_long(scale_world *w)
{
    for (int i = 0; i < 200; i++) {
        (void)scale_ask_for(w, 0, 0, 40, 1);
        (void)scale_iteration(w);
    }
    while (w->n_ended < w->n_asked) (void)scale_iteration(w);
}

void scale_open(scale_world *w, scale_size size)
{
    *w = (scale_world){.size = size};
    w->tok = calloc((size_t)size.ctx_tok + 4096, sizeof *w->tok);
    assert_non_null(w->tok);
    open_engine(w);
    record_documents(w);
    scale_check(w, true);
}

uint64_t scale_iteration(scale_world *w)
{
    const uint64_t before = n_block;
    w->iteration++;
    w->clock_us += 20000;
    (void)fxi_iteration_run(w->r.eng);
    return n_block - before;
}

void scale_check(scale_world *w, bool all)
{
    fxi_kv_stats kv;
    const char *what = NULL;
    fxi_kv_get_stats(w->r.eng->kv, &kv);
    if (w->wrong) fail_msg("%s", w->wrong);
    assert_true(kv.mapped_bytes <= kv.budget_bytes + kv.returning_bytes);
    if (all && fxi_kv_check(w->r.eng->kv, &what) != FX_OK) fail_msg("%s", what);
}

void scale_close(scale_world *w)
{
    fxi_iteration_end_all(w->r.eng, FX_FINISH_ABORT);
    scale_check(w, true);
    assert_int_equal(w->n_ended, w->n_asked);
    fxi_replay_close(&w->r);
    free(w->tok);
}
