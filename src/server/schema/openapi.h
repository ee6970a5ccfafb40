// openapi.h - the API as an OpenAPI 3.1 document, made from the tables of fields and of routes.
#ifndef FXI_SERVER_OPENAPI_H
#define FXI_SERVER_OPENAPI_H

#include <stddef.h>

#include "base/text/buf.h"
#include "server/request/api_request.h" // defines: fxi_limits

typedef struct fxi_operation {
    const char *method, *path;
    bool takes_id;      // which follows the path
    int api;            // fxi_api of the body; -1: there is none
    const char *answer; // a component of the schema, or a type of text
    const char *about;
} fxi_operation;

// Appends the document of a server with these models and operations. False: out of memory.
bool fxi_openapi_write(fxi_buf *b, const char *version, const fxi_limits *lim,
                       const fxi_operation *op, size_t n_op);

#endif
