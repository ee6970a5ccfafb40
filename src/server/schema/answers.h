// answers.h - the schemas of answers.
#ifndef FXI_SERVER_ANSWERS_H
#define FXI_SERVER_ANSWERS_H

#include "base/text/buf.h"

// Appends members of a JSON object: one for each component that operations name, and "Error".
// False: out of memory.
bool fxi_openapi_answers(fxi_buf *b);

#endif
