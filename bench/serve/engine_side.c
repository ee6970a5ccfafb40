// engine_side.c - a pass over the engine in this process: one thread tokenizes and submits, as the
// server's do; the engine's thread notes times and texts.
#include <time.h>

#include "bench_serve.h"

typedef struct engine_run engine_run;

typedef struct engine_stream {
    engine_run *run;
    int at; // the current order
    double sent_ns, last_ns;
} engine_stream;

struct engine_run {
    fx_engine *eng;
    const work *w;
    pass *p;
    engine_stream *stream; // [n_stream]
    pthread_mutex_t mu;
    pthread_cond_t wake;
    int *ready, n_ready; // guarded by mu: streams whose order has ended
};

static void note_piece(engine_stream *s)
{
    const double ns = now_ns(), waited_ns = ns - (s->last_ns > 0 ? s->last_ns : s->sent_ns);
    samples_add(s->last_ns > 0 ? &s->run->p->gap_ms : &s->run->p->first_ms, waited_ns / 1e6);
    s->last_ns = ns;
}

static void end_order(engine_stream *s)
{
    engine_run *r = s->run;
    samples_add(&r->p->whole_ms, (now_ns() - s->sent_ns) / 1e6);
    pthread_mutex_lock(&r->mu);
    r->ready[r->n_ready++] = (int)(s - r->stream);
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->mu);
}

static void on_event(void *ud, const fx_event *ev)
{
    engine_stream *s = ud;
    if (ev->error) die("a request", ev->error);
    if (ev->text_bytes) {
        note_piece(s);
        if (!fxi_buf_add(&s->run->p->answer[s->at], ev->text, ev->text_bytes))
            die("a request", "no memory");
    }
    if (ev->last) end_order(s);
}

static void submit_order(engine_stream *s)
{
    engine_run *r = s->run;
    const order *o = &r->w->order[s->at];
    fx_request req = fx_request_default();
    fx_tokens tok = {0};
    fx_error err = {0};
    uint64_t id;
    s->last_ns = 0;
    s->sent_ns = now_ns();
    if (fx_tokenize(r->eng, o->prompt.p, o->prompt.n, FX_TOKENIZE_PROMPT, &tok, &err) != FX_OK)
        die("a prompt", err.text);
    req.prompt = tok.id;
    req.n_prompt = tok.n;
    req.max_tok = r->w->max_tok;
    req.ignore_eos = true;
    req.sampling.temperature = 0;
    req.on_event = on_event;
    req.ud = s;
    if (fx_submit(r->eng, &req, &id, &err) != FX_OK) die("submit", err.text);
    fx_tokens_free(&tok);
}

// Waits for a stream whose order has ended. Returns whether it has another one, and submits it.
static bool serve_ready(engine_run *r)
{
    pthread_mutex_lock(&r->mu);
    while (!r->n_ready) pthread_cond_wait(&r->wake, &r->mu);
    engine_stream *s = &r->stream[r->ready[--r->n_ready]];
    pthread_mutex_unlock(&r->mu);
    s->at += r->w->n_stream;
    if (s->at >= r->w->n_order) return false;
    submit_order(s);
    return true;
}

static double own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double count_forward(const fx_engine *eng)
{
    fx_stats st;
    fx_engine_stats(eng, &st);
    return (double)st.n_step;
}

void engine_pass(bench *b, const work *w, pass *p)
{
    engine_run r = {.eng = b->eng, .w = w, .p = p};
    r.stream = need(calloc((size_t)w->n_stream, sizeof *r.stream));
    r.ready = need(calloc((size_t)w->n_stream, sizeof *r.ready));
    pthread_mutex_init(&r.mu, NULL);
    pthread_cond_init(&r.wake, NULL);
    const double n_before = count_forward(b->eng);
    const double start = now_ns(), start_cpu = own_cpu_ns();
    for (int i = 0; i < w->n_stream; i++) {
        r.stream[i] = (engine_stream){.run = &r, .at = i};
        submit_order(&r.stream[i]);
    }
    for (int n_open = w->n_stream; n_open;) n_open -= !serve_ready(&r);
    p->wall_ns = now_ns() - start;
    p->cpu_ns = own_cpu_ns() - start_cpu;
    p->n_forward = count_forward(b->eng) - n_before;
    pthread_cond_destroy(&r.wake);
    pthread_mutex_destroy(&r.mu);
    free(r.stream), free(r.ready);
}
