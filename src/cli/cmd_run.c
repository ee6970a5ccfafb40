// cmd_run.c - `flexinfer run`: one completion, one answer, or a chat from a terminal or pipe.
#include "base/system/clock.h"
#include "base/system/grow.h"
#include "cli/cli.h"
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <math.h>
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
    fx_stats before;    // of the engine
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

static void set_sampling(const fx_engine *eng, const fxi_cli_options *o, fx_sampling *out)
{
    const fx_sampling *from = &o->sampling;
    fx_sampling_preset(fx_engine_info(eng), &o->presets, out);
    out->seed = from->seed;
    out->dry_multiplier = from->dry_multiplier;
    out->dry_base = from->dry_base;
    out->dry_allowed_length = from->dry_allowed_length;
    out->dry_last_tok = from->dry_last_tok;
    out->xtc_probability = from->xtc_probability;
    out->xtc_threshold = from->xtc_threshold;
    if (!o->dry_breaker) return;
    out->dry_breaker = &o->dry_breaker;
    out->n_dry_breaker = strcmp(o->dry_breaker, "none") != 0;
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
    set_sampling(eng, o, &req.sampling);
    req.ignore_eos = o->ignore_eos;
    req.stop = &stop;
    req.n_stop = stop != NULL;
    req.on_event = add_event_text;
    req.ud = out;
    uint64_t id;
    fx_engine_stats(eng, &out->before);
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

// What drafts brought since `before`: how many tokens, and how much time by the engine's estimate.
static void print_drafts(const fx_stats *before, const fx_stats *now)
{
    const double n_draft = (double)(now->n_draft - before->n_draft);
    const double n_accepted = (double)(now->n_accepted_tok - before->n_accepted_tok);
    const double saved_us = (double)(now->draft_saved_us - before->draft_saved_us) -
                            (double)(now->draft_lost_us - before->draft_lost_us);
    if (n_draft <= 0) return;
    fprintf(stderr, "[drafts: %.0f of %.0f tokens accepted, %.1f per draft, about %.2f s %s]\n",
            n_accepted, (double)(now->n_draft_tok - before->n_draft_tok), n_accepted / n_draft,
            fabs(saved_us) / 1e6, saved_us < 0 ? "lost" : "saved");
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
    print_drafts(&a->before, &st);
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
    size_t n_first; // of them stay: the system's
    bool terminal;  // a person types
    bool shows_figures;
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

static fx_status begin_conversation(conversation *c, fx_error *err)
{
    const char *text = c->o->system;
    if (text && text[0]) FX_TRY(add_message(c, "system", text, strlen(text), err));
    c->n_first = c->n_msg;
    return FX_OK;
}

static void drop_messages_from(conversation *c, size_t n_msg)
{
    while (c->n_msg > n_msg) free((char *)c->msg[--c->n_msg].content);
}

static void end_conversation(conversation *c)
{
    drop_messages_from(c, 0);
    free(c->msg);
}

// ---- its commands -------------------------------------------------------------------------------

static void end_chat(conversation *c)
{
    c->over = true;
}

static void clear_chat(conversation *c)
{
    drop_messages_from(c, c->n_first);
    fprintf(stderr, "a new conversation\n");
}

static void print_chat_help(conversation *c);

static const struct chat_command {
    const char *names; // the first is shown first; the others are what users of other chats type
    const char *about;
    void (*call)(conversation *c);
} chat_commands[] = {
    {"/clear /reset /new", "start a new conversation", clear_chat},
    {"/exit /quit /bye /q", "leave (or Ctrl-D)", end_chat},
    {"/help /?", "this list", print_chat_help},
};

enum { N_CHAT_COMMAND = sizeof chat_commands / sizeof chat_commands[0] };

static void print_chat_help(conversation *c)
{
    (void)c;
    for (int i = 0; i < N_CHAT_COMMAND; i++)
        fprintf(stderr, "%-20s  %s\n", chat_commands[i].names, chat_commands[i].about);
    fprintf(stderr, "%-20s  %s\n", "Ctrl-C", "stop an answer");
}

static void run_chat_command(conversation *c, const char *line)
{
    const fxi_str word = {line, strcspn(line, " \t\r")};
    char name[32];
    snprintf(name, sizeof name, "%.*s", word.n < sizeof name ? (int)word.n : 0, word.p);
    for (int i = 0; i < N_CHAT_COMMAND; i++)
        if (fxi_list_has(chat_commands[i].names, " ", name)) {
            chat_commands[i].call(c);
            return;
        }
    fprintf(stderr, "no command %.*s; there are", word.n < 60 ? (int)word.n : 60, word.p);
    for (int i = 0; i < N_CHAT_COMMAND; i++)
        fprintf(stderr, "%s %.*s", i ? "," : "", (int)strcspn(chat_commands[i].names, " "),
                chat_commands[i].names);
    fprintf(stderr, "\n");
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
    if (c->shows_figures) print_figures(c->eng, &a);
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
        if (!c->over) fprintf(stderr, "\n(/exit or Ctrl-D ends)\n");
        return !c->over;
    }
    ssize_t n = getline(line, cap, stdin);
    if (n < 0) return false;
    if (n > 0 && (*line)[n - 1] == '\n') (*line)[--n] = 0;
    *n_bytes = (size_t)n;
    return true;
}

static void warn_of_base_model(const fx_engine *eng, const fxi_cli_options *o)
{
    if (fxi_cli_lacks_template(o, fx_engine_info(eng)))
        fprintf(stderr, "warning: %s\n", fxi_cli_no_template);
}

static int run_conversation(fx_engine *eng, const fxi_cli_options *o)
{
    conversation c = {.eng = eng, .o = o, .terminal = isatty(STDIN_FILENO)};
    c.shows_figures = c.terminal;
    char *line = NULL;
    size_t cap = 0, n = 0;
    fx_error err;
    if (begin_conversation(&c, &err) != FX_OK) {
        end_conversation(&c);
        return fxi_cli_fail("%s", err.text);
    }
    warn_of_base_model(eng, o);
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
        fxi_cli_fail(st == FX_ECONTEXT ? "%s (/clear starts a new conversation)" : "%s", err.text);
        c.rc = FXI_EXIT_FAILURE;
        c.over = c.over || !c.terminal || st == FX_EIO;
    }
    free(line);
    end_conversation(&c);
    return c.rc;
}

// ---- the command -------------------------------------------------------------------------------

// Completes the text as it is, without a chat template.
static int complete_text(fx_engine *eng, const fxi_cli_options *o, fxi_str text)
{
    fx_error err;
    completion a = {.finish = FX_FINISH_NONE};
    fx_tokens prompt = {0};
    fx_status st = fx_tokenize(eng, text.p, text.n, FX_TOKENIZE_PROMPT, &prompt, &err);
    if (st == FX_OK) st = run_completion(eng, o, &prompt, NULL, &a, &err);
    fx_tokens_free(&prompt);
    fxi_buf_free(&a.text);
    if (st != FX_OK) return fxi_cli_fail("%s", err.text);
    fprintf(stdout, "\n");
    fflush(stdout);
    print_figures(eng, &a);
    return fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop() : 0;
}

// A chat of one message.
static int answer_once(fx_engine *eng, const fxi_cli_options *o, const char *message)
{
    conversation c = {.eng = eng, .o = o, .shows_figures = true};
    fx_error err;
    warn_of_base_model(eng, o);
    fx_status st = begin_conversation(&c, &err);
    if (st == FX_OK) st = answer_message(&c, message, strlen(message), &err);
    if (st != FX_OK) c.rc = fxi_cli_fail("%s", err.text);
    take_signal(&c);
    end_conversation(&c);
    return c.rc;
}

// The text of --prompt or --file; *text gets the file's, whose last line's end is no part of it.
static fx_status find_prompt(const fxi_cli_options *o, fxi_buf *text, fxi_str *prompt,
                             fx_error *err)
{
    *prompt = fxi_str_of(o->prompt ? o->prompt : "");
    if (!o->prompt_file) return FX_OK;
    FX_TRY(fxi_cli_read_text(o->prompt_file, text, err));
    *prompt = (fxi_str){text->p, text->n - (text->n && text->p[text->n - 1] == '\n')};
    return FX_OK;
}

int fxi_cmd_run(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    fx_error err;
    fx_engine *eng = NULL;
    fxi_buf file = {0};
    fxi_str prompt;
    int rc;
    if (!!o->prompt + !!o->prompt_file + rest->n > 1) {
        fxi_cli_fail("a message, --prompt or --file: one of them (see 'flexinfer help run')");
        return FXI_EXIT_USAGE;
    }
    if (o->system && (o->prompt || o->prompt_file)) {
        fxi_cli_fail(
            "--system is for chats, and --prompt completes a text (see 'flexinfer help run')");
        return FXI_EXIT_USAGE;
    }
    if (find_prompt(o, &file, &prompt, &err) != FX_OK ||
        fxi_cli_open_generator(o, &eng, &err) != FX_OK)
        rc = fxi_cli_fail("%s", err.text);
    else if (!fxi_signals_catch())
        rc = fxi_cli_fail("out of file descriptors");
    else
        rc = o->prompt || o->prompt_file ? complete_text(eng, o, prompt)
             : rest->n                   ? answer_once(eng, o, rest->arg[0])
                                         : run_conversation(eng, o);
    fx_engine_close(eng);
    fxi_buf_free(&file);
    return rc;
}
