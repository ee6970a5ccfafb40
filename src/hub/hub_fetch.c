// hub_fetch.c - one file from a server to the disk: ranges at a time, resumed after any break, and
// checked before the file gets its name.
//
// The file is cut into pieces of 1 MiB. A thread takes a run of pieces that are missing, asks for
// it, and writes it where it belongs; several threads do so, each with a connection of its own, so
// that TLS is worked on by several cores and one slow connection holds up none of the others. Until
// a server has answered one range, there is only one; one that ignores ranges sends the whole file,
// which that one thread takes.
//
//     PATH.flexinfer.incomplete   | the file's bytes, with holes where some miss | journal | mark |
//
// Meanwhile the caller's thread hashes the pieces from the first one on as they come.
//
// The journal has a byte per piece, 1 once the piece is written. It is cut off when all are there
// and the hash is right, and then the file is renamed to PATH. So a process may be killed at any
// moment: the next one reads the journal and goes on. A journal that says too much, after the
// machine has lost its power, ends in a wrong hash, and the file is fetched again.
#include "base/fail.h"
#include "base/system/clock.h"
#include "hub/hub_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 1 << 20, // a file of 40 GB has a journal of 40 KB
    N_THREAD = 4,
    MIN_RUN = 16, // pieces
    MAX_RUN = 256,
};

enum { PIECE_MISSING, PIECE_DONE, PIECE_TAKEN }; // the first two are what the journal holds

static const char mark[8] = "fxparts1";

#define DRAW_S 0.1

typedef struct fetch_job {
    const fxi_hub_net *net;
    const fxi_hub_source *src;
    int fd;
    size_t n_piece;
    pthread_mutex_t mu; // guards what follows
    pthread_cond_t changed;
    unsigned char *piece;     // [n_piece]
    size_t n_done, best_done; // pieces; best_done: at the last try that gained something
    bool has_gained;          // any, since the start
    int n_active;             // runs
    bool takes_ranges;        // the server has answered one
    int n_ended;              // threads
    // The caller's thread alone:
    fxi_hub_hash hash; // of the first n_hashed pieces
    size_t n_hashed;
    fx_status st; // the first failure, which ends all
    fx_error err;
} fetch_job;

typedef struct piece_run {
    fetch_job *job;
    size_t first, end; // pieces
    uint64_t at;       // the next byte
    bool has_begun;    // its answer
    const char *wrong; // what is wrong with the answer; NULL: nothing
    int io_errno;      // of a write
} piece_run;

static uint64_t piece_start(const fetch_job *j, size_t i)
{
    const uint64_t at = (uint64_t)i * PIECE_BYTES;
    return at < j->src->n_bytes ? at : j->src->n_bytes;
}

// ---- the file on the disk -----------------------------------------------------------------------

static bool write_at(int fd, const void *p, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        const ssize_t w = pwrite(fd, (const char *)p + done, n - done, (off_t)(at + done));
        if (w < 0 && errno != EINTR) return false;
        if (w > 0) done += (size_t)w;
    }
    return true;
}

static bool read_at(int fd, void *p, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        const ssize_t r = pread(fd, (char *)p + done, n - done, (off_t)(at + done));
        if (r == 0 || (r < 0 && errno != EINTR)) return false;
        if (r > 0) done += (size_t)r;
    }
    return true;
}

static size_t count_pieces(uint64_t n_bytes)
{
    return (size_t)(n_bytes / PIECE_BYTES + (n_bytes % PIECE_BYTES != 0));
}

// Reads which pieces are there. False: the file is not one of these, or of another length.
static bool read_journal(int fd, uint64_t n_bytes, unsigned char *piece, size_t n_piece)
{
    struct stat file;
    char end[sizeof mark];
    if (fstat(fd, &file)) return false;
    if ((uint64_t)file.st_size == n_bytes && n_bytes) { // killed just before it got its name
        memset(piece, PIECE_DONE, n_piece);
        return true;
    }
    if ((uint64_t)file.st_size != n_bytes + n_piece + sizeof mark ||
        !read_at(fd, end, sizeof end, n_bytes + n_piece) || memcmp(end, mark, sizeof mark) != 0 ||
        !read_at(fd, piece, n_piece, n_bytes))
        return false;
    for (size_t i = 0; i < n_piece; i++)
        if (piece[i] > PIECE_DONE) return false;
    return true;
}

static char *incomplete_path(const char *path)
{
    char *part;
    return asprintf(&part, "%s.flexinfer.incomplete", path) < 0 ? NULL : part;
}

uint64_t fxi_hub_fetch_missing(const char *path, uint64_t n_bytes)
{
    struct stat file;
    char *part = incomplete_path(path);
    const bool is_there = part && !stat(part, &file);
    const uint64_t here = is_there ? (uint64_t)file.st_blocks * 512 : 0;
    free(part);
    return here < n_bytes ? n_bytes - here : 0;
}

static fx_status open_job(fetch_job *j, const char *part, fx_error *err)
{
    const uint64_t n_bytes = j->src->n_bytes;
    j->n_piece = count_pieces(n_bytes);
    j->piece = calloc(j->n_piece + 1, 1);
    j->fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (!j->piece) return fxi_fail_memory(err);
    if (j->fd < 0) return fxi_fail(err, FX_EIO, "%s: %s", part, strerror(errno));
    if (!read_journal(j->fd, n_bytes, j->piece, j->n_piece)) {
        memset(j->piece, PIECE_MISSING, j->n_piece);
        if (ftruncate(j->fd, 0) || ftruncate(j->fd, (off_t)(n_bytes + j->n_piece)) ||
            !write_at(j->fd, mark, sizeof mark, n_bytes + j->n_piece))
            return fxi_fail(err, FX_EIO, "%s: %s", part, strerror(errno));
    }
    for (size_t i = 0; i < j->n_piece; i++) j->n_done += j->piece[i] == PIECE_DONE;
    j->best_done = j->n_done;
    return FX_OK;
}

// ---- runs ---------------------------------------------------------------------------------------

static size_t next_missing(const fetch_job *j)
{
    const unsigned char *p = memchr(j->piece, PIECE_MISSING, j->n_piece);
    return p ? (size_t)(p - j->piece) : j->n_piece;
}

// Takes the next run; waits while others may give pieces back, or try whether there are ranges.
// False: there is nothing more to do.
static bool claim_run(fetch_job *j, piece_run *r)
{
    pthread_mutex_lock(&j->mu);
    while (j->st == FX_OK && j->n_active && (!j->takes_ranges || next_missing(j) == j->n_piece))
        pthread_cond_wait(&j->changed, &j->mu);
    const size_t share = (j->n_piece - j->n_done) / (2 * N_THREAD) + 1;
    const size_t most = share < MIN_RUN ? MIN_RUN : share > MAX_RUN ? MAX_RUN : share;
    *r = (piece_run){.job = j, .first = next_missing(j)};
    const bool has_some = j->st == FX_OK && r->first < j->n_piece;
    for (r->end = r->first; r->end < j->n_piece && r->end - r->first < most; r->end++) {
        if (j->piece[r->end] != PIECE_MISSING) break;
        j->piece[r->end] = PIECE_TAKEN;
    }
    r->at = piece_start(j, r->first);
    j->n_active += has_some;
    pthread_mutex_unlock(&j->mu);
    return has_some;
}

// Gives back what has not come. *gained: there are more pieces than at the last call that said so.
// True: there are more than at the start.
static bool end_run(piece_run *r, bool *gained)
{
    fetch_job *j = r->job;
    pthread_mutex_lock(&j->mu);
    for (size_t i = r->first; i < r->end; i++)
        if (j->piece[i] == PIECE_TAKEN) j->piece[i] = PIECE_MISSING;
    *gained = j->n_done > j->best_done;
    if (*gained) j->best_done = j->n_done;
    const bool has_gained = j->has_gained = j->has_gained || *gained;
    j->n_active--;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->mu);
    return has_gained;
}

static void fail_fetch(fetch_job *j, const fx_error *why)
{
    pthread_mutex_lock(&j->mu);
    if (j->st == FX_OK) {
        j->st = why->status;
        j->err = *why;
    }
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->mu);
}

// ---- the body of an answer ----------------------------------------------------------------------

// A range must be the one asked for. The whole file instead begins at 0; only a thread that is
// alone may take that.
static bool begin_body(piece_run *r, const fxi_http_answer *a)
{
    fetch_job *j = r->job;
    fxi_hub_head head;
    r->has_begun = true;
    fxi_hub_head_read((fxi_str){a->head.p, a->head.n}, &head);
    if (a->status == 206 && (!head.has_range || head.from != r->at))
        r->wrong = "the server sends another range than the one asked for";
    else if (a->status == 206 && head.total != j->src->n_bytes)
        r->wrong = "the server says another length than before";
    pthread_mutex_lock(&j->mu);
    if (a->status == 206) {
        j->takes_ranges = true;
        pthread_cond_broadcast(&j->changed);
    } else if (j->takes_ranges) {
        r->wrong = "the server no longer answers ranges";
    } else {
        r->at = r->first = 0;
        r->end = j->n_piece;
    }
    pthread_mutex_unlock(&j->mu);
    return !r->wrong;
}

// False: it cannot be written, or another thread has failed.
static bool end_piece(piece_run *r, size_t i)
{
    static const char done = PIECE_DONE;
    fetch_job *j = r->job;
    if (!write_at(j->fd, &done, 1, j->src->n_bytes + i)) return false;
    pthread_mutex_lock(&j->mu);
    j->n_done += j->piece[i] != PIECE_DONE;
    j->piece[i] = PIECE_DONE;
    if (j->st != FX_OK) r->wrong = "given up";
    pthread_mutex_unlock(&j->mu);
    return !r->wrong;
}

static bool take_content(void *ud, const fxi_http_answer *a, const char *p, size_t n)
{
    piece_run *r = ud;
    fetch_job *j = r->job;
    if (!r->has_begun && !begin_body(r, a)) return false;
    if (n > piece_start(j, r->end) - r->at) {
        r->wrong = "the server sends more than was asked for";
        return false;
    }
    size_t i = (size_t)(r->at / PIECE_BYTES);
    bool ok = write_at(j->fd, p, n, r->at);
    r->at += n;
    for (; ok && i < r->end && r->at >= piece_start(j, i + 1); i++) ok = end_piece(r, i);
    if (!ok && !r->wrong) r->io_errno = errno;
    return ok;
}

// ---- a thread -----------------------------------------------------------------------------------

static fx_status fetch_run(piece_run *r, fxi_http_client *c, fxi_hub_reply *reply, fx_error *err)
{
    const fxi_hub_source *src = r->job->src;
    const fxi_hub_get get = {.url = src->url,
                             .what = src->name,
                             .has_range = r->first > 0 || r->end < r->job->n_piece,
                             .from = r->at,
                             .to = piece_start(r->job, r->end),
                             .on_body = take_content,
                             .ud = r};
    fx_status st = fxi_hub_net_get(r->job->net, c, &get, reply, err);
    const uint64_t end = piece_start(r->job, r->end);
    if (st == FX_OK && r->at < end) {
        reply->may_pass = true;
        st = fxi_fail(err, FX_EIO, "%s: the answer is %llu bytes too short", src->name,
                      (unsigned long long)(end - r->at));
    }
    if (r->io_errno || r->wrong) {
        reply->may_pass = false;
        st =
            fxi_fail(err, FX_EIO, "%s: %s", src->name, r->wrong ? r->wrong : strerror(r->io_errno));
    }
    return st;
}

// After something has come, a server that cannot be reached may be so for a while only.
static void fetch_runs(fetch_job *j, fxi_http_client *c)
{
    piece_run r;
    int n_try = 0;
    while (claim_run(j, &r)) {
        fxi_hub_reply reply;
        fx_error err = {0};
        fx_status st = fetch_run(&r, c, &reply, &err);
        bool gained;
        if (end_run(&r, &gained) && st == FX_EIO && !reply.answer.status) reply.may_pass = true;
        if (gained || st == FX_OK) n_try = 0;
        if (st != FX_OK && reply.may_pass) st = fxi_hub_net_wait(j->net, &reply, ++n_try, &err);
        fxi_hub_reply_free(&reply);
        if (st != FX_OK) fail_fetch(j, &err);
    }
}

static void *run_thread(void *ud)
{
    fetch_job *j = ud;
    fxi_http_client *c;
    fx_error err;
    if (fxi_hub_net_open(j->net, &c, &err) == FX_OK)
        fetch_runs(j, c);
    else
        fail_fetch(j, &err);
    fxi_http_client_close(c);
    pthread_mutex_lock(&j->mu);
    j->n_ended++;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->mu);
    return NULL;
}

static uint64_t count_done_bytes(const fetch_job *j)
{
    const uint64_t bytes = (uint64_t)j->n_done * PIECE_BYTES;
    return j->src->done_before + (bytes < j->src->n_bytes ? bytes : j->src->n_bytes);
}

// Hashes pieces that are there until the moment `until_s`; false: the next one is not. With the
// lock taken, which is given back meanwhile.
static bool hash_pieces(fetch_job *j, double until_s)
{
    fx_error err;
    while (j->st == FX_OK && j->n_hashed < j->n_piece && j->piece[j->n_hashed] == PIECE_DONE) {
        if (fxi_now_s() >= until_s) return true;
        pthread_mutex_unlock(&j->mu);
        const size_t i = j->n_hashed++;
        const fx_status st = j->hash.of ? fxi_hub_hash_add(&j->hash, j->fd, piece_start(j, i),
                                                           piece_start(j, i + 1), &err)
                                        : FX_OK;
        if (st != FX_OK) fail_fetch(j, &err);
        pthread_mutex_lock(&j->mu);
    }
    return false;
}

// Hashes, and shows how far it is, until all threads have ended and the hash is done.
static void watch_threads(fetch_job *j, int n_thread)
{
    const fxi_hub_watch *w = j->net->watch;
    for (bool more = true; more;) {
        const double until_s = fxi_now_s() + DRAW_S;
        pthread_mutex_lock(&j->mu);
        const bool hashes = hash_pieces(j, until_s);
        const struct timespec until = fxi_clock_after(DRAW_S);
        if (!hashes && j->n_ended < n_thread) pthread_cond_timedwait(&j->changed, &j->mu, &until);
        more = j->n_ended < n_thread || (j->st == FX_OK && j->n_hashed < j->n_piece);
        const uint64_t done = count_done_bytes(j);
        pthread_mutex_unlock(&j->mu);
        w->on_bytes(w->ud, j->src->name, done, j->src->total);
        if (hashes && fxi_hub_net_is_stopped(j->net))
            fail_fetch(j, &(fx_error){FX_EIO, "interrupted"});
    }
}

static fx_status run_threads(fetch_job *j, fx_error *err)
{
    pthread_t thread[N_THREAD];
    const size_t n_run = (j->n_piece - j->n_done + MIN_RUN - 1) / MIN_RUN;
    int n = 0;
    for (; n < N_THREAD && (size_t)n < n_run; n++)
        if (pthread_create(&thread[n], NULL, run_thread, j)) break;
    if (!n && n_run) return fxi_fail(err, FX_EIO, "no thread can be started");
    watch_threads(j, n);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    return j->st == FX_OK ? FX_OK : fxi_fail(err, j->st, "%s", j->err.text);
}

// ---- the whole ----------------------------------------------------------------------------------

static fx_status finish_file(fetch_job *j, const char *part, const char *path, fx_error *err)
{
    const fxi_hub_source *src = j->src;
    if (src->hash[0] && !fxi_hub_hash_end(&j->hash)) {
        unlink(part);
        return fxi_fail(err, FX_EIO,
                        "%s: what came does not have the hash %.12s.. that the hub states, and was "
                        "removed",
                        src->name, src->hash);
    }
    if (ftruncate(j->fd, (off_t)src->n_bytes) || fdatasync(j->fd) || rename(part, path))
        return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    return FX_OK;
}

fx_status fxi_hub_fetch(const fxi_hub_net *net, const fxi_hub_source *src, const char *path,
                        fx_error *err)
{
    fetch_job j = {.net = net, .src = src, .fd = -1};
    char *part = incomplete_path(path);
    if (!part) return fxi_fail_memory(err);
    pthread_mutex_init(&j.mu, NULL);
    fxi_cond_init(&j.changed);
    fx_status st = open_job(&j, part, err);
    if (st == FX_OK && src->hash[0]) st = fxi_hub_hash_begin(&j.hash, src->hash, src->n_bytes, err);
    if (st == FX_OK) st = run_threads(&j, err);
    if (st == FX_OK) st = finish_file(&j, part, path, err);
    fxi_hub_hash_end(&j.hash); // after a failure
    if (j.fd >= 0) close(j.fd);
    pthread_cond_destroy(&j.changed);
    pthread_mutex_destroy(&j.mu);
    free(j.piece);
    free(part);
    return st;
}
