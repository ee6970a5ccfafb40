// hub_env.c - what the environment says about the hub, as its Python client reads it: where it is,
// where its cache is, who asks.
#include "hub/hub_env.h"
#include "base/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TOKEN_ROOM = 512 };

// The first of these variables that is set and not empty; NULL: none.
static const char *first_set(const char *const *names)
{
    for (; *names; names++) {
        const char *v = getenv(*names);
        if (v && v[0]) return v;
    }
    return NULL;
}

#define FIRST_SET(...) first_set((const char *const[]){__VA_ARGS__, NULL})

static bool is_on(const char *v)
{
    return v && fxi_list_has("1,on,yes,true", ",", v);
}

// DIR/NAME, with ~/ at the beginning of DIR as the user's folder. NULL: out of memory.
static char *join_path(const char *dir, const char *name)
{
    const char *home = getenv("HOME");
    char *path;
    const bool is_home = !strncmp(dir, "~/", 2) && home;
    const int n = asprintf(&path, "%s%s%s%s", is_home ? home : "", is_home ? dir + 1 : dir,
                           name[0] ? "/" : "", name);
    return n < 0 ? NULL : path;
}

// The folder `name` of the user's cache.
static fx_status cache_folder(const char *name, char **out, fx_error *err)
{
    const char *cache = FIRST_SET("XDG_CACHE_HOME"), *home = FIRST_SET("HOME");
    char below_home[64];
    snprintf(below_home, sizeof below_home, ".cache/%s", name);
    if (!cache && !home)
        return fxi_fail(err, FX_EINVAL,
                        "there is no place for models: neither HOME nor HF_HOME is set");
    *out = cache ? join_path(cache, name) : join_path(home, below_home);
    return *out ? FX_OK : fxi_fail_memory(err);
}

static fx_status read_token(const char *home, char **out, fx_error *err)
{
    const char *given = FIRST_SET("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN");
    const char *named = FIRST_SET("HF_TOKEN_PATH");
    char text[TOKEN_ROOM] = "";
    if (given) {
        while (*given && strchr(" \t\r\n", *given)) given++;
        const size_t n = strcspn(given, " \t\r\n");
        if (n >= sizeof text) return fxi_fail(err, FX_EINVAL, "HF_TOKEN is not a token: too long");
        memcpy(text, given, n);
    } else {
        char *path = named ? join_path(named, "") : join_path(home, "token");
        if (!path) return fxi_fail_memory(err);
        if (!fxi_hub_read_text(path, text, sizeof text)) text[0] = 0;
        free(path);
    }
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            return fxi_fail(err, FX_EINVAL, "the hub's token has a character that no token has");
    *out = text[0] ? strdup(text) : NULL;
    return text[0] && !*out ? fxi_fail_memory(err) : FX_OK;
}

static fx_status read_endpoint(char **out, fx_error *err)
{
    const char *given = FIRST_SET("HF_ENDPOINT");
    *out = strdup(given ? given : "https://huggingface.co");
    if (!*out) return fxi_fail_memory(err);
    for (size_t n = strlen(*out); n && (*out)[n - 1] == '/'; n--) (*out)[n - 1] = 0;
    if (fxi_http_url_check(*out, err) != FX_OK) return fxi_fail_in(err, "HF_ENDPOINT");
    return strchr(*out, '?') ? fxi_fail(err, FX_EINVAL, "HF_ENDPOINT has a query") : FX_OK;
}

fx_status fxi_hub_env_read(fxi_hub_env *e, fx_error *err)
{
    const char *cache = FIRST_SET("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE");
    const char *given = FIRST_SET("HF_HOME");
    char *home = NULL;
    *e = (fxi_hub_env){.ca_file = FIRST_SET("SSL_CERT_FILE"),
                       .is_offline = is_on(FIRST_SET("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))};
    fx_status st = read_endpoint(&e->endpoint, err);
    if (st == FX_OK && given)
        st = (home = join_path(given, "")) ? FX_OK : fxi_fail_memory(err);
    else if (st == FX_OK)
        st = cache_folder("huggingface", &home, err);
    if (st == FX_OK && !(e->cache = cache ? join_path(cache, "") : join_path(home, "hub")))
        st = fxi_fail_memory(err);
    if (st == FX_OK) st = read_token(home, &e->token, err);
    if (st == FX_OK && cache_folder("flexinfer", &e->url_cache, NULL) == FX_EINVAL)
        e->url_cache = join_path(home, "flexinfer");
    if (st == FX_OK && !e->url_cache) st = fxi_fail_memory(err);
    free(home);
    return st;
}

void fxi_hub_env_free(fxi_hub_env *e)
{
    free(e->endpoint);
    free(e->cache);
    free(e->url_cache);
    free(e->token);
    *e = (fxi_hub_env){0};
}
