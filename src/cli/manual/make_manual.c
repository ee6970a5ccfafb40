// make_manual.c - prints flexinfer(1) from the tables of commands and options.
//
//     make_manual [FILE]
//
// The page is committed as docs/man/flexinfer.1; the target `manual` writes it, and a test compares
// it with what this program prints.
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/manual/manual.h"

// ---- synopses -----------------------------------------------------------------------------------

// One word of a synopsis, as mdoc: an option, the "<" of a redirection, or an argument.
static void print_word(const char *word, size_t n)
{
    if (word[0] == '-')
        printf("Fl %.*s", (int)n - 1, word + 1);
    else
        printf(word[0] == '<' ? "Li <" : "Ar %.*s", (int)n, word);
}

// Words up to the one that ends a group like "-m FILE" or "[-p TEXT]", on one line of their own.
// Returns what follows.
static const char *print_group(const char *s)
{
    bool optional = *s == '[', more = true;
    printf(optional ? ".Op " : ".");
    for (s += optional; more; s += strspn(s, " ")) {
        size_t n = strcspn(s, " ]");
        print_word(s, n);
        more = optional ? s[n] == ' ' : s[n] && strchr("-<", s[0]);
        printf(more ? " " : "\n");
        s += n + (s[n] == ']');
    }
    return s;
}

static void print_synopsis(const fxi_cli_command *c)
{
    printf(".Nm\n.Cm %s\n", c->name);
    for (const char *s = c->synopsis; *s;) s = print_group(s);
}

// ---- options ------------------------------------------------------------------------------------

// A text line: capital letter, full stop, and a minus sign where an option begins.
static void print_sentence(const char *text)
{
    putchar(toupper((unsigned char)text[0]));
    for (const char *s = text + 1; *s; s++)
        printf(*s == '-' && !isalnum((unsigned char)s[-1]) ? "\\-" : "%c", *s);
    printf(".\n");
}

static void print_bounds(const fxi_opt *o)
{
    if (o->type != FXI_OPT_INT && o->type != FXI_OPT_FLOAT && o->type != FXI_OPT_INTS) return;
    if (o->max >= (double)INT_MAX)
        printf("At least %g.\n", o->min);
    else
        printf("From %.10g to %.10g.\n", o->min, o->max);
}

static void print_option(const fxi_opt *o)
{
    char env[FXI_OPT_ENV_BYTES];
    fxi_opt_env_name(&fxi_cli_table, o, env);
    printf(".It ");
    if (o->letter) printf("Fl %c , ", o->letter);
    printf(o->arg ? "Fl -%s Ar %s\n" : "Fl -%s\n", o->name, o->arg);
    print_sentence(o->help);
    print_bounds(o);
    if (o->preset) printf("Default:\n.Li %s .\n", o->preset);
    printf("Environment:\n.Ev %s .\n", env);
}

static bool has_options(unsigned bit)
{
    for (size_t i = 0; i < fxi_cli_table.n_opt; i++)
        if (fxi_cli_table.opt[i].commands & bit) return true;
    return false;
}

static void print_options(const fxi_cli_command *c)
{
    if (!has_options(c->bit)) return;
    printf(".Ss Options of %s\n.Bl -tag -width Ds\n", c->name);
    for (size_t i = 0; i < fxi_cli_table.n_opt; i++) {
        const fxi_opt *o = &fxi_cli_table.opt[i];
        if ((o->commands & c->bit) && o->help) print_option(o);
    }
    printf(".El\n");
}

// ---- the page -----------------------------------------------------------------------------------

static void print_command_row(const fxi_cli_command *c)
{
    printf(".It Cm %s\n", c->name);
    print_sentence(c->about);
    if (c->note) printf(".Bd -literal\n%s.Ed\n", c->note);
}

static void print_page(void)
{
    const fxi_cli_command *c, *end = fxi_cli_commands + FXI_N_COMMAND;
    printf(".\\\" Made by make_manual from the tables in src/cli: change those.\n");
    fputs(fxi_manual_begin, stdout);
    printf(".Sh SYNOPSIS\n");
    for (c = fxi_cli_commands; c < end; c++) print_synopsis(c);
    fputs(fxi_manual_description, stdout);
    printf(".Sh COMMANDS\n.Bl -tag -width Ds\n");
    for (c = fxi_cli_commands; c < end; c++) print_command_row(c);
    printf(".El\n.Sh OPTIONS\n");
    printf("An option can be written\n.Fl -name Ar value\nor\n.Fl -name Ns = Ns Ar value .\n"
           "A size is a number of bytes, or ends in K, M, G or T (powers of 1024).\n");
    for (c = fxi_cli_commands; c < end; c++) print_options(c);
    fputs(fxi_manual_end, stdout);
}

int main(int argc, char **argv)
{
    if (argc > 2 || (argc == 2 && !freopen(argv[1], "w", stdout))) {
        fprintf(stderr, "usage: make_manual [FILE]\n");
        return 1;
    }
    print_page();
    return fflush(stdout) || ferror(stdout);
}
