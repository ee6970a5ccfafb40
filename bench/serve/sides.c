// sides.c - requests as both sides need them; passes of them over the server and over the engine
// alone; and a load on the server that runs until it is stopped.
#include "base/json/json.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/number/rng.h"
#include "bench_serve.h"

// ---- orders: prompts of plain words, each beginning with a number of its own, so that no order
// finds another's prompt in the prefix cache

static void order_make(order *o, unsigned number, int n_word, int max_tok)
{
    static const char *const words[] = {"the",  "boat", "and",  "a",    "frog",  "saw",  "little",
                                        "cat",  "with", "hat",  "who",  "went",  "home", "from",
                                        "tree", "said", "that", "bird", "under", "moon"};
    fxi_buf body = {0};
    *o = (order){.prompt = {0}};
    bool ok = fxi_buf_fmt(&o->prompt, "%u times", number);
    for (int i = 0; i < n_word; i++) {
        const uint64_t which = fxi_rng_u64(number, 0, (uint64_t)i) % (sizeof words / sizeof *words);
        ok &= fxi_buf_fmt(&o->prompt, " %s", words[which]);
    }
    ok &= fxi_buf_fmt(&body,
                      "{\"prompt\":\"%s\",\"max_tokens\":%d,\"temperature\":0,\"ignore_eos\":true,"
                      "\"stream\":true}",
                      o->prompt.p, max_tok);
    ok &= fxi_buf_fmt(&o->http,
                      "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                      "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                      body.n, body.p);
    if (!ok) die("orders: no memory");
    fxi_buf_free(&body);
}

static void order_free(order *o)
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

// A time to the first token, if *last_ns is 0, or from piece to piece.
static void note_piece(pass *p, double sent_ns, double *last_ns, double ns)
{
    samples_add(*last_ns > 0 ? &p->gap_ms : &p->first_ms,
                (ns - (*last_ns > 0 ? *last_ns : sent_ns)) / 1e6);
    *last_ns = ns;
}

// ---- one HTTP response as it arrives: head, chunks, and the events in them. All but the data of
// chunks are lines.

typedef struct wire {
    enum { WIRE_HEAD, WIRE_SIZE, WIRE_DATA, WIRE_NEXT, WIRE_TAIL, WIRE_DONE } at;
    int status;
    bool chunked;
    size_t n_left; // of the current chunk
    fxi_buf line, body;
    size_t n_seen; // bytes of the body that wire_pieces has looked at
} wire;

static void wire_free(wire *w) // all zero again
{
    fxi_buf_free(&w->line);
    fxi_buf_free(&w->body);
    *w = (wire){.at = WIRE_HEAD};
}

static bool end_line(wire *w)
{
    char *line = w->line.p ? w->line.p : (char[]){""}, *end;
    bool ok = true;
    if (w->line.n && line[w->line.n - 1] == '\r') line[w->line.n - 1] = 0;
    if (w->at == WIRE_HEAD && !w->status) {
        w->status = strncmp(line, "HTTP/1.1 ", 9) ? -1 : atoi(line + 9);
        ok = w->status > 0;
    } else if (w->at == WIRE_HEAD) {
        w->chunked |= !strcmp(line, "Transfer-Encoding: chunked");
        ok = *line || (w->chunked && w->status == 200);
        if (!*line) w->at = WIRE_SIZE;
    } else if (w->at == WIRE_SIZE) {
        w->n_left = strtoul(line, &end, 16);
        w->at = w->n_left ? WIRE_DATA : WIRE_TAIL;
        ok = end != line;
    } else if (w->at == WIRE_NEXT) { // an empty line follows a chunk's data
        w->at = WIRE_SIZE;
        ok = !*line;
    } else if (!*line) {
        w->at = WIRE_DONE;
    }
    fxi_buf_clear(&w->line);
    return ok;
}

// False: this is no chunked response with status 200.
static bool wire_take(wire *w, const char *p, size_t n)
{
    for (size_t n_now; n; p += n_now, n -= n_now) {
        if (w->at == WIRE_DONE) return false;
        if (w->at == WIRE_DATA) {
            n_now = n < w->n_left ? n : w->n_left;
            if (!fxi_buf_add(&w->body, p, n_now)) return false;
            w->n_left -= n_now;
            if (!w->n_left) w->at = WIRE_NEXT;
            continue;
        }
        const char *end = memchr(p, '\n', n);
        n_now = end ? (size_t)(end - p) + 1 : n;
        if (!fxi_buf_add(&w->line, p, n_now - (end != NULL)) || (end && !end_line(w))) return false;
    }
    return true;
}

// Events with text since the last call.
static int wire_pieces(wire *w)
{
    static const char mark[] = "\"text\":\"";
    int n = 0;
    while (w->n_seen < w->body.n) {
        char *event = w->body.p + w->n_seen, *end = strstr(event, "\n\n");
        if (!end) break;
        const char *text = strstr(event, mark);
        if (text && text < end && text[sizeof mark - 1] != '"') n++;
        w->n_seen = (size_t)(end + 2 - w->body.p);
    }
    return n;
}

#define SHOWN_BYTES 160 // of an event that is wrong

// A text may have a NUL: models that know single bytes can write one.
static fx_status add_event_text(const char *json, size_t n, fxi_buf *out, fx_error *err)
{
    static const fxi_json_rules rules = {.nul_texts = true};
    fx_error fault = {.text = ""};
    fxi_json_doc event = {0};
    (void)fxi_json_parse(&event, (fxi_str){json, n}, &rules, &fault);
    const fxi_json *choice = fxi_json_at(fxi_json_get(event.root, "choices"), 0);
    const fxi_json *text = fxi_json_get(choice, "text");
    fx_status st = FX_OK;
    if (!fxi_json_is_string(text))
        st = fxi_fail(err, FX_EINVAL, "an event without a text: %s: %.*s", fault.text,
                      (int)(n < SHOWN_BYTES ? n : SHOWN_BYTES), json);
    else if (!fxi_buf_add(out, fxi_json_text(text), fxi_json_string(text).n))
        st = fxi_fail(err, FX_ENOMEM, "no memory");
    fxi_json_doc_free(&event);
    return st;
}

// Appends the text of a whole answer.
static fx_status wire_answer(const wire *w, fxi_buf *out, fx_error *err)
{
    static const char begin[] = "data: ", done[] = "[DONE]";
    const char *at = w->body.p;
    for (const char *end; at && (end = strstr(at, "\n\n")); at = end + 2) {
        if (strncmp(at, begin, sizeof begin - 1)) continue; // a comment
        at += sizeof begin - 1;
        if (!strncmp(at, done, sizeof done - 1)) return FX_OK;
        FX_TRY(add_event_text(at, (size_t)(end - at), out, err));
    }
    return fxi_fail(err, FX_EINVAL, "no [DONE] after %zu bytes of events", w->body.n);
}

// ---- over sockets
//
// A pass over sockets: one thread, one epoll, a connection per stream that is kept alive from order
// to order.
//
// Texts are taken out of the events after the last answer, so that this client stays cheap while it
// shares the machine with the server.

// Connects client i, whose answers the epoll is to tell.
static int connect_client(const server *srv, int epoll_fd, int i)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
    const int fd = server_connect(srv);
    if (fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev)) die("connect: %s", strerror(errno));
    return fd;
}

typedef struct stream {
    int fd, at;     // at: the current order
    wire *wire;     // of the current order
    double sent_ns; // of the current order
    double last_ns; // its last piece; 0: none yet
} stream;

typedef struct http_run {
    const server *srv;
    const work *w;
    pass *p;
    stream *stream; // [n_stream]
    wire *wire;     // [n_order]
    int epoll_fd, n_open;
} http_run;

// The request fits the socket's buffer.
static void send_order(http_run *r, stream *s)
{
    const fxi_buf *http = &r->w->order[s->at].http;
    s->wire = &r->wire[s->at];
    s->last_ns = 0;
    s->sent_ns = now_ns();
    (void)send(s->fd, http->p, http->n, MSG_NOSIGNAL); // a failure shows at the next read
}

static void next_order(http_run *r, stream *s)
{
    s->at += r->w->n_stream;
    if (s->at < r->w->n_order) {
        send_order(r, s);
        return;
    }
    close(s->fd);
    r->n_open--;
}

// n: what recv returned.
static void fail_order(http_run *r, int i, ssize_t n)
{
    stream *s = &r->stream[i];
    const char *why = n < 0 ? strerror(errno) : n ? "no stream with status 200" : "closed";
    fprintf(stderr, "bench_serve: a request failed: %s; status %d, %zu bytes of body\n", why,
            s->wire->status, s->wire->body.n);
    r->p->n_failed++;
    close(s->fd);
    s->fd = connect_client(r->srv, r->epoll_fd, i);
    next_order(r, s);
}

static void read_stream(http_run *r, int i)
{
    static char buf[64 << 10];
    stream *s = &r->stream[i];
    const ssize_t n = recv(s->fd, buf, sizeof buf, 0);
    const double ns = now_ns();
    if (n <= 0 || !wire_take(s->wire, buf, (size_t)n)) {
        fail_order(r, i, n);
        return;
    }
    for (int k = wire_pieces(s->wire); k > 0; k--) note_piece(r->p, s->sent_ns, &s->last_ns, ns);
    if (s->wire->at != WIRE_DONE) return;
    samples_add(&r->p->whole_ms, (ns - s->sent_ns) / 1e6);
    next_order(r, s);
}

static void take_answers(http_run *r)
{
    for (int i = 0; i < r->w->n_order; i++) {
        fx_error err = {0};
        // If an answer is not whole, fail_order has said why.
        if (r->wire[i].at == WIRE_DONE &&
            wire_answer(&r->wire[i], &r->p->answer[i], &err) != FX_OK) {
            fprintf(stderr, "bench_serve: an answer is wrong: %s\n", err.text);
            r->p->n_failed++;
        }
        wire_free(&r->wire[i]);
    }
}

static double http_forward(const server *srv)
{
    static metrics m;
    metrics_ask(srv, &m);
    return metrics_figure(&m, "iterations_total");
}

void http_pass(bench *b, const work *w, pass *p)
{
    struct epoll_event ev[MAX_STREAM];
    http_run r = {.srv = &b->srv, .w = w, .p = p, .n_open = w->n_stream};
    r.stream = need(calloc((size_t)w->n_stream, sizeof *r.stream));
    r.wire = need(calloc((size_t)w->n_order, sizeof *r.wire));
    r.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < w->n_stream; i++) {
        r.stream[i] = (stream){.fd = connect_client(r.srv, r.epoll_fd, i), .at = i};
    }
    const double n_before = http_forward(&b->srv);
    const double start = now_ns(), start_cpu = server_cpu_ns(&b->srv);
    for (int i = 0; i < w->n_stream; i++) send_order(&r, &r.stream[i]);
    while (r.n_open) {
        const int n = epoll_wait(r.epoll_fd, ev, MAX_STREAM, -1);
        for (int k = 0; k < n; k++) read_stream(&r, (int)ev[k].data.u32);
    }
    p->wall_ns = now_ns() - start;
    p->cpu_ns = server_cpu_ns(&b->srv) - start_cpu;
    p->n_forward = http_forward(&b->srv) - n_before;
    take_answers(&r);
    close(r.epoll_fd);
    free(r.stream), free(r.wire);
}

// ---- on the engine
//
// A pass over the engine in this process: one thread tokenizes and submits, as the server's do; the
// engine's thread notes times and texts.

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

static void on_event(void *ud, const fx_event *ev)
{
    engine_stream *s = ud;
    if (ev->error) die("a request: %s", ev->error);
    if (ev->text_bytes) {
        note_piece(s->run->p, s->sent_ns, &s->last_ns, now_ns());
        if (!fxi_buf_add(&s->run->p->answer[s->at], ev->text, ev->text_bytes))
            die("a request: no memory");
    }
    if (!ev->last) return;
    engine_run *r = s->run;
    samples_add(&r->p->whole_ms, (now_ns() - s->sent_ns) / 1e6);
    pthread_mutex_lock(&r->mu);
    r->ready[r->n_ready++] = (int)(s - r->stream);
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->mu);
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
        die("a prompt: %s", err.text);
    req.prompt = tok.id;
    req.n_prompt = tok.n;
    req.max_tok = r->w->max_tok;
    req.ignore_eos = true;
    req.sampling.temperature = 0;
    req.on_event = on_event;
    req.ud = s;
    if (fx_submit(r->eng, &req, &id, &err) != FX_OK) die("submit: %s", err.text);
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

static double engine_forward(const fx_engine *eng)
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
    const double n_before = engine_forward(b->eng);
    const double start = now_ns(), start_cpu = process_cpu_ns();
    for (int i = 0; i < w->n_stream; i++) {
        r.stream[i] = (engine_stream){.run = &r, .at = i};
        submit_order(&r.stream[i]);
    }
    for (int n_open = w->n_stream; n_open;) n_open -= !serve_ready(&r);
    p->wall_ns = now_ns() - start;
    p->cpu_ns = process_cpu_ns() - start_cpu;
    p->n_forward = engine_forward(b->eng) - n_before;
    pthread_cond_destroy(&r.wake);
    pthread_mutex_destroy(&r.mu);
    free(r.stream), free(r.ready);
}

// ---- a load without end
//
// A load that runs until it is stopped: each stream sends its next order once the last one is
// answered. Answers are as long as chance wants, so that streams do not go in step, and any stretch
// of time has as many prompts as any other. What was done in it is asked of the server.

enum { WAIT_MS = 20 }; // to notice a stop

typedef struct steady_stream {
    int fd;
    order order; // the current one
    wire wire;   // of its answer
} steady_stream;

// Sends a request for half as many tokens as usual to half as many again. It fits the buffer.
static void send_next(steady *s, steady_stream *t)
{
    const int most = s->b->size.max_tok;
    const int n_tok = most / 2 + (int)(fxi_rng_u64(s->b->next_order, 1, 0) % (uint64_t)(most + 1));
    order_free(&t->order);
    order_make(&t->order, ++s->b->next_order, s->b->size.n_word, n_tok);
    wire_free(&t->wire);
    (void)send(t->fd, t->order.http.p, t->order.http.n, MSG_NOSIGNAL); // fails at the next read
}

static void open_next(steady *s, int i)
{
    s->stream[i].fd = connect_client(&s->b->srv, s->epoll_fd, i);
    send_next(s, &s->stream[i]);
}

static void read_next(steady *s, int i)
{
    static char buf[64 << 10];
    steady_stream *t = &s->stream[i];
    const ssize_t n = recv(t->fd, buf, sizeof buf, 0);
    if (n <= 0 || !wire_take(&t->wire, buf, (size_t)n)) {
        fprintf(stderr, "bench_serve: a request failed with status %d\n", t->wire.status);
        s->n_failed++;
        close(t->fd);
        open_next(s, i);
    } else if (t->wire.at == WIRE_DONE) {
        s->n_request++;
        send_next(s, t);
    }
}

static void *run_steady(void *arg)
{
    steady *s = arg;
    struct epoll_event ev[MAX_STREAM];
    while (!atomic_load(&s->stop)) {
        const int n = epoll_wait(s->epoll_fd, ev, MAX_STREAM, WAIT_MS);
        for (int k = 0; k < n; k++) read_next(s, (int)ev[k].data.u32);
    }
    return NULL;
}

void steady_start(steady *s, bench *b, int n_stream)
{
    *s = (steady){.b = b, .n_stream = n_stream, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    s->stream = need(calloc((size_t)n_stream, sizeof *s->stream));
    for (int i = 0; i < n_stream; i++) open_next(s, i);
    if (pthread_create(&s->thread, NULL, run_steady, s)) die("watch: no thread");
}

void steady_stop(steady *s)
{
    atomic_store(&s->stop, true);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < s->n_stream; i++) {
        close(s->stream[i].fd);
        order_free(&s->stream[i].order);
        wire_free(&s->stream[i].wire);
    }
    free(s->stream);
    close(s->epoll_fd);
}
