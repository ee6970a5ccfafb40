// opt_show.c - options as text: the variable of each, help, and the values in effect.
#include "base/option/opt_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void fxi_opt_env_name(const fxi_opt_table *t, const fxi_opt *o, char name[FXI_OPT_ENV_BYTES])
{
    size_t n = 0;
    for (const char *s = t->env_prefix; *s && n < FXI_OPT_ENV_BYTES - 1; s++) name[n++] = *s;
    for (const char *s = o->name; *s && n < FXI_OPT_ENV_BYTES - 1; s++)
        name[n++] = *s == '-' ? '_' : (char)toupper((unsigned char)*s);
    name[n] = 0;
}

enum { HELP_COLUMN = 28, HELP_COLUMNS = 100 };

// Appends the text in lines that begin at HELP_COLUMN; `used` columns of the first are taken.
static bool add_wrapped(fxi_buf *out, int used, const char *text)
{
    bool ok = true;
    while (ok && *text) {
        const size_t room = HELP_COLUMNS - HELP_COLUMN;
        size_t n = strlen(text);
        if (n > room)
            for (n = room; n > 0 && text[n] != ' '; n--) {
            }
        if (n == 0) n = strcspn(text, " ");
        ok = used < HELP_COLUMN || fxi_buf_str(out, "\n");
        if (used >= HELP_COLUMN) used = 0;
        ok = ok && fxi_buf_fmt(out, "%*s%.*s", HELP_COLUMN - used, "", (int)n, text);
        used = HELP_COLUMNS;
        text += n + strspn(text + n, " ");
    }
    return ok && fxi_buf_str(out, "\n");
}

static bool help_row(const fxi_opt *o, fxi_buf *out)
{
    char letter[8] = "    ", text[512];
    if (o->letter) memcpy(letter, (char[]){'-', o->letter, ',', ' ', 0}, 5);
    size_t start = out->n;
    if (!fxi_buf_fmt(out, "  %s--%s %s", letter, o->name, o->arg ? o->arg : "")) return false;
    snprintf(text, sizeof text, "%s%s%s%s", o->help, o->preset ? " (default " : "",
             o->preset ? o->preset : "", o->preset ? ")" : "");
    return add_wrapped(out, (int)(out->n - start), text);
}

bool fxi_opt_help(const fxi_opt_table *t, unsigned command, fxi_buf *out)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && o->help && !help_row(o, out)) return false;
    }
    return true;
}

// ---- values in effect ---------------------------------------------------------------------------

// As a file of options would have it.
static bool add_quoted(fxi_buf *out, const char *s)
{
    bool ok = fxi_buf_str(out, "\"");
    for (; ok && *s; s++) {
        if (*s == '\n' || *s == '\t')
            ok = fxi_buf_str(out, *s == '\n' ? "\\n" : "\\t");
        else
            ok = fxi_buf_fmt(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    return ok && fxi_buf_str(out, "\"");
}

static bool is_text(const fxi_opt *o)
{
    return o->type == FXI_OPT_STR || o->type == FXI_OPT_CHOICE;
}

static bool show_origin(const fxi_opt_table *t, const fxi_opt *o, const fxi_opt_set *set,
                        const fxi_opt_rest *rest, fxi_buf *out)
{
    char name[FXI_OPT_ENV_BYTES];
    fxi_opt_env_name(t, o, name);
    switch (set->from) {
    case FXI_OPT_FROM_FILE: return fxi_buf_fmt(out, "  # %s:%d\n", rest->file.name, set->line);
    case FXI_OPT_FROM_ENVIRONMENT: return fxi_buf_fmt(out, "  # %s\n", name);
    case FXI_OPT_FROM_FLAG: return fxi_buf_fmt(out, "  # --%s\n", o->name);
    default: return fxi_buf_str(out, "\n");
    }
}

static bool show_row(const fxi_opt_table *t, const fxi_opt *o, const fxi_opt_set *set,
                     const fxi_opt_rest *rest, fxi_buf *out)
{
    if (o->type == FXI_OPT_CONFIG) return true;
    if (!set->text && o->type != FXI_OPT_FLAG) return fxi_buf_fmt(out, "# %s =\n", o->name);
    const char *text = set->text ? set->text : "no";
    bool ok = fxi_buf_fmt(out, "%s = ", o->name);
    ok = ok && (is_text(o) ? add_quoted(out, text) : fxi_buf_str(out, text));
    return ok && show_origin(t, o, set, rest, out);
}

bool fxi_opt_show(const fxi_opt_table *t, unsigned command, const fxi_opt_rest *rest, fxi_buf *out)
{
    bool ok = true;
    for (size_t i = 0; ok && i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && o->help) ok = show_row(t, o, &rest->set[i], rest, out);
    }
    return ok;
}
