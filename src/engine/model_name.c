// model_name.c - what clients call a model: the name of its file or folder, which its operator has
// typed. What its makers call it (general.name) often has spaces, and all its quantizations share
// it.
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// The last component of a path, of which *n bytes are left; they shrink to what stands before it.
static fxi_str take_component(const char *path, size_t *n)
{
    while (*n && path[*n - 1] == '/') --*n;
    const size_t end = *n;
    while (*n && path[*n - 1] != '/') --*n;
    return (fxi_str){path + *n, end - *n};
}

// OWNER/NAME of a folder models--OWNER--NAME/snapshots/REVISION, as the hub's cache has them.
// False: it is none.
static bool name_snapshot(const char *path, size_t n, char *out, size_t n_out)
{
    static const char front[] = "models--";
    (void)take_component(path, &n);
    const fxi_str middle = take_component(path, &n), repository = take_component(path, &n);
    if (!fxi_str_is(middle, "snapshots") || repository.n < sizeof front ||
        memcmp(repository.p, front, sizeof front - 1) != 0)
        return false;
    snprintf(out, n_out, "%.*s", (int)(repository.n - (sizeof front - 1)),
             repository.p + sizeof front - 1);
    char *dashes = strstr(out, "--");
    if (!dashes) return true;
    *dashes = '/';
    memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    return true;
}

// Without the extension, and without the -00001-of-00003 of a model in parts.
static size_t stem_bytes(fxi_str file)
{
    static const char extension[] = ".gguf", part[] = "-00001-of-00001";
    const size_t n_part = sizeof part - 1;
    size_t n = file.n;
    if (n > sizeof extension - 1 && fxi_str_ends_in(file, extension)) n -= sizeof extension - 1;
    bool is_part = n > n_part;
    for (size_t i = 0; is_part && i < n_part; i++) {
        const char c = file.p[n - n_part + i];
        is_part = part[i] == '0' || part[i] == '1' ? c >= '0' && c <= '9' : c == part[i];
    }
    return is_part ? n - n_part : n;
}

void fxi_model_name(const char *path, char *out, size_t n_out)
{
    struct stat s;
    char *real = realpath(path, NULL); // the folder's name of "."; a link keeps its own
    const bool is_folder = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    const char *from = is_folder && real ? real : path;
    size_t n = strlen(from);
    if (!is_folder || !name_snapshot(from, n, out, n_out)) {
        const fxi_str last = take_component(from, &n);
        const size_t n_name = is_folder ? last.n : stem_bytes(last);
        snprintf(out, n_out, "%.*s", (int)n_name, last.p);
    }
    free(real);
}
