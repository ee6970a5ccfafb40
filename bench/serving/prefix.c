// prefix.c - requests with a long common prefix and different questions, with the prefix cache and
// without.
//
// They arrive together, or one after another, each when the previous one has ended. Every repeat
// starts with an empty cache and no spare memory.
#include "bench_serving.h"

enum { QUESTION_TOK = 20, ANSWER_TOK = 32, FIRST_QUESTION = 1000 };

// Results of one case, an entry per repeat; counts are of the last one.
typedef struct prefix {
    const char *name;
    bool together, no_cache;
    samples tok_per_s, p50, p99, peak_mib;
    uint64_t n_computed, n_cached;
} prefix;

typedef struct request_set {
    int n, n_prompt;
    client *c;     // [n]
    int32_t **tok; // [n][n_prompt]
} request_set;

static request_set make_request_set(const bench *b, const world *w)
{
    request_set p = {.n = b->size.n_share, .n_prompt = b->size.system_tok + QUESTION_TOK};
    p.c = need(calloc((size_t)p.n, sizeof *p.c));
    p.tok = need(calloc((size_t)p.n, sizeof *p.tok));
    for (int i = 0; i < p.n; i++) {
        int32_t *question = text_tokens(w, FIRST_QUESTION + (unsigned)i, QUESTION_TOK);
        p.tok[i] = text_tokens(w, 0, p.n_prompt);
        memcpy(p.tok[i] + b->size.system_tok, question, QUESTION_TOK * sizeof *question);
        free(question);
    }
    return p;
}

static void free_request_set(request_set *p)
{
    for (int i = 0; i < p->n; i++) free(p->tok[i]);
    free(p->tok);
    free(p->c);
}

static void note_repeat(const world *w, const request_set *p, prefix *o)
{
    samples ttft = {0};
    o->n_cached = 0;
    for (int i = 0; i < p->n; i++) {
        samples_add(&ttft, client_ttft_ms(&p->c[i]));
        o->n_cached += (uint64_t)p->c[i].n_cached;
    }
    o->n_computed = w->n_tok;
    samples_add(&o->tok_per_s, (double)p->n * ANSWER_TOK / (w->ns / 1e9));
    samples_add(&o->p50, samples_at(&ttft, 0.5));
    samples_add(&o->p99, samples_at(&ttft, 0.99));
    samples_add(&o->peak_mib, (double)w->peak_bytes / 0x1p20);
    samples_free(&ttft);
}

static void run_prefix(const bench *b, world *w, prefix *o)
{
    request_set p = make_request_set(b, w);
    world_empty(w);
    for (int i = 0; i < p.n; i++) {
        fx_request req = plain_request(p.tok[i], (size_t)p.n_prompt, ANSWER_TOK);
        req.no_cache = o->no_cache;
        client_submit(&p.c[i], w, &req);
        if (!o->together) world_finish(w);
    }
    world_finish(w);
    note_repeat(w, &p, o);
    free_request_set(&p);
}

static void prefix_row(bench *b, prefix *o)
{
    const int n_prompt = b->size.n_share * (b->size.system_tok + QUESTION_TOK);
    row_begin(&b->out, "%d requests %s", b->size.n_share, o->name);
    row_spread(&b->out, "answers", &o->tok_per_s, "tokens/s");
    row_spread(&b->out, "first token p50", &o->p50, "ms");
    row_spread(&b->out, "p99", &o->p99, "ms");
    row_spread(&b->out, "peak memory", &o->peak_mib, "MiB");
    row_cell(&b->out, "prompts", n_prompt, "tokens");
    row_cell(&b->out, "cached", (double)o->n_cached, "tokens");
    row_cell(&b->out, "computed", (double)o->n_computed, "tokens");
    row_end(&b->out);
    samples_free(&o->tok_per_s), samples_free(&o->peak_mib);
    samples_free(&o->p50), samples_free(&o->p99);
}

void bench_prefix(bench *b)
{
    enum { N = 4 };
    world w;
    char title[80];
    prefix o[N] = {
        {.name = "together, cache", .together = true},
        {.name = "together, no cache", .together = true, .no_cache = true},
        {.name = "in sequence, cache"},
        {.name = "in sequence, no cache", .no_cache = true},
    };
    snprintf(title, sizeof title, "%d tokens that all begin with, questions of 20, answers of 32",
             b->size.system_tok);
    section(&b->out, "prefix", title);
    world_open(&w, b, (world_size){.ctx_tok = b->size.system_tok + QUESTION_TOK + ANSWER_TOK});
    for (int r = 0; r < b->size.n_repeat; r++)
        for (int i = 0; i < N; i++) run_prefix(b, &w, &o[i]);
    for (int i = 0; i < N; i++) prefix_row(b, &o[i]);
    world_close(&w);
}
