// make_reference.c - fills in the generated tables of a document: the options of flexinfer, or the
// metrics of its server. It prints the document with what stands between the lines
//
//     <!-- options: made by make_reference -->    or    <!-- metrics: made by make_reference -->
//     <!-- end -->
//
// replaced by the tables of today. The target `reference` does so for docs/user; tools/check_docs
// compares.
//
//     make_reference DOCUMENT > NEW
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

// ---- the document -------------------------------------------------------------------------------

static const struct {
    const char *line;
    void (*print)(void);
} places[] = {{"<!-- options: made by make_reference -->\n", print_all_options},
              {"<!-- metrics: made by make_reference -->\n", print_metrics}};

int main(int argc, char **argv)
{
    char line[8192];
    bool made = false; // this line is part of a table that was made
    FILE *from = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!from) {
        fprintf(stderr, "usage: make_reference DOCUMENT > NEW\n");
        return 1;
    }
    while (fgets(line, sizeof line, from)) {
        if (strcmp(line, "<!-- end -->\n") == 0) made = false;
        if (!made) fputs(line, stdout);
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            if (strcmp(line, places[i].line) != 0) continue;
            printf("\n");
            places[i].print();
            printf("\n");
            made = true;
        }
    }
    return ferror(from) || fclose(from) || fflush(stdout) || ferror(stdout);
}
