// company.h - requests that all differ, and what each answers when it runs alone.
#ifndef TESTS_ENGINE_COMPANY_H
#define TESTS_ENGINE_COMPANY_H

#include "unit/engine/support/client.h"

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"

enum { N_REQUEST = 10, MAX_PROMPT = 120, N_GEN = 60 };

typedef struct prompt {
    int32_t tok[MAX_PROMPT];
    size_t n;
} prompt;

prompt make_prompt(int i);

// opt.model_path is set to MODEL. Fails the test if the engine does not open.
fx_engine *open_engine(fx_options opt);

// Submits request i; the odd ones draw at random. c and p must outlive the request.
void start_client(client *c, fx_engine *eng, prompt *p, int i);

// The tokens of request i when it runs alone, filled by run_alone, a group set-up of cmocka.
extern int32_t alone[N_REQUEST][N_GEN];
int run_alone(void **state);

#endif
