// make_manual.c - makes flexinfer(1): the prose of docs/man/flexinfer.1.in, with the tables of
// commands and options in place of the lines @SYNOPSIS, @COMMANDS and @OPTIONS. The build runs it.
//
//     make_manual TEMPLATE FILE
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

// ---- synopses -----------------------------------------------------------------------------------

// Words up to the one that ends a group like "-m FILE" or "[-p TEXT]", on one line of their own: an
// option, the "<" of a redirection, or an argument. Returns what follows.
static const char *print_group(const char *s)
{
    bool optional = *s == '[', more = true;
    printf(optional ? ".Op " : ".");
    for (s += optional; more; s += strspn(s, " ")) {
        const size_t n = strcspn(s, " ]");
        if (s[0] == '-')
            printf("Fl %.*s", (int)n - 1, s + 1);
        else
            printf(s[0] == '<' ? "Li <" : "Ar %.*s", (int)n, s);
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
static void print_sentence(const char *text, size_t n)
{
    putchar(toupper((unsigned char)text[0]));
    for (const char *s = text + 1; s < text + n; s++)
        printf(*s == '-' && !isalnum((unsigned char)s[-1]) ? "\\-" : "%c", *s);
    printf(".\n");
}

static void print_option(const fxi_opt *o)
{
    char env[FXI_OPT_ENV_BYTES];
    size_t n, help_n;
    const char *value = fxi_opt_default(o, &n, &help_n);
    fxi_opt_env_name(&fxi_cli_table, o->name, env);
    printf(".It ");
    if (o->letter) printf("Fl %c , ", o->letter);
    printf(o->arg ? "Fl -%s Ar %s\n" : "Fl -%s\n", o->name, o->arg);
    print_sentence(o->help, help_n);
    const bool is_bounded = o->type == FXI_OPT_INT || o->type == FXI_OPT_FLOAT ||
                            o->type == FXI_OPT_DOUBLE || o->type == FXI_OPT_INTS;
    if (is_bounded && o->max >= (double)INT_MAX)
        printf("At least %g.\n", o->min);
    else if (is_bounded)
        printf("From %.10g to %.10g.\n", o->min, o->max);
    if (value == o->preset && value)
        printf("Default:\n.Li %s .\n", value);
    else if (value)
        printf("Default: %.*s.\n", (int)n, value);
    printf("Environment:\n.Ev %s .\n", env);
}

static void print_options(const fxi_cli_command *c)
{
    bool any = false;
    for (size_t i = 0; i < fxi_cli_table.n_opt; i++) {
        const fxi_opt *o = &fxi_cli_table.opt[i];
        if (!(o->commands & c->bit) || !o->help) continue;
        if (!any) printf(".Ss Options of %s\n.Bl -tag -width Ds\n", c->name);
        any = true;
        print_option(o);
    }
    if (any) printf(".El\n");
}

// ---- the page -----------------------------------------------------------------------------------

static void print_command_row(const fxi_cli_command *c)
{
    printf(".It Cm %s\n", c->name);
    print_sentence(c->about, strlen(c->about));
    if (c->note) printf(".Bd -literal\n%s.Ed\n", c->note);
}

static const struct {
    const char *line;
    void (*print)(const fxi_cli_command *c);
} places[] = {{"@SYNOPSIS\n", print_synopsis},
              {"@COMMANDS\n", print_command_row},
              {"@OPTIONS\n", print_options}};

int main(int argc, char **argv)
{
    const fxi_cli_program *p = &fxi_cli_flexinfer;
    const size_t n_place = sizeof places / sizeof places[0];
    char line[512];
    FILE *from = argc == 3 ? fopen(argv[1], "r") : NULL;
    if (!from || !freopen(argv[2], "w", stdout)) {
        fprintf(stderr, "usage: make_manual TEMPLATE FILE\n");
        return 1;
    }
    while (fgets(line, sizeof line, from)) {
        size_t i = 0;
        while (i < n_place && strcmp(line, places[i].line) != 0) i++;
        if (i == n_place) fputs(line, stdout);
        for (int k = 0; i < n_place && k < p->n_command; k++) places[i].print(&p->command[k]);
    }
    return ferror(from) || fclose(from) || fflush(stdout) || ferror(stdout);
}
