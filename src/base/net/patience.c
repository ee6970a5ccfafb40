// patience.c - one poll of two descriptors, again after a signal.
#include "base/net/patience.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <string.h>

#include "base/fail.h"         // defines: fxi_fail
#include "base/system/clock.h" // defines: fxi_now_s

static int poll_ms(const fxi_patience *wait)
{
    const double left_s = wait->until_s - fxi_now_s();
    if (left_s <= 0) return 0;
    return left_s > INT_MAX / 2e3 ? -1 : (int)ceil(left_s * 1e3);
}

fx_status fxi_patience_wait(const fxi_patience *wait, int fd, short events, fx_error *err)
{
    struct pollfd p[2] = {{.fd = fd, .events = events}, {.fd = wait->stop_fd, .events = POLLIN}};
    int n;
    do n = poll(p, 2, poll_ms(wait));
    while (n < 0 && errno == EINTR);
    if (n < 0) return fxi_fail(err, FX_EIO, "%s", strerror(errno));
    if (n == 0) return fxi_fail(err, FX_EIO, "no answer in time");
    if (p[1].revents) return fxi_fail(err, FX_EIO, "given up");
    return FX_OK;
}
