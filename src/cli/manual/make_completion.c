// make_completion.c - prints what a shell needs to complete commands, options and their values,
// from the tables of commands and options.
//
//     make_completion bash|zsh|fish [FILE]
//
// The scripts are committed in dist/completion; the target `manual` writes them, and a test
// compares them with what this program prints.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef enum value_kind { VALUE_NONE, VALUE_ANY, VALUE_FILE, VALUE_FOLDER, VALUE_WORD } value_kind;

static value_kind value_kind_of(const fxi_opt *o)
{
    if (o->type == FXI_OPT_FLAG) return VALUE_NONE;
    if (o->type == FXI_OPT_CHOICE) return VALUE_WORD;
    if (strcmp(o->arg, "DIR") == 0) return VALUE_FOLDER;
    return strcmp(o->arg, "FILE") == 0 ? VALUE_FILE : VALUE_ANY;
}

typedef void option_printer(const fxi_cli_command *c, const fxi_opt *o);

static void each_option(const fxi_cli_command *c, option_printer *print)
{
    for (size_t i = 0; i < fxi_cli_table.n_opt; i++) {
        const fxi_opt *o = &fxi_cli_table.opt[i];
        if ((o->commands & c->bit) && o->help) print(c, o);
    }
}

static const fxi_cli_command *const commands_end = fxi_cli_commands + FXI_N_COMMAND;

// Of a command of two words, the second; NULL: it has one.
static const char *second_word(const fxi_cli_command *c)
{
    const char *space = strchr(c->name, ' ');
    return space ? space + 1 : NULL;
}

// Whether `c` is the command, of two words, whose first is the name of `of`.
static bool is_part_of(const fxi_cli_command *c, const fxi_cli_command *of)
{
    const size_t n = strlen(of->name);
    return second_word(c) && strncmp(c->name, of->name, n) == 0 && c->name[n] == ' ';
}

static void print_command_names(void)
{
    for (const fxi_cli_command *c = fxi_cli_commands; c < commands_end; c++)
        if (!second_word(c)) printf(c == fxi_cli_commands ? "%s" : " %s", c->name);
}

// The second words that may follow a command, each behind a blank.
static void print_second_words(const fxi_cli_command *of)
{
    for (const fxi_cli_command *c = fxi_cli_commands; c < commands_end; c++)
        if (is_part_of(c, of)) printf(" %s", second_word(c));
}

// The names of two words, each in quotes, with `between` between them.
static void print_long_names(const char *between)
{
    const char *before = "";
    for (const fxi_cli_command *c = fxi_cli_commands; c < commands_end; c++) {
        if (!second_word(c)) continue;
        printf("%s'%s'", before, c->name);
        before = between;
    }
}

// "a|b|c" with blanks between the words.
static void print_words(const char *words)
{
    for (; *words; words++) putchar(*words == '|' ? ' ' : *words);
}

// Within single quotes; a backslash goes before each of the characters in `special`.
static void print_quoted(const char *text, const char *special)
{
    for (; *text; text++) {
        if (strchr(special, *text)) putchar('\\');
        printf(*text == '\'' ? "'\\''" : "%c", *text);
    }
}

// ---- bash ---------------------------------------------------------------------------------------

static void bash_name(const fxi_cli_command *c, const fxi_opt *o)
{
    (void)c;
    printf("                --%s\n", o->name);
}

static void bash_value(const fxi_cli_command *c, const fxi_opt *o)
{
    static const char *const act[] = {
        [VALUE_ANY] = "return", [VALUE_FILE] = "kind=-f", [VALUE_FOLDER] = "kind=-d"};
    const value_kind kind = value_kind_of(o);
    if (kind == VALUE_NONE) return;
    printf("        '%s':--%s", c->name, o->name);
    if (o->letter) printf(" | '%s':-%c", c->name, o->letter);
    if (kind != VALUE_WORD) {
        printf(") %s ;;\n", act[kind]);
        return;
    }
    printf(") words=\"");
    print_words(o->arg);
    printf("\" ;;\n");
}

static void bash_rest(const fxi_cli_command *c)
{
    printf("        '%s':*)\n            words=\"", c->name);
    if (c->bit == FXI_CMD_HELP) print_command_names();
    print_second_words(c);
    printf("\n");
    each_option(c, bash_name);
    printf("                --help\"\n");
    if (c->max_rest && c->bit != FXI_CMD_HELP) printf("            kind=-f\n");
    printf("            ;;\n");
}

static void print_bash(void)
{
    const fxi_cli_command *c;
    printf(
        "_flexinfer() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words= kind=\n"
        "    local command=${COMP_WORDS[1]}\n"
        "    COMPREPLY=()\n"
        "    # --name=value is three words here\n"
        "    if [[ $cur == = ]]; then\n"
        "        cur=\n"
        "    elif [[ $prev == = ]]; then\n"
        "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
        "    fi\n"
        "    if ((COMP_CWORD == 1)); then\n"
        "        words=\"");
    print_command_names();
    printf(" --help --version\"\n    else\n        case ${COMP_WORDS[*]:1:2} in\n        ");
    print_long_names(" | ");
    printf(")\n            ((COMP_CWORD > 2)) && command=${COMP_WORDS[*]:1:2}\n            ;;\n"
           "        esac\n        case $command:$prev in\n");
    for (c = fxi_cli_commands; c < commands_end; c++) each_option(c, bash_value);
    for (c = fxi_cli_commands; c < commands_end; c++) bash_rest(c);
    printf("        esac\n"
           "    fi\n"
           "    if [[ $kind && $cur != -* ]]; then\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen $kind -- \"$cur\")\n"
           "    else\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
           "    fi\n"
           "}\n"
           "complete -F _flexinfer flexinfer\n");
}

// ---- zsh ----------------------------------------------------------------------------------------

static void zsh_value(const fxi_opt *o)
{
    const value_kind kind = value_kind_of(o);
    if (kind == VALUE_NONE) return;
    printf(":%s:", kind == VALUE_WORD ? o->name : o->arg);
    if (kind == VALUE_FILE) printf("_files");
    if (kind == VALUE_FOLDER) printf("_files -/");
    if (kind != VALUE_WORD) return;
    putchar('(');
    print_words(o->arg);
    putchar(')');
}

static void zsh_option(const fxi_cli_command *c, const fxi_opt *o)
{
    const bool has_value = value_kind_of(o) != VALUE_NONE;
    (void)c;
    printf(" \\\n            ");
    if (o->letter)
        printf("'(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, o->name, o->letter, has_value ? "+" : "",
               o->name, has_value ? "=" : "");
    else
        printf("'--%s%s[", o->name, has_value ? "=" : "");
    print_quoted(o->help, ":[]\\");
    putchar(']');
    zsh_value(o);
    putchar('\'');
}

static void zsh_command(const fxi_cli_command *c)
{
    printf("        '%s')\n            _arguments -s", c->name);
    each_option(c, zsh_option);
    printf(" \\\n            '(- *)'{-h,--help}'[show the options]'");
    if (c->bit == FXI_CMD_HELP) {
        printf(" \\\n            '1:command:(");
        print_command_names();
        printf(")'");
    } else if (c->bit == FXI_CMD_BENCH) {
        printf(" \\\n            '1:part:(");
        print_second_words(c);
        printf(")'");
    } else if (c->max_rest) {
        printf(" \\\n            '*:file:_files'");
    }
    printf("\n            ;;\n");
}

static void print_zsh(void)
{
    const fxi_cli_command *c;
    printf("local curcontext=$curcontext state line ret=1\n"
           "local -a commands\n"
           "_arguments -C '(- *)'{-h,--help}'[show the commands]' "
           "'(- *)--version[show the version]' \\\n"
           "    '1:command:->command' '*::argument:->argument' && ret=0\n"
           "case $state in\n"
           "command)\n"
           "    commands=(\n");
    for (c = fxi_cli_commands; c < commands_end; c++) {
        if (second_word(c)) continue;
        printf("        '%s:", c->name);
        print_quoted(c->about, ":\\");
        printf("'\n");
    }
    printf("    )\n"
           "    _describe command commands && ret=0\n"
           "    ;;\n"
           "argument)\n"
           "    local name=$words[1]\n"
           "    case \"$words[1] $words[2]\" in\n"
           "    (");
    print_long_names("|");
    printf(")\n"
           "        if ((CURRENT > 2)); then\n"
           "            name=\"$words[1] $words[2]\"\n"
           "            shift words\n"
           "            ((CURRENT--))\n"
           "        fi\n"
           "        ;;\n"
           "    esac\n"
           "    case $name in\n");
    for (c = fxi_cli_commands; c < commands_end; c++) zsh_command(c);
    printf("    esac && ret=0\n"
           "    ;;\n"
           "esac\n"
           "return ret\n");
}

// ---- fish ---------------------------------------------------------------------------------------

static void fish_option(const fxi_cli_command *c, const fxi_opt *o)
{
    static const char *const takes[] = {[VALUE_NONE] = " -f",
                                        [VALUE_ANY] = " -x",
                                        [VALUE_FILE] = " -r -F",
                                        [VALUE_FOLDER] = " -x -a '(__fish_complete_directories)'",
                                        [VALUE_WORD] = " -x -a '"};
    const value_kind kind = value_kind_of(o);
    printf("complete -c flexinfer -n '__flexinfer_runs %s' -l %s", c->name, o->name);
    if (o->letter) printf(" -s %c", o->letter);
    printf("%s", takes[kind]);
    if (kind == VALUE_WORD) {
        print_words(o->arg);
        putchar('\'');
    }
    printf(" -d '");
    print_quoted(o->help, "\\");
    printf("'\n");
}

// When a command's name completes the line: at its first word, or behind the first of two.
static void fish_name(const fxi_cli_command *c)
{
    const char *second = second_word(c);
    if (second)
        printf("complete -c flexinfer -n '__flexinfer_runs %.*s' -a %s -d '",
               (int)(second - 1 - c->name), c->name, second);
    else
        printf("complete -c flexinfer -n __fish_use_subcommand -a %s -d '", c->name);
}

static void print_fish(void)
{
    const fxi_cli_command *c;
    printf("function __flexinfer_runs\n"
           "    set -l word (commandline -opc)\n"
           "    switch \"$word[2] $word[3]\"\n"
           "        case ");
    print_long_names(" ");
    printf("\n"
           "            test \"$argv\" = \"$word[2] $word[3]\"\n"
           "        case '*'\n"
           "            test \"$argv\" = \"$word[2]\"\n"
           "    end\n"
           "end\n");
    printf("complete -c flexinfer -n __fish_use_subcommand -f\n"
           "complete -c flexinfer -n __fish_use_subcommand -l version -d 'show the version'\n"
           "complete -c flexinfer -s h -l help -f -d 'show the commands, or the options of one'\n");
    for (c = fxi_cli_commands; c < commands_end; c++) {
        fish_name(c);
        print_quoted(c->about, "\\");
        printf("'\n");
    }
    for (c = fxi_cli_commands; c < commands_end; c++) {
        each_option(c, fish_option);
        if (c->bit != FXI_CMD_HELP && !c->max_rest)
            printf("complete -c flexinfer -n '__flexinfer_runs %s' -f\n", c->name);
    }
    printf("complete -c flexinfer -n '__flexinfer_runs help' -f -a '");
    print_command_names();
    printf("'\n");
}

// ---- all ----------------------------------------------------------------------------------------

static const struct {
    const char *name, *first_line; // NULL: none
    void (*print)(void);
} shells[] = {{"bash", NULL, print_bash},
              {"zsh", "#compdef flexinfer\n", print_zsh},
              {"fish", NULL, print_fish}};

int main(int argc, char **argv)
{
    size_t i = 0, n = sizeof shells / sizeof shells[0];
    while (argc > 1 && i < n && strcmp(argv[1], shells[i].name) != 0) i++;
    if (argc < 2 || argc > 3 || i == n || (argc == 3 && !freopen(argv[2], "w", stdout))) {
        fprintf(stderr, "usage: make_completion bash|zsh|fish [FILE]\n");
        return 1;
    }
    if (shells[i].first_line) printf("%s", shells[i].first_line);
    printf("# Made by make_completion from the tables in src/cli: change those.\n");
    shells[i].print();
    return fflush(stdout) || ferror(stdout);
}
