// program.c - what all commands of a program share: options, help, completion, and the check of
// stdout at the end.
#include "cli/cli.h"
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const fxi_cli_command *find_command(const fxi_cli_program *p, const char *name)
{
    for (int i = 0; i < p->n_command; i++)
        if (strcmp(p->command[i].name, name) == 0) return &p->command[i];
    return NULL;
}

// ---- help ---------------------------------------------------------------------------------------

static void print_overview(const fxi_cli_program *p, FILE *to)
{
    fprintf(to, "%s %s - %s\n\n", p->name, fx_version(), p->about);
    for (int i = 0; i < p->n_command; i++)
        fprintf(to, "  %s %-10s%-29s%s\n", p->name, p->command[i].name, p->command[i].synopsis,
                p->command[i].about);
    fprintf(to, "\n'%s help COMMAND' lists a command's options.\n", p->name);
}

static int print_command(const fxi_cli_program *p, const fxi_cli_command *cmd)
{
    fxi_buf rows = {0};
    if (!fxi_opt_help(p->options, cmd->bit, &rows))
        return fxi_cli_fail("out of memory for the help text");
    printf("%s %s %s\n%s\n", p->name, cmd->name, cmd->synopsis, cmd->about);
    if (rows.n)
        printf("\n%s\nEach can also be set in the environment (--kv-memory is FLEXINFER_KV_MEMORY) "
               "and in\n"
               "the file that --config names. A flag wins, then the environment.%s\n",
               rows.p,
               p->options->n_alias ? " Options that llama.cpp\n"
                                     "and vLLM spell in another way are taken under their names, "
                                     "too."
                                   : "");
    fxi_buf_free(&rows);
    if (cmd->note) printf("\n%s", cmd->note);
    return 0;
}

static int usage_error(const fxi_cli_program *p, const char *command, const char *text)
{
    fxi_cli_fail("%s (see '%s help%s%s')", text, p->name, command ? " " : "",
                 command ? command : "");
    return FXI_EXIT_USAGE;
}

static int unknown_command(const fxi_cli_program *p, const char *name)
{
    char text[160];
    const char *near = NULL;
    int best = 3; // too different
    for (int i = 0; i < p->n_command; i++) {
        const char *word = p->command[i].name;
        const int d = fxi_opt_distance(name, strlen(name), word, strlen(word));
        if (d >= best || d >= (int)strlen(name)) continue;
        best = d;
        near = word;
    }
    snprintf(text, sizeof text, "unknown command '%.60s'%s%s%s", name,
             near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return usage_error(p, NULL, text);
}

// ---- completion: `PROGRAM complete WORD...` prints what may take the place of the last word -----
//
// Lines are WORD, or WORD and what it means, with a tab between; an option that takes a value ends
// with '='. ":files" and ":folders" stand for names of files. The scripts in dist/completion show
// them in the shells' ways.

static void offer_word(const char *prefix, const char *before, const char *word, size_t n,
                       const char *end, const char *about)
{
    char all[128];
    snprintf(all, sizeof all, "%s%.*s%s", before, (int)n, word, end);
    if (strncmp(all, prefix, strlen(prefix)) != 0) return;
    printf("%s%s%s\n", all, about ? "\t" : "", about ? about : "");
}

static void offer_commands(const fxi_cli_program *p, const char *prefix)
{
    for (int i = 0; i < p->n_command; i++)
        offer_word(prefix, "", p->command[i].name, strlen(p->command[i].name), "",
                   p->command[i].about);
}

// Models that were fetched, and files.
static void offer_models(const char *prefix, const char *before)
{
    fxi_cli_offer_names(prefix, before);
    printf(":files\n");
}

// The values of an option; `before` precedes each of them in the word that is completed.
static void offer_values(const fxi_opt *o, const char *prefix, const char *before)
{
    if (o->type == FXI_OPT_CHOICE)
        for (const char *word = o->arg; *word; word += strcspn(word, "|"), word += *word == '|')
            offer_word(prefix, before, word, strcspn(word, "|"), "", NULL);
    else if (strcmp(o->arg, "DIR") == 0)
        printf(":folders\n");
    else if (strcmp(o->arg, "FILE") == 0)
        printf(":files\n");
    else if (strcmp(o->arg, "MODEL") == 0)
        offer_models(prefix, before);
}

// The option of cmd that the word names; NULL: none that takes a value.
static const fxi_opt *option_with_value(const fxi_cli_program *p, const fxi_cli_command *cmd,
                                        const char *word)
{
    const fxi_opt *o = fxi_opt_find(p->options, cmd->bit, word);
    return o && o->type != FXI_OPT_FLAG ? o : NULL;
}

static void complete_argument(const fxi_cli_program *p, const fxi_cli_command *cmd,
                              const char *before, const char *word)
{
    const fxi_opt *o = option_with_value(p, cmd, before);
    const char *equals = strchr(word, '=');
    if (o) {
        offer_values(o, word, "");
    } else if (equals && word[0] == '-' && (o = option_with_value(p, cmd, word))) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(equals + 1 - word), word);
        offer_values(o, word, name);
    } else if (!cmd->call) {
        offer_commands(p, word);
    } else if (word[0] != '-' && cmd->bit & (FXI_CMD_PULL | FXI_CMD_RM)) {
        fxi_cli_offer_names(word, "");
    } else if (word[0] != '-' && (cmd->max_rest || cmd->needs_model)) {
        offer_models(word, "");
    } else {
        for (o = p->options->opt; o < p->options->opt + p->options->n_opt; o++)
            if ((o->commands & cmd->bit) && o->help)
                offer_word(word, "--", o->name, strlen(o->name), o->type == FXI_OPT_FLAG ? "" : "=",
                           o->help);
        offer_word(word, "", "--help", 6, "", "show the options");
    }
}

// bash gives --name=value as three words.
static int run_complete(const fxi_cli_program *p, int n, char **word)
{
    const bool after_equals = n > 1 && strcmp(word[n - 1], "=") == 0;
    const bool has_equals = n > 2 && strcmp(word[n - 2], "=") == 0;
    if (n == 0) return 0;
    const char *last = after_equals ? "" : word[n - 1];
    const char *before = n < 2 ? "" : word[n - 2 - has_equals];
    if (n == 1) {
        offer_commands(p, last);
        offer_word(last, "", "--help", 6, "", "show the commands");
        offer_word(last, "", "--version", 9, "", "show the version");
        return 0;
    }
    const fxi_cli_command *cmd = find_command(p, word[0]);
    if (cmd) complete_argument(p, cmd, before, last);
    return 0;
}

// ---- one command --------------------------------------------------------------------------------

// Without -m on the command line, the first argument is the model, wherever else one is named.
static fx_status take_model(const fxi_cli_program *p, const fxi_cli_command *cmd,
                            fxi_cli_options *o, fxi_opt_rest *rest, fx_error *err)
{
    const fxi_opt *model = fxi_opt_find(p->options, cmd->bit, "--model");
    if (!cmd->needs_model || rest->n <= cmd->min_rest ||
        rest->set[model - p->options->opt].from == FXI_OPT_FROM_FLAG)
        return FX_OK;
    FX_TRY(fxi_opt_give(p->options, model, rest->arg[0], o, rest, err));
    memmove(rest->arg, rest->arg + 1, (size_t)--rest->n * sizeof rest->arg[0]);
    return FX_OK;
}

static int run_command(const fxi_cli_program *p, const fxi_cli_command *cmd, int argc, char **argv,
                       fxi_cli_options *o)
{
    fx_error err = {0};
    fxi_opt_rest rest;
    char note[200];
    int rc = 0;
    if (fxi_opt_parse(p->options, cmd->bit, argc, argv, o, &rest, &err) == FX_OK && !rest.help &&
        take_model(p, cmd, o, &rest, &err) == FX_OK) {
        if (cmd->needs_model && (!o->engine.model_path || !o->engine.model_path[0]))
            snprintf(err.text, sizeof err.text, "missing model: -m MODEL");
        else if (rest.n < cmd->min_rest)
            snprintf(err.text, sizeof err.text, "missing file");
        else if (rest.n > cmd->max_rest)
            snprintf(err.text, sizeof err.text, "unexpected argument '%.60s'",
                     rest.arg[cmd->max_rest]);
    }
    const fxi_cli_command *about = rest.n ? find_command(p, rest.arg[0]) : NULL; // of help
    if (err.text[0]) {
        rc = usage_error(p, cmd->name, err.text);
    } else if (rest.help) {
        rc = print_command(p, cmd);
    } else {
        for (size_t i = 0; i < p->options->n_renamed; i++) // once for each old spelling
            if (fxi_opt_note(p->options, &rest, i, note, sizeof note))
                fprintf(stderr, "note: %s\n", note);
        if (cmd->call)
            rc = fxi_cli_call(cmd, o, &rest);
        else if (rest.n == 0)
            print_overview(p, stdout);
        else
            rc = about ? print_command(p, about) : unknown_command(p, rest.arg[0]);
    }
    fxi_opt_rest_free(&rest);
    return rc;
}

static int run_arguments(const fxi_cli_program *p, int argc, char **argv, fxi_cli_options *o)
{
    if (argc < 2) {
        print_overview(p, stderr);
        return FXI_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
        printf("%s %s\n", p->name, fx_version());
        return 0;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        print_overview(p, stdout);
        return 0;
    }
    if (strcmp(word, "complete") == 0) return run_complete(p, argc - 2, argv + 2);
    for (const fxi_cli_moved *m = p->moved; m < p->moved + p->n_moved && argc > 2; m++)
        if (!strcmp(word, m->word) && !strcmp(argv[2], m->next))
            return usage_error(p, NULL, m->now); // a spelling of former versions
    const fxi_cli_command *cmd = find_command(p, word);
    return cmd ? run_command(p, cmd, argc - 2, argv + 2, o) : unknown_command(p, word);
}

int fxi_cli_main(const fxi_cli_program *p, int argc, char **argv, fxi_cli_options *o)
{
    if (!fxi_console_open(p->name)) return FXI_EXIT_FAILURE;
    signal(SIGPIPE, SIG_DFL); // `flexinfer ... | head -1` ends quietly, whatever was inherited
    int rc = run_arguments(p, argc, argv, o);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (rc == 0) rc = fxi_cli_fail("cannot write to stdout: %s", strerror(errno));
    }
    return rc;
}
