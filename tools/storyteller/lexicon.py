"""The words of the stories: who the characters are, where they live, what they own.

Only data.  Strings are templates (see template.py); {h} is the hero, {c} the character that the entry belongs to.
"""

from collections import namedtuple

# How a kind of character lives and moves.  can: what it is good at (fly, swim, dig, climb, strong, tall, small).
Kind = namedtuple("Kind", "home moved sad glad can")

KINDS = {
    "fox": Kind("den", "trotted", "tail drooped", "tail swished", "dig"),
    "rabbit": Kind("burrow", "hopped", "ears drooped", "ears stood up", "dig small"),
    "mouse": Kind("mouse hole", "scurried", "whiskers trembled", "whiskers twitched", "small climb"),
    "bear": Kind("cave", "plodded", "shoulders sank", "eyes twinkled", "strong climb"),
    "owl": Kind("hollow tree", "flew", "feathers drooped", "feathers puffed up", "fly"),
    "duck": Kind("reed nest", "waddled", "head hung low", "tail wiggled", "swim fly"),
    "hedgehog": Kind("pile of leaves", "pattered", "nose drooped", "nose wiggled", "small dig"),
    "squirrel": Kind("hollow oak", "scampered", "tail sank", "tail quivered", "climb small"),
    "badger": Kind("den", "marched", "head hung low", "eyes shone", "dig strong"),
    "otter": Kind("den", "slid and ran", "whiskers drooped", "whiskers wiggled", "swim"),
    "frog": Kind("hut of reeds", "hopped", "chin sank", "eyes shone", "swim small"),
    "turtle": Kind("hut", "crept", "head sank", "eyes sparkled", "swim"),
    "cat": Kind("house", "padded", "tail drooped", "whiskers twitched", "climb"),
    "puppy": Kind("kennel", "bounded", "tail hung low", "tail wagged", "dig"),
    "pony": Kind("stable", "galloped", "head hung low", "ears pricked up", "strong"),
    "goat": Kind("shed", "skipped", "ears drooped", "ears wiggled", "climb"),
    "pig": Kind("sty", "trotted", "ears drooped", "curly tail wiggled", "dig"),
    "hen": Kind("coop", "strutted", "feathers drooped", "feathers puffed up", "small"),
    "crow": Kind("nest", "flew", "wings drooped", "wings fluttered", "fly"),
    "sparrow": Kind("nest", "fluttered", "wings drooped", "wings fluttered", "fly small"),
    "seagull": Kind("nest", "flew", "wings drooped", "wings fluttered", "fly"),
    "deer": Kind("thicket", "bounded", "head hung low", "ears pricked up", "tall"),
    "beaver": Kind("lodge", "shuffled", "tail drooped", "tail slapped the ground", "swim strong"),
    "mole": Kind("tunnel", "shuffled", "nose drooped", "nose wiggled", "dig small"),
    "penguin": Kind("snow house", "waddled", "wings drooped", "wings flapped", "swim"),
    "monkey": Kind("tree house", "scampered", "tail drooped", "tail curled up", "climb"),
    "elephant": Kind("barn", "strode", "ears drooped", "ears flapped", "strong tall"),
    "giraffe": Kind("barn", "strode", "neck drooped", "ears wiggled", "tall"),
    "dragon": Kind("cave", "flew", "wings drooped", "wings fluttered", "fly strong"),
    "robot": Kind("workshop", "rolled", "lights went dim", "lights glowed", "strong"),
    "boy": Kind("cottage", "ran", "shoulders sank", "eyes shone", "climb"),
    "girl": Kind("cottage", "ran", "shoulders sank", "eyes shone", "climb"),
}
# Grown-up people: they help, but are never the hero.
PEOPLE = {
    "baker": Kind("bakery", "hurried", "shoulders sank", "eyes twinkled", "strong"),
    "sailor": Kind("blue house", "strode", "shoulders sank", "eyes twinkled", "swim strong climb"),
    "gardener": Kind("cottage", "walked", "shoulders sank", "eyes twinkled", "dig tall"),
    "farmer": Kind("farmhouse", "walked", "shoulders sank", "eyes twinkled", "dig strong tall"),
    "painter": Kind("attic", "walked", "shoulders sank", "eyes twinkled", "tall"),
    "shepherd": Kind("hut", "walked", "shoulders sank", "eyes twinkled", "climb tall"),
    "clockmaker": Kind("shop", "walked", "shoulders sank", "eyes twinkled", "tall"),
}

HE_NAMES = """Pip Tom Sam Max Leo Ben Finn Oscar Hugo Otto Milo Jasper Felix Toby Arlo Rufus Barnaby Theo Ned Gus
 Bruno Monty Ravi Omar Kofi Mateo Jonah Ivan Kenji Emil Bertie Rolf""".split()
SHE_NAMES = """Lily Mia Rosa Nell Daisy Ruby Clara Ivy Poppy Hazel Luna Wren Tilly Maya Nina Ada Elsie Flora Greta
 Juno Lena Anya Amara Priya Yuki Zara Bella Dora Olive Pearl Freya Nora""".split()
# Invented names teach the model to repeat what it has read.
NAME_STARTS = (
    "Ba Bo Da De Fa Fi Go Ha Jo Ka Ki La Lo Ma Mo Na Pa Pe Ra Ro Sa Si Ta Te Va Vi Wi Za Zo Tri Plo Gri Blu Sno"
    .split()
)
NAME_ENDS = "bo da del dle ko ky la lo lin mo my na nor pin po ra rik sha ta ton vi zo zy mble nk sk rp".split()

PRONOUNS = {
    "he": ("he", "him", "his", "himself"),
    "she": ("she", "her", "her", "herself"),
}

TRAITS = "little young kind cheerful curious shy clever gentle quiet merry brave careful busy friendly small".split()
HELPER_TRAITS = "old wise kind gentle friendly clever cheerful patient".split()
HOME_LOOKS = "small cosy snug warm tidy tiny crooked pretty".split()

# A place: how to be there and go there, what one does there, where things can hide, what one sees.
Place = namedtuple("Place", "name there to doing spots scenes")

PLACES = [
    Place(
        "forest",
        "in the forest",
        "into the forest",
        "listening to the birds",
        "under a heap of leaves|behind a mossy log|between the roots of an oak|inside a hollow stump",
        "The trees were tall and green.|Sunlight danced between the leaves.|The moss was as soft as a pillow.",
    ),
    Place(
        "harbour",
        "at the harbour",
        "down to the harbour",
        "watching the boats come in",
        "under an old fishing net|behind a barrel of fish|inside an empty crate|between two coils of rope",
        "The boats rocked on the water.|Gulls cried above the masts.|The air smelled of salt and tar.",
    ),
    Place(
        "river",
        "by the river",
        "down to the river",
        "throwing pebbles into the water",
        "among the tall reeds|under the stone bridge|behind a willow tree|between two wet rocks",
        "The water sang over the stones.|Silver fish jumped in the river.|Dragonflies hummed above the water.",
    ),
    Place(
        "meadow",
        "in the meadow",
        "out to the meadow",
        "picking daisies",
        "under a bush of wild roses|in the long grass|behind a haystack|beside a molehill",
        "The grass was full of flowers.|Bees hummed in the clover.|Butterflies danced over the flowers.",
    ),
    Place(
        "village",
        "in the village",
        "through the village",
        "playing by the well",
        "behind the old well|under a bench|inside a flower pot|beside the bakery door",
        "Smoke curled from every chimney.|The streets were narrow and full of cats.|The church bell rang every hour.",
    ),
    Place(
        "farm",
        "on the farm",
        "across the farm",
        "helping with the hay",
        "under a pile of straw|behind the barn|inside a milk pail|beneath the old cart",
        "The barn was red and full of hay.|Cows looked over the gate.|The fields were yellow with corn.",
    ),
    Place(
        "mountain",
        "on the mountain",
        "up the mountain",
        "looking at the clouds",
        "behind a grey rock|in a crack of the cliff|under a small pine tree|beside a cold spring",
        "The peaks were white with snow.|An eagle turned high in the sky.|The air was clear and cold.",
    ),
    Place(
        "lake",
        "by the lake",
        "around the lake",
        "skipping stones",
        "under an old rowing boat|among the water lilies|behind a big stone|beneath the wooden pier",
        "The lake was as smooth as glass.|The hills looked at themselves in the water.|Swans sailed by without a"
        " sound.",
    ),
    Place(
        "beach",
        "on the beach",
        "down to the beach",
        "building castles of sand",
        "under a heap of seaweed|behind a sand dune|in a pool between the rocks|inside a big shell",
        "The waves rolled up the sand.|Crabs ran sideways over the stones.|The sea was blue and very wide.",
    ),
    Place(
        "garden",
        "in the garden",
        "out into the garden",
        "watering the beans",
        "under a cabbage leaf|behind the rain barrel|among the pumpkins|inside a watering can",
        "The roses smelled sweet.|Beans climbed up the wall.|Snails slept under the leaves.",
    ),
    Place(
        "orchard",
        "in the orchard",
        "through the orchard",
        "counting apples",
        "under a ladder|in a basket of apples|behind the oldest pear tree|in a heap of cut grass",
        "The branches were heavy with apples.|Wasps hummed around the fallen pears.|Blossoms lay on the grass like"
        " snow.",
    ),
    Place(
        "castle",
        "in the old castle",
        "up to the old castle",
        "climbing the towers",
        "behind a suit of armour|under the stairs|inside a dusty chest|beneath a long table",
        "Flags flew from the towers.|The walls were thick and grey.|Every step made an echo.",
    ),
    Place(
        "island",
        "on a small island",
        "across the island",
        "collecting shells",
        "under a palm tree|behind a heap of driftwood|in a cave by the sea|beside a turtle's nest",
        "The sea was all around.|Palm trees waved in the wind.|The sand was white and warm.",
    ),
    Place(
        "mill",
        "at the old mill",
        "over to the old mill",
        "watching the wheel turn",
        "behind a sack of flour|under the wooden wheel|beneath a loose board|inside a broken basket",
        "The big wheel turned and turned.|White flour lay on everything.|The stream ran fast beside the wall.",
    ),
    Place(
        "market",
        "at the market",
        "over to the market",
        "looking at the stalls",
        "under a fruit stall|behind a tower of cheese|inside an empty basket|between two carts",
        "The stalls were full of bright things.|People called and laughed.|It smelled of bread and oranges.",
    ),
    Place(
        "park",
        "in the park",
        "over to the park",
        "feeding the pigeons",
        "under a park bench|behind the fountain|in a bush of lilacs|beside the pond",
        "The fountain sparkled.|Pigeons walked on the paths.|Old men played chess under the trees.",
    ),
    Place(
        "valley",
        "in a snowy valley",
        "through the snowy valley",
        "sliding down the slopes",
        "under a heap of snow|behind a frozen bush|beside a snowman|beneath a fir tree",
        "The snow lay deep and white.|Icicles hung from every roof.|The whole world was quiet and bright.",
    ),
]

# A thing to own: what it looks like, what one does with it, and whether it can break.
Thing = namedtuple("Thing", "name looks use breaks")

THINGS = [
    Thing("kite", "red|blue|yellow|paper", "fly it over the hills", True),
    Thing("ball", "red|green|striped|bouncy", "bounce it along the path", False),
    Thing("drum", "little|wooden|round", "beat it in the morning", True),
    Thing("lantern", "brass|green|round|paper", "light it in the evening", True),
    Thing("scarf", "woolly|striped|long|green", "wear it in the wind", False),
    Thing("hat", "straw|blue|pointed|woolly", "wear it on walks", False),
    Thing("whistle", "tin|silver|wooden", "blow it at sunrise", False),
    Thing("key", "golden|rusty|tiny|silver", "wear it on a string", False),
    Thing("book", "thick|blue|old|picture", "read it under a tree", False),
    Thing("map", "old|folded|painted", "study it by candlelight", False),
    Thing("bell", "silver|little|brass", "ring it at noon", False),
    Thing("flute", "wooden|bamboo|silver", "play it at sunset", True),
    Thing("spoon", "wooden|silver|shiny", "stir soup with it", False),
    Thing("basket", "willow|round|big", "carry berries in it", True),
    Thing("blanket", "woolly|patchwork|soft|blue", "sleep under it", False),
    Thing("umbrella", "red|yellow|spotted", "walk under it in the rain", True),
    Thing("boat", "toy|paper|wooden|little", "sail it on the water", True),
    Thing("compass", "brass|old|golden", "find the north with it", False),
    Thing("button", "shiny|golden|pearl|blue", "hold it up to the light", False),
    Thing("marble", "glass|green|shiny", "roll it over the floor", False),
    Thing("shell", "pink|white|spiral", "hear the sea in it", False),
    Thing("feather", "white|blue|long", "write letters with it", False),
    Thing("teapot", "blue|china|spotted|little", "make tea in it", True),
    Thing("cup", "china|yellow|painted", "drink warm milk from it", True),
    Thing("ribbon", "red|silk|purple", "wear it on holidays", False),
    Thing("mitten", "red|woolly|knitted", "wear it in the snow", False),
    Thing("boot", "rubber|brown|yellow", "wear it in the mud", False),
    Thing("coin", "gold|silver|lucky|old", "flip it in the air", False),
    Thing("watch", "pocket|silver|golden", "listen to it tick", True),
    Thing("puppet", "wooden|funny|painted", "make it dance", True),
    Thing("top", "spinning|painted|striped", "spin it on the floor", False),
    Thing("paintbrush", "fine|soft|long", "paint pictures with it", False),
    Thing("crown", "paper|golden|shiny", "wear it at dinner", True),
    Thing("sled", "wooden|red|fast", "ride it down the hill", True),
    Thing("violin", "small|old|brown", "play it after supper", True),
    Thing("star", "tin|silver|glass", "hang it in the window", True),
]

KIN = ["grandmother", "grandfather", "mother", "father", "aunt", "uncle"]
FOODS = [
    "bread",
    "cheese",
    "soup",
    "honey cake",
    "apple pie",
    "plum jam",
    "warm porridge",
    "berry tart",
    "corn bread",
    "pumpkin pie",
]
CROPS = ["pumpkin", "sunflower", "apple tree", "bean plant", "melon", "rose bush", "carrot", "strawberry plant"]
WEATHERS = ["sunny", "windy", "cloudy", "bright", "warm", "cool", "misty", "fine"]

# A skill: doing it, how it goes wrong at first, and what the teacher says.
Skill = namedtuple("Skill", "name doing fails tips need")

SKILLS = [
    Skill(
        "swim",
        "swimming",
        "{^h.he} splashed and splashed, but {h.he} only sank.|{^h.he} swallowed so much water that {h.he} coughed.",
        "Kick slowly and breathe out|Lie on the water as if it were a bed",
        "swim",
    ),
    Skill(
        "whistle",
        "whistling",
        "Only air came out.|It sounded like a leaking kettle.",
        "Make your mouth small and blow softly|Wet your lips and do not hurry",
        "",
    ),
    Skill(
        "dance",
        "dancing",
        "{^h.he} stepped on everyone's toes.|{^h.he} turned left when all the others turned right.",
        "Listen to the drum and count to four|Close your eyes and feel the music",
        "",
    ),
    Skill(
        "bake bread",
        "baking bread",
        "The dough was as hard as a stone.|The loaf came out black and flat.",
        "Be patient and let the dough rest|Use warm water and fold it gently",
        "",
    ),
    Skill(
        "juggle",
        "juggling",
        "The apples fell on {h.his} head.|Everything rolled under the table.",
        "Start with one apple, then take two|Look up and not at your feet",
        "",
    ),
    Skill(
        "paint",
        "painting",
        "The house on the paper looked like a potato.|All the colours ran together and turned brown.",
        "Look for a long time before you begin|Let one colour dry before you take the next",
        "",
    ),
    Skill(
        "sing",
        "singing",
        "The high notes came out as squeaks.|{^h.his} voice cracked in every song.",
        "Stand up straight and breathe deeply|Begin softly and listen to yourself",
        "",
    ),
    Skill(
        "skate",
        "skating",
        "{^h.he} slipped and sat down hard on the ice.|{^h.his} feet went in two different ways.",
        "Bend your knees and look ahead|Take small steps and lean forward",
        "",
    ),
    Skill(
        "read",
        "reading",
        "The letters looked like little ants.|{^h.he} mixed up all the letters.",
        "Learn one letter each day|Say each sound aloud and then join them",
        "",
    ),
    Skill(
        "climb trees",
        "climbing trees",
        "{^h.he} slid down again and bumped {h.his} nose.|{^h.he} got only as far as the first branch.",
        "Hold on tightly and test each branch|Look up, never down",
        "climb",
    ),
    Skill(
        "play the flute",
        "playing the flute",
        "It sounded like an angry goose.|Not one note was right.",
        "Blow gently and lift one finger at a time|Play one note well before you try two",
        "",
    ),
    Skill(
        "tie knots",
        "tying knots",
        "The rope fell open again and again.|Soon {h.he} had tied {h.himself} to a chair.",
        "Make a loop and go around it twice|Do it slowly and watch the end of the rope",
        "",
    ),
]

# A fear: where it strikes, what the helper says, what is true in the end, and which gift saves one from it.
Fear = namedtuple("Fear", "name strikes shows ends safe_for")

FEARS = [
    Fear(
        "the dark",
        "When the candle went out, {h} saw shadows in every corner.|At bedtime {h} pulled the covers over {h.his}"
        " head.",
        "Look up. Without the dark, nobody could see the stars|Sit with me. If we wait, our eyes will learn to see",
        "The night was full of soft lights.|The shadows were only chairs and coats.",
        "none",
    ),
    Fear(
        "thunder",
        "When the sky growled, {h} hid under the table.|At the first boom {h} began to shake.",
        "Count with me. After each flash the storm moves farther away|It is only the clouds bumping together. Let us"
        " drum back at them",
        "The storm grew smaller and smaller.|The thunder sounded like a big, silly drum.",
        "none",
    ),
    Fear(
        "deep water",
        "When the others jumped in, {h} stayed far from the edge.|{h} would not even put one toe into the water.",
        "Hold on to me. We will go only as far as you like|First we float. The water wants to carry you",
        "The water held {h.him} up like a hand.|The little waves tickled, and {h} laughed.",
        "swim",
    ),
    Fear(
        "high places",
        "When {h} looked down from the bridge, the world began to spin.|{h} could not cross the bridge with the"
        " others.",
        "Look at me and not at the ground. We take one step at a time|Stay close to me. The bridge is older and"
        " stronger than we are",
        "From the top one could see the whole world.|The bridge did not even wobble.",
        "fly",
    ),
    Fear(
        "the wind",
        "When the wind howled in the chimney, {h} covered {h.his} ears.|{h} thought that a wolf was crying at the"
        " door.",
        "Open the window. The wind only wants to sing|Come outside. Spread your arms and lean on it",
        "The wind played with the leaves like a friend.|It was only air in a hurry.",
        "none",
    ),
    Fear(
        "speaking to others",
        "When someone said hello, {h} looked at the ground.|At the market {h} hid behind a cart.",
        "Begin with one word. Hello is enough|Tell it to me first. Then tell it to one more",
        "Everyone smiled and said hello.|The words came out, one after another.",
        "none",
    ),
]
