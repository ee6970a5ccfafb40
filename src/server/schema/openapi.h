// openapi.h - the API as an OpenAPI 3.1 document, made from the table of fields.
#ifndef FXI_SERVER_OPENAPI_H
#define FXI_SERVER_OPENAPI_H

#include <stddef.h>

#include "base/text/buf.h"
#include "server/request/api_request.h" // defines: fxi_limits

// What is done to a path, and what is sent and answered.
typedef struct fxi_operation {
    const char *method, *path;
    int api;            // fxi_api of the body; -1: there is none
    const char *answer; // a component of the schema, or a type of text
    const char *about;
} fxi_operation;

const fxi_operation *fxi_openapi_operations(size_t *n);
// Appends the document of a server with these models. False: out of memory.
bool fxi_openapi_write(fxi_buf *b, const char *version, const fxi_limits *lim);

#endif
