// ttft.c - how long a short request waits for its first token while a long prompt is read, and how
// the long prompt slows down sequences that decode.
//
// Short requests arrive at the worst time: when a step's forward pass begins, so that they must
// wait for all of it. Steps are counted from that one to the one with the first token. The loads
// run one after another; short requests arrive when the first long prompt is at 0, 1/4, 1/2 and
// 3/4.
#include "bench_serving.h"

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

static void note_pass(const pass *p, waits *o)
{
    for (int phase = 0; phase < p->n_phase; phase++)
        for (int i = 0; i < p->load->n_short; i++) {
            const client *c = &p->shrt[phase][i];
            samples_add(&o->steps, (double)(c->first_turn - c->submit_turn + 1));
            samples_add(&o->ms, client_ttft_ms(c));
        }
    samples_add(&o->long_ms, client_ttft_ms(&p->lng[0]));
}

static void make_prompts(pass *p)
{
    for (int phase = 0; phase < N_PHASE; phase++)
        for (int i = 0; i < MAX_SHORT; i++)
            p->prompt[phase][i] =
                random_tokens(p->w, 100 + (uint64_t)(phase * MAX_SHORT + i), SHORT_TOK);
}

static void free_prompts(pass *p)
{
    for (int phase = 0; phase < N_PHASE; phase++)
        for (int i = 0; i < MAX_SHORT; i++) free(p->prompt[phase][i]);
}

static void run_pass(const bench *b, world *w, const struct load *l, waits *o)
{
    pass *p = need(calloc(1, sizeof *p));
    p->w = w;
    p->load = l;
    make_prompts(p);
    const double alone_ns = decode_alone(p);
    for (int i = 0; i < l->n_long; i++)
        submit_random(w, &p->lng[i], 50 + (uint64_t)i, b->size.long_tok, 1);
    samples_add(&o->slower, read_long(b, p, o) / alone_ns);
    note_pass(p, o);
    clients_cancel(p->decoder, N_DECODER);
    world_finish(w);
    free_prompts(p);
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
    samples_free(&o->steps), samples_free(&o->ms);
    samples_free(&o->slower), samples_free(&o->long_ms);
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
