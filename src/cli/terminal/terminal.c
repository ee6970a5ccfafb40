// terminal.c - lines for people, a progress bar, and signals as flags.
#include "cli/terminal/terminal.h"
#include "flexinfer/error.h" // defines: FX_ERROR_TEXT_BYTES

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

// ---- lines -------------------------------------------------------------------------------------

static const char *program = "flexinfer"; // its name in error lines; set once, at the start

bool fxi_console_open(const char *name)
{
    program = name;
    static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd) return false;
    return true;
}

int fxi_cli_fail(const char *fmt, ...)
{
    char line[FX_ERROR_TEXT_BYTES + 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?'; // stays one line, whatever a file or a user wrote
    fprintf(stderr, "%s: %s\n", program, line);
    return FXI_EXIT_FAILURE;
}

static const char *scale_text(double v, double step, const char *const *unit,
                              char text[FXI_SIZE_TEXT_BYTES])
{
    int u = 0;
    for (; v >= step && unit[u + 1]; u++) v /= step;
    snprintf(text, FXI_SIZE_TEXT_BYTES, u == 0 || v >= 99.95 ? "%.0f%s" : "%.1f%s", v, unit[u]);
    return text;
}

const char *fxi_cli_size(uint64_t bytes, char text[FXI_SIZE_TEXT_BYTES])
{
    static const char *const unit[] = {" B", " KiB", " MiB", " GiB", " TiB", NULL};
    return scale_text((double)bytes, 1024, unit, text);
}

const char *fxi_cli_count(uint64_t n, char text[FXI_SIZE_TEXT_BYTES])
{
    static const char *const unit[] = {"", " K", " M", " B", " T", NULL};
    return scale_text((double)n, 1000, unit, text);
}

// ---- progress ----------------------------------------------------------------------------------

#define BAR_FROM_BYTES (64ull << 20) // less is done before anyone could read a bar
#define BAR_WIDTH      40

#define RATE_FROM_BYTES (1ull << 20)
#define RATE_BAR_WIDTH  20
#define NAME_WIDTH      28  // of a file, its end
#define RATE_S          0.5 // between two measurements
#define RATE_SHARE      0.2 // of a new one

static const char *draw_bar(char bar[BAR_WIDTH + 1], int width, int percent)
{
    for (int i = 0; i < width; i++) bar[i] = i * 100 < percent * width ? '#' : '.';
    bar[width] = 0;
    return bar;
}

fxi_progress fxi_progress_begin(const char *what)
{
    return (fxi_progress){.what = what, .shown = -1, .visible = isatty(STDERR_FILENO)};
}

void fxi_progress_draw(fxi_progress *p, uint64_t done, uint64_t total)
{
    if (!p->visible || total < BAR_FROM_BYTES) return;
    const int now = (int)((double)done / (double)total * 100.0);
    if (now == p->shown) return;
    p->shown = now;
    char bar[BAR_WIDTH + 1];
    fprintf(stderr, "\r%s [%s] %3d %%", p->what, draw_bar(bar, BAR_WIDTH, now), now);
}

// The rate is smoothed over some seconds; what was there before the first drawing does not count.
static void measure_rate(fxi_progress *p, uint64_t done, double now_s)
{
    const double s = now_s - p->last_s;
    if (p->last_s > 0 && s < RATE_S) return;
    if (p->last_s > 0 && done >= p->last_bytes) {
        const double now = (double)(done - p->last_bytes) / s;
        p->rate = p->rate > 0 ? p->rate + RATE_SHARE * (now - p->rate) : now;
    }
    p->last_s = now_s;
    p->last_bytes = done;
}

void fxi_progress_draw_rate(fxi_progress *p, const char *what, uint64_t done, uint64_t total,
                            double now_s)
{
    if (!p->visible || total < RATE_FROM_BYTES || done > total) return;
    measure_rate(p, done, now_s);
    p->shown = (int)((double)done / (double)total * 100.0);
    char bar[BAR_WIDTH + 1], rate[FXI_SIZE_TEXT_BYTES], size[FXI_SIZE_TEXT_BYTES], left[96] = "";
    const double left_s = p->rate > 0 ? (double)(total - done) / p->rate : -1;
    if (left_s >= 0 && left_s < 360000)
        snprintf(left, sizeof left, ", %s/s, %d:%02d:%02d left",
                 fxi_cli_size((uint64_t)p->rate, rate), (int)left_s / 3600, (int)left_s / 60 % 60,
                 (int)left_s % 60);
    const size_t n = strlen(what), n_cut = n > NAME_WIDTH ? n - NAME_WIDTH : 0;
    fprintf(stderr, "\r%s%s [%s] %3d %% of %s%s\033[K", n_cut ? ".." : "", what + n_cut,
            draw_bar(bar, RATE_BAR_WIDTH, p->shown), p->shown, fxi_cli_size(total, size), left);
}

void fxi_progress_end(fxi_progress *p)
{
    if (p->shown >= 0) fprintf(stderr, "\r\033[K");
    p->shown = -1;
}

// ---- signals -----------------------------------------------------------------------------------
//
// A handler reaches nothing but static data, so this file has some: the flag and an eventfd.
// Writing to an eventfd is one of the few things a handler may do. Signals and the events of other
// threads go through the same counter, so neither is missed between checking the flag and going to
// sleep.

static atomic_int caught;                // the signal, 0 if none came
static atomic_bool counts_hups, hung_up; // SIGHUP has a flag of its own, which is set
static int wake_fd = -1;

void fxi_signals_wake(void)
{
    (void)eventfd_write(wake_fd, 1); // fails if the count is full, and then the sleeper wakes too
}

int fxi_signals_fd(void)
{
    return wake_fd;
}

static void on_signal(int number)
{
    const int saved = errno;
    if (number == SIGHUP && atomic_load(&counts_hups))
        atomic_store(&hung_up, true);
    else
        atomic_store(&caught, number);
    fxi_signals_wake();
    errno = saved;
}

static void set_handler(int number, void (*handler)(int))
{
    struct sigaction act = {.sa_handler = handler}; // no SA_RESTART: a read of stdin must return
    sigaction(number, &act, NULL);
}

bool fxi_signals_catch(void)
{
    if (wake_fd < 0) wake_fd = eventfd(0, EFD_CLOEXEC);
    if (wake_fd < 0) return false;
    set_handler(SIGINT, on_signal);
    set_handler(SIGTERM, on_signal);
    return true;
}

void fxi_signals_stop_on_hup(void)
{
    struct sigaction act;
    if (!sigaction(SIGHUP, NULL, &act) && act.sa_handler != SIG_IGN) set_handler(SIGHUP, on_signal);
}

void fxi_signals_catch_hup(void)
{
    atomic_store(&counts_hups, true);
    set_handler(SIGHUP, on_signal);
}

bool fxi_signals_take_hup(void)
{
    return atomic_exchange(&hung_up, false);
}

void fxi_signals_let_kill(void)
{
    set_handler(SIGINT, SIG_DFL);
    set_handler(SIGTERM, SIG_DFL);
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
    eventfd_t count;
    (void)eventfd_read(wake_fd, &count); // EINTR is a reason to wake too
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
