// keys.c - API keys and the tenants that they belong to.
//
// Messages name the line of a key file and never show a key.
#include "server/guard/keys.h"
#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "flexinfer/flexinfer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- the text of a key file to keys -------------------------------------------------------------

#define SPACES " \t\r"

static fxi_str next_word(fxi_str *line)
{
    while (line->n && memchr(SPACES, line->p[0], sizeof SPACES - 1)) line->p++, line->n--;
    fxi_str word = {line->p, 0};
    while (word.n < line->n && !memchr(SPACES, word.p[word.n], sizeof SPACES - 1)) word.n++;
    line->p += word.n;
    line->n -= word.n;
    return word;
}

// Adds one key of this tenant; `where` begins the message.
static fx_status add_key_to_set(fxi_key_set *set, const fxi_tenant *t, fxi_str key,
                                const char *where, fx_error *err)
{
    bool is_key = key.n && key.n <= FXI_MAX_KEY_BYTES;
    for (size_t i = 0; is_key && i < key.n; i++) is_key = key.p[i] > ' ' && key.p[i] <= '~';
    if (!is_key)
        return fxi_fail(err, FX_EINVAL, "%s: a key is 1 to %d printable ASCII characters", where,
                        FXI_MAX_KEY_BYTES);
    for (int i = 0; i < set->n; i++)
        if (fxi_str_is(key, set->key[i]->text))
            return fxi_fail(err, FX_EINVAL, "%s: the key occurs twice", where);
    if (set->n == FXI_MAX_KEY)
        return fxi_fail(err, FX_EINVAL, "%s: more than %d keys", where, FXI_MAX_KEY);
    fxi_key *k = calloc(1, sizeof *k);
    if (!k) return fxi_fail(err, FX_ENOMEM, "out of memory");
    k->tenant = *t;
    atomic_init(&k->refs, 1);
    memcpy(k->text, key.p, key.n);
    k->n_bytes = key.n;
    set->key[set->n++] = k;
    return FX_OK;
}

static void release_key(fxi_key *k)
{
    if (atomic_fetch_sub(&k->refs, 1) > 1) return;
    explicit_bzero(k, sizeof *k);
    free(k);
}

void fxi_tenant_release(const fxi_tenant *t)
{
    if (t != fxi_tenant_anonymous()) release_key((fxi_key *)(void *)t);
}

void fxi_key_set_clear(fxi_key_set *set)
{
    for (int i = 0; i < set->n; i++) release_key(set->key[i]);
    set->n = 0;
}

// The N of "priority=N", which has 1 to 3 digits; -1: the word is not that.
static int read_priority(fxi_str word)
{
    static const char head[] = "priority=";
    const size_t n_head = sizeof head - 1;
    int v = 0;
    if (word.n <= n_head || word.n > n_head + 3 || memcmp(word.p, head, n_head) != 0) return -1;
    for (size_t i = n_head; i < word.n; i++) {
        if (word.p[i] < '0' || word.p[i] > '9') return -1;
        v = v * 10 + word.p[i] - '0';
    }
    return v;
}

static fx_status read_key_line(fxi_key_set *set, fxi_str line, const char *where, fx_error *err)
{
    fxi_tenant t = {.is_admin = false};
    const fxi_str name = next_word(&line), key = next_word(&line);
    if (!name.n || name.p[0] == '#') return FX_OK;
    if (name.n >= FXI_TENANT_ID_BYTES || fxi_str_is(name, fxi_tenant_anonymous()->id) ||
        !fxi_str_is_plain(name, "_.-"))
        return fxi_fail(err, FX_EINVAL,
                        "%s: a name has 1 to %d letters, digits and '_.-', and is not '%s'", where,
                        FXI_TENANT_ID_BYTES - 1, fxi_tenant_anonymous()->id);
    snprintf(t.id, sizeof t.id, "%.*s", (int)name.n, name.p);
    snprintf(t.salt, sizeof t.salt, "key:%s", t.id);
    if (!key.n) return fxi_fail(err, FX_EINVAL, "%s: a key must follow the name", where);
    for (fxi_str word; (word = next_word(&line)).n;) {
        const int priority = read_priority(word);
        if (fxi_str_is(word, "admin"))
            t.is_admin = true;
        else if (priority >= 0 && priority <= FX_MAX_PRIORITY)
            t.max_priority = priority;
        else
            return fxi_fail(err, FX_EINVAL,
                            "%s: after the key come 'admin' and 'priority=N' (0 to %d) only", where,
                            FX_MAX_PRIORITY);
    }
    return add_key_to_set(set, &t, key, where, err);
}

fx_status fxi_key_set_read(fxi_key_set *set, const char *text, size_t n_bytes, const char *name,
                           fx_error *err)
{
    char where[FX_ERROR_TEXT_BYTES / 2];
    fxi_str rest = {text, n_bytes}, line;
    for (int n_line = 1; fxi_str_next_line(&rest, &line); n_line++) {
        snprintf(where, sizeof where, "%s, line %d", name, n_line);
        FX_TRY(read_key_line(set, line, where, err));
    }
    return FX_OK;
}

// ---- the ring: opened, reloaded, searched -------------------------------------------------------
//
// A search holds the lock, so that a reload cannot free what it looks at; what it finds has a
// reference of its own.

#define MAX_FILE_BYTES (1u << 20)

struct fxi_keyring {
    char *file, *own; // copies of what fxi_keyring_open got, or NULL
    pthread_mutex_t mu;
    fxi_key_set set; // guarded by mu, with:
    bool is_exposed;
};

static fx_status read_keys(const char *name, fxi_key_set *set, bool *is_exposed, fx_error *err)
{
    char piece[4096];
    fxi_buf b = {0};
    struct stat st;
    ssize_t n = 0;
    fx_status res = FX_OK;
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st)) {
        res = fxi_fail(err, FX_EIO, "%s: %s", name, strerror(errno));
        goto end;
    }
    *is_exposed = st.st_mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH);
    while (res == FX_OK && b.n <= MAX_FILE_BYTES && (n = read(fd, piece, sizeof piece)) > 0)
        if (!fxi_buf_add(&b, piece, (size_t)n)) res = fxi_fail(err, FX_ENOMEM, "out of memory");
    if (res == FX_OK && n < 0) res = fxi_fail(err, FX_EIO, "%s: %s", name, strerror(errno));
    if (res == FX_OK && b.n > MAX_FILE_BYTES)
        res = fxi_fail(err, FX_EINVAL, "%s: a key file has at most %u bytes", name, MAX_FILE_BYTES);
    if (res == FX_OK) res = fxi_key_set_read(set, b.p ? b.p : "", b.n, name, err);
    if (res == FX_OK && !set->n) res = fxi_fail(err, FX_EINVAL, "%s: it holds no key", name);
end:
    if (b.p) explicit_bzero(b.p, b.cap);
    fxi_buf_free(&b);
    if (fd >= 0) close(fd);
    return res;
}

fx_status fxi_keyring_reload(fxi_keyring *ring, fx_error *err)
{
    static const fxi_tenant lone = {.id = "default", .salt = "key:default"};
    bool is_exposed = false;
    fx_status st = FX_OK;
    fxi_key_set *fresh = calloc(1, sizeof *fresh), old;
    if (!fresh) return fxi_fail(err, FX_ENOMEM, "out of memory");
    if (ring->file) st = read_keys(ring->file, fresh, &is_exposed, err);
    if (st == FX_OK && ring->own)
        st = add_key_to_set(fresh, &lone, fxi_str_of(ring->own), "the API key", err);
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

fx_status fxi_keyring_open(const char *file, const char *key, fxi_keyring **out, fx_error *err)
{
    fxi_keyring *ring = calloc(1, sizeof *ring);
    *out = NULL;
    if (!ring) return fxi_fail(err, FX_ENOMEM, "out of memory");
    pthread_mutex_init(&ring->mu, NULL);
    ring->file = file ? strdup(file) : NULL;
    ring->own = key ? strdup(key) : NULL;
    const bool is_copied = (!file || ring->file) && (!key || ring->own);
    const fx_status st =
        is_copied ? fxi_keyring_reload(ring, err) : fxi_fail(err, FX_ENOMEM, "out of memory");
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

// ---- tenants ------------------------------------------------------------------------------------

const fxi_tenant *fxi_tenant_anonymous(void)
{
    static const fxi_tenant anonymous = {.id = "anonymous", .salt = "anonymous"};
    return &anonymous;
}

uint64_t fxi_tenant_client(const fxi_tenant *t, const fxi_address *from, fxi_secret secret)
{
    if (t == fxi_tenant_anonymous())
        return fxi_secret_hash(secret, from->byte, sizeof from->byte) | 1;
    return fxi_secret_hash(secret, t->salt, strlen(t->salt)) | 1;
}

// Neither salt nor scope contains '/', so the first two of them end salt and scope.
bool fxi_tenant_domain(fxi_buf *b, const fxi_tenant *t, const char *scope, const char *cache_salt)
{
    return fxi_buf_fmt(b, "%s/%s/%s", t->salt, scope, cache_salt ? cache_salt : "");
}
