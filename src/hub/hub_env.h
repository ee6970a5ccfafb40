// hub_env.h - the environment's word on where the hub and its cache are; the module's state.
#ifndef FXI_HUB_ENV_H
#define FXI_HUB_ENV_H

#include "hub/hub_parts.h"

typedef struct fxi_hub_env {
    char *endpoint;      // "https://huggingface.co", without a slash at its end
    char *cache;         // of the hub's repositories
    char *url_cache;     // of files from elsewhere
    char *token;         // NULL: none
    const char *ca_file; // borrowed; NULL: the system's
    bool is_offline;
} fxi_hub_env;

struct fxi_hub {
    fxi_hub_env env;
    fxi_hub_net net;
};

// Free it in any case. Errors: FX_EINVAL (a variable that cannot be used), FX_ENOMEM.
fx_status fxi_hub_env_read(fxi_hub_env *e, fx_error *err);
void fxi_hub_env_free(fxi_hub_env *e);

#endif
