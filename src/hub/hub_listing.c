// hub_listing.c - what a hub says, as data: the files of a revision, and the heads of a file's
// answer. Nothing of it is trusted: names must stay in the snapshot's folder, hashes be hashes.
#include "base/fail.h"
#include "base/json/json.h"
#include "base/system/grow.h"
#include "hub/hub_parts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_VALUES = 4000000, MAX_DEPTH = 64 };

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const fxi_hub_file *)a)->name, ((const fxi_hub_file *)b)->name);
}

void fxi_hub_listing_sort(fxi_hub_listing *l)
{
    if (l->n) qsort(l->file, l->n, sizeof *l->file, compare_files);
}

fx_status fxi_hub_listing_add(fxi_hub_listing *l, fxi_str name, fx_error *err)
{
    if (!fxi_grow(&l->file, sizeof *l->file, l->n, &l->cap)) return fxi_fail_memory(err);
    fxi_hub_file *f = &l->file[l->n];
    *f = (fxi_hub_file){.name = strndup(name.p, name.n)};
    if (!f->name) return fxi_fail_memory(err);
    l->n++;
    return FX_OK;
}

void fxi_hub_listing_free(fxi_hub_listing *l)
{
    for (size_t i = 0; i < l->n; i++) free(l->file[i].name);
    free(l->file);
    *l = (fxi_hub_listing){0};
}

// Lower case: hashes are names of files, too.
static bool read_hash(fxi_str s, char hash[FXI_HUB_HASH_ROOM])
{
    if (!fxi_hub_is_hex(s, FXI_HUB_COMMIT_DIGITS) && !fxi_hub_is_hex(s, FXI_HUB_SHA256_DIGITS))
        return false;
    for (size_t i = 0; i < s.n; i++) hash[i] = (char)(s.p[i] <= '9' ? s.p[i] : s.p[i] | 0x20);
    hash[s.n] = 0;
    return true;
}

// A sibling: {"rfilename": .., "size": .., "blobId": .., "lfs": {"sha256": .., "size": ..}};
// without `blobs` it has a name only.
static void read_facts(const fxi_json *of, fxi_hub_file *f)
{
    const fxi_json *lfs = fxi_json_get(of, "lfs"), *hash = fxi_json_get(lfs, "sha256");
    const fxi_json *size = fxi_json_get(lfs, "size");
    if (!hash) hash = fxi_json_get(of, "blobId");
    if (!size) size = fxi_json_get(of, "size");
    if (!fxi_json_is_int(size) || fxi_json_int(size) < 0) return;
    f->n_bytes = (uint64_t)fxi_json_int(size);
    f->is_known = read_hash(fxi_json_string(hash), f->hash);
}

fx_status fxi_hub_listing_read(fxi_str json, fxi_hub_listing *out, fx_error *err)
{
    static const fxi_json_rules rules = {.max_depth = MAX_DEPTH, .max_value = MAX_VALUES};
    fxi_json_doc doc = {0};
    fx_status st = fxi_json_parse(&doc, json, &rules, err);
    *out = (fxi_hub_listing){0};
    const fxi_str sha = fxi_json_string(fxi_json_get(doc.root, "sha"));
    const fxi_json *siblings = fxi_json_get(doc.root, "siblings");
    char hash[FXI_HUB_HASH_ROOM];
    if (st == FX_OK &&
        (!fxi_hub_is_hex(sha, FXI_HUB_COMMIT_DIGITS) || !fxi_json_is_array(siblings)))
        st = fxi_fail(err, FX_EFORMAT, "it is not a hub's list of files");
    if (st == FX_OK && read_hash(sha, hash)) memcpy(out->commit, hash, sizeof out->commit);
    for (fxi_json_iter it = fxi_json_items(siblings); st == FX_OK && fxi_json_next(&it);) {
        const fxi_str name = fxi_json_string(fxi_json_get(it.value, "rfilename"));
        if (!name.p || !fxi_hub_is_file(name))
            st = fxi_fail(err, FX_EFORMAT, "its file number %zu has no name that is safe", it.i);
        else if ((st = fxi_hub_listing_add(out, name, err)) == FX_OK)
            read_facts(it.value, &out->file[out->n - 1]);
    }
    fxi_json_doc_free(&doc);
    fxi_hub_listing_sort(out);
    for (size_t i = 1; st == FX_OK && i < out->n; i++)
        if (!strcmp(out->file[i - 1].name, out->file[i].name))
            st = fxi_fail(err, FX_EFORMAT, "it names a file twice");
    return st;
}

// ---- heads --------------------------------------------------------------------------------------

static bool take_number(fxi_str *s, uint64_t *out)
{
    size_t i = 0;
    for (*out = 0; i < s->n && s->p[i] >= '0' && s->p[i] <= '9'; i++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(s->p[i] - '0'), out))
            return false;
    *s = (fxi_str){s->p + i, s->n - i};
    return i > 0;
}

// "bytes 0-99/1000"
static void read_content_range(fxi_str v, fxi_hub_head *out)
{
    uint64_t to;
    out->has_range = false;
    if (v.n < 6 || strncasecmp(v.p, "bytes ", 6) != 0) return;
    v = (fxi_str){v.p + 6, v.n - 6};
    if (!take_number(&v, &out->from) || !v.n || v.p[0] != '-') return;
    v = (fxi_str){v.p + 1, v.n - 1};
    if (!take_number(&v, &to) || !v.n || v.p[0] != '/') return;
    v = (fxi_str){v.p + 1, v.n - 1};
    out->has_range = take_number(&v, &out->total) && !v.n && out->from <= to && to < out->total;
}

// An entity tag without W/ and quotes.
static fxi_str bare_tag(fxi_str v)
{
    if (v.n > 2 && !memcmp(v.p, "W/", 2)) v = (fxi_str){v.p + 2, v.n - 2};
    if (v.n > 1 && v.p[0] == '"' && v.p[v.n - 1] == '"') v = (fxi_str){v.p + 1, v.n - 2};
    return v;
}

typedef enum head_field {
    X_REPO_COMMIT,
    X_LINKED_ETAG,
    X_LINKED_SIZE,
    X_ERROR_CODE,
    ETAG,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    N_FIELD
} head_field;

static const char *const field_names[N_FIELD] = {
    [X_REPO_COMMIT] = "x-repo-commit",
    [X_LINKED_ETAG] = "x-linked-etag",
    [X_LINKED_SIZE] = "x-linked-size",
    [X_ERROR_CODE] = "x-error-code",
    [ETAG] = "etag",
    [CONTENT_LENGTH] = "content-length",
    [CONTENT_RANGE] = "content-range",
};

static bool take_field(fxi_str line, fxi_str *name, fxi_str *value)
{
    const char *colon = memchr(line.p, ':', line.n);
    if (!colon) return false;
    *name = (fxi_str){line.p, (size_t)(colon - line.p)};
    *value = (fxi_str){colon + 1, line.n - name->n - 1};
    while (value->n && strchr(" \t", value->p[0])) *value = (fxi_str){value->p + 1, value->n - 1};
    while (value->n && strchr(" \t", value->p[value->n - 1])) value->n--;
    return true;
}

// The first hop is the hub, and speaks for the file where it says something; then the last one.
void fxi_hub_head_read(fxi_str heads, fxi_hub_head *out)
{
    fxi_str value[N_FIELD] = {{0}}, line, name, v;
    char commit[FXI_HUB_HASH_ROOM];
    *out = (fxi_hub_head){0};
    while (fxi_str_next_line(&heads, &line)) {
        if (line.n > 5 && !strncasecmp(line.p, "HTTP/", 5))
            value[CONTENT_LENGTH] = value[CONTENT_RANGE] = (fxi_str){0};
        if (!take_field(line, &name, &v)) continue;
        for (int i = 0; i < N_FIELD; i++)
            if (name.n == strlen(field_names[i]) && !strncasecmp(name.p, field_names[i], name.n) &&
                (i >= ETAG || !value[i].p))
                value[i] = v;
    }
    if (fxi_hub_is_hex(value[X_REPO_COMMIT], FXI_HUB_COMMIT_DIGITS) &&
        read_hash(value[X_REPO_COMMIT], commit))
        memcpy(out->commit, commit, sizeof out->commit);
    out->etag = bare_tag(value[value[X_LINKED_ETAG].n ? X_LINKED_ETAG : ETAG]);
    // Another server's tag may look like a hash and be none.
    if (value[X_LINKED_ETAG].n || out->commit[0]) read_hash(out->etag, out->hash);
    read_content_range(value[CONTENT_RANGE], out);
    out->n_bytes = out->total;
    out->has_size = out->has_range;
    const fxi_str size = value[value[X_LINKED_SIZE].n ? X_LINKED_SIZE : CONTENT_LENGTH];
    if (!out->has_size || value[X_LINKED_SIZE].n) {
        v = size;
        out->has_size = take_number(&v, &out->n_bytes) && !v.n;
    }
    const fxi_str code = value[X_ERROR_CODE];
    if (code.n < sizeof out->error_code && fxi_str_is_plain(code, ""))
        memcpy(out->error_code, code.p ? code.p : "", code.n);
}
