// outside.c - how much of a step is spent outside the model's forward pass.
//
// All sequences decode, one token each per step; the cases differ in what a request asks for. The
// cases of one batch size run in turn. Prompts are equal, so that all but the first come from the
// prefix cache and only decoding is measured.
#include "bench_serving.h"

enum { PROMPT_TOK = 128, WARM_UP = 2, GROUP = 8, MAX_BATCH = 64 };

static void ask_greedy(fx_request *req)
{
    (void)req;
}

static void ask_everything(fx_request *req)
{
    req->sampling = (fx_sampling){
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.01f,
        .typical_p = 0.95f,
        .repetition_penalty = 1.1f,
        .presence_penalty = 0.5f,
        .frequency_penalty = 0.5f,
        .seed = 7,
    };
}

// Random weights are the worst case: nearly all tokens are likely.
static void ask_top_p(fx_request *req)
{
    req->sampling.temperature = 1;
    req->sampling.top_p = 0.95f;
}

static void ask_logprobs(fx_request *req)
{
    req->logprobs = true;
    req->n_top = 5;
}

static void ask_choices(fx_request *req)
{
    req->n_choice = GROUP;
    req->sampling.temperature = 1;
}

static void ask_beams(fx_request *req)
{
    req->beam_width = GROUP;
    req->n_choice = GROUP;
}

static const struct mode {
    const char *name;
    int n_seq; // of a request
    void (*ask)(fx_request *req);
    size_t found; // where its worst share is stored
} modes[] = {
    {"greedy", 1, ask_greedy, offsetof(bench_findings, share_plain)},
    {"every rule", 1, ask_everything, offsetof(bench_findings, share_plain)},
    {"top_p of all tokens", 1, ask_top_p, offsetof(bench_findings, share_top_p)},
    {"5 logprobs", 1, ask_logprobs, offsetof(bench_findings, share_plain)},
    {"8 choices each", GROUP, ask_choices, offsetof(bench_findings, share_forks)},
    {"8 beams each", GROUP, ask_beams, offsetof(bench_findings, share_beams)},
};

enum { N_MODE = sizeof modes / sizeof modes[0] };

// Results of one case: the median step of each repeat.
typedef struct outside {
    samples ms, us, kv_us, share;
    samples total; // share of all steps together, including those that fork
    uint64_t n_step, n_tok;
} outside;

static void time_steps(const bench *b, world *w, outside *o)
{
    samples ns = {0}, out = {0}, kv = {0}, share = {0};
    double sum_ns = 0, sum_out = 0;
    for (int i = 0; i < b->size.n_step; i++) {
        world_turn(w);
        const turn *t = &w->now;
        samples_add(&ns, t->ns);
        samples_add(&out, t->ns - t->forward_ns);
        samples_add(&kv, t->extend_ns + t->kvstep_ns);
        samples_add(&share, (t->ns - t->forward_ns) / t->ns);
        sum_ns += t->ns;
        sum_out += t->ns - t->forward_ns;
        o->n_tok += (uint64_t)t->n_tok;
        o->n_step++;
    }
    samples_add(&o->ms, samples_at(&ns, 0.5) / 1e6);
    samples_add(&o->us, samples_at(&out, 0.5) / 1e3);
    samples_add(&o->kv_us, samples_at(&kv, 0.5) / 1e3);
    samples_add(&o->share, 100 * samples_at(&share, 0.5));
    samples_add(&o->total, 100 * sum_out / sum_ns);
    samples_free(&ns), samples_free(&out), samples_free(&kv), samples_free(&share);
}

static bool all_decode(const world *w, int batch)
{
    return w->now.n_seq == batch && w->now.n_tok == batch;
}

static void one_case(const bench *b, world *w, const struct mode *m, int batch, outside *o)
{
    client c[MAX_BATCH] = {{0}};
    const int n = batch / m->n_seq;
    int32_t *prompt = random_tokens(w, 1, PROMPT_TOK);
    // Room for the tokens that earlier sequences generate while later ones start.
    fx_request req = plain_request(prompt, PROMPT_TOK, b->size.n_step + MAX_BATCH + 4 * WARM_UP);
    m->ask(&req);
    for (int i = 0; i < n; i++) client_submit(&c[i], w, &req);
    do world_turn(w);
    while (!all_decode(w, batch));
    for (int i = 0; i < WARM_UP; i++) world_turn(w);
    time_steps(b, w, o);
    clients_cancel(c, n);
    free(prompt);
}

static void case_row(bench *b, const struct mode *m, int batch, outside *o)
{
    double *worst = (double *)((char *)&b->found + m->found);
    *worst = fmax(*worst, samples_at(&o->share, 0.5));
    row_begin(&b->out, "%d sequence%s, %s", batch, batch == 1 ? "" : "s", m->name);
    row_cell(&b->out, "tokens", (double)o->n_tok / (double)o->n_step, "per step");
    row_spread(&b->out, "step", &o->ms, "ms");
    row_spread(&b->out, "outside", &o->us, "us");
    row_spread(&b->out, "of it KV memory", &o->kv_us, "us");
    row_spread(&b->out, "share", &o->share, "%");
    row_spread(&b->out, "of all steps", &o->total, "%");
    row_end(&b->out);
}

static void one_batch(bench *b, world *w, int batch)
{
    outside o[N_MODE] = {{.us = {0}}};
    for (int r = 0; r < b->size.n_repeat; r++)
        for (int i = 0; i < N_MODE; i++)
            if (batch >= modes[i].n_seq) one_case(b, w, &modes[i], batch, &o[i]);
    for (int i = 0; i < N_MODE; i++) {
        if (batch >= modes[i].n_seq) case_row(b, &modes[i], batch, &o[i]);
        samples_free(&o[i].ms), samples_free(&o[i].us);
        samples_free(&o[i].kv_us), samples_free(&o[i].share), samples_free(&o[i].total);
    }
}

void bench_outside(bench *b)
{
    static const int batches[] = {1, 8, 32, MAX_BATCH};
    world w;
    section(&b->out, "outside", "what of a step is not the model's, every sequence decoding");
    world_open(&w, b, (world_size){.ctx_tok = 512, .max_seq = MAX_BATCH});
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        if (batches[i] <= b->size.max_batch) one_batch(b, &w, batches[i]);
    world_close(&w);
}
