// snapshot_json.h - a snapshot of the engine as a line of JSON; docs/user/watch.md has the format.
#ifndef FXI_SERVER_SNAPSHOT_JSON_H
#define FXI_SERVER_SNAPSHOT_JSON_H

#include "base/text/buf.h"
#include "flexinfer/snapshot.h"

// Appends it. False: no memory; then *out is incomplete.
bool fxi_snapshot_json(fxi_buf *out, const fx_snapshot *s);

#endif
