// chat.c - conversations of many turns, with the prefix cache and without.
//
// All conversations run at once; each sends its next message when it has its answer. A prompt is
// everything said before, token by token, plus 40 tokens of new text; an answer has 32. Every
// repeat starts with an empty cache.
#include "bench_serving.h"

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

static void note_repeat(chat_run *r)
{
    chat_result *o = r->o;
    o->n_computed = r->w->n_tok;
    samples_add(&o->tok_per_s, (double)o->n_answer / (r->w->ns / 1e9));
    samples_add(&o->p50, samples_at(&r->ttft, 0.5));
    samples_add(&o->p99, samples_at(&r->ttft, 0.99));
    samples_add(&o->last_p50, samples_at(&r->last, 0.5));
    samples_free(&r->ttft);
    samples_free(&r->last);
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
    note_repeat(&r);
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
    samples_free(&o->tok_per_s), samples_free(&o->last_p50);
    samples_free(&o->p50), samples_free(&o->p99);
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
