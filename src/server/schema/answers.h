// answers.h - the schemas of answers, as JSON text.
#ifndef FXI_SERVER_ANSWERS_H
#define FXI_SERVER_ANSWERS_H

// Members of an object: one for each component that operations name, and "Error".
extern const char fxi_openapi_answers[];

#endif
