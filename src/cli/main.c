// main.c - what all commands share: options, help, and the check of stdout at the end.
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int cmd_help(const fxi_cli_options *o, const fxi_opt_rest *rest);

static const struct {
    unsigned bit;
    int (*call)(const fxi_cli_options *o, const fxi_opt_rest *rest);
} entries[FXI_N_COMMAND] = {
    {FXI_CMD_SERVE, fxi_cmd_serve},
    {FXI_CMD_RUN, fxi_cmd_run},
    {FXI_CMD_TOKENIZE, fxi_cmd_tokenize},
    {FXI_CMD_INSPECT, fxi_cmd_inspect},
    {FXI_CMD_CONVERT, fxi_cmd_convert},
    {FXI_CMD_QUANTIZE, fxi_cmd_quantize},
    {FXI_CMD_BENCH, fxi_cmd_bench},
    {FXI_CMD_REPLAY, fxi_cmd_replay},
    {FXI_CMD_SERVE_TRACE, fxi_cmd_serve_trace},
    {FXI_CMD_FIGURES, fxi_cmd_figures},
    {FXI_CMD_TOP, fxi_cmd_top},
    {FXI_CMD_HELP, cmd_help},
};

static int call_command(unsigned bit, const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    int i = 0;
    while (entries[i].bit != bit) i++;
    return entries[i].call(o, rest);
}

// Whether word[0 .. n) begins with the name; how many words that takes. 0: it does not.
static int words_of(const char *name, const char *const *word, int n)
{
    const size_t first = strcspn(name, " ");
    if (n < 1 || strlen(word[0]) != first || memcmp(name, word[0], first) != 0) return 0;
    if (!name[first]) return 1;
    return n > 1 && strcmp(name + first + 1, word[1]) == 0 ? 2 : 0;
}

// The command with the longest name that the words begin with; *n_word: the words of its name.
static const fxi_cli_command *find_command(const char *const *word, int n, int *n_word)
{
    const fxi_cli_command *found = NULL;
    *n_word = 0;
    for (const fxi_cli_command *c = fxi_cli_commands; c < fxi_cli_commands + FXI_N_COMMAND; c++) {
        const int n_name = words_of(c->name, word, n);
        if (n_name <= *n_word) continue;
        *n_word = n_name;
        found = c;
    }
    return found;
}

// ---- help ---------------------------------------------------------------------------------------

static void print_overview(FILE *to)
{
    fprintf(to, "flexinfer %s - serves language models from a KV cache in virtual memory\n\n",
            fx_version());
    for (const fxi_cli_command *c = fxi_cli_commands; c < fxi_cli_commands + FXI_N_COMMAND; c++)
        fprintf(to, "  flexinfer %-14s%-29s%s\n", c->name, c->synopsis, c->about);
    fprintf(to, "\n'flexinfer help COMMAND' lists a command's options.\n");
}

static int print_command(const fxi_cli_command *cmd)
{
    fxi_buf rows = {0};
    if (!fxi_opt_help(&fxi_cli_table, cmd->bit, &rows))
        return fxi_cli_fail("no memory for the help text");
    printf("flexinfer %s %s\n%s\n", cmd->name, cmd->synopsis, cmd->about);
    if (rows.n)
        printf("\n%s\nEach can also be set in the environment (--kv-memory is FLEXINFER_KV_MEMORY) "
               "and in\n"
               "the file that --config names. A flag wins, then the environment.\n",
               rows.p);
    fxi_buf_free(&rows);
    if (cmd->note) printf("\n%s", cmd->note);
    return 0;
}

static int usage_error(const char *name, const char *text)
{
    fxi_cli_fail("%s (see 'flexinfer help%s%s')", text, name ? " " : "", name ? name : "");
    return FXI_EXIT_USAGE;
}

static int unknown_command(const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "there is no command '%.60s'", name);
    return usage_error(NULL, text);
}

static int cmd_help(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)o;
    if (rest->n == 0) {
        print_overview(stdout);
        return 0;
    }
    int n_word;
    const fxi_cli_command *cmd = find_command(rest->arg, rest->n, &n_word);
    return cmd && n_word == rest->n ? print_command(cmd) : unknown_command(rest->arg[n_word]);
}

// ---- one command --------------------------------------------------------------------------------

// What is wrong with the arguments as a whole; NULL: nothing.
static const char *find_complaint(const fxi_cli_command *cmd, const fxi_cli_options *o,
                                  const fxi_opt_rest *rest, char text[128])
{
    if (cmd->needs_model && (!o->model || !o->model[0])) return "a model is needed: -m FILE";
    if (rest->n < cmd->min_rest) return "a file is needed";
    if (rest->n <= cmd->max_rest) return NULL;
    snprintf(text, 128, "unexpected argument '%.60s'", rest->arg[cmd->max_rest]);
    return text;
}

static int run_command(const fxi_cli_command *cmd, int argc, char **argv)
{
    fx_error err;
    fxi_opt_rest rest;
    const char *wrong;
    char text[128];
    fxi_cli_options o = fxi_cli_options_start();
    int rc;
    if (fxi_opt_parse(&fxi_cli_table, cmd->bit, argc, argv, &o, &rest, &err) != FX_OK)
        rc = usage_error(cmd->name, err.text);
    else if (rest.help)
        rc = print_command(cmd);
    else if ((wrong = find_complaint(cmd, &o, &rest, text)))
        rc = usage_error(cmd->name, wrong);
    else
        rc = call_command(cmd->bit, &o, &rest);
    fxi_opt_rest_free(&rest);
    return rc;
}

static bool is_one_of(const char *arg, const char *a, const char *b)
{
    return strcmp(arg, a) == 0 || strcmp(arg, b) == 0;
}

static int run_arguments(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return FXI_EXIT_USAGE;
    }
    if (is_one_of(argv[1], "--version", "version")) {
        printf("flexinfer %s\n", fx_version());
        return 0;
    }
    if (is_one_of(argv[1], "--help", "-h")) {
        print_overview(stdout);
        return 0;
    }
    int n_word;
    const fxi_cli_command *cmd = find_command((const char *const *)argv + 1, argc - 1, &n_word);
    return cmd ? run_command(cmd, argc - 1 - n_word, argv + 1 + n_word) : unknown_command(argv[1]);
}

int main(int argc, char **argv)
{
    if (!fxi_console_open()) return FXI_EXIT_FAILURE;
    signal(SIGPIPE, SIG_DFL); // `flexinfer ... | head -1` ends quietly, whatever was inherited
    int rc = run_arguments(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (rc == 0) rc = fxi_cli_fail("cannot write to stdout: %s", strerror(errno));
    }
    return rc;
}
