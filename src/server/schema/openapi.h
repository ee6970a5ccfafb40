// openapi.h - the API as an OpenAPI 3.1 document, made from the table of fields.
#ifndef FXI_SERVER_OPENAPI_H
#define FXI_SERVER_OPENAPI_H

#include <stddef.h>

#include "base/text/buf.h"
#include "server/request/api_request.h" // defines: fxi_limits

// Appends the document of a server with these models. False: out of memory.
bool fxi_openapi_write(fxi_buf *b, const char *version, const fxi_limits *lim);

#endif
