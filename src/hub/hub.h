// hub.h - models by name: from a hub with Hugging Face's interface, or from a URL, kept in the
// hub's own cache layout, which its Python client shares.
//
//     hf:ORG/REPO                the repository's GGUF file (hub_choose.c says which), or all that
//                                a folder with safetensors needs
//     hf:ORG/REPO:Q4_K_M         the GGUF file of this type
//     hf:ORG/REPO/FILE           this file
//     hf:ORG/REPO@REV            of a branch, a tag or a commit; :TYPE or /FILE may follow
//     https://HOST/PATH          any file; one on the hub's own host is taken as above
//
// Anything else is a path. The environment says where: HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH,
// HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE as the Python client reads them, the variables of proxies
// as curl does, and SSL_CERT_FILE.
#ifndef FXI_HUB_H
#define FXI_HUB_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/text/str.h"
#include "flexinfer/error.h"

// ---- names: hub_name.c --------------------------------------------------------------------------

typedef enum fxi_hub_kind { FXI_HUB_PATH, FXI_HUB_REPO, FXI_HUB_URL } fxi_hub_kind;

typedef struct fxi_hub_name { // its parts point into the text
    fxi_hub_kind kind;
    fxi_str repo;  // "ORG/REPO"
    fxi_str rev;   // n 0: none given
    fxi_str type;  // "Q4_K_M"; n 0: none given
    fxi_str file;  // n 0: none given
    bool is_vocab; // of a folder everything but the weights; set by fxi_hub_find
} fxi_hub_name;

// endpoint: the hub's URL without a slash at its end. Error: FX_EINVAL: the text begins like a name
// of a hub and is none.
fx_status fxi_hub_name_read(const char *text, const char *endpoint, fxi_hub_name *out,
                            fx_error *err);
// Whether the text names something that is not a path.
bool fxi_hub_is_name(const char *text);

// ---- the cache and the hub: hub.c ---------------------------------------------------------------

typedef struct fxi_hub_watch { // the caller's side; called on the caller's thread
    int stop_fd;               // everything ends with FX_EIO while this can be read; -1: none
    void (*on_bytes)(void *ud, const char *file, uint64_t done, uint64_t total); // of all files
    void (*on_note)(void *ud, const char *line); // which file was chosen, what is waited for
    void *ud;
} fxi_hub_watch;

typedef struct fxi_hub fxi_hub;

// Reads the environment. `watch` is borrowed. Errors: FX_EINVAL (a variable), FX_ENOMEM.
fx_status fxi_hub_open(const fxi_hub_watch *watch, fxi_hub **out, fx_error *err);
void fxi_hub_close(fxi_hub *h); // NULL is allowed

typedef enum fxi_hub_how {
    FXI_HUB_LOCAL, // what is here; no network
    FXI_HUB_ASK,   // the hub's, fetched if it is not here; what is here if that fails
    FXI_HUB_FETCH, // the hub's, or an error
} fxi_hub_how;

typedef enum fxi_hub_need { FXI_HUB_MODEL, FXI_HUB_VOCAB } fxi_hub_need;

// The path of a model by its name: a file, or a folder; *path is the caller's to free. A path stays
// what it is. FXI_HUB_VOCAB: a folder's weights need not be there. Errors: FX_EINVAL (the name),
// FX_EIO (the hub, the disk; nothing has its final name that is not whole and checked), FX_ENOMEM.
fx_status fxi_hub_find(fxi_hub *h, const char *name, fxi_hub_how how, fxi_hub_need need,
                       char **path, fx_error *err);

typedef struct fxi_hub_model {
    const char *name; // that fxi_hub_find takes
    const char *path;
    uint64_t n_bytes;
    time_t since;
} fxi_hub_model;

// Calls back for each model that is here and whole, in the order of names. Errors: FX_EIO,
// FX_ENOMEM.
fx_status fxi_hub_list(fxi_hub *h, void (*on_model)(void *ud, const fxi_hub_model *m), void *ud,
                       fx_error *err);

// Removes a model: a repository or URL as a whole, a revision of it, or a file, with its other
// parts: without a revision of every commit. Blobs that other names need stay. Errors: FX_EINVAL
// (it is not here, or a path), FX_EIO, FX_ENOMEM.
fx_status fxi_hub_remove(fxi_hub *h, const char *name, uint64_t *freed_bytes, fx_error *err);

#endif
