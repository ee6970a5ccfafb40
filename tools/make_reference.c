// make_reference.c - fills in the generated tables of a document: the options of flexinfer, other
// programs' spellings of them, or the metrics of its server. It prints the document with what
// stands between the lines
//
//     <!-- options: made by make_reference -->    or metrics, or spellings
//     <!-- end -->
//
// replaced by the tables of today. The target `reference` does so for docs/user; tools/check_docs
// compares. In the prose of flexinfer(1), docs/man/flexinfer.1.in, tables replace the lines
// @SYNOPSIS, @COMMANDS, @OPTIONS and @SPELLINGS; the build runs that.
//
//     make_reference DOCUMENT > NEW
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "server/metrics/metrics.h"

// Text for a cell of a table, where a bar would end the cell.
static void print_cell(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) printf(text[i] == '|' ? "\\|" : "%c", text[i]);
}

// ---- options ------------------------------------------------------------------------------------

static void print_choices(const char *words)
{
    for (const char *s = words; *s; s++) printf(*s == '|' ? "`, `" : "%c", *s);
}

static void print_values(const fxi_opt *o)
{
    switch (o->type) {
    case FXI_OPT_FLAG: printf("on or off"); return;
    case FXI_OPT_SIZE: printf("size"); return;
    case FXI_OPT_STR:
    case FXI_OPT_CONFIG: printf("text"); return;
    case FXI_OPT_CHOICE:
        printf("`");
        print_choices(o->arg);
        printf("`");
        return;
    default: break;
    }
    if (o->max >= (double)INT_MAX)
        printf("%.10g or more", o->min);
    else
        printf("%.10g to %.10g", o->min, o->max);
    if (o->type == FXI_OPT_INTS) printf(", a list");
}

// The commands of the set, without the one that `skip` names.
static void print_commands(unsigned set, unsigned skip)
{
    const fxi_cli_program *p = &fxi_cli_flexinfer;
    const char *before = "";
    for (int i = 0; i < p->n_command; i++) {
        if (!(p->command[i].bit & set & ~skip)) continue;
        printf("%s`%s`", before, p->command[i].name);
        before = ", ";
    }
}

static void print_option(const fxi_opt *o, unsigned skip)
{
    char env[FXI_OPT_ENV_BYTES];
    size_t n, help_n;
    const char *value = fxi_opt_default(o, &n, &help_n);
    fxi_opt_env_name(&fxi_cli_table, o->name, env);
    printf("| ");
    if (o->letter) printf("`-%c`, ", o->letter);
    printf("`--%s`<br>`%s` | ", o->name, env);
    print_values(o);
    printf(" | ");
    if (value) print_cell(value, n);
    if (value && o->preset && value != o->preset) printf(" (or `%s`)", o->preset);
    printf(" | ");
    print_cell(o->help, help_n);
    printf(" | ");
    print_commands(o->commands, skip);
    printf(" |\n");
}

// The options that have (or lack) the command `of`.
static void print_options(unsigned of, bool has)
{
    for (size_t i = 0; i < fxi_cli_table.n_opt; i++) {
        const fxi_opt *o = &fxi_cli_table.opt[i];
        if (o->help && !!(o->commands & of) == has) print_option(o, has ? of : 0);
    }
}

static void print_all_options(void)
{
    printf("### Options of serve\n\n| option | values | default | meaning | also in |\n"
           "|---|---|---|---|---|\n");
    print_options(FXI_CMD_SERVE, true);
    printf("\n### Options of other commands\n\n| option | values | default | meaning | commands |\n"
           "|---|---|---|---|---|\n");
    print_options(FXI_CMD_SERVE, false);
}

// ---- spellings of other programs ----------------------------------------------------------------

static void print_spellings(void)
{
    for (int is_hint = 0; is_hint < 2; is_hint++) {
        printf(!is_hint ? "| you type | which is |\n|---|---|\n"
                        : "\n| you type | what there is here |\n|---|---|\n");
        for (size_t i = 0; i < fxi_cli_table.n_alias; i++) {
            const fxi_opt_alias *a = &fxi_cli_table.alias[i];
            if ((a->hint != NULL) != is_hint) continue;
            printf("| `");
            for (const char *s = a->words; *s; s++) printf(*s == ' ' ? "`, `" : "%c", *s);
            printf(a->name ? "` | `--%s` |\n" : "` | %s |\n", a->name ? a->name : a->hint);
        }
    }
}

// Words with their dashes, as mdoc has it.
static void print_manual_spellings(void)
{
    for (size_t i = 0; i < fxi_cli_table.n_alias; i++) {
        const fxi_opt_alias *a = &fxi_cli_table.alias[i];
        if (!a->name) continue;
        printf(".It");
        for (const char *s = a->words; *s; s += strcspn(s, " "), s += *s == ' ')
            printf("%s Fl %.*s", s > a->words ? " ," : "", (int)strcspn(s, " ") - 1, s + 1);
        printf("\n.Fl -%s\n", a->name);
    }
}

// ---- metrics ------------------------------------------------------------------------------------

static void print_label(const fxi_label *l, const char *before)
{
    if (!l) return;
    printf("%s`%s`", before, l->name);
    if (!l->value || l->n > 12) return;
    for (int i = 0; i < l->n; i++) printf("%s%s", i ? ", " : ": ", l->value[i]);
}

static void print_metrics(void)
{
    static const char *const kind[] = {"counter", "gauge", "histogram"};
    printf("| metric | kind | meaning | labels |\n|---|---|---|---|\n");
    for (int i = 0; i < fxi_n_metric; i++) {
        const fxi_metric *m = &fxi_metric_table[i];
        printf("| `flexinfer_%s` | %s | ", m->name, kind[m->kind]);
        print_cell(m->help, strlen(m->help));
        printf(" | ");
        print_label(m->label, "");
        print_label(m->label2, "; ");
        printf(" |\n");
    }
}

// ---- the manual page ---------------------------------------------------------------------------

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

// A text line: capital letter, full stop, and a minus sign where an option begins.
static void print_sentence(const char *text, size_t n)
{
    putchar(toupper((unsigned char)text[0]));
    for (const char *s = text + 1; s < text + n; s++)
        printf(*s == '-' && !isalnum((unsigned char)s[-1]) ? "\\-" : "%c", *s);
    printf(".\n");
}

static void print_manual_option(const fxi_opt *o)
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

static void print_synopses(void)
{
    for (int i = 0; i < fxi_cli_flexinfer.n_command; i++) {
        const fxi_cli_command *c = &fxi_cli_flexinfer.command[i];
        printf(".Nm\n.Cm %s\n", c->name);
        for (const char *s = c->synopsis; *s;) s = print_group(s);
    }
}

static void print_command_rows(void)
{
    for (int i = 0; i < fxi_cli_flexinfer.n_command; i++) {
        const fxi_cli_command *c = &fxi_cli_flexinfer.command[i];
        printf(".It Cm %s\n", c->name);
        print_sentence(c->about, strlen(c->about));
        if (c->note) printf(".Bd -literal\n%s.Ed\n", c->note);
    }
}

static void print_options_by_command(void)
{
    for (int i = 0; i < fxi_cli_flexinfer.n_command; i++) {
        const fxi_cli_command *c = &fxi_cli_flexinfer.command[i];
        bool any = false;
        for (const fxi_opt *o = fxi_cli_table.opt; o < fxi_cli_table.opt + fxi_cli_table.n_opt;
             o++) {
            if (!(o->commands & c->bit) || !o->help) continue;
            if (!any) printf(".Ss Options of %s\n.Bl -tag -width Ds\n", c->name);
            any = true;
            print_manual_option(o);
        }
        if (any) printf(".El\n");
    }
}

// ---- the document -------------------------------------------------------------------------------

static const struct {
    const char *line;
    void (*print)(void);
    bool is_begin; // of a table that stands there, up to its end
} places[] = {{"<!-- options: made by make_reference -->\n", print_all_options, true},
              {"<!-- metrics: made by make_reference -->\n", print_metrics, true},
              {"<!-- spellings: made by make_reference -->\n", print_spellings, true},
              {"@SYNOPSIS\n", print_synopses, false},
              {"@COMMANDS\n", print_command_rows, false},
              {"@OPTIONS\n", print_options_by_command, false},
              {"@SPELLINGS\n", print_manual_spellings, false}};

int main(int argc, char **argv)
{
    const size_t n_place = sizeof places / sizeof places[0];
    char line[8192];
    bool made = false; // this line is part of a table that was made
    FILE *from = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!from) {
        fprintf(stderr, "usage: make_reference DOCUMENT > NEW\n");
        return 1;
    }
    while (fgets(line, sizeof line, from)) {
        size_t i = 0;
        while (i < n_place && strcmp(line, places[i].line) != 0) i++;
        if (strcmp(line, "<!-- end -->\n") == 0) made = false;
        if (!made && (i == n_place || places[i].is_begin)) fputs(line, stdout);
        if (i == n_place) continue;
        made = places[i].is_begin;
        if (made) printf("\n");
        places[i].print();
        if (made) printf("\n");
    }
    return ferror(from) || fclose(from) || fflush(stdout) || ferror(stdout);
}
