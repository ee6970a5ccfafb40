// figure_draw.c - every figure whose data is there: its script is written, and gnuplot runs it.
#include "cli/figures/figures.h"

#include "base/system/mapping.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static fx_status write_script(const char *path, const fxi_buf *script, fx_error *err)
{
    FILE *f = fopen(path, "w");
    if (!f) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    const bool written = fwrite(script->p, 1, script->n, f) == script->n;
    if (fclose(f) != 0 || !written) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    return FX_OK;
}

// Waits for gnuplot, whose own lines about what is wrong go to stderr.
static fx_status run_gnuplot(const char *folder, const char *script, fx_error *err)
{
    pid_t pid;
    int status = 0;
    char *argv[] = {"gnuplot", (char *)script, NULL};
    posix_spawn_file_actions_t in_folder;
    int failed = posix_spawn_file_actions_init(&in_folder);
    if (failed) return fxi_fail(err, FX_ENOMEM, "gnuplot: %s", strerror(failed));
    failed = posix_spawn_file_actions_addchdir_np(&in_folder, folder);
    if (!failed) failed = posix_spawnp(&pid, "gnuplot", &in_folder, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&in_folder);
    if (failed) return fxi_fail(err, FX_EIO, "gnuplot: %s", strerror(failed));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (status == 0) return FX_OK;
    return fxi_fail(err, FX_EIO, "gnuplot failed at %s/%s", folder, script);
}

static fx_status draw_data(const fxi_figure *f, fxi_str text, const char *name, const char *to,
                           fx_error *err)
{
    char script[64], path[4096];
    fxi_csv data;
    fxi_buf buf = {0};
    snprintf(script, sizeof script, "%s.gp", f->name);
    snprintf(path, sizeof path, "%s/%s", to, script);
    fx_status st = fxi_csv_read(text, name, &data, err);
    if (st == FX_OK) st = fxi_figure_script(f, &data, &buf, err);
    if (st == FX_OK) st = write_script(path, &buf, err);
    if (st == FX_OK) st = run_gnuplot(to, script, err);
    fxi_buf_free(&buf);
    fxi_csv_free(&data);
    return st;
}

static fx_status draw_figure(const fxi_figure *f, const char *from, const char *to, int *n_drawn,
                             fx_error *err)
{
    char path[4096];
    fxi_mapping m;
    snprintf(path, sizeof path, "%s/%s.csv", from, f->data ? f->data : f->name);
    if (access(path, F_OK) != 0) return FX_OK;
    FX_TRY(fxi_mapping_open(path, &m, err));
    fx_status st = draw_data(f, (fxi_str){(const char *)m.data, m.size_bytes}, path, to, err);
    fxi_mapping_close(&m);
    *n_drawn += st == FX_OK;
    return st;
}

fx_status fxi_figures_draw(const char *from, const char *to, int *n_drawn, fx_error *err)
{
    *n_drawn = 0;
    for (int i = 0; i < fxi_n_figure; i++)
        FX_TRY(draw_figure(&fxi_figures[i], from, to, n_drawn, err));
    if (*n_drawn > 0) return FX_OK;
    return fxi_fail(err, FX_EIO, "%s: no data of any figure", from);
}
