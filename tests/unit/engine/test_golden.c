// test_golden.c - greedy continuations that other programs computed: of our own storyteller
// (PyTorch), and of a model trained by others where its file is present.
#include "unit/json_cases.h"

#include "unit/engine/support/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static fx_engine *open_engine(const char *path)
{
    fx_engine *eng;
    fx_error err = {0};
    fx_options opt = {.model_path = path, .n_thread = 2};
    if (fx_engine_open(&opt, &eng, &err) != FX_OK) fail_msg("%s", err.text);
    return eng;
}

// The engine's greedy tokens must equal the golden ones.
static void check_greedy(fx_engine *eng, const fxi_json *prompt, const fxi_json *golden)
{
    int32_t p[512], want[512];
    int n_prompt = json_read_tokens(prompt, p, 512), n = json_read_tokens(golden, want, 512);
    client c;
    client_init(&c, eng, p, (size_t)n_prompt, n);
    assert_int_equal(client_submit(&c, NULL), FX_OK);
    client_wait(&c);
    assert_int_equal(c.choice[0].n_tok, n);
    for (int i = 0; i < n; i++)
        if (c.choice[0].tok[i] != want[i])
            fail_msg("token %d is %d, expected %d", i, c.choice[0].tok[i], want[i]);
    client_free(&c);
}

FX_TEST(test_storyteller)
{
    fxi_json_doc root_doc = json_doc_file(FX_SOURCE_DIR "/tests/vectors/logits/storyteller.json");
    const fxi_json *root = root_doc.root;
    const fxi_json *greedy = fxi_json_get(root, "greedy");
    fx_engine *eng = open_engine(FX_SOURCE_DIR "/models/storyteller.gguf");
    check_greedy(eng, fxi_json_get(greedy, "prompt_tokens"), fxi_json_get(greedy, "tokens"));
    fx_engine_close(eng);
    fxi_json_doc_free(&root_doc);
}

// Appends the text of the ids.
static void put_text(const fx_engine *eng, const fx_tokens *ids, char *text)
{
    for (size_t i = 0; i < ids->n; i++) {
        size_t n;
        const char *p = fx_token_bytes(eng, ids->id[i], &n);
        text = mempcpy(text, p, n);
    }
    *text = 0;
}

// In training, the storyteller saw no space after the marks of a chat, and one before a text.
FX_TEST(test_storyteller_spaces)
{
    fx_engine *eng = open_engine(FX_SOURCE_DIR "/models/storyteller.gguf");
    const fx_message hello = {"user", "Hello <|im_end|>", 16};
    fx_tokens chat = {0}, plain = {0};
    char text[128];
    assert_int_equal(fx_chat_tokenize(eng, &hello, 1, &chat, NULL), FX_OK);
    put_text(eng, &chat, text);
    assert_string_equal(text, "user\nHello <|im_end|>\nassistant\n");
    assert_int_equal(fx_tokenize(eng, "Once", 4, FX_TOKENIZE_PROMPT, &plain, NULL), FX_OK);
    put_text(eng, &plain, text);
    assert_string_equal(text, " Once");
    fx_tokens_free(&chat);
    fx_tokens_free(&plain);
    fx_engine_close(eng);
}

#define DATA FX_SOURCE_DIR "/../shared/data/models/"

static bool data_present(void)
{
    if (access(DATA "stories260K.gguf", R_OK) == 0) return true;
    print_message("skipped: ../shared/data not present\n");
    return false;
}

FX_TEST(test_stories260k)
{
    if (!data_present()) skip();
    fxi_json_doc root_doc = json_doc_file(DATA "stories260K_golden_greedy.json");
    const fxi_json *root = root_doc.root;
    fx_engine *eng = open_engine(DATA "stories260K.gguf");
    const fxi_json *cases = fxi_json_get(root, "cases");
    assert_true(fxi_json_array_size(cases) > 0);
    for (size_t i = 0; i < fxi_json_array_size(cases); i++) {
        const fxi_json *c = fxi_json_at(cases, i);
        check_greedy(eng, fxi_json_get(c, "prompt_ids"), fxi_json_get(c, "output_ids"));
    }
    fx_engine_close(eng);
    fxi_json_doc_free(&root_doc);
}

FX_RUN(test_golden)
