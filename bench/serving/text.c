// text.c - prompts: real text like that of users, and random tokens if only their number matters.
#include "base/number/rng.h"
#include "bench_serving.h"

static const char text[] =
    "Can you tell me a story about a small boat that wanted to see the sea? It should be short, "
    "and at the end the boat should come home before it gets dark. My sister likes it when the "
    "animals can talk, so please put a cat and a frog on the boat. "
    "What would the frog say when the first big wave comes? I think it would be afraid, but the "
    "cat would laugh. Then they could share the bread that grandmother gave them in the morning. "
    "Please tell it again, but this time the wind takes the hat of the captain and nobody knows "
    "where it went. They look under the table, behind the door and in the kitchen. "
    "Why did the bird not help them? It sat on the roof all day and saw everything. Maybe it was "
    "angry because nobody had asked it to come along, and it did not know how to say so. "
    "I like that. Now let the girl find the hat in the garden of the old man, between the red "
    "flowers and the wall. She wants to give it back, but the dog is sleeping on it. "
    "How can you wake a dog without making it angry? Tim says that you should sing very quietly. "
    "Anna says that a piece of cheese is better, and that she always has one in her pocket. "
    "Let them try both, first the song and then the cheese. In the end the dog opens one eye, "
    "takes the cheese and goes back to sleep, and the hat is still under its nose. "
    "That was funny. Tell me what happened on the next day, when the rain came down and all the "
    "streets were full of water. Could the small boat sail to the school and to the market? "
    "Everybody wanted to ride with them, even the teacher with her big umbrella. The captain said "
    "that there was room for five and no more, so they had to go three times. "
    "On the last ride they met a lonely duck that had lost its way. It asked for the river, and "
    "the cat pointed with its tail. Do you think that the duck found its brothers and sisters? "
    "Write down what the duck told its mother in the evening. Begin with the boat, then the hat, "
    "and do not forget the dog. The mother should not believe one word of it. "
    "Thank you, that was the best one so far. Tomorrow I would like to hear about the mountain "
    "that could not sleep because the moon was too bright. Who would turn off the moon?";

static fx_tokens all_tokens(const world *w)
{
    fx_tokens t = {0};
    fx_error err;
    if (fx_tokenize(w->eng, text, sizeof text - 1, 0, &t, &err) == FX_OK && t.n) return t;
    fprintf(stderr, "bench_serving: text: %s\n", err.text);
    exit(1);
}

// Parts begin 61 tokens apart and wrap around at the end of the text.
int32_t *text_tokens(const world *w, unsigned which, int n_tok)
{
    enum { APART = 61 };
    fx_tokens t = all_tokens(w);
    int32_t *out = need(malloc((size_t)n_tok * sizeof *out));
    for (int i = 0; i < n_tok; i++) out[i] = t.id[((size_t)which * APART + (size_t)i) % t.n];
    fx_tokens_free(&t);
    return out;
}

// Skips the first quarter of the vocabulary, which holds tokens that are not text.
int32_t *random_tokens(const world *w, uint64_t seed, int n_tok)
{
    const uint64_t n_vocab = (uint64_t)w->eng->info.n_vocab, first = n_vocab / 4;
    int32_t *out = need(malloc((size_t)n_tok * sizeof *out));
    for (int i = 0; i < n_tok; i++)
        out[i] = (int32_t)(first + fxi_rng_u64(seed, 0, (uint64_t)i) % (n_vocab - first));
    return out;
}
