"""The plots: what can happen to a hero.

A plot is a function from a Cast to a template (see template.py) whose paragraphs are separated by empty lines.  It asks
the cast for the people and things it needs (cast.helper, cast.thing, cast.bind) and may branch on what it got.
The slots are
    h  the hero    f  the friend or helper    p  the place    o  the thing    w  the weather    t  the time of day
the PHRASES, and what the plot binds itself.  PLOTS names every plot with the ways in which a reader may ask for it:
`who` follows "a story about a fox who", `about` follows "a story about".
"""

from collections import namedtuple

from lexicon import CROPS, FEARS, FOODS, KIN, SKILLS

OPENINGS = [
    (
        "Once upon a time, there was a {h.trait} {h.kind} named {h}. [{^h.he} lived in a {h.look} {h.home} "
        "{p.there}.|{^h.his} home was a {h.look} {h.home} {p.there}.]"
    ),
    "Once upon a time, there was a {h.trait} {h.kind} [named|called] {h} who lived {p.there}. [{p.scene}|]",
    "Once upon a time, a {h.trait} {h.kind} named {h} lived in a {h.look} {h.home} {p.there}. [{p.scene}|]",
    "Once upon a time, {p.there}, there lived a {h.trait} {h.kind} [named|called] {h}. [{p.scene}|]",
    "Here is the story of {h}, a {h.trait} {h.kind} who lived in a {h.look} {h.home} {p.there}. [{p.scene}|]",
    "A {h.trait} {h.kind} named {h} lived {p.there}. {p.scene} {^h.he} had a {h.look} {h.home}.",
    "There was once a {h.trait} {h.kind} who lived {p.there}. {^h.his} name was {h}. [{p.scene}|]",
    "Long ago, a {h.trait} {h.kind} lived {p.there}. {^h.his} name was {h}[, and everyone liked {h.him}|].",
    "{^p.there}, in a {h.look} {h.home}, lived a {h.trait} {h.kind} named {h}. [{p.scene}|]",
    "This is the story of {h}, a {h.trait} {h.kind} who lived {p.there}. [{p.scene}|]",
    "In a {h.look} {h.home} {p.there} lived {h}, a {h.trait} {h.kind}. [{p.scene}|]",
    "Far away, {p.there}, a {h.trait} {h.kind} named {h} had a {h.look} {h.home}. [{p.scene}|]",
]

PHRASES = {  # what every plot may say, each under the name of its slot
    "habits": (
        "[|{^h.he} [loved|liked] {p.doing}.|Every day {h.he} spent an hour {p.doing}.|Most of all, {h.he} liked "
        "{p.doing}.|]"
    ),
    "one_day": "[One {w} {t}|On a {w} {t}|One {t}|One {w} {t}]",
    "meet": (
        "[Just then|Soon|At that moment|After a while|A little later], {f.a} named {f} [came by|came along|passed "
        "by|stopped beside {h.him}]."
    ),
    "ask": (
        '"[Why do you look so sad|What is the matter|What is wrong|Can I help you], [little {h.kind}|my '
        'friend|little one]?" asked {f}.'
    ),
    "sad": "[{h}'s {h.sad}.|{h} felt very sad.|A tear rolled down {h.his} face.|{h} sat down and sighed.]",
    "glad": "[{h}'s {h.glad}.|{h} laughed for joy.|{h} was very happy.|{h} [jumped|danced] for joy.]",
    "thank": (
        '["Thank you, {f}!" [said|cried] {h}.|"You are a true friend, {f}!" said {h}.|{h} thanked {f} again and '
        'again.|{h} hugged {f}. "Thank you!" {h.he} said.]'
    ),
    "evening": "[That evening|That night|When the moon came up|When the stars came out], ",
    "friends": (
        "[From that day on, {h} and {f} were [best|good|close] friends.|After that, {h} and {f} met every day.|{h} "
        "and {f} were friends for ever after.|They have been friends ever since.]"
    ),
}


def lost_thing(cast):
    cast.thing()
    cast.helper()
    cast.bind(spot=cast.place.spots, kin=KIN, finder="mouse|snail|beetle|ladybird|spider")
    cast.bind(
        found=[
            'They looked {spot}, and there it was! "The wind must have carried it here," said {f}.',
            (
                'Then {f} [called|cried], "[Look|Come and see], [there is something|I see something] {spot}!" It was'
                " the {o.name}[, dusty but whole|, a little wet but whole|]."
            ),
            (
                '{^spot} they met a tiny {finder}. "I found this {o.name} and did not know whose it was," it said.'
                ' "[Please take it|Here it is]."'
            ),
            (
                '{f} asked the birds, and the birds asked the wind. At last a sparrow sang, "It lies {spot}!" {h}'
                " [looked there|reached out] and [found the {o.name}|there was the {o.name}]."
            ),
        ]
    )
    return """
        [{^h.he} had a {o} that {h.his} {kin} had given {h.him}|{^h.his} dearest treasure was a {o}|{h} owned a {o}, a
        gift from {h.his} {kin}]. {^h.he} [loved to|liked to] {o.use}.

        {one_day}, [the {o.name} was gone|{h} could not find the {o.name} anywhere|{h} saw that the {o.name} was
        missing]. "Oh [no|dear]! Where is my {o.name}?" cried {h}. {^h.he} looked [under the bed|in every corner|on
        every shelf|behind the door] and found [nothing|only dust|only an old sock]. {sad}

        {meet} {ask} "I have lost my {o}," said {h}. "[Where did you have it last|When did you see it last]?"
        "[Yesterday I was {p.doing}|I had it yesterday when I was {p.doing}]," said {h}. "Then [let us look there|we
        will look there together]," said {f}. {found}

        {glad} {thank} [{^h.he} tied the {o.name} to a string, so that it would never get lost again.|{evening}{h} put
        the {o.name} in a safe place.|Now {h} always puts the {o.name} back in its place.|{friends}]
    """


STUCK = {  # what the helper must be able to do: (how the thing gets stuck, how the hero fails, how the helper gets it)
    "fly": (
        "a gust of wind carried the {o.name} to the top of a tall tree|a magpie dropped the {o.name} on a high roof",
        "{^h.he} jumped and jumped, but it was much too high.|{^h.he} threw a stick at it, but the stick fell short.",
        "flew up, took the {o.name} gently and brought it down",
    ),
    "climb": (
        "the {o.name} was caught on a high branch|the wind blew the {o.name} onto a steep rock",
        (
            "{^h.he} tried to reach it with a pole, but the pole was too short.|{^h.he} shook and pushed, but nothing"
            " moved."
        ),
        "climbed up, step by step, and came back with the {o.name}",
    ),
    "swim": (
        "the {o.name} fell into the water and drifted away|the {o.name} rolled down the bank and into the deep water",
        (
            "{^h.he} stretched out a long stick, but could not reach it.|{^h.he} waited for the waves to bring it"
            " back, but they did not."
        ),
        "dived into the water and came back with the {o.name}",
    ),
    "dig": (
        "the {o.name} fell into a deep hole|the {o.name} slid under a heavy heap of earth",
        (
            "{^h.he} scratched at the ground, but the earth was too hard.|{^h.he} reached into the hole, but it was"
            " too deep."
        ),
        "dug and dug until the {o.name} lay in the light again",
    ),
    "small": (
        "the {o.name} slipped through a crack in the wall|the {o.name} rolled into a narrow pipe",
        "{^h.he} tried to reach it, but the gap was too narrow.|{^h.he} poked about with a twig, but it was no use.",
        "crept into the gap and pushed the {o.name} out again",
    ),
    "strong": (
        "a big stone rolled against the {o.name} and held it fast|a heavy log fell in front of the {o.name}",
        (
            "{^h.he} pushed as hard as {h.he} could, but it did not move.|{^h.he} pulled and pulled, but it was far"
            " too heavy."
        ),
        "took a deep breath and pushed it aside with one great push",
    ),
}


def stuck_thing(cast):
    cast.thing()
    useless = cast.hero_can + (["climb"] if "fly" in cast.hero_can else [])
    skill = cast.pick([skill for skill in STUCK if skill not in useless])
    stuck, fails, saves = STUCK[skill]
    cast.helper(can=skill)
    cast.bind(stuck=stuck, fails=fails, saves=saves)
    cast.bind(
        reply=[
            (
                '"You have such a [big|kind] heart," said {h}. "How can I thank you?" "Let me [use it|play with it]'
                ' for a while," said {f}. So they took turns until [sunset|it was dark].'
            ),
            '{thank} "[Everyone is good at something|Some are big and some are small, and all can help]," said {f}.',
            (
                "{thank} {h} gave {f} a [piece of cake|bowl of soup|bunch of flowers|handful of nuts], and they sat"
                " together in the [grass|shade]."
            ),
        ]
    )
    return """
        {^h.he} had a {o}, and {h.he} liked to {o.use}.

        {one_day}, {h} took {h.his} {o} {p.to}. [All at once|Suddenly|But then] {stuck}! "[Oh no|Oh dear|Help]!" cried
        {h}. {fails} {sad}

        {meet} {ask} "[My {o.name} is stuck|I cannot get my {o.name} back]," said {h}. "[That is easy for me|Leave
        that to me|I can do that]," said {f}. {^f.he} {saves}.

        {glad} {reply} [{friends}|]
    """


def great_fear(cast):
    fear = cast.wish("fear", [fear for fear in FEARS if fear.safe_for not in cast.hero_can])
    cast.helper()
    cast.bind(strikes=fear.strikes, shows=fear.shows, fear_ends=fear.ends)
    return """
        {h} [was not afraid of much|liked most things], but {h.he} was [very|so] afraid of {fear}. {strikes}

        {one_day}, {f.a} named {f} [came to visit|came for a visit|knocked at the door]. [{f} saw how {h}
        trembled.|{f} found {h} in a corner.] "[What is it|Why do you shake so], [little {h.kind}|my friend]?" asked
        {f}. "I am afraid of {fear}," whispered {h}. ["Please do not laugh."|"Is that silly?"]

        But {f} did not laugh. "[I was once afraid of it too|Everyone is afraid of something|That is nothing to be
        ashamed of]," {f.he} said. "{shows}." [{h} took a deep breath.|{h} was still shaking, but {h.he} nodded.] [Slowly,
        very slowly, {h.he} tried it.|{^h.he} held on to {f} and tried it.] {fear_ends}

        {glad} "[I did it|I am not afraid any more|It is not so bad]," {h.he} said[ softly| proudly|]. ["Being brave
        means being afraid and trying anyway," said {f}.|"You were brave," said {f}, "because you tried."|{thank}]
        [Since then, {h} has not been afraid of {fear}.|And the next time, {h} did it all alone.|{friends}]
    """


def sharing(cast):
    cast.helper()
    cast.bind(
        food=FOODS,
        hunger="had not eaten since yesterday|had lost {f.his} lunch in the river|had walked all day without a bite",
        kin=KIN,
    )
    cast.bind(
        repay=[
            (
                "A week later, a storm blew the roof off {h}'s {h.home}. The first to come was {f}, with [a hammer"
                ' and nails|a bag of tools]. "You shared with me," said {f}, "and now I will help you." By evening'
                " the roof was [as good as new|whole again]."
            ),
            (
                "The next {t}, there was a basket at {h}'s door. It was full of [ripe plums|sweet berries|fresh"
                ' nuts]. "For my kind friend," said a note. It was from {f}.'
            ),
            (
                "In the winter, {h} fell ill and could not go out. Then {f} came every day with [hot soup|warm tea]"
                " and told {h.him} funny stories until {h.he} was well."
            ),
            (
                "Half of the {food} was small, but it tasted better than a whole one. They talked and laughed until"
                " the sun went down."
            ),
        ]
    )
    return """
        {one_day}, {h}'s {kin} gave {h.him} [some fresh|a big piece of|some warm] {food}. It smelled [wonderful|so
        good]. {^h.he} took it {p.to} and [sat down to eat|looked for a nice spot to eat].

        [There sat {f.a} named {f}.|{^f.a} named {f} sat there, quite alone.] {f} [looked at the {food} and
        swallowed|looked pale and tired]. "[Are you hungry|What is the matter]?" asked {h}. "[Yes|I am so hungry],"
        said {f}, who {hunger}.

        [{h} thought for a moment.|At first {h} wanted to keep it all.|{h} looked at {h.his} food. It was not very
        much.] Then {h.he} [broke the {food} in two|cut the {food} in half] and said, "[Here, half of it is for
        you|Please share it with me]." {f}'s {f.glad}. "[You are very kind|That is the best I ever ate|I will not
        forget this]," said {f}.

        {repay} [{friends}|{h} was glad that {h.he} had shared.|What we share comes back to us.]
    """


def quarrel(cast):
    cast.thing(breaks=True)
    cast.helper(peer=True)
    cast.bind(
        mend=[
            "{h} held the pieces and {f} brought the glue. They worked [all afternoon|until supper]",
            "{f} found a needle and thread, and {h} found some string. They tied and stitched and glued",
            "They carried the pieces home and fitted them together, one by one",
        ]
    )
    return """
        {^h.his} [neighbour|best friend] was {f.a} named {f}. [They played together every day.|The two did everything
        together.]

        {one_day}, they found a {o} {p.there}. "[It is mine|I saw it first]!" cried {h}. "No, [it is mine|I saw it
        first]!" cried {f}. {h} pulled on one side and {f} pulled on the other. [Crack|Snap]! The {o.name} broke.

        [They both fell silent.|For a long time nobody said a word.] ["Look what we have done," said {f}.|"Now nobody
        has it," said {f}.] {h} looked at the pieces, and {h.his} {h.sad}. "I am sorry," {h.he} said. "[You can have
        it|I should have let you try it first|I should not have pulled]." "I am sorry too," said {f}. "[Let us mend it
        together|Maybe we can mend it]."

        {mend}, and [at last|in the end] the {o.name} was whole again. [{h} had it in the morning, and {f} had it in
        the evening.|After that they took turns, one day {h} and one day {f}.|"You first," said {h}. "No, you first,"
        said {f}, and they both laughed.] [A friend is worth more than a {o.name}.|They never quarrelled about it
        again.|It was more fun together.]
    """


def lost_way(cast):
    cast.helper()
    cast.weather(cast.pick(["misty", "snowy", "stormy", "rainy"]))
    cast.bind(light="a lantern|a small light|a warm yellow light", sound="a bell|a song|a soft whistle")
    cast.bind(
        guide=[
            "Then {h.he} saw {light} between the [trees|shadows]. It was {f.a} named {f}, who was on the way home.",
            "Then {h.he} heard {sound} in the distance and followed it. It led {h.him} to {f.a} named {f}.",
            "[In the end|At last] {h.he} knocked at a strange door. {^f.a} named {f} opened it.",
        ]
    )
    cast.bind(
        home=[
            (
                "They walked side by side, and {f} [told a funny story|sang a song] so that {h} forgot to be afraid."
                " When they came around the last bend, there was {h}'s {h.home}."
            ),
            (
                "{f} gave {h.him} [hot tea|a bowl of soup] and a dry blanket. In the morning, the sky was blue, and"
                " {f} showed {h.him} the way home."
            ),
            (
                '"[Follow the stream|Keep the hill on your left|Look for the north star]," said {f}, "and you will'
                " always find your way.\" They followed it together, and soon they stood before {h}'s {h.home}."
            ),
        ]
    )
    return """
        One {w} {t}, {h} went {p.to}[ to look for a present| to bring a letter to a friend| to visit {h.his} aunt|].
        [{^h.he} was so busy {p.doing} that {h.he} forgot the time.|{^h.he} walked farther than ever before.] [When
        {h.he} looked up, everything looked the same.|Soon {h.he} could not see the path any more.]

        "[Which way is home|Where am I]?" said {h}. {^h.he} went left, and {h.he} went right, but [nothing looked
        right|{h.he} only came back to the same old tree]. It grew [dark|cold and dark]. {sad} {guide}

        "[I am lost|I cannot find my way home]," said {h}. "[Do not worry|Do not be afraid|Dry your tears], [little
        {h.kind}|little one]," said {f}. "[I know every path here|I have lived here all my life|Nobody stays lost for
        ever]." {home}

        {thank} [The next day, {h} brought {f} a [cake|jar of honey|bunch of flowers].|Since then, {h} always looks
        back at the path, so that {h.he} knows the way home.|{evening}{h} lay in bed and was glad to be
        home.|{friends}]
    """


def broken_thing(cast):
    cast.thing(breaks=True)
    cast.helper()
    return """
        Next door lived {f.a} named {f}. {^f.he} had a {o}, and [{f.he} loved it dearly|{f.he} was very proud of
        it|nobody was allowed to touch it].

        {one_day}, {f} was out, and {h} wanted to see the {o.name} up close. [{^h.he} took it from the shelf.|{^h.he}
        picked it up with great care.] But it slipped and fell, and [it broke in two|it broke on the floor]. "Oh no!"
        whispered {h}. [{^h.he} hid the pieces under a rug.|{^h.he} hid the pieces in a box.|{^h.he} pushed the pieces
        under a chair.]

        [All day|All night|At supper] {h} could not [eat|think of anything else|sit still]. When {f} came and asked,
        "Have you seen my {o.name}?" {h} [looked at the floor|turned red|did not know what to say]. [At first {h.he}
        wanted to say no.|It would be easy to blame the wind.|The words were hard to find.] But then {h.he} said, "[I
        broke it|It was me]. I am so sorry."

        {f} was [quiet for a moment|silent for a while]. "[I am sad about it|It is a pity]," {f.he} said, "but I am
        glad that you told me the truth." [They mended it together with glue and string.|{h} worked in {f}'s garden
        for a week, and then they bought a new one together.|Together they carried the pieces home and glued them.]
        [It had a crack now, and {f} said that the crack would always remind them how brave {h} had been.|{h} felt as
        light as a feather again.|The truth had been hard to say, but it felt much better than a lie.]
    """


def learning(cast):
    skill = cast.wish("skill", [s for s in SKILLS if s.need not in cast.hero_can])
    cast.helper(can=skill.need)
    cast.bind(
        doing=skill.doing,
        fails=skill.fails,
        tip=skill.tips,
        feast="spring fair|summer feast|harvest feast|lantern night|winter fair",
    )
    return """
        [More than anything, {h} wanted to {skill}.|{^h.his} greatest wish was to {skill}.|{h} had one dream: {h.he}
        wanted to {skill}.] {^h.he} tried it every [morning|day]. {fails} ["I will never learn it," {h.he}
        sighed.|Some of the others laughed.|"It is too hard," said {h}.]

        {one_day}, {f.a} named {f} [was watching|saw {h.him}|came by]. "[May I show you something|Shall I help you]?"
        asked {f}. "[Yes, please|Oh, yes]," said {h}. "{tip}," said {f}. ["That is how I learned it."|"I made a
        hundred mistakes before I could do it."|"And do not give up."]

        [{h} tried it again.|So {h} tried once more.] [The first day it went wrong.|At first it did not work.] [The
        second day it went a little better.|But each day it went a little better.] {h} practised [in the morning and
        in the evening|in sun and rain|for a whole month], and {f} [never lost patience|clapped at every small step].

        Then came the {feast}. [Everybody|The whole neighbourhood] was there. {h}'s heart beat fast, but [{h.he}
        thought of what {f} had said|{f} smiled at {h.him}]. And [now|this time] it worked! Everyone
        [cheered|clapped]. {glad} ["You see," said {f}, "you only had to keep trying."|"I could not do it," said {h},
        "and now I can."|Now {h} teaches {doing} to the little ones.|Nothing is too hard for those who keep trying.]
    """


def gift(cast):
    cast.thing(breaks=True)
    cast.helper(peer=True)
    cast.bind(
        rain=(
            "it began to rain, and the paint ran off|{h} tripped, and it fell into a puddle|a gust of wind tore the"
            " paper off"
        )
    )
    cast.bind(
        ending=[
            (
                '"[It is not so pretty any more|It got spoiled on the way]," said {h}, and {h.he} wanted to hide it.'
                ' But {f} [smiled|laughed with joy]. "You made it for me," {f.he} said, "and that makes it the best'
                ' gift of all."'
            ),
            (
                'But when {f} opened it, {f.his} {f.glad}. "[A {o}|Oh, a {o}]! How did you know?" {f.he} asked. "I '
                'listened," said {h}.'
            ),
            (
                '{f} looked at it for a long time. "[Nobody ever made something for me before|This is just what I'
                ' wished for]," {f.he} said.'
            ),
        ]
    )
    return """
        {^h.his} best friend was {f.a} named {f}. [Tomorrow was {f}'s birthday.|Soon it would be {f}'s birthday.]
        "What can I give {f.him}?" thought {h}. [{^h.he} had no money.|There were only two coins in {h.his} box.]
        [Then {h.he} had an idea.|Then {h.he} remembered that {f} had always wanted a {o}.]

        {h} [wanted|decided] to make a {o}. [First {h.he} asked the carpenter for some scraps.|First {h.he} gathered
        wood and string.|{^h.he} looked for everything {h.he} needed {p.there}.] [Then {h.he} worked until late in the
        night.|{^h.he} cut and glued and painted all day.] [The {o.name} was not perfect, but it was made with
        love.|At last it was done, and it shone.]

        [The next {t}|On the birthday] {h} [{h.moved}|set out] to {f}'s {f.home}. On the way {rain}. "Oh no," said
        {h}, and {h.his} {h.sad}. {ending}

        [They ate cake and danced until the moon came up.|They [tried it out|played with it] right away.|{f} put it on
        the best shelf, where everyone could see it.] [{friends}|{h} was even happier than {f}.|A gift from the heart
        is never too small.]
    """


def race(cast):
    cast.helper(peer=True)
    cast.bind(
        prize="a golden cup|a big cake|a silver medal|a wreath of flowers",
        rival="hare|weasel|goose|rooster|stag",
        hurt="had hurt {f.his} foot on a thorn|had fallen into a ditch|was stuck in the mud",
    )
    cast.bind(
        end=[
            (
                "So {h} came in last. But when the judge heard why, she [shook her head at the rest and"
                ' smiled|smiled]. "The {rival} was the fastest," she said, "but {h} was the kindest." And so both of'
                " them got a prize."
            ),
            (
                "They came in last, side by side. But everyone [clapped|cheered] louder for them than for the"
                ' {rival}. "You could have won," said {f}. "I did win," said {h}. "I won a friend."'
            ),
            (
                "Together they found a short path over the hill. They crossed the line just before the {rival}, who"
                " had stopped to boast. The prize was {prize}, and they shared it."
            ),
        ]
    )
    return """
        Every year there was a great race {p.there}. The prize was {prize}. "[I will win|Nobody is as fast as I am],"
        said the {rival}[ and laughed|]. {h} [was not very fast, but {h.he} wanted to try|had trained for weeks].

        On the day of the race, [the sky was blue|flags waved everywhere|everyone came to watch]. "One, two, three,
        go!" cried the judge. [Off they went.|They all set off at once.] The {rival} was far ahead, and {h} [{h.moved}
        as fast as {h.he} could|was doing well].

        Then {h} heard somebody [cry|call for help]. It was {f.a} named {f}, who {hurt}. The others went past. ["If I
        stop, I will lose," thought {h}.|{h} looked at the path and then at {f}.] But {h.he} [stopped|turned around]
        and said, "[Hold on to me|Lean on me]. I will help you." "[Thank you|You are very kind]," said {f}.

        {end} [{friends}|{h} went home tired and happy.|There are better things than coming first.]
    """


def planting(cast):
    cast.helper()
    crop = cast.wish("crop", CROPS)
    cast.bind(pest="snails|beetles|caterpillars", gives="a tiny seed|a seed as small as a crumb|one brown seed")
    cast.bind(
        trouble=[
            (
                "Then came a dry summer. Every evening {h} carried water from the well, drop by drop, and {f} [helped"
                " with a second bucket|carried the other bucket]."
            ),
            (
                'Then hungry {pest} came. {h} was [angry|worried], but {f} said, "[Give them a little patch of their '
                'own|Plant some lettuce for them over there]." {h} did so, and they left the {crop} alone.'
            ),
            (
                "Then one night it was very cold. {h} [took {h.his} own blanket|covered it with straw] and sat beside"
                " it until the sun came up."
            ),
        ]
    )
    return """
        {one_day}, {f.a} named {f} gave {h} {gives}. "[If you take good care of it|If you are patient], it will become
        a {crop}," said {f}. {h} [planted it|put it into the earth] beside the {h.home} and gave it some water.

        The next day, {h} [looked|went to see], but [there was nothing|the ground was bare]. "[Is it asleep|Why does
        it not grow]?" {h.he} asked. [{^h.he} wanted to dig it up again.|{^h.he} stamped on the ground.] "[Wait|Be
        patient]," said {f}. "[Good things take time|It is working where you cannot see it]." So {h} watered it, and
        [sang to it|talked to it], and waited.

        [One morning|After ten days] there was a [tiny green leaf|little green tip]! {glad} {trouble} [And the {crop}
        grew and grew.|Week by week it grew taller.]

        In autumn it was the [biggest|most beautiful] {crop} {p.there}. [People came from far away to see
        it.|Everybody stopped to look at it.] "[You did this|That was your work]," said {f}. "[We did it together|You
        taught me to wait]," said {h}. [They invited all the neighbours to a feast.|{h} kept one seed and gave it to a
        little neighbour.|Since then, {h} has been much better at waiting.|Patience makes the sweetest fruit.]
    """


def newcomer(cast):
    cast.helper(peer=True)
    cast.bind(game="hide and seek|tag|ball|marbles|leapfrog")
    cast.bind(
        turn=[
            (
                '"We need one more," said {f}. "[Would you like to play|Will you join us]?" {h} [looked up|could'
                ' hardly believe it]. "Yes, please," {h.he} whispered.'
            ),
            (
                '"I was new here once," said {f}. "I sat on the very same stone." {f} sat down beside {h.him}, and'
                " they [shared an apple|shared a bun|looked at the clouds]."
            ),
            (
                '"What are you drawing in the sand?" asked {f}. "[My old home|A ship]," said {h}. "It is beautiful,"'
                ' said {f}. "Can you show me how to do it?"'
            ),
        ]
    )
    return """
        {h} was new there and did not know anybody. [{^h.he} missed {h.his} old friends.|Everything was strange to
        {h.him}.] [The others|The young ones] played {game} [all day long|every afternoon], and {h} watched from far
        away. "[What if they do not want me|What if they laugh at me]?" {h.he} thought.

        {one_day}, {h} sat alone {p.there}. {sad} [Then|After a while] one of the players came over. It was {f.a}
        named {f}. "Hello," said {f}. "[What is your name|Who are you]?" "[I am|My name is] {h}," said {h} [very
        softly|and turned red].

        {turn} [Soon they were laughing together.|{f} took {h.him} along and told everyone {h.his} name.] {h} turned
        out to be [very good at {game}|the best at {game}], and [everyone cheered|the others wanted {h.him} on their
        side].

        {evening}{h} [went home and told {h.his} family everything|could not stop smiling|was not lonely any more].
        [{friends}|A week later, another stranger came. And who was the first to say hello? It was {h}.|One kind word
        can open a door.]
    """


def building(cast):
    cast.helper(can=cast.pick(["strong", "swim", "dig"]))
    cast.weather(cast.pick(["rainy", "stormy", "windy"]))
    thing, use = cast.pick(
        [
            ("bridge", "cross the stream"),
            ("dam", "keep the water back"),
            ("wall", "keep the wind out"),
            ("hut", "sleep in the dry"),
            ("raft", "cross the water"),
        ]
    )
    cast.bind(
        thing=thing,
        use=use,
        mishap="the first {thing} fell down|the {thing} leaned to one side and broke|everything slid apart",
    )
    return """
        One {w} {t}, [a great storm came|the water rose and rose|a flood came down from the hills]. {h}'s [path was
        gone|old {thing} was washed away]. "[We need a new {thing}|Someone must build a {thing}]," said {h}, "so that
        everyone can {use}."

        {h} [began all alone|set to work]. {^h.he} carried [branches|stones and sticks], but {mishap}. [{^h.he} tried
        again, and it happened again.|{^h.he} tried three times.] {sad}

        {meet} "[What are you building?|That looks like hard work!]" said {f}. "[It is a {thing}|It should be a
        {thing}], but I cannot do it alone," said {h}. "[Nobody can|I could not do it alone either]," said {f}. "[Let
        me carry the heavy ones|I will help you], and you [tie them fast|tell me where they go]."

        They worked [side by side|all day and all the next day]. [Other neighbours came to help.|Even the smallest
        mouse brought a twig.] [At sunset|At last] the {thing} stood [straight and strong|firm in the wind]. Now
        everyone could {use}. {glad} ["Many hands make light work," said {f}.|"Alone I built a heap," said {h}, "but
        together we built a {thing}."|They had a party, and {h} and {f} danced.|{friends}]
    """


DANGERS = [  # the place, the warning, what happens there, how somebody gets the hero out
    (
        "the thin ice",
        "It cannot carry you",
        "the ice cracked, and {h} fell into the cold water",
        "lay down flat and held out a long branch",
    ),
    (
        "the dark cave",
        "It has a hundred turns",
        "{h} turned left and right and could not find the way out",
        "called out again and again, so that {h} could follow the voice",
    ),
    (
        "the deep swamp",
        "The ground is soft there",
        "{h} sank into the mud up to the middle",
        "laid a long plank over the mud",
    ),
    (
        "the thorn bushes",
        "They do not let go",
        "{h} was caught in the thorns from head to foot",
        "cut through the twigs, one after another",
    ),
]
DEEP_DANGERS = [  # only for those who cannot fly
    (
        "the steep cliff",
        "The stones are loose",
        "a stone slipped, and {h} hung from a root",
        "let down a strong rope",
    ),
    (
        "the old well",
        "The boards are rotten",
        "a board broke, and {h} fell into the well",
        "let down a bucket on a rope and pulled",
    ),
]


def warning(cast):
    cast.helper()
    dangers = DANGERS if "fly" in cast.hero_can else DANGERS + DEEP_DANGERS
    danger, told, trouble, rescue = cast.pick(dangers)
    cast.bind(danger=danger, told=told, trouble=trouble, rescue=rescue, kin=KIN)
    return """
        "Do not go to {danger}," {h.his} {kin} always said. "{told}." But {h} [thought, "I am big enough."|wanted to
        see it just once.|did not like to be told what to do.]

        {one_day}, when nobody was looking, {h} {h.moved} straight to {danger}. [At first all went well.|It was very
        quiet there.] [But then|All of a sudden] {trouble}. "Help! Help!" cried {h}. [{^h.his} heart beat
        wildly.|Nobody answered.|{^h.he} was very frightened.]

        [By good luck|Luckily], {f.a} named {f} [heard the cries|was not far away]. "[Hold on|Stay calm|Do not move],
        [little {h.kind}|little one]!" [called|shouted] {f}. {^f.he} {rescue}. [Bit by bit|Inch by inch|Slowly] {h}
        came out, [wet and shaking|dirty and tired].

        {f} [brought {h.him} home|wrapped {h.him} in a coat and took {h.him} home]. "I am sorry," {h} said to {h.his}
        {kin}. "[I should have listened|Now I know why you warned me]." [{^h.his} {kin} was not angry, only glad that
        {h.he} was safe.|{^h.his} {kin} hugged {h.him} for a long time.] [{thank}|] [Since then, {h} listens when
        someone warns {h.him}.|{h} never went near {danger} again.|A warning is a kind of gift.]
    """


def mystery(cast):
    cast.helper(peer=True)
    cast.bind(
        missing=["apples", "carrots", "biscuits", "socks", "spoons", "buns"],
        clue="tiny footprints|a trail of crumbs|one white feather|a line of small holes",
        cub="baby owl|tiny mouse|lost kitten|little hedgehog|young crow",
    )
    cast.bind(
        reason=[
            '"Please do not be angry," it said. "I was cold and all alone."',
            '"I did not know that they were yours," it said. "I have no home."',
            '"I only wanted to play," it said, "but I did not dare to ask."',
        ]
    )
    return """
        {one_day}, {h} saw that some of {h.his} {missing} were gone. The next day, even more {missing} were missing.
        "[Who can it be?|This is very strange!]" said {h}. {^h.he} told {h.his} friend, {f.a} named {f}. "[A
        mystery|How exciting]!" said {f}. "[Let us find out|We will solve it together]."

        [First they looked for clues.|They searched the whole place.] Outside the {h.home} they found {clue}. [That
        night they hid and waited.|When it was dark, they hid behind a bush.] ["Shh," whispered {f}.|"Did you hear
        that?" whispered {h}.] [Something rustled.|Something small moved in the moonlight.]

        {h} held up a lamp, and there sat a {cub} with [an armful|a big heap] of {missing}! It [trembled|blinked].
        {reason} {h} and {f} looked at each other. {h} was not angry any more.

        "[Next time, just ask|You only have to ask]," said {h}. [{^h.he} made a warm bed for the {cub} out of
        straw.|They gave the {cub} supper and a soft bed.|"You may stay with us," said {f}.] [In the morning, the
        three of them had breakfast together.|From then on there were three friends instead of two.|And nothing was
        ever missing again.|So the mystery ended with a new friend.]
    """


Plot = namedtuple("Plot", "build who about")

PLOTS = [
    Plot(
        lost_thing,
        "loses {h.his} {o.name}|loses a {o.name}|has lost a {o.name}|looks for a lost {o.name}",
        "a lost {o.name}|losing and finding a {o.name}|something lost and found",
    ),
    Plot(
        stuck_thing,
        "cannot reach {h.his} {o.name}|has a {o.name} that gets stuck|gets {h.his} {o.name} back",
        "a {o.name} that gets stuck|a {o.name}",
    ),
    Plot(
        great_fear,
        "is afraid of {fear}|fears {fear}|learns to be brave|is scared of {fear}",
        "being brave|being afraid of {fear}|courage",
    ),
    Plot(
        sharing,
        "shares {h.his} food|learns to share|meets a hungry stranger|helps a hungry friend",
        "sharing|kindness|sharing food",
    ),
    Plot(
        quarrel,
        "quarrels with a friend|fights over a {o.name}|wants a {o.name}",
        "two friends who quarrel|a quarrel|a broken {o.name}",
    ),
    Plot(lost_way, "gets lost|loses {h.his} way|cannot find the way home", "getting lost|finding the way home"),
    Plot(
        broken_thing,
        "breaks a {o.name}|tells the truth|learns to be honest",
        "telling the truth|being honest|a broken {o.name}",
    ),
    Plot(
        learning,
        "learns to {skill}|wants to {skill}|cannot {skill}",
        "learning to {skill}|never giving up|practice",
    ),
    Plot(
        gift,
        "makes a gift|makes a {o.name} for a friend|goes to a birthday party",
        "a birthday|a gift|a birthday gift",
    ),
    Plot(race, "runs a race|takes part in a race|helps someone in a race", "a race|a great race"),
    Plot(planting, "plants a seed|grows a {crop}|learns to be patient", "a {crop}|patience|a tiny seed"),
    Plot(
        newcomer,
        "has no friends|finds a friend|is new and shy|feels lonely",
        "making friends|a new friend|friendship",
    ),
    Plot(
        building,
        "builds something|builds something after a storm|needs help with some hard work",
        "working together|helping each other|a storm",
    ),
    Plot(
        warning,
        "does not listen|gets into danger|learns to listen",
        "listening to good advice|a dangerous place|an adventure",
    ),
    Plot(
        mystery,
        "solves a mystery|looks for a thief|finds out a secret",
        "a mystery|a secret|a thief in the night",
    ),
]
