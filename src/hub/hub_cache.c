// hub_cache.c - repositories on the disk, in the layout that the hub's Python client made:
//
//     ROOT/FOLDER/refs/main                     the commit of a branch or tag, as text
//                 snapshots/COMMIT/FILE      -> ../../blobs/HASH
//                 blobs/HASH
//     ROOT/.locks/FOLDER/HASH.lock              held (flock) by whoever fetches the blob
//
// FOLDER is models--ORG--REPO. A name in snapshots exists only when its blob is whole.
#include "base/fail.h"
#include "base/system/grow.h"
#include "hub/hub_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- paths and small files ----------------------------------------------------------------------

char *fxi_hub_place_path(const fxi_hub_place *p, const char *fmt, ...)
{
    fxi_buf b = {0};
    char *rest = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&rest, fmt, ap) < 0) rest = NULL;
    va_end(ap);
    if (!rest || !fxi_buf_fmt(&b, "%s/%s%s%s", p->root, p->folder, rest[0] ? "/" : "", rest))
        fxi_buf_free(&b);
    free(rest);
    return b.p;
}

void fxi_hub_place_free(fxi_hub_place *p)
{
    free(p->root);
    free(p->folder);
    *p = (fxi_hub_place){0};
}

fx_status fxi_hub_make_folders(const char *path, fx_error *err)
{
    char *text = strdup(path);
    fx_status st = text ? FX_OK : fxi_fail_memory(err);
    for (char *slash = text; st == FX_OK && (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        if (mkdir(text, 0777) && errno != EEXIST)
            st = fxi_fail(err, FX_EIO, "%s: %s", text, strerror(errno));
        *slash = '/';
    }
    free(text);
    return st;
}

// A name beside `path` that no other process takes. NULL: out of memory.
static char *temporary_path(const char *path)
{
    char *text;
    return asprintf(&text, "%s.%ld.tmp", path, (long)getpid()) < 0 ? NULL : text;
}

static fx_status move_into_place(char *from, const char *path, fx_error *err)
{
    fx_status st = FX_OK;
    if (rename(from, path)) {
        st = fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
        unlink(from);
    }
    free(from);
    return st;
}

fx_status fxi_hub_write_text(const char *path, const char *text, fx_error *err)
{
    FX_TRY(fxi_hub_make_folders(path, err));
    char *temporary = temporary_path(path);
    if (!temporary) return fxi_fail_memory(err);
    FILE *f = fopen(temporary, "we");
    const bool wrote = f && fputs(text, f) >= 0;
    if (!f || fclose(f) || !wrote) {
        const fx_status st = fxi_fail(err, FX_EIO, "%s: %s", temporary, strerror(errno));
        unlink(temporary);
        free(temporary);
        return st;
    }
    return move_into_place(temporary, path, err);
}

bool fxi_hub_read_text(const char *path, char *text, size_t room)
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, room, f) : room;
    if (f) fclose(f);
    if (n >= room) return false;
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    text[n] = 0;
    return strlen(text) == n;
}

// ---- snapshots ----------------------------------------------------------------------------------

fx_status fxi_hub_place_commit(const fxi_hub_place *p, fxi_str rev,
                               char commit[FXI_HUB_COMMIT_DIGITS + 2], fx_error *err)
{
    char *path = fxi_hub_place_path(p, "refs/%.*s", (int)rev.n, rev.p);
    if (!path) return fxi_fail_memory(err);
    if (!fxi_hub_read_text(path, commit, FXI_HUB_COMMIT_DIGITS + 2) ||
        !fxi_hub_is_hex(fxi_str_of(commit), FXI_HUB_COMMIT_DIGITS))
        commit[0] = 0;
    free(path);
    return FX_OK;
}

// Opens a walk over a folder; NULL, and errno: there is none, or no memory.
static FTS *open_walk(char *path, int how)
{
    char *const paths[] = {path, NULL};
    return fts_open(paths, how | FTS_NOCHDIR, NULL);
}

fx_status fxi_hub_place_files(const fxi_hub_place *p, const char *commit, fxi_hub_listing *out,
                              fx_error *err)
{
    *out = (fxi_hub_listing){0};
    char *path = fxi_hub_place_path(p, "snapshots/%s", commit);
    FTS *walk = path ? open_walk(path, FTS_LOGICAL) : NULL;
    if (!walk) {
        free(path);
        return fxi_fail_memory(err);
    }
    fx_status st = FX_OK;
    const size_t n_path = strlen(path) + 1;
    for (FTSENT *e; st == FX_OK && (e = fts_read(walk));) {
        if (e->fts_info != FTS_F || e->fts_pathlen <= n_path) continue;
        const fxi_str name = fxi_str_of(e->fts_path + n_path);
        if (!fxi_hub_is_file(name)) continue;
        st = fxi_hub_listing_add(out, name, err);
        if (st == FX_OK) out->file[out->n - 1].n_bytes = (uint64_t)e->fts_statp->st_size;
    }
    fts_close(walk);
    free(path);
    fxi_hub_listing_sort(out);
    memcpy(out->commit, commit, sizeof out->commit);
    return st;
}

fx_status fxi_hub_place_link(const fxi_hub_place *p, const char *commit, const char *file,
                             const char *blob, fx_error *err)
{
    fxi_buf target = {0};
    char *path = fxi_hub_place_path(p, "snapshots/%s/%s", commit, file);
    char *temporary = path ? temporary_path(path) : NULL;
    bool ok = temporary && fxi_buf_str(&target, "../../");
    for (const char *c = file; ok && *c; c++) ok = *c != '/' || fxi_buf_str(&target, "../");
    ok = ok && fxi_buf_fmt(&target, "blobs/%s", blob);
    fx_status st = ok ? fxi_hub_make_folders(path, err) : fxi_fail_memory(err);
    if (st == FX_OK && symlink(target.p, temporary)) {
        st = fxi_fail(err, FX_EIO, "%s: %s", temporary, strerror(errno));
    } else if (st == FX_OK) {
        st = move_into_place(temporary, path, err);
        temporary = NULL;
    }
    free(temporary);
    free(path);
    fxi_buf_free(&target);
    return st;
}

// ---- locks --------------------------------------------------------------------------------------

enum { POLL_MS = 200 };

fx_status fxi_hub_place_lock(const fxi_hub_place *p, const char *blob, const fxi_hub_net *net,
                             const char *what, int *fd, fx_error *err)
{
    fxi_buf path = {0}, line = {0};
    *fd = -1;
    if (!fxi_buf_fmt(&path, "%s/.locks/%s/%s.lock", p->root, p->folder, blob) ||
        !fxi_buf_fmt(&line, "%s: another process fetches it; waiting", what)) {
        fxi_buf_free(&path);
        return fxi_fail_memory(err);
    }
    fx_status st = fxi_hub_make_folders(path.p, err);
    if (st == FX_OK && (*fd = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
        st = fxi_fail(err, FX_EIO, "%s: %s", path.p, strerror(errno));
    for (bool waits = false; st == FX_OK && flock(*fd, LOCK_EX | LOCK_NB);) {
        struct pollfd stop = {.fd = net->stop_fd, .events = POLLIN};
        if (errno != EWOULDBLOCK && errno != EINTR)
            st = fxi_fail(err, FX_EIO, "%s: %s", path.p, strerror(errno));
        else if (poll(&stop, 1, POLL_MS) > 0)
            st = fxi_fail(err, FX_EIO, "interrupted");
        else if (!waits)
            net->watch->on_note(net->watch->ud, line.p);
        waits = true;
    }
    fxi_buf_free(&path);
    fxi_buf_free(&line);
    if (st == FX_OK || *fd < 0) return st;
    close(*fd);
    *fd = -1;
    return st;
}

// ---- removal ------------------------------------------------------------------------------------

static fx_status remove_tree(char *path, uint64_t *freed_bytes, fx_error *err)
{
    FTS *walk = open_walk(path, FTS_PHYSICAL);
    if (!walk) return fxi_fail_memory(err);
    fx_status st = FX_OK;
    for (FTSENT *e; st == FX_OK && (e = fts_read(walk));) {
        if (e->fts_info == FTS_D || e->fts_info == FTS_NS) continue;
        const bool is_file = e->fts_info == FTS_F;
        if (remove(e->fts_path) && errno != ENOENT)
            st = fxi_fail(err, FX_EIO, "%s: %s", e->fts_path, strerror(errno));
        else if (is_file)
            *freed_bytes += (uint64_t)e->fts_statp->st_blocks * 512;
    }
    fts_close(walk);
    return st;
}

// The blob that an entry of a snapshot points to; false: it is no link.
static bool read_blob(const char *path, char blob[256])
{
    char target[4096];
    const ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0) return false;
    target[n] = 0;
    const char *slash = strrchr(target, '/');
    return snprintf(blob, 256, "%s", slash ? slash + 1 : target) < 256;
}

// Of an entry COMMIT/FILE.
static bool is_doomed(const fxi_hub_doomed *d, const char *entry)
{
    const char *file = strchr(entry, '/') + 1;
    const size_t n_commit = (size_t)(file - 1 - entry);
    if (d->commit && (strlen(d->commit) != n_commit || memcmp(d->commit, entry, n_commit) != 0))
        return false;
    for (size_t i = 0; i < d->n; i++)
        if (!strcmp(d->file[i], file)) return true;
    return !d->n;
}

typedef struct removal {
    char *root;     // .../snapshots
    fxi_buf doomed; // paths to unlink, each with its NUL: entries of snapshots, then blobs
    fxi_buf gone;   // names of blobs, a line each, that those entries point to
    fxi_buf kept;   // and that others do
    size_t n_left;  // entries
} removal;

// Finds the entries that go, and sorts the blobs.
static fx_status find_entries(removal *r, const fxi_hub_doomed *what, fx_error *err)
{
    FTS *walk = open_walk(r->root, FTS_PHYSICAL);
    if (!walk) return fxi_fail_memory(err);
    bool ok = true;
    for (FTSENT *e; ok && (e = fts_read(walk));) {
        char blob[256];
        if (e->fts_info == FTS_D || e->fts_info == FTS_DP || e->fts_level < 2) continue;
        const bool goes = is_doomed(what, e->fts_path + strlen(r->root) + 1);
        r->n_left += !goes;
        if (read_blob(e->fts_path, blob))
            ok = fxi_buf_fmt(goes ? &r->gone : &r->kept, "%s\n", blob);
        if (ok && goes) ok = fxi_buf_add(&r->doomed, e->fts_path, strlen(e->fts_path) + 1);
    }
    fts_close(walk);
    return ok ? FX_OK : fxi_fail_memory(err);
}

static bool has_line(const fxi_buf *lines, fxi_str line)
{
    fxi_str rest = {lines->p, lines->n}, other;
    while (fxi_str_next_line(&rest, &other))
        if (fxi_str_compare(other, line) == 0) return true;
    return false;
}

static fx_status find_blobs(const fxi_hub_place *p, removal *r, fx_error *err)
{
    fxi_str rest = {r->gone.p, r->gone.n}, blob;
    while (fxi_str_next_line(&rest, &blob)) {
        if (has_line(&r->kept, blob)) continue;
        char *path = fxi_hub_place_path(p, "blobs/%.*s", (int)blob.n, blob.p);
        const bool ok = path && fxi_buf_add(&r->doomed, path, strlen(path) + 1);
        free(path);
        if (!ok) return fxi_fail_memory(err);
    }
    return FX_OK;
}

// Everything is known by now, so that nothing but the disk can stop it half way. Two entries may
// have had one blob.
static fx_status unlink_doomed(removal *r, uint64_t *freed_bytes, fx_error *err)
{
    for (char *path = r->doomed.p; path && path < r->doomed.p + r->doomed.n;) {
        char *next = path + strlen(path) + 1;
        struct stat file;
        const bool is_there = !lstat(path, &file);
        if (is_there && unlink(path)) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
        if (is_there && S_ISREG(file.st_mode)) *freed_bytes += (uint64_t)file.st_blocks * 512;
        // Folders of a snapshot that are empty now.
        for (char *slash = strrchr(path, '/'); slash > path + strlen(r->root);
             slash = strrchr(path, '/')) {
            *slash = 0;
            if (strncmp(path, r->root, strlen(r->root)) != 0 || rmdir(path)) break;
        }
        path = next;
    }
    return FX_OK;
}

// Drops revisions whose snapshots have gone. One that stays does no harm: it leads to nothing.
static void drop_refs(const fxi_hub_place *p)
{
    char commit[FXI_HUB_COMMIT_DIGITS + 2], *root = fxi_hub_place_path(p, "refs");
    FTS *walk = root ? open_walk(root, FTS_PHYSICAL) : NULL;
    for (FTSENT *e; walk && (e = fts_read(walk));) {
        if (e->fts_info != FTS_F || !fxi_hub_read_text(e->fts_path, commit, sizeof commit))
            continue;
        char *snapshot = fxi_hub_place_path(p, "snapshots/%s", commit);
        if (snapshot && access(snapshot, F_OK)) (void)unlink(e->fts_path);
        free(snapshot);
    }
    if (walk) fts_close(walk);
    free(root);
}

fx_status fxi_hub_place_remove(const fxi_hub_place *p, const fxi_hub_doomed *what,
                               uint64_t *freed_bytes, fx_error *err)
{
    const bool is_whole = !what->commit && !what->n;
    removal r = {.root = fxi_hub_place_path(p, "snapshots")};
    char *whole = fxi_hub_place_path(p, "%s", "");
    fx_status st = r.root && whole ? FX_OK : fxi_fail_memory(err);
    if (st == FX_OK && !is_whole) st = find_entries(&r, what, err);
    if (st == FX_OK) st = find_blobs(p, &r, err);
    if (st == FX_OK) st = unlink_doomed(&r, freed_bytes, err);
    if (st == FX_OK && !r.n_left) st = remove_tree(whole, freed_bytes, err);
    if (st == FX_OK && r.n_left) drop_refs(p);
    free(whole);
    free(r.root);
    fxi_buf_free(&r.doomed);
    fxi_buf_free(&r.gone);
    fxi_buf_free(&r.kept);
    return st;
}
