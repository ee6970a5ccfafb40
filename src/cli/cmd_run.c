// cmd_run.c - `flexinfer run`: one completion, or a chat in the terminal or from a pipe.
#include "base/system/clock.h"
#include "base/system/grow.h"
#include "cli/cli.h"
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- one request -------------------------------------------------------------------------------
//
// The engine's thread must not block on a slow terminal or pipe: its callback only appends to a
// buffer and wakes the main thread, which writes. Times are taken when events happen, not when
// their text is printed.

typedef struct completion {
    fxi_buf text;       // written
    pthread_mutex_t mu; // guards what follows, until the request has ended
    fxi_buf pending;    // text not yet written
    bool last;          // the request has ended, and nothing below changes any more
    bool no_memory;     // an event's text was lost
    fx_finish finish;
    int n_prompt, n_generated;
    double start_s, first_s, end_s; // of the clock; first_s 0: no token has come
    char error[FX_ERROR_TEXT_BYTES];
} completion;

static void add_event_text(void *ud, const fx_event *ev)
{
    completion *s = ud;
    pthread_mutex_lock(&s->mu);
    if (ev->token >= 0 && s->first_s == 0) s->first_s = fxi_now_s();
    if (ev->text_bytes && !fxi_buf_add(&s->pending, ev->text, ev->text_bytes)) s->no_memory = true;
    s->n_prompt = ev->n_prompt;
    s->n_generated = ev->n_generated;
    if (ev->finish != FX_FINISH_NONE) {
        s->end_s = fxi_now_s();
        s->finish = ev->finish;
        if (ev->error) snprintf(s->error, sizeof s->error, "%s", ev->error);
    }
    s->last = ev->last;
    pthread_mutex_unlock(&s->mu);
    fxi_signals_wake();
}

// Writes until the request has ended, and waits for that end even after a failure: the engine holds
// our callback.
static fx_status write_until_end(completion *s, fx_engine *eng, uint64_t id, fx_error *err)
{
    fxi_buf text = {0};
    fx_status st = FX_OK;
    bool is_cancelled = false;
    for (bool last = false; !last;) {
        fxi_signals_wait();
        fxi_buf_clear(&text);
        pthread_mutex_lock(&s->mu);
        const fxi_buf got = s->pending;
        s->pending = text;
        text = got;
        last = s->last;
        pthread_mutex_unlock(&s->mu);
        if (st == FX_OK && text.n &&
            (fwrite(text.p, 1, text.n, stdout) != text.n || fflush(stdout) != 0))
            st = fxi_fail(err, FX_EIO, "cannot write to stdout: %s", strerror(errno));
        if (text.n && !fxi_buf_add(&s->text, text.p, text.n)) s->no_memory = true;
        if (!is_cancelled && (st != FX_OK || fxi_signals_stop())) {
            fx_cancel(eng, id);
            is_cancelled = true;
        }
    }
    fxi_buf_free(&text);
    return st;
}

// Completes the prompt up to the text `stop`, NULL: to its end. Writes the text to stdout as it
// arrives and collects it in *out, whose text the caller frees. A signal cancels the request.
// Errors: those of fx_submit; FX_EIO (stdout); FX_EINTERNAL (the request failed); FX_ENOMEM.
static fx_status run_completion(fx_engine *eng, const fxi_cli_options *o, const fx_tokens *prompt,
                                const char *stop, completion *out, fx_error *err)
{
    fx_request req = fx_request_default();
    *out = (completion){.mu = PTHREAD_MUTEX_INITIALIZER, .start_s = fxi_now_s()};
    req.prompt = prompt->id;
    req.n_prompt = prompt->n;
    req.max_tok = o->max_tok;
    const fx_sampling preset = req.sampling;
    req.sampling = o->sampling;
    req.sampling.dry_breaker = o->dry_breaker ? &o->dry_breaker : preset.dry_breaker;
    req.sampling.n_dry_breaker =
        o->dry_breaker ? strcmp(o->dry_breaker, "none") != 0 : preset.n_dry_breaker;
    req.ignore_eos = o->ignore_eos;
    req.stop = &stop;
    req.n_stop = stop != NULL;
    req.on_event = add_event_text;
    req.ud = out;
    uint64_t id;
    fx_status st = fx_submit(eng, &req, &id, err);
    if (st == FX_OK) st = write_until_end(out, eng, id, err);
    if (st == FX_OK && out->finish == FX_FINISH_ERROR)
        st = fxi_fail(err, FX_EINTERNAL, "%s", out->error);
    else if (st == FX_OK && out->no_memory)
        st = fxi_fail(err, FX_ENOMEM, "out of memory for the answer's text");
    fxi_buf_free(&out->pending);
    pthread_mutex_destroy(&out->mu);
    return st;
}

static void print_figures(const fx_engine *eng, const completion *a)
{
    fx_stats st;
    fx_engine_stats(eng, &st);
    char mapped[FXI_SIZE_TEXT_BYTES], live[FXI_SIZE_TEXT_BYTES];
    fxi_cli_size(st.kv_peak_mapped_bytes, mapped);
    fxi_cli_size(st.kv_peak_live_bytes, live);
    const double first_s = a->first_s > 0 ? a->first_s - a->start_s : 0;
    const double decode_s = a->end_s - a->start_s - first_s;
    double rate = a->n_generated > 1 && decode_s > 0 ? (a->n_generated - 1) / decode_s : 0;
    fprintf(stderr,
            "[%d prompt tokens, first token after %.0f ms, %d tokens at %.1f tokens/s, KV cache at "
            "most %s mapped for %s live]\n",
            a->n_prompt, first_s * 1e3, a->n_generated, rate, mapped, live);
}

// ---- chat --------------------------------------------------------------------------------------
//
// Every line is a message; the history grows by it and by the answer. A message that fails, say
// because it no longer fits the context, is removed again, so the conversation stays usable. Ctrl-C
// stops an answer, which stays in the history as far as it got; Ctrl-D ends the chat. Prompt and
// remarks go to stderr: stdout holds the answers alone.

typedef struct conversation {
    fx_engine *eng;
    const fxi_cli_options *o;
    fx_message *msg; // each content is owned
    size_t n_msg, cap;
    bool terminal; // a person types
    bool over;
    int rc;
} conversation;

static fx_status add_message(conversation *c, const char *role, const char *text, size_t n_bytes,
                             fx_error *err)
{
    char *copy = malloc(n_bytes + 1);
    if (!copy || !fxi_grow(&c->msg, sizeof *c->msg, c->n_msg, &c->cap)) {
        free(copy);
        return fxi_fail(err, FX_ENOMEM, "out of memory for the conversation");
    }
    if (n_bytes) memcpy(copy, text, n_bytes);
    copy[n_bytes] = 0;
    c->msg[c->n_msg++] = (fx_message){role, copy, n_bytes};
    return FX_OK;
}

static void drop_messages_from(conversation *c, size_t n_msg)
{
    while (c->n_msg > n_msg) free((char *)c->msg[--c->n_msg].content);
}

static void run_chat_command(conversation *c, const char *line)
{
    if (strcmp(line, "/quit") == 0) {
        c->over = true;
    } else if (strcmp(line, "/reset") == 0) {
        drop_messages_from(c, 0);
        fprintf(stderr, "a new conversation\n");
    } else if (strcmp(line, "/help") == 0) {
        fprintf(stderr, "/reset  start a new conversation\n"
                        "/quit   leave (or Ctrl-D)\n"
                        "/help   this list\n"
                        "Ctrl-C  stop an answer\n");
    } else {
        fprintf(stderr, "no such command: %s (see /help)\n", line);
    }
}

// ---- messages -----------------------------------------------------------------------------------

static fx_status answer_message(conversation *c, const char *line, size_t n_bytes, fx_error *err)
{
    // Where a model without a template would make up the user's next line.
    const char *turn = fx_engine_info(c->eng)->has_chat_template ? NULL : "\nUser:";
    completion a = {.finish = FX_FINISH_NONE};
    fx_tokens prompt = {0};
    size_t before = c->n_msg;
    fx_status st = add_message(c, "user", line, n_bytes, err);
    if (st == FX_OK) st = fx_chat_tokenize(c->eng, c->msg, c->n_msg, &prompt, err);
    if (st == FX_OK) st = run_completion(c->eng, c->o, &prompt, turn, &a, err);
    if (st == FX_OK) st = add_message(c, "assistant", a.text.p, a.text.n, err);
    fx_tokens_free(&prompt);
    fxi_buf_free(&a.text);
    if (st != FX_OK) {
        drop_messages_from(c, before);
        return st;
    }
    fputs("\n", stdout);
    fflush(stdout);
    if (c->terminal) print_figures(c->eng, &a);
    return FX_OK;
}

// Ctrl-C at a terminal stops an answer; every other signal ends the chat.
static void take_signal(conversation *c)
{
    int number = fxi_signals_stop();
    fxi_signals_clear();
    if (number == 0 || (number == SIGINT && c->terminal)) return;
    c->over = true;
    c->rc = FXI_EXIT_SIGNAL + number;
}

// ---- the loop -----------------------------------------------------------------------------------

// The next line without its newline; false at the end of input. Ctrl-C gives an empty line.
static bool read_line(conversation *c, char **line, size_t *cap, size_t *n_bytes)
{
    *n_bytes = 0;
    if (c->terminal) fprintf(stderr, "> ");
    if (!fxi_signals_wait_input(STDIN_FILENO)) {
        take_signal(c);
        if (!c->over) fprintf(stderr, "\n(/quit or Ctrl-D ends)\n");
        return !c->over;
    }
    ssize_t n = getline(line, cap, stdin);
    if (n < 0) return false;
    if (n > 0 && (*line)[n - 1] == '\n') (*line)[--n] = 0;
    *n_bytes = (size_t)n;
    return true;
}

static int run_conversation(fx_engine *eng, const fxi_cli_options *o)
{
    conversation c = {.eng = eng, .o = o, .terminal = isatty(STDIN_FILENO)};
    char *line = NULL;
    size_t cap = 0, n = 0;
    fx_error err;
    setvbuf(stdin, NULL, _IONBF, 0); // poll must see what has not been read yet
    if (c.terminal) fprintf(stderr, "%s: /help lists the commands\n", fx_engine_info(eng)->name);
    while (!c.over && read_line(&c, &line, &cap, &n)) {
        if (n == 0) continue;
        if (line[0] == '/') {
            run_chat_command(&c, line);
            continue;
        }
        const fx_status st = answer_message(&c, line, n, &err);
        take_signal(&c);
        if (st == FX_OK) continue;
        fxi_cli_fail(st == FX_ECONTEXT ? "%s (/reset starts a new conversation)" : "%s", err.text);
        c.rc = FXI_EXIT_FAILURE;
        c.over = c.over || !c.terminal || st == FX_EIO;
    }
    free(line);
    drop_messages_from(&c, 0);
    free(c.msg);
    return c.rc;
}

// ---- the command -------------------------------------------------------------------------------

static int run_once(fx_engine *eng, const fxi_cli_options *o)
{
    fx_error err;
    completion a = {.finish = FX_FINISH_NONE};
    fx_tokens prompt = {0};
    fx_status st =
        fx_tokenize(eng, o->prompt, strlen(o->prompt), FX_TOKENIZE_PROMPT, &prompt, &err);
    if (st == FX_OK) st = run_completion(eng, o, &prompt, NULL, &a, &err);
    fx_tokens_free(&prompt);
    fxi_buf_free(&a.text);
    if (st != FX_OK) return fxi_cli_fail("%s", err.text);
    fprintf(stdout, "\n");
    fflush(stdout);
    print_figures(eng, &a);
    return fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop() : 0;
}

int fxi_cmd_run(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)rest;
    fx_error err;
    fx_engine *eng;
    if (fxi_cli_open_generator(o, &eng, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    int rc = !fxi_signals_catch() ? fxi_cli_fail("out of file descriptors")
             : o->prompt          ? run_once(eng, o)
                                  : run_conversation(eng, o);
    fx_engine_close(eng);
    return rc;
}
