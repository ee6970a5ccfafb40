// round.h - one round: what has changed, to all viewers who have taken everything before.
#ifndef FXI_SERVER_ROUND_H
#define FXI_SERVER_ROUND_H

#include "server/http/http.h"

// Posts a round to a worker, unless one is on its way. fxi_viewers.mu is held. Any thread.
void fxi_round_post_locked(fxi_server *srv);

#endif
