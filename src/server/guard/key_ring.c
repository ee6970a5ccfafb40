// key_ring.c - the ring of keys: opened, reloaded, searched.
//
// A search holds the lock, so that a reload cannot free what it looks at; what it finds has a
// reference of its own.
#include "server/guard/key_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "server/guard/key_set.h"

#define MAX_FILE_BYTES (1u << 20)

struct fxi_keyring {
    char *file, *own; // copies of what fxi_keyring_open got, or NULL
    pthread_mutex_t mu;
    fxi_key_set set; // guarded by mu, with:
    bool is_exposed;
};

// ---- reading ----------------------------------------------------------------------------------

static fx_status read_key_file(int fd, const char *name, fxi_buf *b, bool *is_exposed,
                               fx_error *err)
{
    char piece[4096];
    struct stat st;
    ssize_t n = 0;
    if (fstat(fd, &st)) return fxi_fail(err, FX_EIO, "%s: %s", name, strerror(errno));
    *is_exposed = st.st_mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH);
    while (b->n <= MAX_FILE_BYTES && (n = read(fd, piece, sizeof piece)) > 0)
        if (!fxi_buf_add(b, piece, (size_t)n)) return fxi_fail(err, FX_ENOMEM, "out of memory");
    if (n < 0) return fxi_fail(err, FX_EIO, "%s: %s", name, strerror(errno));
    if (b->n > MAX_FILE_BYTES)
        return fxi_fail(err, FX_EINVAL, "%s: a key file has at most %u bytes", name,
                        MAX_FILE_BYTES);
    return FX_OK;
}

static fx_status read_text(const char *name, fxi_buf *b, bool *is_exposed, fx_error *err)
{
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return fxi_fail(err, FX_EIO, "%s: %s", name, strerror(errno));
    const fx_status st = read_key_file(fd, name, b, is_exposed, err);
    close(fd);
    return st;
}

static void wipe_buf(fxi_buf *b)
{
    if (b->p) explicit_bzero(b->p, b->cap);
    fxi_buf_free(b);
}

static fx_status read_keys(const char *name, fxi_key_set *set, bool *is_exposed, fx_error *err)
{
    fxi_buf b = {0};
    fx_status st = read_text(name, &b, is_exposed, err);
    if (st == FX_OK) st = fxi_key_set_read(set, b.p ? b.p : "", b.n, name, err);
    if (st == FX_OK && !set->n) st = fxi_fail(err, FX_EINVAL, "%s: there is no key in it", name);
    wipe_buf(&b);
    return st;
}

static fx_status read_all(const fxi_keyring *ring, fxi_key_set *set, bool *is_exposed,
                          fx_error *err)
{
    static const fxi_tenant lone = {.id = "default", .salt = "key:default"};
    if (ring->file) FX_TRY(read_keys(ring->file, set, is_exposed, err));
    if (!ring->own) return FX_OK;
    return fxi_key_set_add(set, &lone, fxi_str_of(ring->own), "the API key", err);
}

// ---- life -------------------------------------------------------------------------------------

fx_status fxi_keyring_reload(fxi_keyring *ring, fx_error *err)
{
    bool is_exposed = false;
    fxi_key_set *fresh = calloc(1, sizeof *fresh), old;
    if (!fresh) return fxi_fail(err, FX_ENOMEM, "out of memory");
    const fx_status st = read_all(ring, fresh, &is_exposed, err);
    if (st == FX_OK) {
        pthread_mutex_lock(&ring->mu);
        old = ring->set;
        ring->set = *fresh;
        ring->is_exposed = is_exposed;
        pthread_mutex_unlock(&ring->mu);
        *fresh = old;
    }
    fxi_key_set_clear(fresh);
    free(fresh);
    return st;
}

static bool copy_names(fxi_keyring *ring, const char *file, const char *key)
{
    ring->file = file ? strdup(file) : NULL;
    ring->own = key ? strdup(key) : NULL;
    return (!file || ring->file) && (!key || ring->own);
}

fx_status fxi_keyring_open(const char *file, const char *key, fxi_keyring **out, fx_error *err)
{
    fxi_keyring *ring = calloc(1, sizeof *ring);
    *out = NULL;
    if (!ring) return fxi_fail(err, FX_ENOMEM, "out of memory");
    pthread_mutex_init(&ring->mu, NULL);
    fx_status st = FX_OK;
    if (!copy_names(ring, file, key)) st = fxi_fail(err, FX_ENOMEM, "out of memory");
    if (st == FX_OK) st = fxi_keyring_reload(ring, err);
    if (st == FX_OK)
        *out = ring;
    else
        fxi_keyring_close(ring);
    return st;
}

void fxi_keyring_close(fxi_keyring *ring)
{
    if (!ring) return;
    fxi_key_set_clear(&ring->set);
    pthread_mutex_destroy(&ring->mu);
    if (ring->own) explicit_bzero(ring->own, strlen(ring->own));
    free(ring->own);
    free(ring->file);
    free(ring);
}

fxi_keyring_facts fxi_keyring_look(fxi_keyring *ring)
{
    pthread_mutex_lock(&ring->mu);
    fxi_keyring_facts f = {.n_key = ring->set.n, .is_exposed = ring->is_exposed};
    for (int i = 0; i < ring->set.n; i++) f.has_admin |= ring->set.key[i]->tenant.is_admin;
    pthread_mutex_unlock(&ring->mu);
    return f;
}

// ---- searching --------------------------------------------------------------------------------

// Looks at every byte of `given`, whatever the key is.
static bool equal_in_constant_time(const fxi_key *k, const char *given, size_t n)
{
    size_t diff = k->n_bytes ^ n;
    for (size_t i = 0; i < n; i++) diff |= (unsigned char)(k->text[i] ^ given[i]);
    return !diff;
}

const fxi_tenant *fxi_keyring_find(fxi_keyring *ring, const char *key)
{
    fxi_key *found = NULL;
    const size_t n = strlen(key);
    if (n > FXI_MAX_KEY_BYTES) return NULL;
    pthread_mutex_lock(&ring->mu);
    for (int i = 0; i < ring->set.n; i++)
        if (equal_in_constant_time(ring->set.key[i], key, n)) found = ring->set.key[i];
    if (found) atomic_fetch_add(&found->refs, 1);
    pthread_mutex_unlock(&ring->mu);
    return found ? &found->tenant : NULL;
}
