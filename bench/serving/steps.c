// steps.c - what steps cost: outside the model, next to a long prompt, and where caches grow.
#include "bench_serving.h"

// ---- outside
//
// How much of a step is spent outside the model's forward pass.
//
// All sequences decode, one token each per step; the cases differ in what a request asks for. The
// cases of one batch size run in turn. Prompts are equal, so that all but the first come from the
// prefix cache and only decoding is measured.

enum { PROMPT_TOK = 128, N_WARM_UP = 2, GROUP = 8, MAX_BATCH = 64 };

typedef enum asks { GREEDY, EVERY_RULE, TOP_P, LOGPROBS, CHOICES, BEAMS } asks;

static const struct mode {
    const char *name;
    asks asks;
    int n_seq;    // of a request
    size_t found; // where its worst share is stored
} modes[] = {
    {"greedy", GREEDY, 1, offsetof(bench_findings, share_plain)},
    {"every rule", EVERY_RULE, 1, offsetof(bench_findings, share_plain)},
    {"top_p of all tokens", TOP_P, 1, offsetof(bench_findings, share_top_p)},
    {"5 logprobs", LOGPROBS, 1, offsetof(bench_findings, share_plain)},
    {"8 choices each", CHOICES, GROUP, offsetof(bench_findings, share_forks)},
    {"8 beams each", BEAMS, GROUP, offsetof(bench_findings, share_beams)},
};

// Changes a greedy request for one choice.
static void ask_for(fx_request *req, const struct mode *m)
{
    req->n_choice = m->n_seq;
    switch (m->asks) {
    case GREEDY: break;
    case EVERY_RULE:
        req->sampling = (fx_sampling){.temperature = 0.8f,
                                      .top_k = 40,
                                      .top_p = 0.95f,
                                      .min_p = 0.01f,
                                      .typical_p = 0.95f,
                                      .repetition_penalty = 1.1f,
                                      .presence_penalty = 0.5f,
                                      .frequency_penalty = 0.5f,
                                      .seed = 7};
        break;
    case TOP_P: // random weights are the worst case: nearly all tokens are likely
        req->sampling.temperature = 1;
        req->sampling.top_p = 0.95f;
        break;
    case LOGPROBS:
        req->logprobs = true;
        req->n_top = 5;
        break;
    case CHOICES: req->sampling.temperature = 1; break;
    case BEAMS: req->beam_width = GROUP; break;
    }
}

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

static void one_case(const bench *b, world *w, const struct mode *m, int batch, outside *o)
{
    client c[MAX_BATCH] = {{0}};
    const int n = batch / m->n_seq;
    int32_t *prompt = random_tokens(w, 1, PROMPT_TOK);
    // Room for the tokens that earlier sequences generate while later ones start.
    fx_request req = plain_request(prompt, PROMPT_TOK, b->size.n_step + MAX_BATCH + 4 * N_WARM_UP);
    ask_for(&req, m);
    for (int i = 0; i < n; i++) client_submit(&c[i], w, &req);
    do world_turn(w);
    while (w->now.n_seq != batch || w->now.n_tok != batch);
    for (int i = 0; i < N_WARM_UP; i++) world_turn(w);
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

void bench_outside(bench *b)
{
    static const int batches[] = {1, 8, 32, MAX_BATCH};
    world w;
    section(&b->out, "outside", "what of a step is not the model's, every sequence decoding");
    world_open(&w, b, (world_size){.ctx_tok = 512, .max_seq = MAX_BATCH});
    for (const int *n = batches; n < batches + 4 && *n <= b->size.max_batch; n++) {
        outside o[N_MODE] = {{.us = {0}}};
        for (int r = 0; r < b->size.n_repeat; r++)
            for (int i = 0; i < N_MODE; i++)
                if (*n >= modes[i].n_seq) one_case(b, &w, &modes[i], *n, &o[i]);
        for (int i = 0; i < N_MODE; i++)
            if (*n >= modes[i].n_seq) case_row(b, &modes[i], *n, &o[i]);
    }
    world_close(&w);
}

// ---- ttft
//
// How long a short request waits for its first token while a long prompt is read, and how the long
// prompt slows down sequences that decode.
//
// Short requests arrive at the worst time: when a step's forward pass begins, so that they must
// wait for all of it. Steps are counted from that one to the one with the first token. The loads
// run one after another; short requests arrive when the first long prompt is at 0, 1/4, 1/2 and
// 3/4.

enum { SHORT_TOK = 32, N_DECODER = 8, DECODER_TOK = 16, N_PHASE = 4, N_BEFORE = 8, MAX_SHORT = 8 };
enum { MAX_LONG = 2, ANSWER_TOK = 1, ROOM_TOK = 512 };

static const struct load {
    const char *name;
    int n_short, n_long;
    bool has_goal;
} loads[] = {
    {"1 short, 1 long", 1, 1, true},
    {"8 short at once, 1 long", 8, 1, false},
    {"1 short, 2 long", 1, 2, false},
};

enum { N_LOAD = sizeof loads / sizeof loads[0] };

// Results of one load.
typedef struct waits {
    samples steps, ms; // of short requests
    samples slower;    // slowest step with a long prompt, relative to the median without
    samples long_ms;   // first token of the first long prompt
    uint64_t n_missed; // tokens that decoding sequences missed: one per sequence and step
} waits;

typedef struct pass {
    world *w;
    const struct load *load;
    client decoder[N_DECODER], lng[MAX_LONG], shrt[N_PHASE][MAX_SHORT];
    int32_t *prompt[N_PHASE][MAX_SHORT];
    int n_phase; // phases whose short requests have arrived
} pass;

// ---- one pass ----------------------------------------------------------------------------------

static void submit_prompt(world *w, client *c, const int32_t *prompt, int n_tok, int max_tok)
{
    fx_request req = plain_request(prompt, (size_t)n_tok, max_tok);
    req.no_cache = true;
    client_submit(c, w, &req);
}

static void submit_random(world *w, client *c, uint64_t seed, int n_tok, int max_tok)
{
    int32_t *prompt = random_tokens(w, seed, n_tok);
    submit_prompt(w, c, prompt, n_tok, max_tok);
    free(prompt);
}

// Called in the middle of a step.
static void short_ones_come(void *ud)
{
    pass *p = ud;
    const int phase = p->n_phase++;
    for (int i = 0; i < p->load->n_short; i++)
        submit_prompt(p->w, &p->shrt[phase][i], p->prompt[phase][i], SHORT_TOK, ANSWER_TOK);
}

// Tokens of the first long prompt that have been computed.
static int long_progress(const pass *p)
{
    for (const fxi_live_request *g = p->w->eng->sched.running.head; g; g = g->next)
        if (g->id == p->lng[0].id) return g->seq[0].n_computed;
    return 0;
}

static bool short_ones_wait(const pass *p)
{
    for (int i = 0; p->n_phase && i < p->load->n_short; i++)
        if (!p->shrt[p->n_phase - 1][i].ended) return true;
    return false;
}

static int n_decoded(const pass *p)
{
    int n = 0;
    for (int i = 0; i < N_DECODER; i++) n += p->decoder[i].n_received;
    return n;
}

static double decode_alone(pass *p)
{
    samples ns = {0};
    for (int i = 0; i < N_DECODER; i++)
        submit_random(p->w, &p->decoder[i], (uint64_t)i, DECODER_TOK, ROOM_TOK - DECODER_TOK);
    do world_turn(p->w);
    while (p->w->now.n_tok != N_DECODER);
    for (int i = 0; i < N_BEFORE; i++) {
        world_turn(p->w);
        samples_add(&ns, p->w->now.ns);
    }
    const double mid = samples_at(&ns, 0.5);
    samples_free(&ns);
    return mid;
}

// Runs until the long prompts are read and all short requests are answered. Returns the slowest
// step.
static double read_long(const bench *b, pass *p, waits *o)
{
    double most = 0;
    while (!p->lng[0].n_received || !p->lng[p->load->n_long - 1].n_received || short_ones_wait(p)) {
        const bool due = p->n_phase < N_PHASE && !p->lng[0].n_received &&
                         long_progress(p) >= p->n_phase * b->size.long_tok / N_PHASE;
        const int before = n_decoded(p);
        p->w->mid_step = due && !short_ones_wait(p) ? short_ones_come : NULL;
        p->w->ud = p;
        world_turn(p->w);
        o->n_missed += (uint64_t)(N_DECODER - (n_decoded(p) - before));
        most = fmax(most, p->w->now.ns);
    }
    return most;
}

static void run_pass(const bench *b, world *w, const struct load *l, waits *o)
{
    pass *p = need(calloc(1, sizeof *p));
    p->w = w;
    p->load = l;
    for (int i = 0; i < N_PHASE * MAX_SHORT; i++)
        p->prompt[i / MAX_SHORT][i % MAX_SHORT] = random_tokens(w, 100 + (uint64_t)i, SHORT_TOK);
    const double alone_ns = decode_alone(p);
    for (int i = 0; i < l->n_long; i++)
        submit_random(w, &p->lng[i], 50 + (uint64_t)i, b->size.long_tok, 1);
    samples_add(&o->slower, read_long(b, p, o) / alone_ns);
    for (int i = 0; i < p->n_phase * l->n_short; i++) {
        const client *c = &p->shrt[i / l->n_short][i % l->n_short];
        samples_add(&o->steps, (double)(c->first_turn - c->submit_turn + 1));
        samples_add(&o->ms, client_ttft_ms(c));
    }
    samples_add(&o->long_ms, client_ttft_ms(&p->lng[0]));
    clients_cancel(p->decoder, N_DECODER);
    world_finish(w);
    for (int i = 0; i < N_PHASE * MAX_SHORT; i++) free(p->prompt[i / MAX_SHORT][i % MAX_SHORT]);
    free(p);
}

// ---- rows --------------------------------------------------------------------------------------

static void load_row(bench *b, const struct load *l, waits *o)
{
    if (l->has_goal) b->found.ttft_steps = samples_at(&o->steps, 1);
    row_begin(&b->out, "%s of %d", l->name, b->size.long_tok);
    row_cell(&b->out, "n", (double)o->steps.n, "requests");
    row_cell(&b->out, "most", samples_at(&o->steps, 1), "steps");
    row_spread(&b->out, "first token", &o->ms, "ms");
    row_spread(&b->out, "of the long", &o->long_ms, "ms");
    row_spread(&b->out, "slowest step over decoding alone", &o->slower, "x");
    row_cell(&b->out, "tokens missed by those that decode", (double)o->n_missed, "tokens");
    row_end(&b->out);
    samples_free(&o->steps);
}

void bench_ttft(bench *b)
{
    world w;
    waits o[N_LOAD] = {{.ms = {0}}};
    section(&b->out, "ttft", "requests of 32 tokens come while a long prompt is read and 8 decode");
    world_open(&w, b, (world_size){.ctx_tok = b->size.long_tok + ROOM_TOK});
    for (int r = 0; r < b->size.n_long_repeat; r++)
        for (int i = 0; i < b->size.n_load; i++) run_pass(b, &w, &loads[i], &o[i]);
    for (int i = 0; i < b->size.n_load; i++) load_row(b, &loads[i], &o[i]);
    world_close(&w);
}

// ---- prepare
//
// Step times with and without memory that is prepared ahead (vAttention's figure 9).
//
// 32 sequences decode with lengths one token apart, so that in nearly every step one of them needs
// a new chunk. Without look-ahead, the extend creates and maps that chunk; with it, the mapper
// thread does so during the forward pass of an earlier step. Both run in turn in one engine. What a
// step spends on memory is all its extends plus the KV manager's step, which wakes the mapper
// thread; if that thread takes our core, its work is counted here. How prompts share steps does not
// depend on time here, so that both ways grow through the same lengths.

enum { N_SEQ = 32, N_GROWN_WARM_UP = 4 };

#define SLOW_NS 20e3 // an extend that took longer had to create its memory

// Results of one way: times of all repeats; and p50, p99 and max of each repeat.
typedef struct growth {
    const char *name;
    int ahead_tok;
    samples every, into;    // ns of extends; of those into a new chunk
    samples kvstep, memory; // ns of steps: the KV manager's step; with all extends
    samples step_p50, step_p99, step_max, out_p50, out_p99, out_max; // us, one of each repeat
} growth;

static void grow_steps(const bench *b, world *w, growth *o)
{
    samples step = {0}, out = {0};
    for (int i = 0; i < b->size.n_grow_step; i++) {
        world_turn(w);
        const turn *t = &w->now;
        samples_add(&step, t->ns / 1e3);
        samples_add(&out, (t->ns - t->forward_ns) / 1e3);
        samples_add(&o->kvstep, t->kvstep_ns);
        samples_add(&o->memory, t->kvstep_ns + t->extend_ns);
    }
    samples_add(&o->step_p50, samples_at(&step, 0.5));
    samples_add(&o->step_p99, samples_at(&step, 0.99));
    samples_add(&o->step_max, samples_at(&step, 1));
    samples_add(&o->out_p50, samples_at(&out, 0.5));
    samples_add(&o->out_p99, samples_at(&out, 0.99));
    samples_add(&o->out_max, samples_at(&out, 1));
    samples_free(&step), samples_free(&out);
}

static void grow_all(const bench *b, world *w, growth *o)
{
    client c[N_SEQ] = {{0}};
    int32_t *prompt = random_tokens(w, 1, N_SEQ);
    world_empty(w);
    w->eng->hooks.ahead_tok = o->ahead_tok;
    for (int i = 0; i < N_SEQ; i++) {
        fx_request req = plain_request(prompt, (size_t)i + 1, 2 * N_SEQ + b->size.n_grow_step);
        req.no_cache = true;
        client_submit(&c[i], w, &req);
    }
    do world_turn(w);
    while (w->now.n_tok != N_SEQ || w->now.n_seq != N_SEQ);
    for (int i = 0; i < N_GROWN_WARM_UP; i++) world_turn(w);
    w->every = &o->every;
    w->into = &o->into;
    grow_steps(b, w, o);
    w->every = w->into = NULL;
    clients_cancel(c, N_SEQ);
    free(prompt);
}

static void step_row(bench *b, const char *name, const char *which, samples *p50, samples *p99,
                     samples *max)
{
    row_begin(&b->out, "%s, %s", name, which);
    row_spread(&b->out, "p50", p50, "us");
    row_spread(&b->out, "p99", p99, "us");
    row_spread(&b->out, "max", max, "us");
    row_end(&b->out);
}

// Frees s.
static void times_row(bench *b, const char *name, const char *which, samples *s)
{
    int n_slow = 0;
    for (size_t i = 0; i < s->n; i++) n_slow += s->v[i] > SLOW_NS;
    row_begin(&b->out, "%s, %s", name, which);
    row_cell(&b->out, "n", (double)s->n, "calls");
    row_cell(&b->out, "p50", samples_at(s, 0.5) / 1e3, "us");
    row_cell(&b->out, "p99", samples_at(s, 0.99) / 1e3, "us");
    row_cell(&b->out, "max", samples_at(s, 1) / 1e3, "us");
    row_cell(&b->out, "over 20 us", n_slow, "calls");
    row_end(&b->out);
    samples_free(s);
}

void bench_prepare(bench *b)
{
    world w;
    section(&b->out, "prepare",
            "32 sequences decode and grow, with memory made ready ahead and without");
    world_open(&w, b, (world_size){.ctx_tok = 512, .max_seq = N_SEQ, .step_ms = 1 << 20});
    growth o[] = {{.name = "not ahead"}, {.name = "ahead", .ahead_tok = w.eng->hooks.ahead_tok}};
    for (int r = 0; r < b->size.n_repeat; r++)
        for (int i = 0; i < 2; i++) grow_all(b, &w, &o[i]);
    b->found.ready_p99_ns = samples_at(&o[1].into, 0.99);
    b->found.extend_ratio = b->found.ready_p99_ns / samples_at(&o[0].into, 0.99);
    b->found.spike_ratio = samples_at(&o[1].memory, 0.99) / samples_at(&o[0].memory, 0.99);
    for (int i = 0; i < 2; i++) {
        growth *g = &o[i];
        step_row(b, g->name, "whole step", &g->step_p50, &g->step_p99, &g->step_max);
        step_row(b, g->name, "outside the model", &g->out_p50, &g->out_p99, &g->out_max);
        times_row(b, g->name, "every extend", &g->every);
        times_row(b, g->name, "into a new chunk", &g->into);
        times_row(b, g->name, "the KV manager's step", &g->kvstep);
        times_row(b, g->name, "KV memory of a step", &g->memory);
    }
    world_close(&w);
}
