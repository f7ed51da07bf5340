# SPDX-License-Identifier: Apache-2.0
"""Story plots that stay near home: lost things, quarrels, guests, noises, gifts and lessons."""

PLOTS = """
## lost
{@open}

{time} {h.his} {thing} was gone. {H} loved that {thing.n} [more than anything|very much|, although
{h.he} never said so]. {H.he} looked {spot}. {H.he} looked {spot2}. [{H.he} even looked
{spot3}.|{@aside}] There was [dust|a sleeping spider|an old biscuit|a letter from an aunt], but no
{thing.n}.

"{@worry}" said {h}. {@meet_f} "[What are you looking for|What is the matter|Why do you look so
{@mood}]?" asked {f}. "[My {thing}|My {thing.n}. It has run away]," said {h}. "[I cannot think
without it.|It was a present from my grandmother.|Without it I am only half a {h.kind}.]"

They searched together. They [asked the {e.kind}, who was no help|climbed over the wall|turned
every stone and said sorry to the beetles|walked all the way to {far}]. [{@weather}|{@aside}]
{later} {f} [began to laugh|stopped and looked at {h} for a long time|gave a small cough]. "[Tell
me|One question]," said {f}, "what is that [on your head|under your arm|that you are sitting on|in
your other hand]?"

It was the {thing}. [{H} turned as red as a beet.|"Oh," said {h}.|{H} looked at it as one looks at
an old friend on a strange road.] "[I found it|We found it]!" [cried|said] {h}. "[You are a
wonderful detective|I knew that you would help|Now we can have {@food}]," and {f} was kind enough
[to agree|not to say a word]. {@end}

## noise
{@open}

{time} {h} woke up. There was a noise: {noise.0}. It came from {far}. [{@weather}|{@feel}.]
"{@worry}" [whispered|said] {h}, and pulled the blanket over {h.his} head. But under the blanket
[it was worse|the noise was bigger|there was only {h.him} and the noise].

[So {h} took {h.his} {thing}|So {h} lit a candle, picked up {h.his} {thing}] and [went out|tiptoed
into the night|opened the door]. [{@aside}|Every shadow looked like something with teeth.] "Who is
there?" called {h}. "[I warn you|Be careful]! I have a {thing.n}, and I am not afraid to use it!"
[Nobody answered.|The noise stopped. Then it began again.|The night held its breath.]

{H} [went nearer|crept closer|took one more step, and then another]. {@feel}. {H.he} counted to
three, and because nothing happened {h.he} counted to three again. Then {h.he} [looked|held up the
light|peeped round the corner]. It was {noise.1}.

"[Is that all|So it is only you|Oh]?" said {h}, and [sat down|began to laugh|had to lean on the
{thing.n}]. [A thing with a name is only half as big.|Most monsters shrink when you bring a
light.] [After that|From that night on], whenever {h.he} heard {noise.0}, {h.he} [smiled and
turned over|said "Good night!" out loud|slept all the better]. {@end}

## guest
{@open}

{time} there was a knock at the door. {@weather} Outside stood a stranger in [a long grey coat|a
hat that dripped on all sides|shoes made of leaves]. "[May I come in|Have you room for one
more|Could I warm myself a little]?" asked the stranger. "[I have walked very far.|I will not take
up much room.|The other doors stayed shut.]"

{H} was {h.adj}, and [not used to visitors|there was not much in the pot], but {h.he} [opened the
door wide|pulled a second chair to the fire|said, "Mind the step."]. They ate {food} and drank
{@drink}. The stranger [ate seven plates|told stories until the candle gave up|admired the {thing}
on the wall|fixed the clock without touching it]. [{@aside}|It was pleasant not to be alone.]
"[You ask no questions|You have not asked my name]," said the stranger. "[A guest is a guest|Names
can wait. {Food} cannot]," said {h}.

In the morning the chair was empty. On the table lay a note: "[Thank you|You were kind] for the
{food}. I am {guest.0}, {guest.1}." {H} [read it three times|had to sit down|looked out of the
window for a long time]. "Well," said {h}, "[I should have used the good plates|no wonder about
the appetite|and I gave such a guest the chair with three legs]."

[Nobody in the village believed it.|{H.he} told only {f}, and {f} told everybody.] But ever since,
{guest.2}. {@end2}

## quarrel
{h.name} and {f.name} were [the best of friends|neighbours and friends|friends since the great
flood]. They lived in {place}, [one upstairs and one downstairs|side by side|with only a fence
between them]. {h} was {h.ak}, and {f}, who was {f.ak}, [liked {h.him} just so|was the opposite in
everything].

{time} they quarrelled. It was about {quarrel}. "[You are wrong|You never listen|That is
nonsense]!" said {h}. "[You are as stubborn as a nail|And you are wrong twice|I have never been
wrong, only early]!" said {f}. [Doors were slammed.|They drew a line of chalk between the
houses.|They stopped speaking, even about the weather.] {@aside}

[The first day was easy.|On the first day each was very proud.] On the second day {h} saw [a cloud
that looked like a {f.kind}|something funny in the street|a rainbow], and there was nobody to
tell. {h} [baked|cooked] {food}, and it was far too much for one. {@weather} On the third day {h}
[took the pot|wrapped it in a cloth|took a deep breath] and went out, and there, half way, stood
{f}, holding [a second pot|a lantern|the {thing} that {f.he} had borrowed in May].

"I came to say," said {h}. "I came to say it first," said {f}. Then they both [laughed|began to
laugh|talked at once for an hour]. "[Which of us was right|Who was right in the end]?" asked {h}
over the {food}. "[I have forgotten|You were. And so was I]," said {f}. [They wiped away the line
of chalk.|Nobody has said a word about it since.] {@moral}

## gift
{h.name} and {f.name} were [very poor and very good friends|friends who shared everything]. {H},
{h.ak}, had only one treasure: a {thing}. {f}, {f.ak}, had only one treasure too: a {thing2}. They
lived in {place}.

{time} {h} remembered that it would soon be [the birthday of {f}|midwinter, when friends give
presents]. But {h.his} purse was [empty|full of nothing|home to a family of moths]. {H.he} thought
about it [all night|while {h.he} {@habit}]. Then {h.he} took the {thing} to the market and sold
it, and bought [a case|a cushion|a small velvet box|a polishing cloth] for {f}'s {thing2}.
{@feel}.

{@weather} On the day itself {h} held out the parcel. {f} opened it and went very quiet. "[It is
beautiful|Thank you]," said {f}, "but I sold my {thing2.n} yesterday, to buy you this." And in the
other parcel was [a ribbon|a hook|a shelf|a little box] for {h}'s {thing}.

They looked at each other. [{@aside}|For a moment nobody spoke.] Then {h} began to laugh, and {f}
laughed too, until [the neighbours knocked on the wall|the lamp shook|the tears ran down]. "[We
have the best empty boxes in the world|At least nothing can get lost now]," said {h}. And they put
{food} into one and [a candle|the crumbs|a few stars] into the other. {@moral}

## stolen
[Somebody was stealing {stolen.0}.|{time} all the {stolen.0} were gone.] It happened in {place},
where {h.a} lived. First [the baker's {stolen.0}|a few {stolen.0}|the mayor's best {stolen.0}]
vanished, then everyone's. [People locked their doors.|People looked at each other sideways.]
"{@worry}" said {h}. {H.he} was only {h.akind}, but {h.he} was no coward.

{H} made a plan. {H.he} [put one of the {stolen.0} on a plate|tied a bell to a thread|strewed
flour on the floor] and hid {spot}. {@weather} [Ten o'clock struck, then eleven.|The hours went by
on tiptoe.] {later} there was a [rustle|patter|tiny cough]. {@feel}. "Got you!" cried {h}, and
[lit the lamp|jumped out|fell over the plate].

It was a {stolen.1}. "[Please|Oh dear]," said the {stolen.1}, and [began to cry|hung its head|put
everything back]. "[I never meant any harm|I am not wicked|I was going to bring them back]. I am
only {stolen.2}." [{@aside}|{H} did not know what to say.] {H} had wanted to be [angry|strict],
but it is hard to be [angry|strict] with somebody so {@mood}.

"[You could have asked|You need only have asked]," said {h}. "[Can one do that|I did not know that
one can]?" asked the {stolen.1}. [The next day|In the morning] {h} told the others, and they all
came to see, and [brought what they could spare|helped until it was finished|the mayor himself
made a speech, but a short one]. {@moral}

## skill
{@open}

[More than anything else|For as long as {h.he} could remember] {h} wanted {skill.0}. [Nobody in
{h.his} family had ever done it.|The others said it was silly.|{H.he} had dreamed of it three
nights in a row.] {time} {h.he} tried it for the first time, and {skill.2}. "[Perhaps you should
try something else|That was not quite it|Please stop]," said {f}, who [lived next door|meant
well|was holding {f.his} ears]. {@aside}

But {h} did not give up easily. {H.he} went to {e.a} who lived at {far}. "[Teach me {skill.0},
please|I should so like {skill.0}]," said {h}. The {e.kind} [closed one eye|thought until it grew
dark|looked {h.him} up and down]. "[First sweep the yard|First carry water|First sit still and
listen]," said the {e.kind}. "[That is the whole secret|The rest comes by itself|Come back in a
hundred days]."

So {h} practised. {H.he} practised in the rain and in the snow. {H.he} practised {spot}, where
nobody could see. [Some days it went well and some days it went badly, and most days it was
Tuesday.|{@weather}] {later} {h} tried again, and this time [nothing broke|it worked|even the
clock stopped to listen]. It was not perfect. It was [better than perfect: it was {h.his} own|a
little crooked, like a smile].

The whole village came to see {h} {skill.1}. "[I always believed in you|I said so from the
first]," said {f}, who had said nothing of the kind. [{H} bowed.|{@feel}.] "[The first hundred
times are the hardest|It is easy, once you have failed enough]," said {h}. {@end}

## egg
{@open}

{time} {h} found an egg {spot}. It was [as big as a {@noun}|{@tadj} with green dots|warm, and it
hummed]. "[Whose are you|Now where do you come from]?" asked {h}. The egg did not answer, as eggs
do not. {H} asked {f}. "[Boil it|Make {@food} of it|Give it back]," said {f}. "But to whom?" said
{h}.

So {h.he} [wrapped it in a scarf|put it next to the stove|sat on it, carefully] and waited. {H.he}
read to it from [the newspaper|the cookbook|a book about the sea]. {H.he} told it about {far}, and
about {food}. [{@weather}|{@aside}] {later} there was a crack. Then another. Out came {egg.0}. It
looked at {h}, and it {egg.1}.

"[Good heavens|Well, well|Hello]," said {h}. "[You must be hungry|You have my nose, I think]." It
was not always easy. It [ate the curtains|followed {h.him} into the bath|was afraid of the
{thing}|sang at four in the morning]. But when it fell asleep it [held on to {h.his} sleeve|made a
noise like a small kettle|smiled], and {h} [sat quite still|did not move until noon].

When spring came, it [had grown|looked up at the sky]. {H} opened the window, because that is what
[windows|love] is for. "[Go and have a look|Off you go]," {h.he} said. {@feel}. [It went, and at
supper time it was back.|It flew three times round the house, and then came in again, because
there was {food}.|Every year it comes back, and every year it needs a bigger chair.] {@end2}

## shadow
{@open}

{time} {h} noticed that {h.his} [shadow|echo|reflection] was gone. [{@weather}|It had been there
at breakfast.] On the floor lay a note: "[I am tired of doing everything that you do|You never ask
me what I would like|I have gone to see the world]. Do not wait up." "{@worry}" said {h}.

[Without it {h.he} felt thin.|People began to whisper.|It is strange how one misses a thing that
one has never thanked.] {H.he} went to look for it. {H.he} asked {f}, who had seen it at {far},
[dancing|eating {@food}|wearing a {@tadj} hat]. {H} went there, and there it was, [sitting alone
on a bench|leaning on a wall|looking at the water].

"[Come home|I have been looking for you everywhere]," said {h}. "Why should I?" [it said|it
asked]. "[You always go first.|You never once let me choose.|You step on me at noon.]" {H} thought
about it. {@aside} "[You are right|That is true]," {h.he} said at last. "What would you like?" It
was quiet for a while. "[I should like {skill.0}|I should like to go to the sea|On Sundays I
should like to go first]," it said.

And so it was. [On Sundays|Once a week] you can see something odd in {place.the}: [the shadow|it]
goes in front, and {h} walks behind and does what it does. Once they {skill2.2}. [They have never
been happier.|It is good for both of them.] {@moral}

## shy
{@open}

A new neighbour had come: {f.a}. {f} was so [shy|quiet] that [nobody had heard {f.his}
voice|people forgot {f.he} was there|even {f.his} shadow stayed indoors]. "[What an odd
{f.kind}|Not one of us]," said {r.a}, who [knew everything|lived across the street and had
opinions]. The others nodded. {h} did not nod.

{time} {h} [took a pot of {food}|put on a clean collar|picked some flowers, mostly dandelions,]
and knocked. The door opened as wide as a finger. "[I brought you {food}|I live over there, behind
the hedge]," said {h}. "[Why|For me]?" asked {f}. "[Because it is Tuesday|Because you are new, and
I was new once]," said {h}. [{@aside}|{@weather}]

They sat in the kitchen. [For a long time nobody said anything, and it was not bad at all.|{f}
showed {h.him} a {thing} that {f.he} had mended.] Then {f} said, very softly, "[I can do one
thing|There is something I can do]," and {f.he} [played a tune on a comb|drew the whole street
with one line|told a story so funny that the lamp shook|made a bird out of a napkin, and it flew].
{@feel}.

[That summer|Before long] everybody in {place.the} wanted to sit in that kitchen. Even {r} came,
and [asked for more|brought a cake|claimed to have liked {f.him} all along]. "[What is your
secret|How did you do it]?" they asked {h}. "[I knocked|I brought {food}]," said {h}. {@moral}
"""
