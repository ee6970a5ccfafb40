// console.c - lines for people: errors, sizes, counts.
#include "cli/terminal/terminal.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

bool fxi_console_open(void)
{
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
    fprintf(stderr, "flexinfer: %s\n", line);
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
