// open_and_serve.h - a server in one step, for tests whose engine is there already.
#ifndef OPEN_AND_SERVE_H
#define OPEN_AND_SERVE_H

#include "server/server.h"

static inline fx_status open_and_serve(fx_engine *eng, const fxi_server_options *opt,
                                       fxi_server **out, fx_error *err)
{
    const fx_status st = fxi_server_open(opt, out, err);
    if (st == FX_OK) fxi_server_serve(*out, eng);
    return st;
}

#endif
