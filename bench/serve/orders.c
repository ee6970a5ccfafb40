// orders.c - requests: prompts of plain words, each beginning with a number of its own, so that no
// order finds another's prompt in the prefix cache.
#include "base/number/rng.h"
#include "bench_serve.h"

static const char *const words[] = {"the",  "boat", "and",  "a",    "frog",  "saw",  "little",
                                    "cat",  "with", "hat",  "who",  "went",  "home", "from",
                                    "tree", "said", "that", "bird", "under", "moon"};

static void must_add(bool ok)
{
    if (!ok) die("orders", "no memory");
}

static void make_prompt(order *o, unsigned number, int n_word)
{
    must_add(fxi_buf_fmt(&o->prompt, "%u times", number));
    for (int i = 0; i < n_word; i++) {
        const uint64_t which = fxi_rng_u64(number, 0, (uint64_t)i) % (sizeof words / sizeof *words);
        must_add(fxi_buf_fmt(&o->prompt, " %s", words[which]));
    }
}

static void make_http(order *o, int max_tok)
{
    fxi_buf body = {0};
    must_add(fxi_buf_fmt(&body,
                         "{\"prompt\":\"%s\",\"max_tokens\":%d,\"temperature\":0,\"ignore_eos\":"
                         "true,\"stream\":true}",
                         o->prompt.p, max_tok));
    must_add(fxi_buf_fmt(&o->http,
                         "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                         "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                         body.n, body.p));
    fxi_buf_free(&body);
}

void order_make(order *o, unsigned number, int n_word, int max_tok)
{
    *o = (order){.prompt = {0}};
    make_prompt(o, number, n_word);
    make_http(o, max_tok);
}

void order_free(order *o)
{
    fxi_buf_free(&o->prompt);
    fxi_buf_free(&o->http);
}

void work_make(work *w, bench *b, int n_stream, int n_each)
{
    *w = (work){n_stream, n_stream * n_each, b->size.max_tok, NULL};
    w->order = need(calloc((size_t)w->n_order, sizeof *w->order));
    for (int i = 0; i < w->n_order; i++)
        order_make(&w->order[i], ++b->next_order, b->size.n_word, w->max_tok);
}

void work_free(work *w)
{
    for (int i = 0; i < w->n_order; i++) order_free(&w->order[i]);
    free(w->order);
}

void pass_init(pass *p, const work *w)
{
    *p = (pass){.answer = need(calloc((size_t)w->n_order, sizeof *p->answer))};
}

void pass_free(pass *p, const work *w)
{
    for (int i = 0; i < w->n_order; i++) fxi_buf_free(&p->answer[i]);
    free(p->answer);
    samples_free(&p->first_ms), samples_free(&p->gap_ms), samples_free(&p->whole_ms);
}
