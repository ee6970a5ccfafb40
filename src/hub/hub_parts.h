// hub_parts.h - between the files of this module: names, listings, the network, the cache, a file.
#ifndef FXI_HUB_PARTS_H
#define FXI_HUB_PARTS_H

#include "base/net/http_client.h"
#include "base/text/buf.h"
#include "hub/hub.h"

enum { FXI_HUB_COMMIT_DIGITS = 40, FXI_HUB_SHA256_DIGITS = 64, FXI_HUB_HASH_ROOM = 65 };

// ---- hub_name.c ---------------------------------------------------------------------------------

bool fxi_hub_is_file(
    fxi_str s); // a path below a folder: no "..", no empty part, no control character
bool fxi_hub_is_rev(fxi_str s);
bool fxi_hub_is_hex(fxi_str s, size_t n_digit); // exactly so many digits

// ---- hub_listing.c: the files of a repository ---------------------------------------------------

typedef struct fxi_hub_file {
    char *name;                   // fxi_hub_is_file
    uint64_t n_bytes;             // if known
    bool is_known;                // size and hash
    bool is_named;                // the hash is a name, which cannot be checked
    char hash[FXI_HUB_HASH_ROOM]; // sha256, or git's sha1 of a blob: also the blob's name
} fxi_hub_file;

typedef struct fxi_hub_listing { // all zero: empty
    char commit[FXI_HUB_COMMIT_DIGITS + 1];
    fxi_hub_file *file; // [n] by name
    size_t n, cap;
} fxi_hub_listing;

// The hub's JSON of a revision. Errors: FX_EFORMAT, FX_ENOMEM; the listing is freed by the caller.
fx_status fxi_hub_listing_read(fxi_str json, fxi_hub_listing *out, fx_error *err);
// Adds a file whose size and hash are not known. Errors: FX_ENOMEM.
fx_status fxi_hub_listing_add(fxi_hub_listing *l, fxi_str name, fx_error *err);
void fxi_hub_listing_sort(fxi_hub_listing *l);
void fxi_hub_listing_free(fxi_hub_listing *l); // empty again

// What the heads of a file's answer, one hop after the other, say about it.
typedef struct fxi_hub_head {
    char commit[FXI_HUB_COMMIT_DIGITS + 1]; // "": the server is no hub
    char hash[FXI_HUB_HASH_ROOM];           // "": it states none that can be checked
    fxi_str etag;                           // points into the heads; n 0: none
    uint64_t n_bytes;
    bool has_size;
    bool has_range; // the last hop's Content-Range
    uint64_t from, total;
    char error_code[64]; // "GatedRepo"; "": none
} fxi_hub_head;

void fxi_hub_head_read(fxi_str heads, fxi_hub_head *out);

// ---- hub_choose.c: which files of it are the model ----------------------------------------------

typedef struct fxi_hub_choice { // all zero: empty
    size_t *at;                 // [n] of the listing, in the order in which to fetch them
    size_t n;
    bool is_folder; // the model is the snapshot's folder; else the first file
    fxi_buf others; // what tells other models apart, like "Q8_0, F16"
} fxi_hub_choice;

// Errors: FX_EINVAL (no such file or type, or no model that can be read), FX_ENOMEM.
fx_status fxi_hub_choose(const fxi_hub_listing *l, const fxi_hub_name *name, fxi_hub_choice *out,
                         fx_error *err);
void fxi_hub_choice_free(fxi_hub_choice *c);
// Whether a file is a GGUF model, or the first part of one.
bool fxi_hub_is_gguf(const char *name);

// NAME-00002-of-00005.EXT: its number and count, and where the five digits of the number stand.
// False: it is a whole file.
bool fxi_hub_part_read(const char *name, unsigned *no, unsigned *count, size_t *digits_at);

// ---- hub_net.c: GET, with redirects, refusals and waits -----------------------------------------

typedef struct fxi_hub_net {
    const char *token, *ca_file; // NULL: none
    int stop_fd;
    int max_try; // of one request that fails for a while
    const fxi_hub_watch *watch;
} fxi_hub_net;

typedef struct fxi_hub_reply { // free with fxi_hub_reply_free
    fxi_http_answer answer;    // the last hop's
    fxi_buf heads;             // of all hops
    bool is_refused;           // by on_body
    bool may_pass;             // the failure may pass: try again
    double wait_s;             // the server's wish; 0: none
} fxi_hub_reply;

typedef struct fxi_hub_get {
    const char *url, *what; // `what` begins error lines
    bool has_range;
    uint64_t from, to;      // bytes [from, to)
    fxi_http_body *on_body; // NULL: the body is kept in the answer
    void *ud;
} fxi_hub_get;

// One try. FX_OK: status 200 or 206. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_hub_net_get(const fxi_hub_net *net, fxi_http_client *c, const fxi_hub_get *get,
                          fxi_hub_reply *out, fx_error *err);
// Tries until it succeeds, a failure will not pass, or max_try.
fx_status fxi_hub_net_ask(const fxi_hub_net *net, fxi_http_client *c, const fxi_hub_get *get,
                          fxi_hub_reply *out, fx_error *err);
// After failure number `n_try`, from 1: waits. FX_OK: try again; else *err, which holds that
// failure, and stays unless the wait was ended.
fx_status fxi_hub_net_wait(const fxi_hub_net *net, const fxi_hub_reply *failed, int n_try,
                           fx_error *err);
fx_status fxi_hub_net_open(const fxi_hub_net *net, fxi_http_client **out, fx_error *err);
bool fxi_hub_net_is_stopped(const fxi_hub_net *net);
void fxi_hub_reply_free(fxi_hub_reply *r);

// ---- hub_fetch.c: one file, in ranges at a time -------------------------------------------------

typedef struct fxi_hub_source {
    const char *url, *name; // `name` is shown
    const char *hash;       // to check: sha256 or git's sha1; "": none
    uint64_t n_bytes;
    uint64_t done_before, total; // bytes of all files: for the progress
} fxi_hub_source;

// Fetches a file to `path`. PATH.flexinfer.incomplete keeps what came when it fails; the next call
// goes on from there. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_hub_fetch(const fxi_hub_net *net, const fxi_hub_source *src, const char *path,
                        fx_error *err);
// Bytes of that file that are not here yet.
uint64_t fxi_hub_fetch_missing(const char *path, uint64_t n_bytes);

// ---- hub_hash.c ---------------------------------------------------------------------------------

typedef struct fxi_hub_hash { // all zero: none
    struct hash_hd_st *of;    // GnuTLS's
    const char *wanted;
} fxi_hub_hash;

// Of a file of n_bytes, to be compared with `wanted`, which is borrowed: sha256 or git's sha1, by
// its length. Error: FX_ENOMEM.
fx_status fxi_hub_hash_begin(fxi_hub_hash *h, const char *wanted, uint64_t n_bytes, fx_error *err);
// Adds the file's bytes [from, to), in order. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_hub_hash_add(fxi_hub_hash *h, int fd, uint64_t from, uint64_t to, fx_error *err);
bool fxi_hub_hash_end(fxi_hub_hash *h); // whether it is as wanted; none again
// The first digits of a text's sha256. Error: FX_ENOMEM.
fx_status fxi_hub_hash_text(fxi_str text, char hash[FXI_HUB_HASH_ROOM], fx_error *err);

// ---- hub_cache.c: repositories on the disk ------------------------------------------------------

typedef struct fxi_hub_place { // of one repository
    char *root, *folder;       // the cache, and the name of the repository's folder in it
} fxi_hub_place;

// Whole texts of paths in it, owned by the caller; NULL: out of memory.
char *fxi_hub_place_path(const fxi_hub_place *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void fxi_hub_place_free(fxi_hub_place *p);
// Makes all folders of a path before its last name. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_hub_make_folders(const char *path, fx_error *err);
// Writes a small file as a whole. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_hub_write_text(const char *path, const char *text, fx_error *err);
// Reads one, without white space at its end; false: it is not there, or longer.
bool fxi_hub_read_text(const char *path, char *text, size_t room);
// The commit that a revision had when it was last fetched; "": it was not. Error: FX_ENOMEM.
fx_status fxi_hub_place_commit(const fxi_hub_place *p, fxi_str rev,
                               char commit[FXI_HUB_COMMIT_DIGITS + 2], fx_error *err);
// The files of a snapshot, with their sizes. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_hub_place_files(const fxi_hub_place *p, const char *commit, fxi_hub_listing *out,
                              fx_error *err);
// Makes snapshots/COMMIT/FILE point to blobs/HASH. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_hub_place_link(const fxi_hub_place *p, const char *commit, const char *file,
                             const char *blob, fx_error *err);
// Takes the lock of a blob, which other processes and the Python client know. *fd: to close.
// Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_hub_place_lock(const fxi_hub_place *p, const char *blob, const fxi_hub_net *net,
                             const char *what, int *fd, fx_error *err);
typedef struct fxi_hub_doomed { // all zero: the repository as a whole
    const char *commit;         // NULL: every one
    const char *const *file;    // [n]; n 0: every one
    size_t n;
} fxi_hub_doomed;

// Removes files of snapshots, then blobs and revisions that lead to none. Adds to *freed_bytes.
// Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_hub_place_remove(const fxi_hub_place *p, const fxi_hub_doomed *what,
                               uint64_t *freed_bytes, fx_error *err);

#endif
