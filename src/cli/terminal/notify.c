// notify.c - the state of the program for a service manager: a datagram to the socket that
// NOTIFY_SOCKET names, as sd_notify(3) describes it. A name that begins with '@' is abstract.
#include "cli/terminal/terminal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool fxi_manager_waits(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    return name && *name;
}

void fxi_notify_manager(const char *state)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const size_t n = name ? strlen(name) : 0;
    if (!n || n >= sizeof to.sun_path || !strchr("/@", name[0])) return;
    memcpy(to.sun_path, name, n);
    if (name[0] == '@') to.sun_path[0] = 0;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return;
    const socklen_t n_address = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, n_address);
    close(fd);
}
