// fuzz_hub.c - any bytes as what a hub says: as a list of files, as heads, and as a model's name. A
// name that is taken stays below its folder, and what is chosen is in the list, once.
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "hub/hub_parts.h"

FUZZ_TARGET(fuzz_hub);

static void check_file(fxi_str s)
{
    FUZZ_CHECK(s.n && s.p[0] != '/' && s.p[s.n - 1] != '/');
    FUZZ_CHECK(!memmem(s.p, s.n, "//", 2) && !memmem(s.p, s.n, "/../", 4));
    FUZZ_CHECK(!fxi_str_is(s, "..") && !fxi_str_ends_in(s, "/..") && strncmp(s.p, "../", 3) != 0);
    for (size_t i = 0; i < s.n; i++) FUZZ_CHECK((unsigned char)s.p[i] >= ' ' && s.p[i] != 0x7f);
}

static void check_choice(const fxi_hub_listing *l, const char *text)
{
    fxi_hub_name name;
    fxi_hub_choice c;
    fx_error err;
    if (fxi_hub_name_read(text, "http://hub", &name, &err) != FX_OK) return;
    if (fxi_hub_choose(l, &name, &c, &err) == FX_OK) {
        FUZZ_CHECK(c.n > 0 && c.n <= l->n);
        for (size_t i = 0; i < c.n; i++)
            for (size_t k = 0; k < i; k++) FUZZ_CHECK(c.at[i] != c.at[k] && c.at[i] < l->n);
    }
    fxi_hub_choice_free(&c);
}

static void check_listing(fxi_str text)
{
    static const char *const names[] = {"hf:a/b", "hf:a/b:Q4_K_M", "hf:a/b/m-00001-of-00002.gguf"};
    fxi_hub_listing l;
    fx_error err = {0};
    const fx_status st = fxi_hub_listing_read(text, &l, &err);
    FUZZ_CHECK(st == FX_OK || st == FX_EFORMAT || st == FX_EINVAL);
    for (size_t i = 0; i < l.n; i++) check_file(fxi_str_of(l.file[i].name));
    if (st == FX_OK) {
        FUZZ_CHECK(fxi_hub_is_hex(fxi_str_of(l.commit), FXI_HUB_COMMIT_DIGITS));
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_choice(&l, names[i]);
    }
    fxi_hub_listing_free(&l);
}

static void check_head(fxi_str text)
{
    fxi_hub_head h;
    fxi_hub_head_read(text, &h);
    const size_t n = strlen(h.hash);
    FUZZ_CHECK(!n || fxi_hub_is_hex((fxi_str){h.hash, n}, n));
    FUZZ_CHECK(!n || n == FXI_HUB_COMMIT_DIGITS || n == FXI_HUB_SHA256_DIGITS);
    FUZZ_CHECK(!h.has_range || h.from < h.total);
    FUZZ_CHECK(fxi_str_is_plain(fxi_str_of(h.error_code), ""));
}

static void check_name(const char *text)
{
    fxi_hub_name n;
    fx_error err = {0};
    if (fxi_hub_name_read(text, "http://hub", &n, &err) != FX_OK || n.kind != FXI_HUB_REPO) return;
    check_file(n.repo);
    FUZZ_CHECK(!memmem(n.repo.p, n.repo.n, "--", 2));
    if (n.rev.n) check_file(n.rev);
    if (n.file.n) check_file(n.file);
}

int fuzz_hub_run(const uint8_t *data, size_t n_bytes)
{
    const fxi_str text = {(const char *)data, n_bytes};
    char *name = strndup(text.p, text.n);
    if (!name) return 0;
    check_listing(text);
    check_head(text);
    check_name(name);
    free(name);
    return 0;
}

FUZZ_JSON_SEEDS(
    fuzz_hub,
    "{'sha':'0123456789abcdef0123456789abcdef01234567','siblings':[{'rfilename':"
    "'m-Q4_K_M.gguf','size':7,'blobId':'0123456789abcdef0123456789abcdef01234567'},"
    "{'rfilename':'m-00001-of-00002.gguf','lfs':{'sha256':'00','size':9}},{'rfilename':"
    "'m-00002-of-00002.gguf'}]}",
    "{'sha':'0123456789abcdef0123456789abcdef01234567','siblings':[{'rfilename':"
    "'config.json'},{'rfilename':'model.safetensors'},{'rfilename':'a/../b'}]}",
    "HTTP/1.1 302 Found\r\nX-Repo-Commit: 0123456789abcdef0123456789abcdef01234567\r\n"
    "X-Linked-ETag: W/'0123456789abcdef0123456789abcdef01234567'\r\nX-Linked-Size: 9\r\n"
    "\r\nHTTP/1.1 206 OK\r\nContent-Range: bytes 0-8/9\r\nX-Error-Code: GatedRepo\r\n",
    "hf:a/b@refs/pr/1/c/d.gguf", "hf:a/b:Q4_K_M", "http://hub/a/b/resolve/main/c?d")
