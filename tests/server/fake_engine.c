// fake_engine.c - the fake engine: one thread carries out the orders of the open requests.
#include "server/fake_engine.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "base/number/rng.h"
#include "base/system/clock.h"
#include "base/text/buf.h"

#define N_VOCAB    257
#define BOS        256
#define CTX        4096
#define MAX_CHOICE 64

typedef struct fake_request {
    struct fake_request *next;
    uint64_t id;
    fx_request req; // its pointers are not valid any more
    size_t n_prompt;
    int32_t last_stop_token; // -1: none
    char kind[16];           // the order's first word
    char text[CTX + 1];      // the order
    int n_token;             // of each choice
    double every_s, due_s;
    int pos; // tokens emitted by each choice
    bool cancelled;
} fake_request;

struct fx_engine {
    fx_model_info info;
    pthread_t thread;
    pthread_mutex_t mu; // guards all below; never held during a callback
    pthread_cond_t cond, release;
    fake_request *list;
    bool closing;
    bool released;
    int n_grinding; // texts that are being tokenized
    int n_open;     // tokens that "gate" requests may emit
    fake_counts counts;
    fake_seen seen;
};

// ---- the engine thread ------------------------------------------------------------------------

static char flood_text[64 << 10];

// The text of token `pos` of a choice.
static void token_text(const fake_request *r, int choice, fxi_buf *b)
{
    if (!strcmp(r->kind, "draw")) {
        uint64_t x = fxi_rng_u64(r->req.sampling.seed, (uint64_t)choice, (uint64_t)r->pos);
        fxi_buf_fmt(b, "%c", (int)('a' + x % 26));
    } else if (!strcmp(r->kind, "flood")) {
        fxi_buf_add(b, flood_text, sizeof flood_text);
    } else if (!strcmp(r->kind, "say")) {
        const char *w = r->text + (strncmp(r->text, "say ", 4) ? 0 : 4);
        for (int i = 0; i < r->pos; i++) w += strcspn(w + 1, " ") + 1;
        fxi_buf_add(b, w, *w ? strcspn(w + 1, " ") + 1 : 0);
    } else {
        fxi_buf_fmt(b, "%s%d", r->pos ? " " : "", r->pos + 1);
    }
}

static fx_event event_of(const fake_request *r, int choice)
{
    return (fx_event){.request_id = r->id,
                      .choice = choice,
                      .token = -1,
                      .stop_token = -1,
                      .stop_string = -1,
                      .text = "",
                      .n_prompt = (int)r->n_prompt,
                      .n_cached = 0,
                      .n_generated = r->pos};
}

static void name_stop(const fake_request *r, fx_event *ev)
{
    if (r->req.n_stop)
        ev->stop_string = (int)r->req.n_stop - 1;
    else
        ev->stop_token = r->last_stop_token;
}

static void end_all(fake_request *r, fx_finish finish, const char *error)
{
    for (int c = 0; c < r->req.n_choice; c++) {
        fx_event ev = event_of(r, c);
        ev.finish = finish;
        ev.error = error;
        if (finish == FX_FINISH_STOP && !strcmp(r->kind, "halt")) name_stop(r, &ev);
        ev.last = c == r->req.n_choice - 1;
        r->req.on_event(r->req.ud, &ev);
    }
}

static void emit_all(fake_request *r)
{
    for (int c = 0; c < r->req.n_choice; c++) {
        fxi_buf b = {0};
        token_text(r, c, &b);
        fx_event ev = event_of(r, c);
        ev.token = 'x';
        ev.text = b.p ? b.p : "";
        ev.text_bytes = b.n;
        ev.n_generated = r->pos + 1;
        r->req.on_event(r->req.ud, &ev);
        fxi_buf_free(&b);
    }
    r->pos++;
    r->due_s += r->every_s;
}

// One step of one request, without the lock; true: it is over.
static bool step(fake_request *r, bool cancelled, bool closing)
{
    bool cut = r->req.max_tok >= 0 && r->pos >= r->req.max_tok;
    if (cancelled)
        end_all(r, FX_FINISH_CANCEL, NULL);
    else if (closing)
        end_all(r, FX_FINISH_ABORT, NULL);
    else if (cut)
        end_all(r, FX_FINISH_LENGTH, NULL);
    else if (r->pos < r->n_token)
        return emit_all(r), false;
    else if (!strcmp(r->kind, "fail"))
        end_all(r, FX_FINISH_ERROR, "the script says so");
    else
        end_all(r, FX_FINISH_STOP, NULL);
    return true;
}

static void remove_locked(fx_engine *e, fake_request *r)
{
    fake_request **at = &e->list;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    e->counts.n_running--;
    e->counts.n_cancelled += r->cancelled;
    free(r);
}

// Whether a request must wait for the test, however late it is.
static bool is_held(const fx_engine *e, const fake_request *r)
{
    bool gate = !strcmp(r->kind, "gate");
    return !strcmp(r->kind, "stuck") || (gate && r->pos < r->n_token && r->pos >= e->n_open);
}

// The request that may move on now, or NULL and when the next one may.
static fake_request *pick_locked(fx_engine *e, double *next_s)
{
    fake_request *best = NULL;
    for (fake_request *r = e->list; r; r = r->next) {
        if (r->cancelled || e->closing) return r;
        if (!is_held(e, r) && (!best || r->due_s < best->due_s)) best = r;
    }
    *next_s = best ? best->due_s : fxi_now_s() + 1;
    return best && best->due_s <= fxi_now_s() ? best : NULL;
}

static void sleep_locked(fx_engine *e, double until_s)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + (int64_t)((until_s - fxi_now_s()) * 1e9);
    if (ns < 0) ns = 0;
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&e->cond, &e->mu, &t);
}

static void *engine_main(void *ud)
{
    fx_engine *e = ud;
    pthread_mutex_lock(&e->mu);
    while (!e->closing || e->list) {
        double next_s;
        fake_request *r = pick_locked(e, &next_s);
        if (!r) {
            sleep_locked(e, next_s);
            continue;
        }
        bool cancelled = r->cancelled, closing = e->closing;
        pthread_mutex_unlock(&e->mu);
        bool over = step(r, cancelled, closing);
        pthread_mutex_lock(&e->mu);
        if (over) remove_locked(e, r);
    }
    pthread_mutex_unlock(&e->mu);
    return NULL;
}

// ---- flexinfer.h ------------------------------------------------------------------------------

fx_engine *fake_engine_new(void)
{
    fx_engine *e = calloc(1, sizeof *e);
    pthread_condattr_t attr;
    memset(flood_text, 'f', sizeof flood_text);
    e->info = (fx_model_info){.name = "fake", .n_vocab = N_VOCAB, .ctx_tok = CTX};
    pthread_mutex_init(&e->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&e->cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&e->release, NULL);
    if (pthread_create(&e->thread, NULL, engine_main, e)) abort();
    return e;
}

void fx_engine_close(fx_engine *e)
{
    pthread_mutex_lock(&e->mu);
    e->closing = true;
    pthread_cond_signal(&e->cond);
    pthread_mutex_unlock(&e->mu);
    pthread_join(e->thread, NULL);
    pthread_cond_destroy(&e->cond);
    pthread_cond_destroy(&e->release);
    pthread_mutex_destroy(&e->mu);
    free(e);
}

const fx_model_info *fx_engine_info(const fx_engine *e)
{
    return &e->info;
}

void fx_engine_stats(const fx_engine *e, fx_stats *out)
{
    (void)e;
    *out = (fx_stats){.kv_mapped_bytes = 123456789012};
}

const char *fx_version(void)
{
    return "0.0.0-fake";
}

void fx_tokens_free(fx_tokens *t)
{
    free(t->id);
    *t = (fx_tokens){0};
}

static void add_token(fx_tokens *t, int32_t id)
{
    if (t->n == t->cap) {
        t->cap = t->cap * 2 + 64;
        t->id = realloc(t->id, t->cap * sizeof *t->id);
        if (!t->id) abort();
    }
    t->id[t->n++] = id;
}

static void grind(fx_engine *e)
{
    pthread_mutex_lock(&e->mu);
    e->n_grinding++;
    while (!e->released) pthread_cond_wait(&e->release, &e->mu);
    e->n_grinding--;
    pthread_mutex_unlock(&e->mu);
}

fx_status fx_tokenize_max(const fx_engine *e, const char *text, size_t n, unsigned flags,
                          size_t max_tok, fx_tokens *out, fx_error *err)
{
    if (n >= 5 && !memcmp(text, "grind", 5)) grind((fx_engine *)e); // only the lock changes
    if (max_tok && n > max_tok)
        return fxi_fail(err, FX_ECONTEXT, "the text has more than %zu tokens", max_tok);
    if (flags & FX_TOKENIZE_BOS) add_token(out, BOS);
    for (size_t i = 0; i < n; i++) add_token(out, (unsigned char)text[i]);
    return FX_OK;
}

// The text of a conversation is that of its last message.
static char *last_text(const json_t *messages)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1),
                 *v = json_object_get(last, "content");
    if (json_is_array(v)) v = json_object_get(json_array_get(v, 0), "text");
    return strdup(json_is_string(v) ? json_string_value(v) : "");
}

fx_status fx_chat_request_text(const fx_engine *e, const fx_chat_request *q, char **out, size_t *n,
                               fx_error *err)
{
    (void)e;
    *out = last_text(q->messages);
    *n = strlen(*out);
    if (strcmp(*out, "refuse") != 0) return FX_OK;
    free(*out);
    *out = NULL;
    return fxi_fail(err, FX_EINVAL, "chat template, line 3: no");
}

fx_status fx_chat_request_tokenize(const fx_engine *e, const fx_chat_request *q, fx_tokens *out,
                                   fx_error *err)
{
    char *text;
    size_t n;
    FX_TRY(fx_chat_request_text(e, q, &text, &n, err));
    fx_status st = fx_tokenize_max(e, text, n, FX_TOKENIZE_BOS, q->max_tok, out, err);
    free(text);
    return st;
}

fx_request fx_request_default(void)
{
    return (fx_request){.max_tok = -1,
                        .n_choice = 1,
                        .length_penalty = 1,
                        .sampling = {.temperature = 1, .top_p = 1}};
}

static fx_status refuse(const fake_request *r, fx_error *err)
{
    static const struct {
        const char *word;
        fx_status st;
    } rows[] = {{"full", FX_EQUEUE},    {"closed", FX_ECLOSED}, {"nospace", FX_ENOSPACE},
                {"invalid", FX_EINVAL}, {"nomem", FX_ENOMEM},   {"broken", FX_EINTERNAL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(r->text, rows[i].word))
            return fxi_fail(err, rows[i].st, "the script says '%s'", r->text);
    return FX_OK;
}

static int count_words(const char *s)
{
    int n = 0;
    for (; *s; s += strcspn(s + 1, " ") + 1) n++;
    return n;
}

// Reads the order's first word, if it is a known one, and its numbers.
static void read_order(fake_request *r)
{
    static const char *const kinds[] = {"count", "slow", "draw", "fail",
                                        "flood", "halt", "gate", "stuck"};
    int n = 0, ms = 0;
    char word[16] = "";
    sscanf(r->text, "%15s %d %d", word, &n, &ms);
    snprintf(r->kind, sizeof r->kind, "say");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(word, kinds[i])) snprintf(r->kind, sizeof r->kind, "%s", word);
    r->n_token = n;
    r->every_s = ms * 1e-3;
    if (!strcmp(r->kind, "say"))
        r->n_token = count_words(r->text + (strncmp(r->text, "say ", 4) ? 0 : 4));
    r->due_s = fxi_now_s() + r->every_s;
}

static fx_status check(const fx_request *req, fx_error *err)
{
    if (!req->n_prompt) return fxi_fail(err, FX_EINVAL, "the prompt has no tokens");
    if (req->n_prompt > CTX)
        return fxi_fail(err, FX_ECONTEXT, "the prompt has %zu tokens, the context %d",
                        req->n_prompt, CTX);
    if (req->n_choice < 1 || req->n_choice > MAX_CHOICE) return fxi_fail(err, FX_EINVAL, "choices");
    return FX_OK;
}

static void remember_locked(fx_engine *e, const fx_request *req)
{
    const fx_sampling *s = &req->sampling;
    fake_seen *to = &e->seen;
    to->req = *req;
    if (s->n_bias > 8 || s->n_allow > 8 || req->n_stop_token > 8 || req->n_stop > 8) abort();
    for (size_t i = 0; i < s->n_bias; i++) to->bias[i] = s->bias[i];
    for (size_t i = 0; i < s->n_allow; i++) to->allow[i] = s->allow[i];
    for (size_t i = 0; i < req->n_stop_token; i++) to->stop_token[i] = req->stop_token[i];
    for (size_t i = 0; i < req->n_stop; i++) {
        snprintf(to->stop[i], sizeof to->stop[i], "%s", req->stop[i]);
        to->stop_list[i] = to->stop[i];
    }
    snprintf(to->tenant, sizeof to->tenant, "%s", req->tenant ? req->tenant : "");
    to->req.sampling.bias = to->bias;
    to->req.sampling.allow = to->allow;
    to->req.stop_token = to->stop_token;
    to->req.stop = to->stop_list;
    to->req.tenant = to->tenant;
}

fx_status fx_submit(fx_engine *e, const fx_request *req, uint64_t *id, fx_error *err)
{
    FX_TRY(check(req, err));
    fake_request *r = calloc(1, sizeof *r);
    r->req = *req;
    r->n_prompt = req->n_prompt;
    r->last_stop_token = req->n_stop_token ? req->stop_token[req->n_stop_token - 1] : -1;
    for (size_t i = 0, n = 0; i < req->n_prompt; i++)
        if (req->prompt[i] != BOS) r->text[n++] = (char)req->prompt[i];
    fx_status st = refuse(r, err);
    if (st != FX_OK) {
        free(r);
        return st;
    }
    read_order(r);
    pthread_mutex_lock(&e->mu);
    r->id = *id = (uint64_t)++e->counts.n_submitted;
    e->counts.n_running++;
    remember_locked(e, req);
    r->next = e->list;
    e->list = r;
    pthread_cond_signal(&e->cond);
    pthread_mutex_unlock(&e->mu);
    return FX_OK;
}

void fx_cancel(fx_engine *e, uint64_t id)
{
    pthread_mutex_lock(&e->mu);
    for (fake_request *r = e->list; r; r = r->next)
        if (r->id == id) r->cancelled = true;
    pthread_cond_signal(&e->cond);
    pthread_mutex_unlock(&e->mu);
}

// ---- what tests look at -----------------------------------------------------------------------

fake_counts fake_engine_counts(fx_engine *e)
{
    pthread_mutex_lock(&e->mu);
    fake_counts c = e->counts;
    pthread_mutex_unlock(&e->mu);
    return c;
}

const fake_seen *fake_engine_last(fx_engine *e)
{
    pthread_mutex_lock(&e->mu); // after the submission, on whichever thread that was
    pthread_mutex_unlock(&e->mu);
    return &e->seen;
}

void fake_engine_open(fx_engine *e, int n_token)
{
    pthread_mutex_lock(&e->mu);
    e->n_open = n_token;
    pthread_cond_signal(&e->cond);
    pthread_mutex_unlock(&e->mu);
}

void fake_engine_release(fx_engine *e)
{
    pthread_mutex_lock(&e->mu);
    e->released = true;
    pthread_cond_broadcast(&e->release);
    pthread_mutex_unlock(&e->mu);
}

int fake_engine_grinding(fx_engine *e)
{
    pthread_mutex_lock(&e->mu);
    int n = e->n_grinding;
    pthread_mutex_unlock(&e->mu);
    return n;
}

bool fake_engine_wait_idle(fx_engine *e, double s)
{
    double end_s = fxi_now_s() + s;
    while (fake_engine_counts(e).n_running && fxi_now_s() < end_s)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    return !fake_engine_counts(e).n_running;
}
