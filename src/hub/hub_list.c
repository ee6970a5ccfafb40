// hub_list.c - the models that are here: every GGUF file and every folder with weights of every
// snapshot, by the name that finds it again, and the files of URLs.
#include "base/fail.h"
#include "hub/hub_env.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct list_walk {
    void (*on_model)(void *ud, const fxi_hub_model *m);
    void *ud;
    fxi_buf repo; // "hf:ORG/REPO"
} list_walk;

static int is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

// Names in a folder, sorted; none if it is not there.
static fx_status scan_folder(const char *path, struct dirent ***entry, int *n, fx_error *err)
{
    *n = scandir(path, entry, is_visible, alphasort);
    if (*n >= 0) return FX_OK;
    *n = 0;
    *entry = NULL;
    if (errno == ENOENT || errno == ENOTDIR) return FX_OK;
    return fxi_fail(err, fxi_errno_status(errno), "%s: %s", path, strerror(errno));
}

static void free_entries(struct dirent **entry, int n)
{
    for (int i = 0; i < n; i++) free(entry[i]);
    free(entry);
}

// Appends "@REV" of a commit: nothing for main, the commit itself where no name leads to it.
static bool add_rev(const fxi_hub_place *p, const char *commit, fxi_buf *out)
{
    char *path = fxi_hub_place_path(p, "refs"), text[FXI_HUB_COMMIT_DIGITS + 2];
    char *const paths[] = {path, NULL};
    FTS *walk = path ? fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    char rev[256];
    snprintf(rev, sizeof rev, "%s", commit);
    for (FTSENT *e; walk && (e = fts_read(walk));) {
        if (e->fts_info != FTS_F || !fxi_hub_read_text(e->fts_path, text, sizeof text)) continue;
        const char *name = e->fts_path + strlen(path) + 1;
        if (strcmp(text, commit) || strlen(name) >= sizeof rev || !strcmp(rev, "main")) continue;
        snprintf(rev, sizeof rev, "%s", name);
    }
    const bool ok = walk && (!strcmp(rev, "main") || fxi_buf_fmt(out, "@%s", rev));
    if (walk) fts_close(walk);
    free(path);
    return ok;
}

static fx_status show_choice(const list_walk *w, const fxi_hub_place *p, const fxi_hub_listing *l,
                             const fxi_hub_choice *c, const char *name, fx_error *err)
{
    struct stat file;
    uint64_t n_bytes = 0;
    const char *first = c->is_folder ? "" : l->file[c->at[0]].name;
    char *path = fxi_hub_place_path(p, "snapshots/%s%s%s", l->commit, first[0] ? "/" : "", first);
    if (!path) return fxi_fail_memory(err);
    for (size_t i = 0; i < c->n; i++) n_bytes += l->file[c->at[i]].n_bytes;
    const time_t since = stat(path, &file) ? 0 : file.st_mtime;
    w->on_model(w->ud, &(fxi_hub_model){name, path, n_bytes, since});
    free(path);
    return FX_OK;
}

// What a name chooses of a snapshot, if that is there as a whole.
static fx_status list_choice(const list_walk *w, const fxi_hub_place *p, const fxi_hub_listing *l,
                             fxi_str file, const char *name, fx_error *err)
{
    fxi_hub_choice c = {0};
    const fxi_hub_name wish = {.kind = FXI_HUB_REPO, .file = file};
    fx_status st = fxi_hub_choose(l, &wish, &c, err);
    if (st == FX_OK) st = show_choice(w, p, l, &c, name, err);
    fxi_hub_choice_free(&c);
    return st == FX_EINVAL ? FX_OK : st;
}

static fx_status list_snapshot(const list_walk *w, const fxi_hub_place *p, const char *commit,
                               fx_error *err)
{
    fxi_hub_listing l = {0};
    fxi_buf name = {0};
    size_t n_gguf = 0;
    fx_status st = fxi_hub_place_files(p, commit, &l, err);
    if (st == FX_OK && (!fxi_buf_str(&name, w->repo.p) || !add_rev(p, commit, &name)))
        st = fxi_fail_memory(err);
    const size_t n_name = name.n;
    for (size_t i = 0; st == FX_OK && i < l.n; i++) {
        const char *file = l.file[i].name;
        if (!fxi_hub_is_gguf(file)) continue;
        n_gguf++;
        name.n = n_name;
        st = fxi_buf_fmt(&name, "/%s", file) ? list_choice(w, p, &l, fxi_str_of(file), name.p, err)
                                             : fxi_fail_memory(err);
    }
    if (st == FX_OK && l.n && !n_gguf) st = list_choice(w, p, &l, (fxi_str){0}, name.p, err);
    fxi_buf_free(&name);
    fxi_hub_listing_free(&l);
    return st;
}

static fx_status list_repo_folder(list_walk *w, const fxi_hub_place *p, fx_error *err)
{
    static const char prefix[] = "models--";
    const char *org = p->folder + sizeof prefix - 1, *repo = strstr(org, "--");
    struct dirent **entry;
    fxi_hub_name name;
    int n;
    if (strncmp(p->folder, prefix, sizeof prefix - 1) != 0 || !repo) return FX_OK;
    fxi_buf_clear(&w->repo);
    char *path = fxi_hub_place_path(p, "snapshots");
    if (!path || !fxi_buf_fmt(&w->repo, "hf:%.*s/%s", (int)(repo - org), org, repo + 2)) {
        free(path);
        return fxi_fail_memory(err);
    }
    fx_status st = FX_OK;
    if (fxi_hub_name_read(w->repo.p, "", &name, NULL) == FX_OK)
        st = scan_folder(path, &entry, &n, err);
    else
        n = 0, entry = NULL; // no name of ours
    for (int i = 0; st == FX_OK && i < n; i++)
        if (fxi_hub_is_hex(fxi_str_of(entry[i]->d_name), FXI_HUB_COMMIT_DIGITS))
            st = list_snapshot(w, p, entry[i]->d_name, err);
    free_entries(entry, n);
    free(path);
    return st;
}

static fx_status list_url_folder(list_walk *w, const fxi_hub_place *p, fx_error *err)
{
    char url[2048], commit[FXI_HUB_COMMIT_DIGITS + 2] = "";
    fxi_hub_listing l = {0};
    char *path = fxi_hub_place_path(p, "url");
    if (!path) return fxi_fail_memory(err);
    fx_status st = fxi_hub_place_commit(p, fxi_str_of("main"), commit, err);
    const bool is_whole = fxi_hub_read_text(path, url, sizeof url) && commit[0];
    if (st == FX_OK && is_whole) st = fxi_hub_place_files(p, commit, &l, err);
    if (st == FX_OK && l.n) st = list_choice(w, p, &l, fxi_str_of(l.file[0].name), url, err);
    fxi_hub_listing_free(&l);
    free(path);
    return st;
}

static fx_status list_root(list_walk *w, char *root,
                           fx_status (*list)(list_walk *, const fxi_hub_place *, fx_error *),
                           fx_error *err)
{
    struct dirent **entry;
    int n;
    fx_status st = scan_folder(root, &entry, &n, err);
    for (int i = 0; st == FX_OK && i < n; i++)
        st = list(w, &(fxi_hub_place){root, entry[i]->d_name}, err);
    free_entries(entry, n);
    return st;
}

fx_status fxi_hub_list(fxi_hub *h, void (*on_model)(void *ud, const fxi_hub_model *m), void *ud,
                       fx_error *err)
{
    list_walk w = {.on_model = on_model, .ud = ud};
    fx_status st = list_root(&w, h->env.cache, list_repo_folder, err);
    if (st == FX_OK) st = list_root(&w, h->env.url_cache, list_url_folder, err);
    fxi_buf_free(&w.repo);
    return st;
}
