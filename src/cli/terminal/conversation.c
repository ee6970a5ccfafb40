// conversation.c - a chat in the terminal, or from a pipe.
//
// Every line is a message; the history grows by it and by the answer. A message that fails, say
// because it no longer fits the context, is removed again, so the conversation stays usable. Ctrl-C
// stops an answer, which stays in the history as far as it got; Ctrl-D ends the chat. Prompt and
// remarks go to stderr: stdout holds the answers alone.
#include "cli/terminal/terminal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    if (c->n_msg == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 16;
        fx_message *msg = realloc(c->msg, cap * sizeof *msg);
        if (!msg) return fxi_fail(err, FX_ENOMEM, "no memory for the conversation");
        c->msg = msg;
        c->cap = cap;
    }
    char *copy = malloc(n_bytes + 1);
    if (!copy) return fxi_fail(err, FX_ENOMEM, "no memory for the conversation");
    if (n_bytes) memcpy(copy, text, n_bytes);
    copy[n_bytes] = 0;
    c->msg[c->n_msg++] = (fx_message){role, copy, n_bytes};
    return FX_OK;
}

static void drop_messages_from(conversation *c, size_t n_msg)
{
    while (c->n_msg > n_msg) free((char *)c->msg[--c->n_msg].content);
}

// ---- commands -----------------------------------------------------------------------------------

static void end_chat(conversation *c)
{
    c->over = true;
}

static void start_over(conversation *c)
{
    drop_messages_from(c, 0);
    fprintf(stderr, "a new conversation\n");
}

static void print_chat_help(conversation *c)
{
    (void)c;
    fprintf(stderr, "/reset  start a new conversation\n"
                    "/quit   leave (or Ctrl-D)\n"
                    "/help   this list\n"
                    "Ctrl-C  stop an answer\n");
}

static const struct {
    const char *name;
    void (*call)(conversation *c);
} commands[] = {{"/reset", start_over}, {"/quit", end_chat}, {"/help", print_chat_help}};

static void run_chat_command(conversation *c, const char *line)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(line, commands[i].name) == 0) {
            commands[i].call(c);
            return;
        }
    }
    fprintf(stderr, "no such command: %s (see /help)\n", line);
}

// ---- messages -----------------------------------------------------------------------------------

static fx_status ask_model(conversation *c, fxi_completion *a, fx_error *err)
{
    static const char *const turn[] = {
        "\nUser:"}; // where a model without a template would make up the user's next line
    fx_tokens prompt = {0};
    FX_TRY(fx_chat_tokenize(c->eng, c->msg, c->n_msg, &prompt, err));
    fx_request req = fxi_completion_request(c->o);
    req.prompt = prompt.id;
    req.n_prompt = prompt.n;
    if (!fx_engine_info(c->eng)->has_chat_template) {
        req.stop = turn;
        req.n_stop = 1;
    }
    fx_status st = fxi_completion_run(c->eng, &req, a, err);
    fx_tokens_free(&prompt);
    return st;
}

static fx_status answer_message(conversation *c, const char *line, size_t n_bytes, fx_error *err)
{
    fxi_completion a = {.finish = FX_FINISH_NONE};
    size_t before = c->n_msg;
    fx_status st = add_message(c, "user", line, n_bytes, err);
    if (st == FX_OK) st = ask_model(c, &a, err);
    if (st == FX_OK) st = add_message(c, "assistant", a.text.p, a.text.n, err);
    fxi_buf_free(&a.text);
    if (st != FX_OK) {
        drop_messages_from(c, before);
        return st;
    }
    fputs("\n", stdout);
    fflush(stdout);
    if (c->terminal) fxi_completion_print(c->eng, &a);
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

static void handle_message(conversation *c, const char *line, size_t n_bytes)
{
    fx_error err;
    fx_status st = answer_message(c, line, n_bytes, &err);
    take_signal(c);
    if (st == FX_OK) return;
    fxi_cli_fail(st == FX_ECONTEXT ? "%s (/reset starts a new conversation)" : "%s", err.text);
    c->rc = FXI_EXIT_FAILURE;
    c->over = c->over || !c->terminal || st == FX_EIO;
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

int fxi_conversation_run(fx_engine *eng, const fxi_cli_options *o)
{
    conversation c = {.eng = eng, .o = o, .terminal = isatty(STDIN_FILENO)};
    char *line = NULL;
    size_t cap = 0, n = 0;
    setvbuf(stdin, NULL, _IONBF, 0); // poll must see what has not been read yet
    if (c.terminal) fprintf(stderr, "%s: /help lists the commands\n", fx_engine_info(eng)->name);
    while (!c.over && read_line(&c, &line, &cap, &n)) {
        if (n == 0) continue;
        if (line[0] == '/')
            run_chat_command(&c, line);
        else
            handle_message(&c, line, n);
    }
    free(line);
    drop_messages_from(&c, 0);
    free(c.msg);
    return c.rc;
}
