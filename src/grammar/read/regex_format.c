// regex_format.c - formats of strings as regular expressions: each matches only what the standard
// that defines it allows, and what people write of that.
#include <string.h>

#include "grammar/read/gram_regex.h"

#define YEAR  "[0-9]{4}"
#define LEAP  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DAY31 "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
#define DAY30 "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
#define DAY28 "02-(?:0[1-9]|1[0-9]|2[0-8])"
#define DATE  "(?:" YEAR "-(?:" DAY31 "|" DAY30 "|" DAY28 ")|" LEAP "-02-29)"
#define HOUR  "(?:[01][0-9]|2[0-3])"
#define SIXTY "[0-5][0-9]"
#define TIME  HOUR ":" SIXTY ":" SIXTY "(?:\\.[0-9]{1,18})?(?:[Zz]|[+-]" HOUR ":" SIXTY ")"
#define HEX   "[0-9A-Fa-f]"
#define BYTE  "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4  BYTE "\\." BYTE "\\." BYTE "\\." BYTE
#define GROUP HEX "{1,4}"
#define LAST  "(?:" GROUP ":" GROUP "|" IPV4 ")"
#define IPV6                                                                                  \
    "(?:(?:" GROUP ":){6}" LAST "|::(?:" GROUP ":){5}" LAST "|(?:" GROUP ")?::(?:" GROUP      \
    ":){4}" LAST "|(?:(?:" GROUP ":){0,1}" GROUP ")?::(?:" GROUP ":){3}" LAST "|(?:(?:" GROUP \
    ":){0,2}" GROUP ")?::(?:" GROUP ":){2}" LAST "|(?:(?:" GROUP ":){0,3}" GROUP ")?::" GROUP \
    ":" LAST "|(?:(?:" GROUP ":){0,4}" GROUP ")?::" LAST "|(?:(?:" GROUP ":){0,5}" GROUP      \
    ")?::" GROUP "|(?:(?:" GROUP ":){0,6}" GROUP ")?::)"
#define X     "[A-Za-z0-9]"
#define Y     "[A-Za-z0-9-]"
// No hyphens in third and fourth place, as in encoded labels (RFC 5890). At most 253 bytes in all.
#define FIRST X "(?:" X "|" Y X "(?:" Y "{0,59}" X ")?|" Y "-" X "(?:" Y "{0,58}" X ")?)?"
#define LABEL X "(?:" X "|" Y X "(?:" Y "{0,33}" X ")?|" Y "-" X "(?:" Y "{0,32}" X ")?)?"
#define HOST  FIRST "(?:\\." LABEL "){0,5}"
// At most 64 characters in front of the @.
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define PCT   "%" HEX HEX
#define CHAR  "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define USER  "(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" PCT ")*@"
#define NAME  "(?:[A-Za-z0-9._~!$&'()*+,;=-]|" PCT ")*"
#define TAIL  "(?:\\?(?:" CHAR "|[/?])*)?(?:#(?:" CHAR "|[/?])*)?"
#define WAY   "(?:/" CHAR "*)*"
#define NET   "//(?:" USER ")?(?:" NAME "|\\[" IPV6 "\\])(?::[0-9]{0,5})?" WAY
#define ROOT  "/(?:" CHAR "+" WAY ")?"
#define URI   "[A-Za-z][A-Za-z0-9+.-]*:(?:" NET "|" ROOT "|" CHAR "+" WAY ")?" TAIL
#define PART  "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" PCT ")"

static const struct format_row {
    const char *name, *pattern;
} format_rows[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "[Tt]" TIME},
    {"duration",
     "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|"
     "[0-9]{1,9}D)(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
     "[0-9]{1,9}S))?|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|"
     "[0-9]{1,9}S))"},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
    {"email", ATOM "{1,40}(?:\\." ATOM "{1,11}){0,2}@" HOST},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uri", URI},
    {"uri-reference", "(?:" URI "|(?:" NET "|" ROOT "|" PART "+" WAY ")?" TAIL ")"},
    {"json-pointer", "(?:/(?:[^/~]|~[01])*)*"},
};

const char *fxi_regex_of_format(const char *name)
{
    for (size_t i = 0; i < sizeof format_rows / sizeof *format_rows; i++)
        if (!strcmp(format_rows[i].name, name)) return format_rows[i].pattern;
    return NULL;
}
