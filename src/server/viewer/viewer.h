// viewer.h - GET /kv/stream: a stream of pictures to each viewer.
#ifndef FXI_SERVER_VIEWER_H
#define FXI_SERVER_VIEWER_H

#include "server/http/http.h"

// Makes the job a viewer; on a worker. False: *err says why.
bool fxi_viewer_begin(fxi_http_job *job, fxi_http_error *err);

// There is a new picture. ud: the server. On the engine's thread.
void fxi_viewer_on_picture(void *ud);

#endif
