// hub_name.c - the names of models: texts to repository, revision, type and file.
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "base/net/http_client.h" // defines: fxi_http_url_check
#include "hub/hub_parts.h"

enum { MAX_PART_BYTES = 96, MAX_FILE_BYTES = 512 };

static bool begins_with(const char *text, const char *start)
{
    return !strncasecmp(text, start, strlen(start));
}

bool fxi_hub_is_name(const char *text)
{
    return begins_with(text, "hf:") || begins_with(text, "https://") ||
           begins_with(text, "http://");
}

// A word of a repository's name, by the hub's rules: "--" separates words in the cache's folders.
static bool is_repo_word(fxi_str s)
{
    if (!s.n || s.n > MAX_PART_BYTES || !fxi_str_is_plain(s, "-_.")) return false;
    if (strchr("-.", s.p[0]) || strchr("-.", s.p[s.n - 1])) return false;
    return !memmem(s.p, s.n, "--", 2) && !memmem(s.p, s.n, "..", 2);
}

bool fxi_hub_is_file(fxi_str s)
{
    if (!s.n || s.n > MAX_FILE_BYTES) return false;
    for (size_t i = 0, from = 0; i <= s.n; i++) {
        if (i < s.n && ((unsigned char)s.p[i] < ' ' || strchr("\\\x7f", s.p[i]))) return false;
        if (i < s.n && s.p[i] != '/') continue;
        const fxi_str part = {s.p + from, i - from};
        if (!part.n || part.n > 255 || fxi_str_is(part, ".") || fxi_str_is(part, ".."))
            return false;
        from = i + 1;
    }
    return true;
}

bool fxi_hub_is_rev(fxi_str s)
{
    return s.n && s.n < 256 && s.p[0] != '-' && fxi_str_is_plain(s, "-_./+") && fxi_hub_is_file(s);
}

bool fxi_hub_is_hex(fxi_str s, size_t n_digit)
{
    for (size_t i = 0; i < s.n; i++)
        if (fxi_hex_digit(s.p[i]) < 0) return false;
    return s.n == n_digit;
}

// Takes what stands before the first of `ends`, or all that is left.
static fxi_str take_until(fxi_str *rest, const char *ends)
{
    fxi_str word = {rest->p, 0};
    while (word.n < rest->n && !strchr(ends, rest->p[word.n])) word.n++;
    *rest = (fxi_str){rest->p + word.n, rest->n - word.n};
    return word;
}

static bool skip_char(fxi_str *rest, char c)
{
    if (!rest->n || rest->p[0] != c) return false;
    *rest = (fxi_str){rest->p + 1, rest->n - 1};
    return true;
}

static bool take_repo(fxi_str *rest, const char *ends, fxi_str *repo)
{
    const char *from = rest->p;
    if (!is_repo_word(take_until(rest, "/")) || !skip_char(rest, '/')) return false;
    if (!is_repo_word(take_until(rest, ends))) return false;
    *repo = (fxi_str){from, (size_t)(rest->p - from)};
    return true;
}

// A revision; those of pull requests and conversions, refs/pr/1, have slashes.
static fxi_str take_rev(fxi_str *rest)
{
    const char *from = rest->p;
    const int n_word = rest->n > 5 && !memcmp(from, "refs/", 5) ? 3 : 1;
    take_until(rest, ":/");
    for (int i = 1; i < n_word && skip_char(rest, '/'); i++) take_until(rest, ":/");
    return (fxi_str){from, (size_t)(rest->p - from)};
}

// ORG/REPO[@REV][:TYPE or /FILE]
static bool read_repo(fxi_str rest, fxi_hub_name *out)
{
    if (!take_repo(&rest, "@:/", &out->repo)) return false;
    if (skip_char(&rest, '@') && !fxi_hub_is_rev(out->rev = take_rev(&rest))) return false;
    if (skip_char(&rest, ':')) {
        out->type = rest;
        return rest.n && rest.n <= MAX_PART_BYTES && fxi_str_is_plain(rest, "-_.");
    }
    out->file = skip_char(&rest, '/') ? rest : (fxi_str){0};
    return !out->file.p || fxi_hub_is_file(rest);
}

// The rest of a URL of the hub's own: ORG/REPO, or ORG/REPO/resolve/REV/FILE, as its pages link it.
static bool read_page(fxi_str rest, fxi_hub_name *out)
{
    if (memchr(rest.p, '%', rest.n)) return false;
    rest = take_until(&rest, "?");
    if (!take_repo(&rest, "/", &out->repo)) return false;
    if (!skip_char(&rest, '/') || !rest.n) return true;
    const fxi_str verb = take_until(&rest, "/");
    static const char *const verbs[] = {"resolve", "blob", "tree"};
    if (!fxi_str_is_any(verb, verbs, 3) || !skip_char(&rest, '/')) return false;
    if (!fxi_hub_is_rev(out->rev = take_until(&rest, "/"))) return false;
    out->file = skip_char(&rest, '/') ? rest : (fxi_str){0};
    return fxi_str_is(verb, "tree") ? !out->file.n : fxi_hub_is_file(out->file);
}

fx_status fxi_hub_name_read(const char *text, const char *endpoint, fxi_hub_name *out,
                            fx_error *err)
{
    const size_t n_end = strlen(endpoint);
    *out = (fxi_hub_name){.kind = FXI_HUB_REPO};
    if (begins_with(text, "hf:")) {
        const char *rest = text + 3;
        if (!strncmp(rest, "//", 2)) rest += 2;
        if (read_repo(fxi_str_of(rest), out)) return FX_OK;
        return fxi_fail(err, FX_EINVAL,
                        "'%.200s' is not a model's name like hf:ORG/REPO, hf:ORG/REPO:Q4_K_M, "
                        "hf:ORG/REPO/FILE or hf:ORG/REPO@REV",
                        text);
    }
    if (begins_with(text, endpoint) && text[n_end] == '/' &&
        read_page(fxi_str_of(text + n_end + 1), out))
        return FX_OK;
    *out = (fxi_hub_name){.kind = fxi_hub_is_name(text) ? FXI_HUB_URL : FXI_HUB_PATH};
    return out->kind == FXI_HUB_URL ? fxi_http_url_check(text, err) : FX_OK;
}
