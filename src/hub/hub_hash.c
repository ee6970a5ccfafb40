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

enum { BLOCK_BYTES = 1 << 20, MAX_DIGEST_BYTES = 32, STOP_BLOCKS = 64 };

static void write_hex(const unsigned char *digest, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static fx_status hash_bytes(gnutls_hash_hd_t hash, int fd, uint64_t n_bytes, const fxi_hub_net *net,
                            fx_error *err)
{
    fx_status st = FX_OK;
    char *block = malloc(BLOCK_BYTES);
    if (!block) return fxi_fail_memory(err);
    for (uint64_t at = 0; st == FX_OK && at < n_bytes;) {
        const uint64_t left = n_bytes - at;
        const ssize_t n = pread(fd, block, left < BLOCK_BYTES ? left : BLOCK_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            st = fxi_fail(err, FX_EIO, "%s", n < 0 ? strerror(errno) : "the file is cut off");
        else if (gnutls_hash(hash, block, (size_t)n) < 0)
            st = fxi_fail_memory(err);
        else if (at / BLOCK_BYTES % STOP_BLOCKS == 0 && fxi_hub_net_is_stopped(net))
            st = fxi_fail(err, FX_EIO, "interrupted");
        else
            at += (uint64_t)n;
    }
    free(block);
    return st;
}

fx_status fxi_hub_hash_file(int fd, uint64_t n_bytes, const char *hash, const fxi_hub_net *net,
                            bool *same, fx_error *err)
{
    gnutls_hash_hd_t h;
    unsigned char digest[MAX_DIGEST_BYTES];
    char text[2 * MAX_DIGEST_BYTES + 1] = "", head[40];
    const bool is_git = strlen(hash) == FXI_HUB_COMMIT_DIGITS;
    const gnutls_digest_algorithm_t of = is_git ? GNUTLS_DIG_SHA1 : GNUTLS_DIG_SHA256;
    *same = false;
    if (gnutls_hash_init(&h, of) < 0) return fxi_fail_memory(err);
    const int n_head = snprintf(head, sizeof head, "blob %llu", (unsigned long long)n_bytes) + 1;
    fx_status st = FX_OK;
    if (is_git && gnutls_hash(h, head, (size_t)n_head) < 0) st = fxi_fail_memory(err);
    if (st == FX_OK) st = hash_bytes(h, fd, n_bytes, net, err);
    gnutls_hash_deinit(h, digest);
    write_hex(digest, gnutls_hash_get_len(of), text);
    *same = st == FX_OK && !strcmp(text, hash);
    return st;
}

fx_status fxi_hub_hash_text(fxi_str text, char hash[FXI_HUB_HASH_ROOM], fx_error *err)
{
    unsigned char digest[MAX_DIGEST_BYTES];
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, text.p, text.n, digest) < 0)
        return fxi_fail_memory(err);
    write_hex(digest, sizeof digest, hash);
    return FX_OK;
}
