// conn.c - MHD's connections as peers: where one comes from, and how far its request is.
#include "server/http/http.h"

fxi_peer *fxi_peer_of(struct MHD_Connection *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

bool fxi_peer_move(fxi_server *srv, fxi_peer *p, fxi_peer_phase phase)
{
    bool wake;
    const bool alive = fxi_peers_move(&srv->peers, p, phase, &wake);
    if (wake) fxi_watch_wake(srv);
    return alive;
}

static fxi_peer *enter_peer(fxi_server *srv, struct MHD_Connection *conn)
{
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(conn,
                                                                 MHD_CONNECTION_INFO_CONNECTION_FD),
                                   *client = MHD_get_connection_info(
                                       conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    bool wake;
    if (!fd || !client) return NULL;
    const fxi_address address = fxi_address_of(client->client_addr);
    fxi_peer *p = fxi_peers_enter(&srv->peers, fd->connect_fd, &address, &wake);
    if (wake) fxi_watch_wake(srv);
    return p;
}

// MHD tells that a connection closes before it closes the descriptor.
void fxi_conn_notify(void *ud, struct MHD_Connection *conn, void **context,
                     enum MHD_ConnectionNotificationCode code)
{
    fxi_server *srv = ud;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = enter_peer(srv, conn);
    else if (*context)
        fxi_peers_leave(&srv->peers, *context);
}

// The request line has been read; headers follow. The result becomes the request's context, which
// is empty until its head is complete.
void *fxi_conn_take_target(void *ud, const char *target, struct MHD_Connection *conn)
{
    fxi_peer *p = fxi_peer_of(conn);
    if (p) {
        fxi_peer_take_target(p, target);
        fxi_peer_move(ud, p, FXI_PEER_HEAD);
    }
    return NULL;
}
