// show.c - escapes byte by byte into a fixed buffer.
#include "format/show.h"

#include <stdio.h>
#include <string.h>

fxi_shown fxi_show_text(fxi_str text)
{
    fxi_shown out;
    const size_t room = sizeof out.s - sizeof "\\x00...";
    size_t at = 0, i = 0;
    for (; i < text.n && at <= room; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c >= 0x20 && c < 0x7F)
            out.s[at++] = (char)c;
        else
            at += (size_t)snprintf(out.s + at, sizeof "\\x00", "\\x%02X", (unsigned)c);
    }
    strcpy(out.s + at, i < text.n ? "..." : "");
    return out;
}
