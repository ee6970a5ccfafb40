// feed.h - the connection of `flexinfer top` to a server: a thread that follows GET /kv/stream and
// asks for /metrics once a second, and begins again when the server has gone.
#ifndef FXI_CLI_FEED_H
#define FXI_CLI_FEED_H

#include "base/net/url.h"
#include "cli/top/watched.h"

typedef struct fxi_feed fxi_feed;

// key: the API key; NULL: none. ca_file: whom https believes, as fxi_trust_open. All are copied.
// Errors: FX_ENOMEM, FX_EIO (ca_file), FX_EINTERNAL (no thread). The server need not be there.
fx_status fxi_feed_start(const fxi_url *url, const char *key, const char *ca_file, fxi_feed **out,
                         fx_error *err);
void fxi_feed_stop(fxi_feed *f); // NULL is allowed

// What is known now, locked until fxi_feed_unlock. *trouble: why there is no connection, NULL:
// there is one, or none was tried yet; valid until then.
const fxi_watched *fxi_feed_lock(fxi_feed *f, const char **trouble);
void fxi_feed_unlock(fxi_feed *f);

// Readable when there is something new to show; fxi_feed_seen makes it unreadable again.
int fxi_feed_fd(const fxi_feed *f);
void fxi_feed_seen(fxi_feed *f);

// Paused, it reads nothing more: the server keeps what is missed as one change.
void fxi_feed_pause(fxi_feed *f, bool is_paused);

#endif
