// web.c - puts the files of web/ into the program.
//
// FXI_WEB_LIST is a header made by CMake with a line FXI_WEB_FILE(symbol, name, type, path, etag)
// for each.
#include "server/web/web.h"

#include <string.h>

#define FXI_WEB_FILE(symbol, name, type, path, etag)                                          \
    __asm__(".pushsection .rodata\n.balign 16\n"                                              \
            "fxi_web_" #symbol ":\n.incbin \"" path "\"\nfxi_web_end_" #symbol ":\n.byte 0\n" \
            ".popsection\n");                                                                 \
    extern const unsigned char fxi_web_##symbol[], fxi_web_end_##symbol[];
#include FXI_WEB_LIST
#undef FXI_WEB_FILE

#define FXI_WEB_FILE(symbol, name, type, path, etag) \
    {name, type, etag, fxi_web_##symbol, fxi_web_end_##symbol},
static const fxi_web_file files[] = {
#include FXI_WEB_LIST
};

const fxi_web_file *fxi_web_find(const char *name)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (!strcmp(files[i].name, name)) return &files[i];
    return NULL;
}
