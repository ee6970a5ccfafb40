// opt_text.c - options as text: a file of options to entries; help, and the values in effect.
#include "base/option/opt.h"
#include "base/system/grow.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- a file of options: lines "key = value" and "[section]" ------------------------------------
//
// A value is the rest of its line without the white space around it, or a text in double quotes.
// "#" begins a comment at the start of a line, or after white space that follows a value without
// quotes. The text is cut in place: entries point into it.

enum { MAX_ENTRY = 4 * FXI_OPT_MAX_ROW, READ_BYTES = 4096 };

typedef struct file_scan {
    fxi_opt_file *f;
    const char *section;
    int line;
    fx_error *err;
} file_scan;

static fx_status fail_line(const file_scan *s, const char *what, const char *text)
{
    return fxi_fail(s->err, FX_EINVAL, "%.80s:%d: %s%s%.60s%s", s->f->name, s->line, what,
                    text ? " '" : "", text ? text : "", text ? "'" : "");
}

// ---- one line -----------------------------------------------------------------------------------

static char *skip_blanks(char *s)
{
    return s + strspn(s, " \t");
}

static void trim_end(char *s)
{
    size_t n = strlen(s);
    while (n && strchr(" \t", s[n - 1])) s[--n] = 0;
}

static bool is_option_name(const char *s)
{
    return *s && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")] == 0;
}

static fx_status take_section(file_scan *s, char *line)
{
    char *end = strchr(line, ']');
    if (!end) return fail_line(s, "missing ']'", NULL);
    *end = 0;
    char *rest = skip_blanks(end + 1);
    if (*rest && *rest != '#') return fail_line(s, "unexpected text after ']':", rest);
    if (!is_option_name(line + 1)) return fail_line(s, "not a section name:", line + 1);
    s->section = line + 1;
    return FX_OK;
}

// Cuts the comment off a value without quotes.
static void cut_comment(char *value)
{
    for (char *c = value; (c = strchr(c, '#')); c++) {
        if (c != value && !strchr(" \t", c[-1])) continue;
        *c = 0;
        break;
    }
    trim_end(value);
}

// Undoes quotes in place; *value stands on the opening one.
static fx_status take_quoted(const file_scan *s, char **value)
{
    static const char escapes[] = "\"\"\\\\n\nt\t"; // pairs: letter, byte
    char *to = *value, *from = *value + 1;
    for (; *from && *from != '"'; from++) {
        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        size_t i = 0;
        from++;
        while (i + 2 < sizeof escapes && escapes[i] != *from) i += 2;
        if (i + 2 >= sizeof escapes)
            return fail_line(s, "unknown escape sequence in the quoted text", NULL);
        *to++ = escapes[i + 1];
    }
    if (!*from) return fail_line(s, "missing closing '\"'", NULL);
    char *rest = skip_blanks(from + 1);
    if (*rest && *rest != '#') return fail_line(s, "unexpected text after the quotes:", rest);
    *to = 0;
    return FX_OK;
}

static fx_status take_entry(file_scan *s, char *line)
{
    fxi_opt_file *f = s->f;
    char *equals = strchr(line, '=');
    if (!equals) return fail_line(s, "not 'key = value':", line);
    *equals = 0;
    trim_end(line);
    if (!is_option_name(line)) return fail_line(s, "not an option name:", line);
    char *value = skip_blanks(equals + 1);
    if (*value == '"')
        FX_TRY(take_quoted(s, &value));
    else
        cut_comment(value);
    if (!*value) return fail_line(s, "no value for", line);
    if (f->n_entry == MAX_ENTRY) return fail_line(s, "more entries than options", NULL);
    if (!fxi_grow(&f->entry, sizeof *f->entry, f->n_entry, &f->cap_entry))
        return fxi_fail(s->err, FX_ENOMEM, "out of memory for the options");
    f->entry[f->n_entry++] = (fxi_opt_entry){s->section, line, value, s->line};
    return FX_OK;
}

static fx_status take_lines(file_scan *s)
{
    char *p = s->f->text.p, *end = p + s->f->text.n, *next;
    for (; p < end; s->line++, p = next) {
        char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) stop = end;
        next = stop + 1;
        *stop = 0;
        if (strlen(p) < (size_t)(stop - p)) return fail_line(s, "zero byte", NULL);
        if (stop > p && stop[-1] == '\r') stop[-1] = 0;
        for (const char *c = p; *c; c++)
            if ((unsigned char)*c < ' ' && *c != '\t')
                return fail_line(s, "control character", NULL);
        p = skip_blanks(p);
        if (*p && *p != '#') FX_TRY(*p == '[' ? take_section(s, p) : take_entry(s, p));
    }
    return FX_OK;
}

// ---- the file -----------------------------------------------------------------------------------

fx_status fxi_opt_file_read(const char *path, fxi_opt_file *out, fx_error *err)
{
    *out = (fxi_opt_file){.name = strdup(path)};
    file_scan s = {out, "", 1, err};
    fxi_buf *text = &out->text;
    fx_status st = FX_OK;
    size_t n = 1; // that came last
    FILE *f = fopen(path, "rbe");
    if (!f) st = fxi_fail(err, FX_EIO, "cannot open %.200s: %s", path, strerror(errno));
    while (st == FX_OK && n > 0 && text->n <= FXI_OPT_MAX_FILE_BYTES) {
        if (!out->name || !fxi_buf_reserve(text, READ_BYTES)) {
            st = fxi_fail(err, FX_ENOMEM, "out of memory for the options");
            break;
        }
        n = fread(text->p + text->n, 1, READ_BYTES, f);
        text->n += n;
        text->p[text->n] = 0;
    }
    if (st == FX_OK && ferror(f))
        st = fxi_fail(err, FX_EIO, "cannot read %.200s: %s", path, strerror(errno));
    if (st == FX_OK && text->n > FXI_OPT_MAX_FILE_BYTES)
        st = fxi_fail(err, FX_EINVAL, "%.200s: the file is larger than 1 MiB", path);
    if (st == FX_OK) st = take_lines(&s);
    if (f) fclose(f);
    if (st != FX_OK) fxi_opt_file_free(out);
    return st;
}

void fxi_opt_file_free(fxi_opt_file *f)
{
    free(f->name);
    fxi_buf_free(&f->text);
    free(f->entry);
    *f = (fxi_opt_file){0};
}

// ---- the variable of each option, help, and the values in effect -------------------------------

void fxi_opt_env_name(const fxi_opt_table *t, const char *option, char name[FXI_OPT_ENV_BYTES])
{
    size_t n = 0;
    for (const char *s = t->env_prefix; *s && n < FXI_OPT_ENV_BYTES - 1; s++) name[n++] = *s;
    for (const char *s = option; *s && n < FXI_OPT_ENV_BYTES - 1; s++)
        name[n++] = *s == '-' ? '_' : (char)toupper((unsigned char)*s);
    name[n] = 0;
}

const char *fxi_opt_default(const fxi_opt *o, size_t *n, size_t *help_n)
{
    static const char mark[] = " (default: ";
    const char *end = strrchr(o->help, ')'), *at = strstr(o->help, mark);
    const bool in_help = at && end && !end[1];
    const char *text = in_help ? at + strlen(mark) : o->preset;
    if (help_n) *help_n = in_help ? (size_t)(at - o->help) : strlen(o->help);
    *n = in_help ? (size_t)(end - text) : text ? strlen(text) : 0;
    return text;
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

bool fxi_opt_help(const fxi_opt_table *t, unsigned command, fxi_buf *out)
{
    for (const fxi_opt *o = t->opt; o < t->opt + t->n_opt; o++) {
        char letter[8] = "    ", text[512];
        const size_t start = out->n;
        size_t n, help_n;
        if (!(o->commands & command) || !o->help) continue;
        if (o->letter) memcpy(letter, (char[]){'-', o->letter, ',', ' ', 0}, 5);
        const char *value = fxi_opt_default(o, &n, &help_n);
        snprintf(text, sizeof text, value ? "%.*s (default: %.*s)" : "%.*s", (int)help_n, o->help,
                 (int)n, value);
        if (!fxi_buf_fmt(out, "  %s--%s %s", letter, o->name, o->arg ? o->arg : "") ||
            !add_wrapped(out, (int)(out->n - start), text))
            return false;
    }
    return true;
}

// ---- values in effect ---------------------------------------------------------------------------

// A text, in quotes as a file of options would have it.
static bool add_quoted(fxi_buf *out, const char *s)
{
    bool ok = fxi_buf_str(out, "\"");
    for (; ok && *s; s++) {
        const char letter = *s == '\n' ? 'n' : *s == '\t' ? 't' : *s;
        ok = fxi_buf_fmt(out, letter != *s || *s == '"' || *s == '\\' ? "\\%c" : "%c", letter);
    }
    return ok && fxi_buf_str(out, "\"");
}

// A line without its end; the comment says where the value comes from.
static bool show_row(const fxi_opt_table *t, const fxi_opt *o, const fxi_opt_set *set,
                     const char *file, fxi_buf *out)
{
    char name[FXI_OPT_ENV_BYTES], option[FXI_OPT_ENV_BYTES];
    size_t n;
    const char *preset = fxi_opt_default(o, &n, NULL), *text = set->text ? set->text : "no";
    const bool is_text = o->type == FXI_OPT_STR || o->type == FXI_OPT_CHOICE;
    if (!set->text && o->type != FXI_OPT_FLAG) return fxi_buf_fmt(out, "# %s =", o->name);
    snprintf(option, sizeof option, "%.*s", (int)set->variable.n, set->variable.p);
    fxi_opt_env_name(t, option, name);
    if (!fxi_buf_fmt(out, "%s = ", o->name)) return false;
    if (!(is_text ? add_quoted(out, text) : fxi_buf_str(out, text))) return false;
    switch (set->from) {
    case FXI_OPT_FROM_FILE: return fxi_buf_fmt(out, "  # %s:%d", file, set->line);
    case FXI_OPT_FROM_ENVIRONMENT: return fxi_buf_fmt(out, "  # %s", name);
    case FXI_OPT_FROM_FLAG: return fxi_buf_fmt(out, "  # --%s", o->name);
    default: return !preset || preset == o->preset || fxi_buf_fmt(out, "  # %.*s", (int)n, preset);
    }
}

bool fxi_opt_show(const fxi_opt_table *t, unsigned command, const fxi_opt_rest *rest, fxi_buf *out)
{
    bool ok = true;
    for (size_t i = 0; ok && i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && o->help && o->type != FXI_OPT_CONFIG)
            ok = show_row(t, o, &rest->set[i], rest->file.name, out) && fxi_buf_str(out, "\n");
    }
    return ok;
}
