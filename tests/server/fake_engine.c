// fake_engine.c - the fake engine: one thread carries out the orders of the open requests.
#include "server/fake_engine.h"

#include "base/json/json.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "base/number/rng.h"
#include "base/system/clock.h"
#include "base/text/buf.h"
#include "base/text/utf8.h"

#define WORD       257 // the first
#define N_WORD     7
#define EOT        (WORD + 6)
#define N_VOCAB    (WORD + N_WORD)
#define BOS        256
#define CTX        4096
#define MAX_CHOICE 64
#define N_EMBD     8
#define EMBD_TOK   512

typedef struct fake_request {
    struct fake_request *next;
    uint64_t id;
    fx_request req; // its pointers are not valid any more
    size_t n_prompt;
    int32_t last_stop_token; // -1: none
    char kind[16];           // the order's first word
    char text[CTX + 1];      // the order
    int n_token;             // of each choice
    int32_t prompt[CTX];
    int n_char; // of the text that each choice has emitted
    double every_s, due_s;
    int pos; // tokens emitted by each choice
    bool cancelled;
    uint64_t stopped, ended; // choices, as bits
} fake_request;

struct fx_engine {
    fx_model_info info;
    char bytes[256]; // each its own value
    const char *jinja;
    pthread_t thread;
    _Atomic bool is_lost;
    pthread_mutex_t mu; // guards all below; never held during a callback
    pthread_cond_t cond, release;
    fake_request *list;
    bool closing;
    bool released;
    int n_grinding; // texts that are being tokenized
    int n_open;     // tokens that "gate" requests may emit
    fake_counts counts;
    fake_seen seen;
    pthread_mutex_t step_mu; // guards:
    void (*on_step)(void *ud);
    void *on_step_ud;
    char text[FAKE_N_TEXT][FAKE_TEXT_BYTES]; // of what was submitted
};

// ---- the engine thread ------------------------------------------------------------------------

static char flood_text[64 << 10];

static const char *const words[N_WORD] = {"A", " b", " c", " x", "\xc3", "\xa9", "<eot>"};

static bool is_word(int32_t id)
{
    return id >= WORD && id < WORD + N_WORD;
}

// The text of token `pos` of a choice.
static void token_text(const fake_request *r, int choice, fxi_buf *b)
{
    if (!strcmp(r->kind, "draw")) {
        uint64_t x = fxi_rng_u64(r->req.sampling.seed, (uint64_t)choice, (uint64_t)r->pos);
        fxi_buf_fmt(b, "%c", (int)('a' + x % 26));
    } else if (!strcmp(r->kind, "flood") || !strcmp(r->kind, "dam")) {
        fxi_buf_add(b, flood_text, sizeof flood_text);
    } else if (!strcmp(r->kind, "words")) {
        const int32_t id = r->prompt[r->n_prompt - 1] + 1 + r->pos;
        if (id == WORD + 5) fxi_buf_str(b, "\xc3\xa9"); // its first byte was held back
        if (id < WORD + 4) fxi_buf_str(b, words[id - WORD]);
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
                      .n_generated = r->pos,
                      .queued_us = FAKE_QUEUED_US,
                      .prefill_us = FAKE_PREFILL_US,
                      .decode_us = (uint64_t)(r->pos > 1 ? r->pos - 1 : 0) * FAKE_GAP_US};
}

static _Thread_local bool is_own; // this thread runs the fake's code, not a callback

bool fake_engine_is_own(void)
{
    return is_own;
}

static void call_back(const fake_request *r, const fx_event *ev)
{
    is_own = false;
    r->req.on_event(r->req.ud, ev);
    is_own = true;
}

static bool is_ended(const fake_request *r, int choice)
{
    return r->ended >> choice & 1;
}

static bool all_ended(const fake_request *r)
{
    int c = 0;
    while (c < r->req.n_choice && is_ended(r, c)) c++;
    return c == r->req.n_choice;
}

static void end_choice(fake_request *r, int c, fx_finish finish, const char *error)
{
    fx_event ev = event_of(r, c);
    ev.finish = finish;
    ev.error = error;
    if (finish == FX_FINISH_STOP && !strcmp(r->kind, "halt")) {
        if (r->req.n_stop)
            ev.stop_string = (int)r->req.n_stop - 1;
        else
            ev.stop_token = r->last_stop_token;
    }
    r->ended |= (uint64_t)1 << c;
    ev.last = all_ended(r);
    call_back(r, &ev);
}

static void end_all(fake_request *r, fx_finish finish, const char *error)
{
    for (int c = 0; c < r->req.n_choice; c++)
        if (!is_ended(r, c)) end_choice(r, c, finish, error);
}

// The vector of the text: fake_engine.h.
static void end_embedding(fake_request *r)
{
    const int n_dim = r->req.n_dim ? r->req.n_dim : N_EMBD;
    float v[N_EMBD] = {0}, squares = 0;
    fx_event ev = event_of(r, 0);
    for (const char *c = r->text; *c; c++) v[(unsigned char)*c % N_EMBD] += 1;
    for (int i = 0; i < n_dim; i++) squares += v[i] * v[i];
    for (int i = 0; i < n_dim && r->req.norm != FX_NORM_NONE && squares > 0; i++)
        v[i] /= sqrtf(squares);
    ev.finish = FX_FINISH_STOP;
    ev.last = true;
    ev.embedding = v;
    ev.n_embd = n_dim;
    call_back(r, &ev);
}

static void end_score(fake_request *r)
{
    const float score = 0.25f * (float)((int)r->req.n_prompt - r->req.n_first);
    fx_event ev = event_of(r, 0);
    ev.finish = FX_FINISH_STOP;
    ev.last = true;
    ev.embedding = &score;
    ev.n_embd = 1;
    call_back(r, &ev);
}

// The token with this text; a byte stands for all other texts.
static int32_t token_of(const fake_request *r, const fxi_buf *text)
{
    if (!strcmp(r->kind, "words")) return r->prompt[r->n_prompt - 1] + 1 + r->pos;
    for (int i = 0; i < N_WORD && text->n; i++)
        if (!strcmp(words[i], text->p)) return WORD + i;
    return text->n ? (unsigned char)text->p[text->n - 1] : 'x';
}

static void emit_prompt(const fake_request *r)
{
    for (size_t i = 1; i < r->n_prompt && r->req.prompt_logprobs; i++) {
        fx_logprob top[FX_MAX_TOP] = {{WORD + 3, -1.5F}, {r->prompt[i], -3.25F}};
        for (int k = 2; k < FX_MAX_TOP; k++) top[k] = (fx_logprob){k, -4.5F};
        const fx_token_prob p = {-3.25F, 2, top, r->req.n_prompt_top};
        fx_event ev = event_of(r, 0);
        ev.token = r->prompt[i];
        ev.position = (int)i;
        ev.prob = &p;
        call_back(r, &ev);
    }
}

static void emit_all(fake_request *r)
{
    size_t n_char = 0;
    for (int c = 0; c < r->req.n_choice; c++) {
        fxi_buf b = {0};
        fx_token_prob p;
        fx_logprob top[FX_MAX_TOP];
        if (is_ended(r, c)) continue;
        token_text(r, c, &b);
        fx_event ev = event_of(r, c);
        ev.token = token_of(r, &b);
        ev.position = (int)r->n_prompt + r->pos;
        ev.text_at = r->n_char;
        p = (fx_token_prob){.logprob = -0.5F, .rank = 1, .top = top, .n_top = r->req.n_top};
        for (int i = 0; i < p.n_top; i++)
            top[i] = (fx_logprob){(ev.token + i) % N_VOCAB, -0.5F - (float)i};
        ev.prob = r->req.logprobs ? &p : NULL;
        n_char = fxi_utf8_count(b.p ? b.p : "", b.n);
        ev.text = b.p ? b.p : "";
        ev.text_bytes = b.n;
        ev.n_generated = r->pos + 1;
        ev.gap_us = r->pos ? FAKE_GAP_US : 0;
        call_back(r, &ev);
        fxi_buf_free(&b);
    }
    r->pos++;
    r->n_char += (int)n_char;
    r->due_s += r->every_s;
}

// One step of one request, without the lock; true: it is over.
static bool step(fake_request *r, bool cancelled, bool closing)
{
    bool cut = r->req.max_tok >= 0 && r->pos >= r->req.max_tok;
    if (!r->pos && !cancelled && !closing) emit_prompt(r);
    if (cancelled)
        end_all(r, FX_FINISH_CANCEL, NULL);
    else if (closing)
        end_all(r, FX_FINISH_ABORT, NULL);
    else if (cut)
        end_all(r, FX_FINISH_LENGTH, NULL);
    else if (r->pos < r->n_token) {
        emit_all(r);
        for (int c = 0; c < r->req.n_choice; c++) // those that fx_stop_choice has named
            if (!is_ended(r, c) && r->stopped >> c & 1) end_choice(r, c, FX_FINISH_STOP, NULL);
        return all_ended(r);
    } else if (!strcmp(r->kind, "fail"))
        end_all(r, FX_FINISH_ERROR, "the script says so");
    else if (r->req.task == FX_TASK_EMBED)
        end_embedding(r);
    else if (r->req.task == FX_TASK_SCORE)
        end_score(r);
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
    bool gate = !strcmp(r->kind, "gate") || !strcmp(r->kind, "dam");
    if (gate && r->req.task == FX_TASK_EMBED) return !e->n_open;
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
    const struct timespec t = fxi_clock_after(fmax(until_s - fxi_now_s(), 0));
    pthread_cond_timedwait(&e->cond, &e->mu, &t);
}

static void *engine_main(void *ud)
{
    fx_engine *e = ud;
    is_own = true;
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
        pthread_mutex_lock(&e->step_mu);
        is_own = false;
        if (e->on_step) e->on_step(e->on_step_ud);
        is_own = true;
        pthread_mutex_unlock(&e->step_mu);
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
    e->jinja = "";
    memset(flood_text, 'f', sizeof flood_text);
    for (int i = 0; i < 256; i++) e->bytes[i] = (char)i;
    e->info = (fx_model_info){.name = "fake",
                              .device = "cpu",
                              .n_thread = 1,
                              .n_vocab = N_VOCAB,
                              .bos_id = BOS,
                              .eos_id = -1,
                              .ctx_tok = CTX,
                              .presets = fx_presets_none()};
    fake_engine_abilities(e, true, true);
    pthread_mutex_init(&e->mu, NULL);
    pthread_mutex_init(&e->step_mu, NULL);
    fxi_cond_init(&e->cond);
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
    pthread_mutex_destroy(&e->step_mu);
    free(e);
}

void fx_engine_on_step(fx_engine *e, void (*fn)(void *ud), void *ud)
{
    pthread_mutex_lock(&e->step_mu);
    e->on_step = fn;
    e->on_step_ud = ud;
    pthread_mutex_unlock(&e->step_mu);
}

const fx_model_info *fx_engine_info(const fx_engine *e)
{
    return &e->info;
}

void fx_engine_stats(const fx_engine *e, fx_stats *out)
{
    *out = (fx_stats){.kv_mapped_bytes = 123456789012, .device_is_lost = e->is_lost};
}

void fake_engine_lose_device(fx_engine *e, bool is_lost)
{
    e->is_lost = is_lost;
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

const char *fx_token_text(const fx_engine *e, int32_t id, size_t *n)
{
    const char *s = id == BOS ? "<s>" : is_word(id) ? words[id - WORD] : &e->bytes[id & 255];
    *n = id < BOS ? 1 : strlen(s);
    return s;
}

const char *fx_token_bytes(const fx_engine *e, int32_t id, size_t *n)
{
    const char *s = fx_token_text(e, id, n);
    if (id == BOS || id == EOT) *n = 0;
    return *n ? s : "";
}

const char *fx_chat_template(const fx_engine *e, bool with_tools, size_t *n)
{
    (void)with_tools;
    *n = strlen(e->jinja);
    return e->jinja;
}

void fake_engine_presets(fx_engine *e, fx_presets p)
{
    e->info.presets = p;
}

void fake_engine_title(fx_engine *e, const char *title)
{
    snprintf(e->info.title, sizeof e->info.title, "%s", title);
}

void fake_engine_template(fx_engine *e, const char *jinja)
{
    e->jinja = jinja;
}

fx_status fx_detokenize(const fx_engine *e, const int32_t *id, size_t n, bool show_control,
                        size_t *at, char **out, size_t *n_bytes, fx_error *err)
{
    fxi_buf b = {0};
    bool ok = fxi_buf_str(&b, "");
    for (size_t i = 0; ok && i < n; i++) {
        size_t len;
        const char *s = fx_token_text(e, id[i], &len);
        if (at) at[i] = fxi_utf8_count(b.p ? b.p : "", b.n);
        if (show_control || (id[i] != BOS && id[i] != EOT)) ok = fxi_buf_add(&b, s, len);
    }
    if (!ok) {
        fxi_buf_free(&b);
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    }
    *n_bytes = b.n;
    *out = b.p;
    return FX_OK;
}

void fx_clear_cache(fx_engine *e)
{
    pthread_mutex_lock(&e->mu);
    e->counts.n_cleared++;
    pthread_mutex_unlock(&e->mu);
}

fx_status fx_set_kv_memory(fx_engine *e, uint64_t kv_memory_bytes, fx_error *err)
{
    if (kv_memory_bytes < 1000) return fxi_fail(err, FX_EINVAL, "too small");
    pthread_mutex_lock(&e->mu);
    e->counts.kv_memory_bytes = kv_memory_bytes;
    pthread_mutex_unlock(&e->mu);
    return FX_OK;
}

static bool add_token(fx_tokens *t, int32_t id)
{
    if (t->n == t->cap) {
        int32_t *more = realloc(t->id, (t->cap * 2 + 64) * sizeof *more);
        if (!more) return false;
        t->id = more;
        t->cap = t->cap * 2 + 64;
    }
    t->id[t->n++] = id;
    return true;
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
    bool ok = !(flags & FX_TOKENIZE_BOS) || add_token(out, BOS);
    for (size_t i = 0; ok && i < n; i++) {
        const bool eot = flags & FX_TOKENIZE_CONTROL && n - i >= 5 && !memcmp(text + i, "<eot>", 5);
        ok = add_token(out, eot ? EOT : (unsigned char)text[i]);
        if (eot) i += 4;
    }
    if (flags & FX_TOKENIZE_EOS && !e->info.generates) ok = ok && add_token(out, EOT);
    return ok ? FX_OK : fxi_fail(err, FX_ENOMEM, "out of memory");
}

fx_status fx_tokenize(const fx_engine *e, const char *text, size_t n, unsigned flags,
                      fx_tokens *out, fx_error *err)
{
    return fx_tokenize_max(e, text, n, flags, 0, out, err);
}

fx_status fx_tokenize_pair(const fx_engine *e, const char *const text[2], const size_t n_bytes[2],
                           size_t max_tok, fx_tokens *out, size_t *n_first, fx_error *err)
{
    FX_TRY(fx_tokenize_max(e, text[0], n_bytes[0], FX_TOKENIZE_BOS, max_tok, out, err));
    *n_first = out->n;
    return fx_tokenize_max(e, text[1], n_bytes[1], 0, max_tok, out, err);
}

// The text of a conversation is that of its last message.
static char *last_text(const char *json, size_t n_bytes)
{
    static const fxi_json_rules rules = {.nul_texts = true};
    fxi_json_doc doc = {0};
    (void)fxi_json_parse(&doc, (fxi_str){json, n_bytes}, &rules, NULL);
    const fxi_json *messages = doc.root;
    const fxi_json *last = fxi_json_at(messages, fxi_json_array_size(messages) - 1),
                   *v = fxi_json_get(last, "content");
    if (fxi_json_is_array(v)) v = fxi_json_get(fxi_json_at(v, 0), "text");
    char *text = messages ? strdup(fxi_json_is_string(v) ? fxi_json_text(v) : "") : NULL;
    fxi_json_doc_free(&doc);
    return text;
}

fx_status fx_chat_request_text(const fx_engine *e, const fx_chat_request *q, char **out, size_t *n,
                               fx_error *err)
{
    (void)e;
    *out = last_text(q->messages, q->messages_bytes);
    if (!*out) return fxi_fail(err, FX_ENOMEM, "out of memory");
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
    static const char *const breakers[] = {"\n", ":", "\"", "*"};
    return (fx_request){.max_tok = -1,
                        .n_choice = 1,
                        .length_penalty = 1,
                        .sampling = {.temperature = 1,
                                     .top_p = 1,
                                     .dry_base = 1.75f,
                                     .dry_allowed_length = 2,
                                     .dry_last_tok = -1,
                                     .dry_breaker = breakers,
                                     .n_dry_breaker = 4,
                                     .xtc_threshold = 0.1f}};
}

// Reads the order's first word, if it is a known one, and its numbers.
static void read_order(fake_request *r)
{
    static const char *const kinds[] = {"count", "slow", "draw", "fail", "flood",
                                        "halt",  "gate", "dam",  "stuck"};
    int n = 0, ms = 0;
    char word[16] = "";
    sscanf(r->text, "%15s %d %d", word, &n, &ms);
    snprintf(r->kind, sizeof r->kind, "say");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(word, kinds[i])) snprintf(r->kind, sizeof r->kind, "%s", word);
    r->n_token = n;
    r->every_s = ms * 1e-3;
    const int32_t last = r->prompt[r->n_prompt - 1];
    if (is_word(last) && r->req.task == FX_TASK_GENERATE) {
        snprintf(r->kind, sizeof r->kind, "words");
        r->n_token = EOT - last;
    }
    if (!strcmp(r->kind, "say")) {
        const char *s = r->text + (strncmp(r->text, "say ", 4) ? 0 : 4);
        for (r->n_token = 0; *s; s += strcspn(s + 1, " ") + 1) r->n_token++;
    }
    r->due_s = fxi_now_s() + r->every_s;
}

static fx_status check(const fx_engine *e, const fx_request *req, fx_error *err)
{
    const bool embeds = req->task != FX_TASK_GENERATE;
    if (!req->n_prompt) return fxi_fail(err, FX_EINVAL, "the prompt has no tokens");
    if (!embeds && !e->info.generates)
        return fxi_fail(err, FX_EINVAL, "the model does not generate");
    if (req->task == FX_TASK_SCORE && !e->info.scores)
        return fxi_fail(err, FX_EINVAL, "the model does not score");
    if (req->task == FX_TASK_EMBED && !e->info.embeds)
        return fxi_fail(err, FX_EINVAL, "the model does not embed");
    if (embeds && (req->n_dim < 0 || req->n_dim > N_EMBD))
        return fxi_fail(err, FX_EINVAL, "dimensions");
    if (embeds && req->n_prompt > EMBD_TOK)
        return fxi_fail(err, FX_ECONTEXT, "the text has %zu tokens, the model embeds %d",
                        req->n_prompt, EMBD_TOK);
    if (req->n_prompt > CTX)
        return fxi_fail(err, FX_ECONTEXT, "the prompt has %zu tokens, the context %d",
                        req->n_prompt, CTX);
    if (!embeds && (req->n_choice < 1 || req->n_choice > MAX_CHOICE))
        return fxi_fail(err, FX_EINVAL, "choices");
    return FX_OK;
}

static void remember_locked(fx_engine *e, const fx_request *req)
{
    const fx_sampling *s = &req->sampling;
    fake_seen *to = &e->seen;
    to->req = *req;
    if (s->n_bias > 8 || s->n_allow > 8 || req->n_stop_token > 8 || req->n_stop > 8) abort();
    for (size_t i = 0; i < s->n_bias; i++) to->bias[i] = s->bias[i];
    for (size_t i = 0; i < s->n_ban_run && i < 8; i++) {
        to->run[i] = (fx_id_run){to->run_id[i], s->ban_run[i].n};
        memcpy(to->run_id[i], s->ban_run[i].id, s->ban_run[i].n * sizeof(int32_t));
    }
    for (size_t i = 0; i < 8 && i < req->n_prompt; i++) to->prompt[i] = req->prompt[i];
    to->req.prompt = to->prompt;
    to->thought = req->thought ? *req->thought : (fx_thought){0};
    to->req.thought = NULL;
    to->req.sampling.ban_run = to->run;
    for (size_t i = 0; i < s->n_allow; i++) to->allow[i] = s->allow[i];
    for (size_t i = 0; i < req->n_stop_token; i++) to->stop_token[i] = req->stop_token[i];
    for (size_t i = 0; i < req->n_stop; i++) {
        snprintf(to->stop[i], sizeof to->stop[i], "%s", req->stop[i]);
        to->stop_list[i] = to->stop[i];
    }
    snprintf(to->form, sizeof to->form, "%s", fake_engine_form(req->grammar));
    snprintf(to->tenant, sizeof to->tenant, "%s", req->tenant ? req->tenant : "");
    to->req.sampling.bias = to->bias;
    to->req.sampling.allow = to->allow;
    to->req.stop_token = to->stop_token;
    to->req.stop = to->stop_list;
    to->req.tenant = to->tenant;
}

fx_status fx_submit(fx_engine *e, const fx_request *req, uint64_t *id, fx_error *err)
{
    static const struct {
        const char *word;
        fx_status st;
    } refused[] = {{"full", FX_EQUEUE},    {"closed", FX_ECLOSED}, {"nospace", FX_ENOSPACE},
                   {"invalid", FX_EINVAL}, {"nomem", FX_ENOMEM},   {"broken", FX_EINTERNAL}};
    FX_TRY(check(e, req, err));
    fake_request *r = calloc(1, sizeof *r);
    if (!r) return fxi_fail(err, FX_ENOMEM, "out of memory");
    r->req = *req;
    if (req->task != FX_TASK_GENERATE) r->req.max_tok = -1, r->req.n_choice = 1;
    r->n_prompt = req->n_prompt;
    r->last_stop_token = req->n_stop_token ? req->stop_token[req->n_stop_token - 1] : -1;
    memcpy(r->prompt, req->prompt, req->n_prompt * sizeof *r->prompt);
    for (size_t i = 0, n = 0; i < req->n_prompt; i++)
        if (req->prompt[i] < BOS) r->text[n++] = (char)req->prompt[i];
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (!strcmp(r->text, refused[i].word)) {
            free(r);
            return fxi_fail(err, refused[i].st, "the script says '%s'", refused[i].word);
        }
    read_order(r);
    if (req->task != FX_TASK_GENERATE) r->n_token = 0;
    pthread_mutex_lock(&e->mu);
    const int n = e->counts.n_submitted;
    if (n < FAKE_N_TEXT)
        snprintf(e->text[n], sizeof e->text[n], "%.*s", FAKE_TEXT_BYTES - 1, r->text);
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

void fx_stop_choice(fx_engine *e, uint64_t id, int choice)
{
    pthread_mutex_lock(&e->mu);
    for (fake_request *r = e->list; r; r = r->next)
        if (r->id == id) r->stopped |= (uint64_t)1 << choice;
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

const char *fake_engine_text(fx_engine *e, int i)
{
    pthread_mutex_lock(&e->mu); // after the submission, on whichever thread that was
    pthread_mutex_unlock(&e->mu);
    return e->text[i];
}

void fake_engine_abilities(fx_engine *e, bool generates, bool embeds)
{
    e->info.generates = generates;
    e->info.embeds = embeds;
    e->info.n_embd = embeds ? N_EMBD : 0;
    e->info.embd_tok = embeds ? EMBD_TOK : 0;
    snprintf(e->info.pooling, sizeof e->info.pooling, "%s", embeds ? "mean" : "");
}

void fake_engine_scores(fx_engine *e)
{
    fake_engine_abilities(e, false, false);
    e->info.scores = true;
    e->info.embd_tok = EMBD_TOK;
    snprintf(e->info.pooling, sizeof e->info.pooling, "rank");
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
