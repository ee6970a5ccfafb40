// main.c - the table of commands, and what is common to all: options, help, and the state of stdout
// at the end.
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int cmd_help(const fxi_cli_options *o, const fxi_opt_rest *rest);

typedef struct command {
    const char *name;
    unsigned bit;
    int (*call)(const fxi_cli_options *o, const fxi_opt_rest *rest);
    int min_rest, max_rest; // arguments that are no options
    bool needs_model;
    const char *synopsis, *about;
    const char *note; // beneath the options in help; NULL: nothing
} command;

static const char bench_note[] =
    "Each batch is run with prompts of each length; rates are of all sequences together.\n"
    "Every prompt is new: no cached prefix helps. The share is that of the limit, in time:\n\n"
    "  prompt  the longer of: operations of the linear layers at the arithmetic peak (int8\n"
    "          where the kernels use it for most weights, else f32); weights read once\n"
    "  decode  the longer of, for a step: weights and KV cache read; operations at the peak\n\n"
    "Peaks and memory bandwidth are measured before and after the runs; the larger counts.\n";

static const command commands[] = {
    {"serve", FXI_CMD_SERVE, fxi_cmd_serve, 0, 0, true, "-m FILE [options]",
     "answer OpenAI-compatible requests over HTTP", NULL},
    {"run", FXI_CMD_RUN, fxi_cmd_run, 0, 0, true, "-m FILE [-p TEXT] [options]",
     "complete a text; without -p, chat in the terminal", NULL},
    {"tokenize", FXI_CMD_TOKENIZE, fxi_cmd_tokenize, 0, 0, true, "-m FILE [--decode] < TEXT",
     "text on stdin to token ids on one line, or back", NULL},
    {"inspect", FXI_CMD_INSPECT, fxi_cmd_inspect, 1, 1, false, "FILE",
     "show what a GGUF file holds", NULL},
    {"bench", FXI_CMD_BENCH, fxi_cmd_bench, 0, 0, true, "-m FILE [options]",
     "measure prompt and decode speed beside the machine's limits", bench_note},
    {"help", FXI_CMD_HELP, cmd_help, 0, 1, false, "[COMMAND]", "show this, or a command's options",
     NULL},
};

#define N_COMMAND (sizeof commands / sizeof commands[0])

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMAND; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

// ---- help ---------------------------------------------------------------------------------------

static void print_overview(FILE *to)
{
    fprintf(to, "flexinfer %s - serves language models from a KV cache in virtual memory\n\n",
            fx_version());
    for (size_t i = 0; i < N_COMMAND; i++)
        fprintf(to, "  flexinfer %-9s%-29s%s\n", commands[i].name, commands[i].synopsis,
                commands[i].about);
    fprintf(to, "\n'flexinfer help COMMAND' lists a command's options.\n");
}

static int print_command(const command *cmd)
{
    fxi_buf rows = {0};
    if (!fxi_opt_help(&fxi_cli_table, cmd->bit, &rows))
        return fxi_cli_fail("no memory for the help text");
    printf("flexinfer %s %s\n%s\n", cmd->name, cmd->synopsis, cmd->about);
    if (rows.n)
        printf("\n%s\nEach can also be set in the environment: --kv-memory is FLEXINFER_KV_MEMORY. "
               "A flag wins.\n",
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
    const command *cmd = find_command(rest->arg[0]);
    return cmd ? print_command(cmd) : unknown_command(rest->arg[0]);
}

// ---- one command --------------------------------------------------------------------------------

// What is wrong with the arguments as a whole; NULL if nothing is.
static const char *complaint(const command *cmd, const fxi_cli_options *o, const fxi_opt_rest *rest,
                             char text[128])
{
    if (cmd->needs_model && (!o->model || !o->model[0])) return "a model is needed: -m FILE";
    if (rest->n < cmd->min_rest) return "a file is needed";
    if (rest->n <= cmd->max_rest) return NULL;
    snprintf(text, 128, "unexpected argument '%.60s'", rest->arg[cmd->max_rest]);
    return text;
}

static int run_command(const command *cmd, int argc, char **argv)
{
    fx_error err;
    fxi_opt_rest rest;
    char text[128];
    fxi_cli_options o = fxi_cli_options_start();
    if (fxi_opt_parse(&fxi_cli_table, cmd->bit, argc, argv, &o, &rest, &err) != FX_OK)
        return usage_error(cmd->name, err.text);
    if (rest.help) return print_command(cmd);
    const char *wrong = complaint(cmd, &o, &rest, text);
    return wrong ? usage_error(cmd->name, wrong) : cmd->call(&o, &rest);
}

static bool is_one_of(const char *arg, const char *a, const char *b)
{
    return strcmp(arg, a) == 0 || strcmp(arg, b) == 0;
}

static int dispatch(int argc, char **argv)
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
    const command *cmd = find_command(argv[1]);
    return cmd ? run_command(cmd, argc - 2, argv + 2) : unknown_command(argv[1]);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_DFL); // `flexinfer ... | head -1` ends quietly, whatever we inherited
    int rc = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (rc == 0) rc = fxi_cli_fail("cannot write to stdout: %s", strerror(errno));
    }
    return rc;
}
