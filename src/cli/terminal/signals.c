// signals.c - Ctrl-C, SIGTERM and SIGHUP as flags, and a place to sleep until something happens.
//
// A handler reaches nothing but static data, so this file has some: the flag and an eventfd.
// Writing to an eventfd is one of the few things a handler may do. Signals and the events of other
// threads go through the same counter, so neither is missed between checking the flag and going to
// sleep.
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

static atomic_int caught; // the signal, 0 if none came
static atomic_bool hung_up;
static int wake_fd = -1;

void fxi_signals_wake(void)
{
    const uint64_t one = 1;
    ssize_t n = write(wake_fd, &one, sizeof one);
    (void)n; // fails only if the count is full, and then the sleeper wakes too
}

static void on_signal(int number)
{
    int saved = errno;
    atomic_store(&caught, number);
    fxi_signals_wake();
    errno = saved;
}

static void set_handler(void (*handler)(int))
{
    struct sigaction act = {.sa_handler = handler}; // no SA_RESTART: a read of stdin must return
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

bool fxi_signals_catch(void)
{
    wake_fd = eventfd(0, EFD_CLOEXEC);
    if (wake_fd < 0) return false;
    set_handler(on_signal);
    return true;
}

void fxi_signals_stop_on_hup(void)
{
    struct sigaction act;
    if (sigaction(SIGHUP, NULL, &act) || act.sa_handler == SIG_IGN) return;
    act = (struct sigaction){.sa_handler = on_signal};
    sigaction(SIGHUP, &act, NULL);
}

static void on_hup(int number)
{
    int saved = errno;
    (void)number;
    atomic_store(&hung_up, true);
    fxi_signals_wake();
    errno = saved;
}

void fxi_signals_catch_hup(void)
{
    struct sigaction act = {.sa_handler = on_hup};
    sigaction(SIGHUP, &act, NULL);
}

bool fxi_signals_take_hup(void)
{
    return atomic_exchange(&hung_up, false);
}

void fxi_signals_let_kill(void)
{
    set_handler(SIG_DFL);
}

int fxi_signals_stop(void)
{
    return atomic_load(&caught);
}

void fxi_signals_clear(void)
{
    atomic_store(&caught, 0);
}

void fxi_signals_wait(void)
{
    uint64_t count;
    ssize_t n = read(wake_fd, &count, sizeof count);
    (void)n; // EINTR is a reason to wake too
}

bool fxi_signals_wait_input(int fd)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    while (!fxi_signals_stop()) {
        if (poll(fds, 2, -1) < 0) continue;
        if (fds[1].revents) fxi_signals_wait(); // resets the counter
        if (fds[0].revents) return true;
    }
    return false;
}
