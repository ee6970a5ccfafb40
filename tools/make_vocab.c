// make_vocab.c - a SentencePiece-like vocabulary, built by rule.
//
//   <unk> <s> </s>, 256 byte tokens, single characters,
//   then, from frequent to rare: English words, endings, runs of spaces, syllables, words of two
//   syllables
//
// A piece's score is minus its rank. Pieces longer than a character are added as the concatenation
// of two earlier pieces, so that merging can reach them; words are also added with a leading space
// mark.
#include "make_vocab.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xE2\x96\x81"

enum { PIECE_BYTES = 32, NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6 };

typedef struct builder {
    made_vocab *v;
    size_t limit;
    int32_t *slot; // open addressing over the pieces; -1: empty
    size_t slot_mask;
} builder;

static bool is_full(const builder *b)
{
    return b->v->n == b->limit;
}

static int32_t *find_piece_slot(const builder *b, const char *piece)
{
    uint64_t h = 14695981039346656037u; // FNV-1a
    for (const char *c = piece; *c; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
    size_t i = (h ^ h >> 29) & b->slot_mask;
    while (b->slot[i] >= 0 && !fxi_str_is(b->v->piece[b->slot[i]], piece))
        i = (i + 1) & b->slot_mask;
    return &b->slot[i];
}

static void add_typed(builder *b, const char *piece, int32_t type, float score)
{
    int32_t *slot = find_piece_slot(b, piece);
    if (is_full(b) || *slot >= 0) return;
    made_vocab *v = b->v;
    char *dst = v->pool + v->n * PIECE_BYTES;
    v->piece[v->n] = (fxi_str){dst, (size_t)snprintf(dst, PIECE_BYTES, "%s", piece)};
    v->score[v->n] = score;
    v->type[v->n] = type;
    *slot = (int32_t)v->n++;
}

static void add_piece(builder *b, const char *piece)
{
    add_typed(b, piece, NORMAL, -(float)(b->v->n - MADE_FIRST_BYTE - 256));
}

// Every piece is made here or is a literal of this file, so it fits PIECE_BYTES.
static void join_pieces(char dst[PIECE_BYTES], const char *left, const char *right)
{
    size_t n = strlen(left), m = strlen(right);
    assert(n + m < PIECE_BYTES);
    memmove(dst, left, n);
    memcpy(dst + n, right, m + 1);
}

static void add_join(builder *b, const char *left, const char *right)
{
    char both[PIECE_BYTES];
    join_pieces(both, left, right);
    add_piece(b, left);
    add_piece(b, right);
    add_piece(b, both);
}

// Adds all beginnings of the word, each one character longer than the previous one.
static void add_grown(builder *b, const char *word)
{
    char left[PIECE_BYTES] = {word[0]};
    for (size_t n = 1; word[n]; n++) {
        const char right[2] = {word[n], 0};
        add_join(b, left, right);
        join_pieces(left, left, right);
    }
}

//
// The parts, in order
//

static void add_tokens_and_characters(builder *b)
{
    char piece[8];
    add_typed(b, "<unk>", UNKNOWN, 0);
    add_typed(b, "<s>", CONTROL, 0);
    add_typed(b, "</s>", CONTROL, 0);
    for (unsigned i = 0; i < 256; i++) {
        snprintf(piece, sizeof piece, "<0x%02X>", i);
        add_typed(b, piece, BYTE, 0);
    }
    add_piece(b, SPACE);
    for (char c = '!'; c <= '~'; c++) add_piece(b, (const char[2]){c, 0});
}

static void add_words(builder *b)
{
    static const char *const words[] = {
        "the",    "of",     "and",    "to",      "in",    "is",      "that",   "it",      "was",
        "for",    "on",     "are",    "as",      "with",  "his",     "they",   "at",      "be",
        "this",   "have",   "from",   "or",      "one",   "had",     "by",     "word",    "but",
        "not",    "what",   "all",    "were",    "we",    "when",    "your",   "can",     "said",
        "there",  "use",    "an",     "each",    "which", "she",     "do",     "how",     "their",
        "if",     "will",   "up",     "other",   "about", "out",     "many",   "then",    "them",
        "these",  "so",     "some",   "her",     "would", "make",    "like",   "him",     "into",
        "time",   "has",    "look",   "two",     "more",  "write",   "go",     "see",     "number",
        "no",     "way",    "could",  "people",  "my",    "than",    "first",  "water",   "been",
        "call",   "who",    "oil",    "its",     "now",   "find",    "long",   "down",    "day",
        "did",    "get",    "come",   "made",    "may",   "part",    "over",   "new",     "sound",
        "take",   "only",   "little", "work",    "know",  "place",   "year",   "live",    "me",
        "back",   "give",   "most",   "very",    "after", "thing",   "our",    "just",    "name",
        "good",   "man",    "think",  "say",     "great", "where",   "help",   "through", "much",
        "before", "line",   "right",  "too",     "mean",  "old",     "any",    "same",    "tell",
        "boy",    "follow", "came",   "want",    "show",  "also",    "around", "form",    "three",
        "small",  "set",    "put",    "end",     "does",  "another", "well",   "large",   "must",
        "big",    "even",   "such",   "because", "turn",  "here",    "why",    "ask",     "went",
        "men",    "read",   "need",   "land",    "home",  "us",      "move",   "try",     "kind",
        "hand",   "again",  "change", "off",     "play",  "house",   "world",  "against", "The",
        "He",     "She",    "It",     "And",     "But",   "In",      "They",   "There",   "This",
        "What",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words && !is_full(b); i++) {
        add_grown(b, words[i]);
        add_join(b, SPACE, words[i]);
    }
    add_join(b, SPACE, "a");
    add_join(b, SPACE, "I");
}

static void add_endings_and_spaces(builder *b)
{
    static const char *const endings[] = {"ing",  "ed",   "er",   "es",   "ly",   "tion", "ment",
                                          "able", "ness", "ence", "ally", "ious", "ated", "ight"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) add_grown(b, endings[i]);
    add_join(b, SPACE, SPACE);
    add_join(b, SPACE SPACE, SPACE SPACE);
    add_join(b, SPACE SPACE SPACE SPACE, SPACE SPACE SPACE SPACE);
}

static const char *const onsets[] = {"t", "s", "c",  "b",  "p",  "m",  "d",  "r",  "l",  "f",  "n",
                                     "h", "w", "g",  "st", "pr", "th", "sh", "tr", "ch", "br", "gr",
                                     "k", "v", "cl", "j",  "pl", "cr", "fr", "sp", "bl", "sl"};
static const char *const nuclei[] = {"e", "a", "i", "o", "u", "ea", "ou", "ai", "oo", "ee"};
static const char *const codas[] = {"", "n", "r", "t", "l", "s", "d", "m", "nd", "st", "ng", "ck"};

#define COUNT(table) (sizeof(table) / sizeof *(table))

enum { N_SYLLABLE = COUNT(onsets) * COUNT(nuclei) * COUNT(codas) };

// Syllable i of N_SYLLABLE: open ones first.
static void add_syllable(builder *b, size_t i, char dst[PIECE_BYTES])
{
    char open[PIECE_BYTES];
    const char *onset = onsets[i % COUNT(onsets)];
    const char *nucleus = nuclei[i / COUNT(onsets) % COUNT(nuclei)];
    const char *coda = codas[i / COUNT(onsets) / COUNT(nuclei)];
    join_pieces(open, onset, nucleus);
    join_pieces(dst, open, coda);
    add_grown(b, open);
    if (!*coda) return;
    add_grown(b, coda);
    add_join(b, open, coda);
}

static void add_syllables(builder *b)
{
    char s[PIECE_BYTES];
    for (size_t i = 0; i < N_SYLLABLE && !is_full(b); i++) {
        add_syllable(b, i, s);
        add_join(b, SPACE, s);
    }
}

// Pairs of syllables, each once, such that neighbours in rank begin and end differently.
static void add_two_syllables(builder *b)
{
    char left[PIECE_BYTES], right[PIECE_BYTES], word[PIECE_BYTES];
    for (size_t i = 0; !is_full(b); i++) {
        size_t first = i % N_SYLLABLE;
        add_syllable(b, first, left);
        add_syllable(b, (i / N_SYLLABLE + 7 * first) % N_SYLLABLE, right);
        add_join(b, left, right);
        join_pieces(word, left, right);
        add_join(b, SPACE, word);
    }
}

static bool alloc_builder(builder *b, size_t n)
{
    made_vocab *v = b->v;
    size_t n_slot = 1;
    while (n_slot < 2 * n) n_slot *= 2;
    b->slot_mask = n_slot - 1;
    b->slot = malloc(n_slot * sizeof *b->slot);
    v->piece = malloc(n * sizeof *v->piece);
    v->score = malloc(n * sizeof *v->score);
    v->type = malloc(n * sizeof *v->type);
    v->pool = malloc(n * PIECE_BYTES);
    if (b->slot) memset(b->slot, -1, n_slot * sizeof *b->slot);
    return b->slot && v->piece && v->score && v->type && v->pool;
}

bool made_vocab_create(size_t n, made_vocab *out)
{
    static void (*const parts[])(builder *) = {add_tokens_and_characters, add_words,
                                               add_endings_and_spaces, add_syllables,
                                               add_two_syllables};
    *out = (made_vocab){0};
    builder b = {.v = out, .limit = n};
    bool ok = alloc_builder(&b, n);
    for (size_t i = 0; ok && i < COUNT(parts); i++) parts[i](&b);
    free(b.slot);
    if (!ok) made_vocab_free(out);
    return ok;
}

void made_vocab_free(made_vocab *v)
{
    free(v->piece);
    free(v->score);
    free(v->type);
    free(v->pool);
    *v = (made_vocab){0};
}
