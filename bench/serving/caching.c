// caching.c - what memory is good for: conversations and common prefixes with the prefix cache and
// without, and a load with too little memory.
#include "bench_serving.h"

// ---- chat
//
// Conversations of many turns, with the prefix cache and without.
//
// All conversations run at once; each sends its next message when it has its answer. A prompt is
// everything said before, token by token, plus 40 tokens of new text; an answer has 32. Every
// repeat starts with an empty cache.

enum { USER_TOK = 40, ANSWER_TOK = 32, TALK_TOK = USER_TOK + ANSWER_TOK };

typedef struct talk {
    client c;
    unsigned which; // index of the conversation
    int n_done;     // messages answered
    int32_t *tok;   // [n_talk * TALK_TOK] everything said
    int n_tok;
} talk;

// Results of one mode, an entry per repeat; counts are of the last one.
typedef struct chat_result {
    const char *name;
    bool no_cache;
    samples tok_per_s, p50, p99, last_p50; // ms to first token; of the conversations' last turns
    uint64_t n_prompt, n_cached, n_answer, n_computed;
} chat_result;

typedef struct chat_run {
    const bench *b;
    world *w;
    chat_result *o;
    samples ttft, last;
} chat_run;

static void send_message(chat_run *r, talk *t)
{
    const unsigned n = (unsigned)(r->b->size.n_talk * (int)t->which + t->n_done);
    int32_t *user = text_tokens(r->w, n, USER_TOK);
    memcpy(t->tok + t->n_tok, user, USER_TOK * sizeof *user);
    free(user);
    t->n_tok += USER_TOK;
    fx_request req = plain_request(t->tok, (size_t)t->n_tok, ANSWER_TOK);
    req.no_cache = r->o->no_cache;
    t->c.answer = t->tok + t->n_tok;
    client_submit(&t->c, r->w, &req);
}

static void take_answer(chat_run *r, talk *t)
{
    chat_result *o = r->o;
    const bool is_last = t->n_done + 1 == r->b->size.n_talk;
    samples_add(&r->ttft, client_ttft_ms(&t->c));
    if (is_last) samples_add(&r->last, client_ttft_ms(&t->c));
    o->n_prompt += (uint64_t)t->n_tok;
    o->n_cached += (uint64_t)t->c.n_cached;
    o->n_answer += (uint64_t)t->c.n_received;
    t->n_tok += ANSWER_TOK;
    t->n_done++;
    if (!is_last) send_message(r, t);
}

static void run_chat(const bench *b, world *w, chat_result *o)
{
    const int n = b->size.n_conv;
    chat_run r = {b, w, o, {0}, {0}};
    talk *t = need(calloc((size_t)n, sizeof *t));
    world_empty(w);
    o->n_prompt = o->n_cached = o->n_answer = 0;
    for (int i = 0; i < n; i++) {
        t[i].which = (unsigned)i;
        t[i].tok = need(malloc((size_t)(b->size.n_talk * TALK_TOK) * sizeof *t[i].tok));
        send_message(&r, &t[i]);
    }
    while (w->n_open) {
        world_turn(w);
        for (int i = 0; i < n; i++)
            if (t[i].c.ended && t[i].n_done < b->size.n_talk) take_answer(&r, &t[i]);
    }
    o->n_computed = w->n_tok;
    samples_add(&o->tok_per_s, (double)o->n_answer / (w->ns / 1e9));
    samples_add(&o->p50, samples_at(&r.ttft, 0.5));
    samples_add(&o->p99, samples_at(&r.ttft, 0.99));
    samples_add(&o->last_p50, samples_at(&r.last, 0.5));
    samples_free(&r.ttft);
    samples_free(&r.last);
    for (int i = 0; i < n; i++) free(t[i].tok);
    free(t);
}

static void chat_row(bench *b, chat_result *o)
{
    row_begin(&b->out, "%d conversations of %d turns, %s", b->size.n_conv, b->size.n_talk, o->name);
    row_spread(&b->out, "answers", &o->tok_per_s, "tokens/s");
    row_spread(&b->out, "first token p50", &o->p50, "ms");
    row_spread(&b->out, "p99", &o->p99, "ms");
    row_spread(&b->out, "last turns p50", &o->last_p50, "ms");
    row_cell(&b->out, "prompts", (double)o->n_prompt, "tokens");
    row_cell(&b->out, "cached", (double)o->n_cached, "tokens");
    row_cell(&b->out, "share", 100.0 * (double)o->n_cached / (double)o->n_prompt, "%");
    row_cell(&b->out, "computed", (double)o->n_computed, "tokens");
    row_end(&b->out);
}

void bench_chat(bench *b)
{
    world w;
    chat_result o[] = {{.name = "cache"}, {.name = "no cache", .no_cache = true}};
    section(&b->out, "chat", "turns of 40 tokens, answers of 32, after all that was said before");
    world_open(&w, b, (world_size){.ctx_tok = b->size.n_talk * TALK_TOK + 1});
    for (int r = 0; r < b->size.n_repeat; r++)
        for (int i = 0; i < 2; i++) run_chat(b, &w, &o[i]);
    for (int i = 0; i < 2; i++) chat_row(b, &o[i]);
    world_close(&w);
}

// ---- prefix
//
// Requests with a long common prefix and different questions, with the prefix cache and without.
//
// They arrive together, or one after another, each when the previous one has ended. Every repeat
// starts with an empty cache and no spare memory.

enum { QUESTION_TOK = 20, FIRST_QUESTION = 1000 };

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

static void note_prefix(const world *w, const request_set *p, prefix *o)
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
    note_prefix(w, &p, o);
    for (int i = 0; i < p.n; i++) free(p.tok[i]);
    free(p.tok);
    free(p.c);
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

// ---- preempt
//
// Half of the memory that the load needs: what preemption costs by recomputation, by swapping, and
// by the engine's own choice between the two.
//
// All requests arrive at once with different prompts. Every repeat starts with an empty cache and
// an engine that has not measured anything yet.

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

static void set_up(const bench *b, world *w, const fresh *f, way how)
{
    fx_engine *eng = w->eng;
    fx_error err;
    const int longest = PROMPT_TOK + b->size.squeezed_tok;
    const uint64_t all = 2 * (uint64_t)b->size.n_squeezed * fxi_kv_bytes_for(eng->kv, longest);
    world_empty(w);
    eng->sched.headroom_tok = f->headroom_tok;
    eng->memory.swap_us_per_byte = f->swap_us_per_byte;
    eng->memory.us_per_tok = 0;
    eng->memory.swap_bytes = how == RECOMPUTE ? 0 : f->swap_bytes;
    if (fx_set_kv_memory(eng, how == ALL_FITS ? all : all / 4, &err) != FX_OK)
        die("preempt: %s", err.text);
    world_turn(w); // the budget is applied
    world_empty(w);
}

static void run_squeeze(const bench *b, world *w, const fresh *f, way how, squeeze *o)
{
    const int n = b->size.n_squeezed, n_answer = b->size.squeezed_tok;
    client *c = need(calloc((size_t)n, sizeof *c));
    set_up(b, w, f, how);
    const fx_stats before = w->eng->stats.now;
    for (int i = 0; i < n; i++) {
        int32_t *prompt = random_tokens(w, (uint64_t)i, PROMPT_TOK);
        const fx_request req = plain_request(prompt, PROMPT_TOK, n_answer);
        client_submit(&c[i], w, &req);
        free(prompt);
    }
    while (w->n_open) {
        if (how == SWAP)
            w->eng->memory.us_per_tok =
                1e12; // a token seems to take so long that swapping is cheaper
        world_turn(w);
    }
    const fx_stats *after = &w->eng->stats.now;
    const double needed = (double)n * (PROMPT_TOK + n_answer - 1);
    samples_add(&o->tok_per_s, (double)n * n_answer / (w->ns / 1e9));
    samples_add(&o->again, 100 * ((double)w->n_tok - needed) / needed);
    samples_add(&o->n_recompute, (double)(after->n_preempt_recompute - before.n_preempt_recompute));
    samples_add(&o->n_swap, (double)(after->n_preempt_swap - before.n_preempt_swap));
    free(c);
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
    for (int i = 0; i < N_WAY; i++) {
        row_begin(&b->out, "%s", names[i]);
        row_spread(&b->out, "answers", &o[i].tok_per_s, "tokens/s");
        row_spread(&b->out, "computed again", &o[i].again, "%");
        row_spread(&b->out, "recomputed", &o[i].n_recompute, "requests");
        row_spread(&b->out, "swapped", &o[i].n_swap, "requests");
        row_end(&b->out);
    }
    world_close(&w);
}
