// model_file.c - the reader for a path, by what is there.
#include "format/model_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format/hf.h"

static bool ends_in(const char *path, const char *end)
{
    const size_t n = strlen(path), k = strlen(end);
    return n >= k && !strcmp(path + n - k, end);
}

// A file that stands for its folder.
static bool is_in_folder(const char *path)
{
    return ends_in(path, ".safetensors") || ends_in(path, ".safetensors.index.json") ||
           ends_in(path, "/config.json") || !strcmp(path, "config.json");
}

static fx_status open_around(const char *path, fxi_gguf **out, fx_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + !(slash - path)) : strdup(".");
    if (!folder) return fxi_fail(err, FX_ENOMEM, "%s: no memory", path);
    fx_status st = fxi_hf_open(folder, out, err);
    free(folder);
    return st;
}

fx_status fxi_model_file_open(const char *path, fxi_gguf **out, fx_error *err)
{
    struct stat st;
    *out = NULL;
    const bool there = !stat(path, &st);
    if (there && S_ISDIR(st.st_mode)) return fxi_hf_open(path, out, err);
    if (there && is_in_folder(path)) return open_around(path, out, err);
    return fxi_gguf_open(path, out, err);
}
