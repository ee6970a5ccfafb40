// preempt.c - half of the memory that the load needs: what preemption costs by recomputation, by
// swapping, and by the engine's own choice between the two.
//
// All requests arrive at once with different prompts. Every repeat starts with an empty cache and
// an engine that has not measured anything yet.
#include "bench_serving.h"

enum { PROMPT_TOK = 64 };

typedef enum way { ALL_FITS, RECOMPUTE, SWAP, CHOOSE, N_WAY } way;

static const char *const names[N_WAY] = {
    [ALL_FITS] = "memory for all",
    [RECOMPUTE] = "half, computed again",
    [SWAP] = "half, swapped",
    [CHOOSE] = "half, the cheaper one",
};

// Results of one way, an entry per repeat.
typedef struct squeeze {
    samples tok_per_s, again, n_recompute, n_swap;
} squeeze;

// The state of the engine before any load.
typedef struct fresh {
    int headroom_tok;
    double swap_us_per_byte;
    uint64_t swap_bytes;
} fresh;

static uint64_t load_bytes(const bench *b, const world *w)
{
    const int longest = PROMPT_TOK + b->size.squeezed_tok;
    return (uint64_t)b->size.n_squeezed * fxi_kv_bytes_for(w->eng->kv, longest);
}

static void set_up(const bench *b, world *w, const fresh *f, way how)
{
    fx_engine *eng = w->eng;
    fx_error err;
    const uint64_t all = 2 * load_bytes(b, w);
    world_empty(w);
    eng->sched.headroom_tok = f->headroom_tok;
    eng->memory.swap_us_per_byte = f->swap_us_per_byte;
    eng->memory.us_per_tok = 0;
    eng->memory.swap_bytes = how == RECOMPUTE ? 0 : f->swap_bytes;
    if (fx_set_kv_memory(eng, how == ALL_FITS ? all : all / 4, &err) != FX_OK) {
        fprintf(stderr, "bench_serving: preempt: %s\n", err.text);
        exit(1);
    }
    world_turn(w); // the budget is applied
    world_empty(w);
}

static void submit_all(const bench *b, world *w, client *c)
{
    for (int i = 0; i < b->size.n_squeezed; i++) {
        int32_t *prompt = random_tokens(w, (uint64_t)i, PROMPT_TOK);
        fx_request req = plain_request(prompt, PROMPT_TOK, b->size.squeezed_tok);
        client_submit(&c[i], w, &req);
        free(prompt);
    }
}

// While a token seems to take very long, swapping is the cheaper way.
static void run_all(world *w, way how)
{
    while (w->n_open) {
        if (how == SWAP) w->eng->memory.us_per_tok = 1e12;
        world_turn(w);
    }
}

static void run_squeeze(const bench *b, world *w, const fresh *f, way how, squeeze *o)
{
    const int n = b->size.n_squeezed, n_answer = b->size.squeezed_tok;
    client *c = need(calloc((size_t)n, sizeof *c));
    set_up(b, w, f, how);
    const fx_stats before = w->eng->stats.now;
    submit_all(b, w, c);
    run_all(w, how);
    const fx_stats *after = &w->eng->stats.now;
    const double needed = (double)n * (PROMPT_TOK + n_answer - 1);
    samples_add(&o->tok_per_s, (double)n * n_answer / (w->ns / 1e9));
    samples_add(&o->again, 100 * ((double)w->n_tok - needed) / needed);
    samples_add(&o->n_recompute, (double)(after->n_preempt_recompute - before.n_preempt_recompute));
    samples_add(&o->n_swap, (double)(after->n_preempt_swap - before.n_preempt_swap));
    free(c);
}

static void squeeze_row(bench *b, const char *name, squeeze *o)
{
    row_begin(&b->out, "%s", name);
    row_spread(&b->out, "answers", &o->tok_per_s, "tokens/s");
    row_spread(&b->out, "computed again", &o->again, "%");
    row_spread(&b->out, "recomputed", &o->n_recompute, "requests");
    row_spread(&b->out, "swapped", &o->n_swap, "requests");
    row_end(&b->out);
    samples_free(&o->tok_per_s), samples_free(&o->again);
    samples_free(&o->n_recompute), samples_free(&o->n_swap);
}

void bench_preempt(bench *b)
{
    world w;
    squeeze o[N_WAY] = {{.again = {0}}};
    char title[80];
    snprintf(title, sizeof title, "%d requests, prompts of %d tokens, answers of %d",
             b->size.n_squeezed, PROMPT_TOK, b->size.squeezed_tok);
    section(&b->out, "preempt", title);
    world_open(&w, b,
               (world_size){.ctx_tok = PROMPT_TOK + b->size.squeezed_tok,
                            .swap_bytes = (uint64_t)2 << 30});
    const fresh f = {w.eng->sched.headroom_tok, w.eng->memory.swap_us_per_byte,
                     w.eng->memory.swap_bytes};
    for (int r = 0; r < b->size.n_repeat; r++)
        for (int i = 0; i < N_WAY; i++) run_squeeze(b, &w, &f, (way)i, &o[i]);
    for (int i = 0; i < N_WAY; i++) squeeze_row(b, names[i], &o[i]);
    world_close(&w);
}
