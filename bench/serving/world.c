// world.c - an engine whose steps the bench runs, with probes around the model and the KV manager,
// and the requests of its clients.
//
// A probe is a copy of a table of operations in which some entries are ours; it is the first member
// of a struct that points to the world.
#include "bench_serving.h"

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_serving: %s: %s\n", what, why);
    exit(1);
}

static void must(fx_status st, const char *what, const fx_error *err)
{
    if (st != FX_OK) die(what, err->text);
}

// ---- probes ------------------------------------------------------------------------------------

static void look_in(world *w)
{
    void (*hook)(void *ud) = w->mid_step;
    w->mid_step = NULL;
    if (hook) hook(w->ud);
}

static fx_status probe_forward(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err)
{
    const model_probe *p = (const model_probe *)m->ops;
    world *w = p->w;
    look_in(w);
    const double start = now_ns();
    const fx_status st = p->real->submit(m, batch, logits, err);
    w->now.forward_ns += now_ns() - start;
    w->now.n_seq += batch->n_seq;
    w->now.n_tok += batch->n_tok;
    return st;
}

static bool needs_chunk(const kv_probe *p, const fxi_kv *kv, int len_tok)
{
    return p->real->bytes_for(kv, len_tok) != p->real->bytes_for(kv, len_tok - 1);
}

static fx_status probe_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    const kv_probe *p = (const kv_probe *)kv->ops;
    world *w = p->w;
    const double start = now_ns();
    fx_status st = p->real->seq_extend(kv, s, len_tok);
    const double ns = now_ns() - start;
    w->now.extend_ns += ns;
    if (w->every) samples_add(w->every, ns);
    if (w->into && needs_chunk(p, kv, len_tok)) samples_add(w->into, ns);
    return st;
}

static void probe_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    const kv_probe *p = (const kv_probe *)kv->ops;
    const double start = now_ns();
    p->real->step(kv, ahead_tok, now_ms);
    p->w->now.kvstep_ns += now_ns() - start;
}

static void put_probes(world *w)
{
    fxi_model *m = w->eng->model;
    fxi_kv *kv = w->eng->kv;
    w->model = (model_probe){*m->ops, m->ops, w};
    w->model.ops.submit = probe_forward;
    m->ops = &w->model.ops;
    w->kv = (kv_probe){*kv->ops, kv->ops, w};
    w->kv.ops.seq_extend = probe_extend;
    w->kv.ops.seq_extend_many = NULL; // each extend is timed by itself
    w->kv.ops.step = probe_step;
    kv->ops = &w->kv.ops;
}

// ---- the engine --------------------------------------------------------------------------------

void world_open(world *w, const bench *b, world_size size)
{
    fx_options opt = fx_options_default();
    fx_error err = {0};
    opt.model_path = b->model;
    opt.n_thread = b->n_thread;
    opt.step_tok = b->size.step_tok;
    opt.ctx_tok = size.ctx_tok;
    opt.max_seq = size.max_seq;
    opt.step_ms = size.step_ms;
    opt.swap_bytes = size.swap_bytes;
    *w = (world){.eng = need(calloc(1, sizeof *w->eng))};
    must(fxi_engine_init(w->eng, &err), "engine", &err);
    must(fxi_engine_load(w->eng, &opt, &err), b->model, &err);
    if (w->eng->info.ctx_tok < size.ctx_tok) die(b->model, "too little memory for the KV cache");
    put_probes(w);
}

void world_close(world *w)
{
    fxi_iteration_end_all(w->eng, FX_FINISH_ABORT);
    w->eng->model->ops = w->model.real;
    w->eng->kv->ops = w->kv.real;
    fxi_engine_unload(w->eng);
}

void world_turn(world *w)
{
    w->now = (turn){0};
    w->n_turn++;
    const double start = now_ns();
    (void)fxi_iteration_run(w->eng);
    w->now.ns = now_ns() - start;
    w->ns += w->now.ns;
    w->n_tok += (uint64_t)w->now.n_tok;
    // What is kept ready for requests to come does not depend on what those before share.
    const uint64_t used = w->eng->stats.now.kv_mapped_bytes - w->eng->stats.now.kv_spare_bytes;
    if (used > w->peak_bytes) w->peak_bytes = used;
}

void world_finish(world *w)
{
    while (w->n_open) world_turn(w);
}

void world_empty(world *w)
{
    fx_error err = {0};
    must(fxi_kv_forget_idle(w->eng->kv), "forget", &err);
    must(fxi_kv_trim(w->eng->kv, 0), "trim", &err);
    w->n_turn = w->n_tok = w->peak_bytes = 0;
    w->ns = 0;
}

// ---- clients -----------------------------------------------------------------------------------

fx_request plain_request(const int32_t *prompt, size_t n_prompt, int max_tok)
{
    fx_request req = fx_request_default();
    req.prompt = prompt;
    req.n_prompt = n_prompt;
    req.max_tok = max_tok;
    req.ignore_eos = true;
    req.sampling.temperature = 0;
    return req;
}

static void on_event(void *ud, const fx_event *ev)
{
    client *c = ud;
    if (ev->token >= 0) {
        if (!c->n_received) {
            c->first_ns = now_ns();
            c->first_turn = c->w->n_turn;
        }
        if (c->answer) c->answer[c->n_received] = ev->token;
        c->n_received++;
    }
    if (ev->error) die("a request", ev->error);
    if (!ev->last) return;
    c->n_cached = ev->n_cached;
    c->ended = true;
    c->w->n_open--;
}

void client_submit(client *c, world *w, const fx_request *req)
{
    fx_error err = {0};
    fx_request mine = *req;
    *c = (client){.w = w, .answer = c->answer, .submit_ns = now_ns(), .submit_turn = w->n_turn};
    mine.on_event = on_event;
    mine.ud = c;
    must(fx_submit(w->eng, &mine, &c->id, &err), "submit", &err);
    w->n_open++;
}

void clients_cancel(client *c, int n)
{
    for (int i = 0; i < n; i++) fx_cancel(c[i].w->eng, c[i].id);
    for (int i = 0; i < n; i++)
        while (!c[i].ended) world_turn(c[i].w);
}

double client_ttft_ms(const client *c)
{
    return (c->first_ns - c->submit_ns) / 1e6;
}
