// hub.c - a model's name to a path: what is here, what the hub says, and the difference fetched.
//
// The hub's list of files says which there are, how long, and by which hash; a file of a URL, or of
// a hub that says less, is asked for its first byte instead. Files that are here are not fetched
// again. The revision's name moves to the new commit when all of its files are there, so what was
// fetched before stays usable until then.
#include "base/fail.h"
#include "hub/hub_env.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MAX_TRY = 5, URL_DIGITS = 16 };

fx_status fxi_hub_open(const fxi_hub_watch *watch, fxi_hub **out, fx_error *err)
{
    fxi_hub *h = *out = calloc(1, sizeof *h);
    if (!h) return fxi_fail_memory(err);
    const fx_status st = fxi_hub_env_read(&h->env, err);
    h->net = (fxi_hub_net){h->env.token, h->env.ca_file, watch->stop_fd, MAX_TRY, watch};
    if (st == FX_OK) return st;
    fxi_hub_close(h);
    *out = NULL;
    return st;
}

void fxi_hub_close(fxi_hub *h)
{
    if (!h) return;
    fxi_hub_env_free(&h->env);
    free(h);
}

__attribute__((format(printf, 2, 3))) static void say_note(const fxi_hub *h, const char *fmt, ...)
{
    char line[FX_ERROR_TEXT_BYTES + 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    h->net.watch->on_note(h->net.watch->ud, line);
}

// ---- a wish: a name, and where it lies ----------------------------------------------------------

typedef struct hub_wish {
    const char *text; // the name as given
    fxi_hub_name name;
    fxi_hub_place place;
    // Where files come from: BEFORE + name + AFTER
    fxi_buf before, after;
    bool is_encoded; // the name stands in its URL as it is
} hub_wish;

static void free_wish(hub_wish *w)
{
    fxi_hub_place_free(&w->place);
    fxi_buf_free(&w->before);
    fxi_buf_free(&w->after);
}

// Letters, digits and the marks of RFC 3986 stay, others become %XX.
static bool add_encoded(fxi_buf *b, fxi_str s, const char *more)
{
    bool ok = true;
    for (size_t i = 0; ok && i < s.n; i++)
        ok = fxi_str_is_plain((fxi_str){s.p + i, 1}, more)
                 ? fxi_buf_add(b, s.p + i, 1)
                 : fxi_buf_fmt(b, "%%%02X", (unsigned char)s.p[i]);
    return ok;
}

// models--ORG--REPO
static fx_status place_repo(const fxi_hub *h, hub_wish *w, fx_error *err)
{
    const fxi_str repo = w->name.repo;
    const char *slash = memchr(repo.p, '/', repo.n);
    const int n_org = (int)(slash - repo.p), n_repo = (int)repo.n - n_org - 1;
    w->place.root = strdup(h->env.cache);
    if (asprintf(&w->place.folder, "models--%.*s--%.*s", n_org, repo.p, n_repo, slash + 1) < 0)
        w->place.folder = NULL;
    return w->place.root && w->place.folder ? FX_OK : fxi_fail_memory(err);
}

// HOST--HASH of the URL; it is split around the name of its file.
static fx_status place_url(const fxi_hub *h, hub_wish *w, fx_error *err)
{
    const char *text = w->text, *host = strstr(text, "://") + 3;
    const size_t n_path = strcspn(text, "?");
    const char *slash = memrchr(text, '/', n_path);
    char hash[FXI_HUB_HASH_ROOM];
    w->name.file = (fxi_str){slash + 1, (size_t)(text + n_path - slash - 1)};
    w->is_encoded = true;
    if (slash < host || !fxi_hub_is_file(w->name.file))
        return fxi_fail(err, FX_EINVAL, "'%.200s' does not end with the name of a file", text);
    FX_TRY(fxi_hub_hash_text(fxi_str_of(text), hash, err));
    w->place.root = strdup(h->env.url_cache);
    if (asprintf(&w->place.folder, "%.*s--%.*s", (int)strcspn(host, "/:?"), host, URL_DIGITS,
                 hash) < 0)
        w->place.folder = NULL;
    const bool ok = fxi_buf_add(&w->before, text, (size_t)(slash + 1 - text)) &&
                    fxi_buf_str(&w->after, text + n_path);
    return ok && w->place.root && w->place.folder ? FX_OK : fxi_fail_memory(err);
}

// free_wish in any case.
static fx_status read_wish(const fxi_hub *h, const char *text, hub_wish *w, fx_error *err)
{
    *w = (hub_wish){.text = text};
    FX_TRY(fxi_hub_name_read(text, h->env.endpoint, &w->name, err));
    if (w->name.kind == FXI_HUB_REPO) return place_repo(h, w, err);
    return w->name.kind == FXI_HUB_URL ? place_url(h, w, err) : FX_OK;
}

static fxi_str rev_of(const hub_wish *w)
{
    return w->name.rev.n ? w->name.rev : fxi_str_of("main");
}

static bool is_commit(fxi_str rev)
{
    return fxi_hub_is_hex(rev, FXI_HUB_COMMIT_DIGITS);
}

// ---- what is here -------------------------------------------------------------------------------

// The files of one model of a repository.
static fx_status find_files(const hub_wish *w, fxi_hub_listing *l, fxi_hub_choice *choice,
                            fx_error *err)
{
    char commit[FXI_HUB_COMMIT_DIGITS + 2];
    const fxi_str rev = rev_of(w);
    if (is_commit(rev))
        snprintf(commit, sizeof commit, "%.*s", (int)rev.n, rev.p);
    else
        FX_TRY(fxi_hub_place_commit(&w->place, rev, commit, err));
    if (!commit[0]) return fxi_fail(err, FX_EINVAL, "%.200s: it is not here", w->text);
    FX_TRY(fxi_hub_place_files(&w->place, commit, l, err));
    const fx_status st = fxi_hub_choose(l, &w->name, choice, err);
    return st == FX_EINVAL ? fxi_fail_in(err, "%.200s: it is not here as a whole", w->text) : st;
}

// Errors: FX_EINVAL: it is not here, or not whole; FX_ENOMEM.
static fx_status find_here(const hub_wish *w, char **path, fx_error *err)
{
    fxi_hub_listing l = {0};
    fxi_hub_choice choice = {0};
    *path = NULL;
    fx_status st = find_files(w, &l, &choice, err);
    if (st == FX_OK) {
        const char *name = choice.is_folder ? "" : l.file[choice.at[0]].name;
        *path =
            fxi_hub_place_path(&w->place, "snapshots/%s%s%s", l.commit, name[0] ? "/" : "", name);
        if (!*path) st = fxi_fail_memory(err);
    }
    fxi_hub_choice_free(&choice);
    fxi_hub_listing_free(&l);
    return st;
}

// ---- what the hub says --------------------------------------------------------------------------

static fx_status file_url(const hub_wish *w, const char *file, fxi_buf *out, fx_error *err)
{
    const bool ok =
        fxi_buf_str(out, w->before.p ? w->before.p : "") &&
        (w->is_encoded ? fxi_buf_str(out, file) : add_encoded(out, fxi_str_of(file), "-_.~/")) &&
        fxi_buf_str(out, w->after.p ? w->after.p : "");
    return ok ? FX_OK : fxi_fail_memory(err);
}

static bool take_nothing(void *ud, const fxi_http_answer *a, const char *p, size_t n)
{
    (void)a, (void)p, (void)n;
    *(bool *)ud = true;
    return false; // the head is enough
}

// Asks for the first byte of a file, for what the heads say.
static fx_status ask_facts(const fxi_hub *h, fxi_http_client *c, const hub_wish *w, fxi_hub_file *f,
                           fx_error *err)
{
    fxi_buf url = {0}, key = {0};
    fxi_hub_reply reply = {0};
    fxi_hub_head head;
    bool has_begun = false;
    fx_error failure = {0};
    fx_status st = file_url(w, f->name, &url, &failure);
    const fxi_hub_get get = {url.p, w->text, true, 0, 1, take_nothing, &has_begun};
    if (st == FX_OK) st = fxi_hub_net_ask(&h->net, c, &get, &reply, &failure);
    // It ends the body on purpose.
    if (st != FX_OK && !has_begun) st = fxi_fail(err, st, "%s", failure.text);
    if (st == FX_OK || has_begun) {
        fxi_hub_head_read((fxi_str){reply.heads.p, reply.heads.n}, &head);
        st = head.has_size
                 ? FX_OK
                 : fxi_fail(err, FX_EIO, "%s: the server does not say how long it is", w->text);
        f->n_bytes = head.n_bytes;
        memcpy(f->hash, head.hash, sizeof f->hash);
    }
    if (st == FX_OK && !f->hash[0]) { // a name of the blob, which can only be compared
        st = fxi_buf_fmt(&key, "%s\n%.*s\n%llu", url.p, (int)head.etag.n, head.etag.p,
                         (unsigned long long)f->n_bytes)
                 ? fxi_hub_hash_text((fxi_str){key.p, key.n}, f->hash, err)
                 : fxi_fail_memory(err);
        f->is_named = true;
    }
    f->is_known = st == FX_OK;
    fxi_hub_reply_free(&reply);
    fxi_buf_free(&url);
    fxi_buf_free(&key);
    return st;
}

// The files of a revision.
static fx_status list_repo(const fxi_hub *h, fxi_http_client *c, hub_wish *w, fxi_hub_listing *l,
                           fx_error *err)
{
    fxi_buf url = {0};
    fxi_hub_reply reply = {0};
    const fxi_str repo = w->name.repo;
    const int n_repo = (int)repo.n;
    const bool ok =
        fxi_buf_fmt(&url, "%s/api/models/%.*s/revision/", h->env.endpoint, n_repo, repo.p) &&
        add_encoded(&url, rev_of(w), "-_.~") && fxi_buf_str(&url, "?blobs=true");
    fx_status st = ok ? FX_OK : fxi_fail_memory(err);
    const fxi_hub_get get = {.url = url.p, .what = w->text};
    if (st == FX_OK) st = fxi_hub_net_ask(&h->net, c, &get, &reply, err);
    if (st == FX_OK) {
        const fxi_buf *body = &reply.answer.body;
        st = fxi_hub_listing_read((fxi_str){body->p, body->n}, l, err);
        if (st == FX_EFORMAT || st == FX_EINVAL)
            st = fxi_fail_in(err, "%.200s: %.200s does not answer as a hub", w->text,
                             h->env.endpoint);
    }
    if (st == FX_OK &&
        !fxi_buf_fmt(&w->before, "%s/%.*s/resolve/%s/", h->env.endpoint, n_repo, repo.p, l->commit))
        st = fxi_fail_memory(err);
    fxi_hub_reply_free(&reply);
    fxi_buf_free(&url);
    return st;
}

// The file of a URL and its other parts; the first one's facts stand for a commit.
static fx_status list_url(const fxi_hub *h, fxi_http_client *c, const hub_wish *w,
                          fxi_hub_listing *l, fx_error *err)
{
    unsigned no = 1, count = 1;
    size_t digits;
    char name[600], hash[FXI_HUB_HASH_ROOM];
    snprintf(name, sizeof name, "%.*s", (int)w->name.file.n, w->name.file.p);
    const bool has_parts = fxi_hub_part_read(name, &no, &count, &digits);
    for (unsigned i = 1; i <= count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%05u", i);
        if (has_parts) memcpy(name + digits, number, 5);
        FX_TRY(fxi_hub_listing_add(l, fxi_str_of(name), err));
        FX_TRY(ask_facts(h, c, w, &l->file[l->n - 1], err));
    }
    FX_TRY(fxi_hub_hash_text(fxi_str_of(l->file[0].hash), hash, err));
    memcpy(l->commit, hash, FXI_HUB_COMMIT_DIGITS);
    return FX_OK;
}

// ---- fetching -----------------------------------------------------------------------------------

// A file that the Python client has put there as it is, or that we have linked.
static fx_status is_here(const hub_wish *w, const fxi_hub_listing *l, const fxi_hub_file *f,
                         bool *here, fx_error *err)
{
    char *path = fxi_hub_place_path(&w->place, "snapshots/%s/%s", l->commit, f->name);
    *here = path && !access(path, F_OK);
    free(path);
    return path ? FX_OK : fxi_fail_memory(err);
}

static char *blob_path(const hub_wish *w, const fxi_hub_file *f)
{
    return fxi_hub_place_path(&w->place, "blobs/%s", f->hash);
}

static fx_status check_disk(const hub_wish *w, uint64_t need_bytes, fx_error *err)
{
    struct statvfs disk;
    char *path = fxi_hub_place_path(&w->place, "blobs/");
    fx_status st = path ? fxi_hub_make_folders(path, err) : fxi_fail_memory(err);
    if (st == FX_OK && !statvfs(path, &disk)) {
        const double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
        if ((double)need_bytes > free_bytes)
            st = fxi_fail(err, FX_EIO, "%s needs %.1f GB more, and %s has %.1f GB free", w->text,
                          (double)need_bytes / 1e9, w->place.root, free_bytes / 1e9);
    }
    free(path);
    return st;
}

// Sums up all files of the choice, and what is missing of them; asks for what is not known.
static fx_status weigh_files(const fxi_hub *h, fxi_http_client *c, const hub_wish *w,
                             const fxi_hub_listing *l, const fxi_hub_choice *choice,
                             uint64_t *total_bytes, fx_error *err)
{
    uint64_t need = 0;
    *total_bytes = 0;
    for (size_t i = 0; i < choice->n; i++) {
        fxi_hub_file *f = &l->file[choice->at[i]];
        bool here;
        if (!f->is_known) FX_TRY(ask_facts(h, c, w, f, err));
        FX_TRY(is_here(w, l, f, &here, err));
        char *blob = blob_path(w, f);
        if (!blob) return fxi_fail_memory(err);
        if (!here && access(blob, F_OK)) {
            const uint64_t missing = fxi_hub_fetch_missing(blob, f->n_bytes);
            if (__builtin_add_overflow(need, missing, &need)) need = UINT64_MAX;
        }
        if (__builtin_add_overflow(*total_bytes, f->n_bytes, total_bytes)) need = UINT64_MAX;
        free(blob);
    }
    return check_disk(w, need, err);
}

static fx_status fetch_file(const fxi_hub *h, const hub_wish *w, const fxi_hub_listing *l,
                            const fxi_hub_file *f, uint64_t done, uint64_t total, fx_error *err)
{
    fxi_buf url = {0};
    int lock;
    bool here;
    FX_TRY(is_here(w, l, f, &here, err));
    if (here) return FX_OK;
    FX_TRY(fxi_hub_place_lock(&w->place, f->hash, &h->net, f->name, &lock, err));
    char *blob = blob_path(w, f);
    fx_status st = blob ? file_url(w, f->name, &url, err) : fxi_fail_memory(err);
    const fxi_hub_source src = {url.p,      f->name, f->is_named ? "" : f->hash,
                                f->n_bytes, done,    total};
    if (st == FX_OK && access(blob, F_OK)) st = fxi_hub_fetch(&h->net, &src, blob, err);
    if (st == FX_OK) st = fxi_hub_place_link(&w->place, l->commit, f->name, f->hash, err);
    close(lock);
    free(blob);
    fxi_buf_free(&url);
    return st;
}

// For a URL its text, then refs/REV; nothing where it says so already, as in a cache that cannot be
// written.
static fx_status write_refs(const hub_wish *w, const fxi_hub_listing *l, fx_error *err)
{
    char commit[FXI_HUB_COMMIT_DIGITS + 2];
    const fxi_str rev = rev_of(w);
    if (is_commit(rev)) return FX_OK;
    FX_TRY(fxi_hub_place_commit(&w->place, rev, commit, err));
    if (!strcmp(commit, l->commit)) return FX_OK;
    char *ref = fxi_hub_place_path(&w->place, "refs/%.*s", (int)rev.n, rev.p);
    char *url = fxi_hub_place_path(&w->place, "url");
    fx_status st = ref && url ? FX_OK : fxi_fail_memory(err);
    if (st == FX_OK && w->name.kind == FXI_HUB_URL) st = fxi_hub_write_text(url, w->text, err);
    if (st == FX_OK) st = fxi_hub_write_text(ref, l->commit, err);
    free(ref);
    free(url);
    return st;
}

static fx_status fetch_files(const fxi_hub *h, fxi_http_client *c, const hub_wish *w,
                             const fxi_hub_listing *l, const fxi_hub_choice *choice, fx_error *err)
{
    uint64_t done = 0, total;
    FX_TRY(weigh_files(h, c, w, l, choice, &total, err));
    for (size_t i = 0; i < choice->n; i++) {
        const fxi_hub_file *f = &l->file[choice->at[i]];
        FX_TRY(fetch_file(h, w, l, f, done, total, err));
        done += f->n_bytes;
    }
    return write_refs(w, l, err);
}

static void say_choice(const fxi_hub *h, const hub_wish *w, const fxi_hub_listing *l,
                       const fxi_hub_choice *choice)
{
    const char *name = choice->is_folder ? "a folder" : l->file[choice->at[0]].name;
    if (w->name.file.n || !choice->others.n) return;
    say_note(h, "%s: %s was chosen; there are also: %s", w->text, name, choice->others.p);
}

static fx_status fetch_wish(fxi_hub *h, hub_wish *w, fx_error *err)
{
    fxi_hub_listing l = {0};
    fxi_hub_choice choice = {0};
    fxi_http_client *c;
    FX_TRY(fxi_hub_net_open(&h->net, &c, err));
    const bool is_url = w->name.kind == FXI_HUB_URL;
    fx_status st = is_url ? list_url(h, c, w, &l, err) : list_repo(h, c, w, &l, err);
    h->net.max_try = MAX_TRY; // it answers
    if (st == FX_OK && (st = fxi_hub_choose(&l, &w->name, &choice, err)) == FX_EINVAL)
        fxi_fail_in(err, "%.200s", w->text);
    if (st == FX_OK) say_choice(h, w, &l, &choice);
    if (st == FX_OK) st = fetch_files(h, c, w, &l, &choice, err);
    fxi_http_client_close(c);
    fxi_hub_choice_free(&choice);
    fxi_hub_listing_free(&l);
    return st;
}

// ---- the calls ----------------------------------------------------------------------------------

static fx_status find_wish(fxi_hub *h, hub_wish *w, fxi_hub_how how, char **path, fx_error *err)
{
    fx_error why = {0};
    char *here;
    fx_status st = find_here(w, &here, &why);
    if (st == FX_ENOMEM) return fxi_fail(err, st, "%s", why.text);
    // A commit does not change.
    if (here && (how == FXI_HUB_LOCAL || is_commit(w->name.rev))) {
        *path = here;
        return FX_OK;
    }
    if (how == FXI_HUB_LOCAL)
        return fxi_fail(err, st, "%s%s", why.text,
                        h->env.is_offline ? ", and HF_HUB_OFFLINE is set" : "");
    h->net.max_try = here && how == FXI_HUB_ASK ? 1 : MAX_TRY;
    st = fetch_wish(h, w, &why);
    if (st == FX_OK) {
        free(here);
        return find_here(w, path, err);
    }
    if (!here || how == FXI_HUB_FETCH || fxi_hub_net_is_stopped(&h->net)) {
        free(here);
        return fxi_fail(err, st, "%s", why.text);
    }
    say_note(h, "%s; the copy that is here is used", why.text);
    *path = here;
    return FX_OK;
}

fx_status fxi_hub_find(fxi_hub *h, const char *name, fxi_hub_how how, fxi_hub_need need,
                       char **path, fx_error *err)
{
    hub_wish w;
    *path = NULL;
    fx_status st = read_wish(h, name, &w, err);
    w.name.is_vocab = need == FXI_HUB_VOCAB;
    if (st == FX_OK && w.name.kind == FXI_HUB_PATH) {
        *path = strdup(name);
        st = *path ? FX_OK : fxi_fail_memory(err);
    } else if (st == FX_OK && how == FXI_HUB_FETCH && h->env.is_offline) {
        st = fxi_fail(err, FX_EINVAL, "%s: HF_HUB_OFFLINE is set, so nothing is fetched", name);
    } else if (st == FX_OK) {
        st = find_wish(h, &w, h->env.is_offline ? FXI_HUB_LOCAL : how, path, err);
    }
    free_wish(&w);
    return st;
}

// A revision in the name limits it to its commit, a file or type to that model.
static fx_status remove_wish(const hub_wish *w, uint64_t *freed_bytes, fx_error *err)
{
    fxi_hub_listing l = {0};
    fxi_hub_choice choice = {0};
    fxi_hub_doomed what = {0};
    const char **file = NULL;
    fx_status st = FX_OK;
    const bool is_repo = w->name.kind == FXI_HUB_REPO;
    const bool is_part = is_repo && (w->name.file.n || w->name.type.n);
    if (is_part || (is_repo && w->name.rev.n)) {
        st = find_files(w, &l, &choice, err);
        if (w->name.rev.n) what.commit = l.commit;
    }
    if (st == FX_OK && is_part) {
        if (!(file = calloc(choice.n, sizeof *file))) st = fxi_fail_memory(err);
        for (size_t i = 0; st == FX_OK && i < choice.n; i++) file[i] = l.file[choice.at[i]].name;
        what.file = file;
        what.n = choice.n;
    }
    if (st == FX_OK) st = fxi_hub_place_remove(&w->place, &what, freed_bytes, err);
    free(file);
    fxi_hub_choice_free(&choice);
    fxi_hub_listing_free(&l);
    return st;
}

fx_status fxi_hub_remove(fxi_hub *h, const char *name, uint64_t *freed_bytes, fx_error *err)
{
    hub_wish w;
    char *folder = NULL;
    *freed_bytes = 0;
    fx_status st = read_wish(h, name, &w, err);
    if (st == FX_OK && w.name.kind == FXI_HUB_PATH)
        st = fxi_fail(err, FX_EINVAL, "'%.200s' is a path, not a model's name", name);
    if (st == FX_OK && !(folder = fxi_hub_place_path(&w.place, "%s", "")))
        st = fxi_fail_memory(err);
    if (st == FX_OK && access(folder, F_OK))
        st = fxi_fail(err, FX_EINVAL, "%.200s: it is not here", name);
    if (st == FX_OK) st = remove_wish(&w, freed_bytes, err);
    free(folder);
    free_wish(&w);
    return st;
}
