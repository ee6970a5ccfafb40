// top_feed.h - the connection of `flexinfer top` to a server: a thread that asks for /kv/snapshot
// four times a second and for /metrics once, and tries again when the server has gone.
#ifndef FXI_CLI_TOP_FEED_H
#define FXI_CLI_TOP_FEED_H

#include "cli/top/top_state.h"

typedef struct fxi_top_feed fxi_top_feed;

// key: the API key; NULL: none. ca_file: as in fxi_http_client_open. All are copied. Errors:
// FX_EINVAL (url), FX_ENOMEM, FX_EIO (ca_file), FX_EINTERNAL (no thread). The server need not be
// there.
fx_status fxi_top_feed_start(const char *url, const char *key, const char *ca_file,
                             fxi_top_feed **out, fx_error *err);
void fxi_top_feed_stop(fxi_top_feed *f);

// What is known now, locked until fxi_top_feed_unlock. *trouble: why there is no connection; NULL:
// there is one, or none was tried yet; valid until then.
const fxi_top_state *fxi_top_feed_lock(fxi_top_feed *f, const char **trouble);
void fxi_top_feed_unlock(fxi_top_feed *f);

// Readable when there is something new to show; fxi_top_feed_seen makes it unreadable again.
int fxi_top_feed_fd(const fxi_top_feed *f);
void fxi_top_feed_seen(fxi_top_feed *f);

// While paused, nothing that is shown changes.
void fxi_top_feed_pause(fxi_top_feed *f, bool is_paused);

#endif
