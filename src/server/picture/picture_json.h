// picture_json.h - pictures of the engine as JSON: a whole one, or what has changed since another.
// docs/page.md has the format. No threads and no sockets.
#ifndef FXI_SERVER_PICTURE_JSON_H
#define FXI_SERVER_PICTURE_JSON_H

#include "base/text/buf.h"
#include "flexinfer/picture.h"

// Appends one line. False: no memory; then *out is incomplete.
bool fxi_picture_whole(fxi_buf *out, const fx_picture *p);
// What makes `from` the same as `to`; both of one engine, `to` the newer one.
bool fxi_picture_change(fxi_buf *out, const fx_picture *from, const fx_picture *to);

#endif
