// web.h - the files of the web page, which lie in the program. Their sources are in web/.
#ifndef FXI_SERVER_WEB_H
#define FXI_SERVER_WEB_H

typedef struct fxi_web_file {
    const char *name; // "app.js"
    const char *type; // of its content
    const char *etag; // with its quotes; another one for other bytes
    const unsigned char *bytes, *end;
} fxi_web_file;

// NULL: there is none of this name. Any thread; static.
const fxi_web_file *fxi_web_find(const char *name);

#endif
