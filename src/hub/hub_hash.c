// hub_hash.c - the hashes by which a hub names what it stores: sha256 of large files, and of small
// ones git's: sha1 of "blob LENGTH", a zero byte, and the content.
#include "base/fail.h"
#include "hub/hub_parts.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 18, MAX_DIGEST_BYTES = 32 };

static void write_hex(const unsigned char *digest, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static gnutls_digest_algorithm_t digest_kind(const char *wanted)
{
    return strlen(wanted) == FXI_HUB_COMMIT_DIGITS ? GNUTLS_DIG_SHA1 : GNUTLS_DIG_SHA256;
}

fx_status fxi_hub_hash_begin(fxi_hub_hash *h, const char *wanted, uint64_t n_bytes, fx_error *err)
{
    char head[40];
    *h = (fxi_hub_hash){.wanted = wanted};
    if (gnutls_hash_init(&h->of, digest_kind(wanted)) < 0) return fxi_fail_memory(err);
    if (digest_kind(wanted) != GNUTLS_DIG_SHA1) return FX_OK;
    const int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)n_bytes) + 1;
    return gnutls_hash(h->of, head, (size_t)n) < 0 ? fxi_fail_memory(err) : FX_OK;
}

fx_status fxi_hub_hash_add(fxi_hub_hash *h, int fd, uint64_t from, uint64_t to, fx_error *err)
{
    fx_status st = FX_OK;
    char *block = malloc(BLOCK_BYTES);
    if (!block) return fxi_fail_memory(err);
    while (st == FX_OK && from < to) {
        const uint64_t left = to - from;
        const ssize_t n = pread(fd, block, left < BLOCK_BYTES ? left : BLOCK_BYTES, (off_t)from);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            st = fxi_fail(err, FX_EIO, "%s", n < 0 ? strerror(errno) : "the file is cut off");
        else if (gnutls_hash(h->of, block, (size_t)n) < 0)
            st = fxi_fail_memory(err);
        else
            from += (uint64_t)n;
    }
    free(block);
    return st;
}

bool fxi_hub_hash_end(fxi_hub_hash *h)
{
    unsigned char digest[MAX_DIGEST_BYTES] = {0};
    char text[2 * MAX_DIGEST_BYTES + 1] = "";
    const char *wanted = h->wanted;
    if (!h->of) return false;
    gnutls_hash_deinit(h->of, digest);
    *h = (fxi_hub_hash){0};
    write_hex(digest, gnutls_hash_get_len(digest_kind(wanted)), text);
    return !strcmp(text, wanted);
}

fx_status fxi_hub_hash_text(fxi_str text, char hash[FXI_HUB_HASH_ROOM], fx_error *err)
{
    unsigned char digest[MAX_DIGEST_BYTES];
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, text.p, text.n, digest) < 0)
        return fxi_fail_memory(err);
    write_hex(digest, sizeof digest, hash);
    return FX_OK;
}
