// models.c - models by name: what a command is given becomes a path before the command runs; and
// the commands pull, list and rm.
//
// A model that is not here is fetched, with a bar on a terminal. Ctrl-C ends that, and what came is
// kept: the next time goes on from there.
#include "cli/cli.h"
#include "cli/terminal/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h" // defines: fxi_now_s
#include "hub/hub.h"

// ---- what is seen of a transfer -----------------------------------------------------------------

typedef struct transfer_view {
    fxi_progress bar;
    bool is_quiet;
} transfer_view;

static void draw_bytes(void *ud, const char *file, uint64_t done, uint64_t total)
{
    transfer_view *v = ud;
    fxi_progress_draw_rate(&v->bar, file, done, total, fxi_now_s());
}

static void print_note(void *ud, const char *line)
{
    transfer_view *v = ud;
    fxi_progress_end(&v->bar);
    if (!v->is_quiet) fprintf(stderr, "%s\n", line);
}

// The path of a model. Returns 0, or the program's exit status after an error line.
static int find_by_name(const char *name, fxi_hub_how how, fxi_hub_need need, bool is_quiet,
                        char **path)
{
    fx_error err = {0};
    fxi_hub *h;
    *path = NULL;
    if (!fxi_signals_catch()) return fxi_cli_fail("out of file descriptors");
    transfer_view view = {fxi_progress_begin(""), is_quiet};
    const fxi_hub_watch watch = {fxi_signals_fd(), draw_bytes, print_note, &view};
    fx_status st = fxi_hub_open(&watch, &h, &err);
    if (st == FX_OK) st = fxi_hub_find(h, name, how, need, path, &err);
    fxi_progress_end(&view.bar);
    fxi_hub_close(h);
    const int signal_number = fxi_signals_stop();
    fxi_signals_let_kill();
    if (signal_number) {
        fxi_cli_fail("%.200s: interrupted; what came is kept, and the next time goes on from there",
                     name);
        return FXI_EXIT_SIGNAL + signal_number;
    }
    return st == FX_OK ? 0 : fxi_cli_fail("%s", err.text);
}

// ---- for every command --------------------------------------------------------------------------

enum { MAX_MODEL = 4 };

int fxi_cli_call(const fxi_cli_command *cmd, fxi_cli_options *o, fxi_opt_rest *rest)
{
    enum { FIRST_IS_MODEL = FXI_CMD_INSPECT | FXI_CMD_CONVERT | FXI_CMD_QUANTIZE };
    const bool is_quiet = o->log_format && !strcmp(o->log_format, "json");
    const fxi_hub_how how = o->check_config ? FXI_HUB_LOCAL : FXI_HUB_ASK;
    const struct {
        const char **name;
        fxi_hub_need need;
    } want[MAX_MODEL] = {
        {&o->engine.model_path, cmd->bit == FXI_CMD_TOKENIZE ? FXI_HUB_VOCAB : FXI_HUB_MODEL},
        {&o->engine.tokenizer_path, FXI_HUB_VOCAB},
        {&o->engine.draft_path, FXI_HUB_MODEL},
        {cmd->bit & FIRST_IS_MODEL ? &rest->arg[0] : NULL, FXI_HUB_MODEL},
    };
    char *path[MAX_MODEL] = {NULL};
    int rc = 0;
    for (int i = 0; !rc && i < MAX_MODEL; i++) {
        const char **name = want[i].name;
        if (!name || !*name || !fxi_hub_is_name(*name)) continue;
        rc = find_by_name(*name, how, want[i].need, is_quiet, &path[i]);
        if (!rc) *name = path[i];
    }
    if (!rc) rc = cmd->call(o, rest);
    for (int i = 0; i < MAX_MODEL; i++) free(path[i]);
    return rc;
}

// ---- pull, list, rm -----------------------------------------------------------------------------

int fxi_cmd_pull(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    const char *name = rest->arg[0];
    char *path;
    (void)o;
    if (!fxi_hub_is_name(name))
        return fxi_cli_fail("'%.200s' is not a model's name like hf:ORG/REPO, or a URL", name);
    const int rc = find_by_name(name, FXI_HUB_FETCH, FXI_HUB_MODEL, false, &path);
    if (!rc) printf("%s\n", path);
    free(path);
    return rc;
}

static fx_status open_quiet(fxi_hub **out, fx_error *err)
{
    static const fxi_hub_watch nothing = {.stop_fd = -1};
    return fxi_hub_open(&nothing, out, err);
}

static void print_model(void *ud, const fxi_hub_model *m)
{
    char size[FXI_SIZE_TEXT_BYTES], date[16] = "";
    struct tm day;
    *(bool *)ud = true;
    if (localtime_r(&m->since, &day)) strftime(date, sizeof date, "%Y-%m-%d", &day);
    printf("%10s  %-10s  %s\n", fxi_cli_size(m->n_bytes, size), date, m->name);
}

int fxi_cmd_list(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    fx_error err = {0};
    fxi_hub *h;
    bool has_some = false;
    (void)o, (void)rest;
    fx_status st = open_quiet(&h, &err);
    if (st == FX_OK) st = fxi_hub_list(h, print_model, &has_some, &err);
    fxi_hub_close(h);
    if (st == FX_OK && !has_some)
        fprintf(stderr, "none was fetched yet: flexinfer pull hf:ORG/REPO\n");
    return st == FX_OK ? 0 : fxi_cli_fail("%s", err.text);
}

typedef struct name_wish {
    const char *prefix, *before;
} name_wish;

static void offer_name(void *ud, const fxi_hub_model *m)
{
    const name_wish *w = ud;
    fxi_buf all = {0};
    if (fxi_buf_fmt(&all, "%s%s", w->before, m->name) &&
        !strncmp(all.p, w->prefix, strlen(w->prefix)))
        printf("%s\n", all.p);
    fxi_buf_free(&all);
}

void fxi_cli_offer_names(const char *prefix, const char *before)
{
    name_wish wish = {prefix, before};
    fxi_hub *h;
    if (open_quiet(&h, NULL) == FX_OK) (void)fxi_hub_list(h, offer_name, &wish, NULL);
    fxi_hub_close(h);
}

int fxi_cmd_rm(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    fx_error err = {0};
    fxi_hub *h;
    uint64_t freed_bytes = 0;
    char size[FXI_SIZE_TEXT_BYTES];
    (void)o;
    fx_status st = open_quiet(&h, &err);
    if (st == FX_OK) st = fxi_hub_remove(h, rest->arg[0], &freed_bytes, &err);
    fxi_hub_close(h);
    if (st != FX_OK) return fxi_cli_fail("%s", err.text);
    printf("removed %s: %s\n", rest->arg[0], fxi_cli_size(freed_bytes, size));
    return 0;
}
