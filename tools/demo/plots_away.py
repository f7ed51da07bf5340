# SPDX-License-Identifier: Apache-2.0
"""Story plots that lead out of the house: journeys, bargains, contests, courts, seas and wishes."""

PLOTS = """
## wish
{@open}

{time}, at {far}, {h} helped {e.a} who was [stuck in a fence|caught in a net|looking for its
glasses]. "[You have a good heart|That was kind]," said the {e.kind}. "[I can grant you a wish|You
may have one wish]. But think first." {H} did not think first. "I wish {wish.0}!" {h.he} said.

[There was a flash, and a smell of {@food}.|Nothing happened. Then everything did.|The {e.kind}
sighed and nodded.] And from that hour {wish.1}. [{@aside}|At first it was wonderful.] {h} was
[happy as a king|delighted] for [a whole day|nearly a week]. {h.He} told {f} about it, and {f}
[was impressed|only said, "Hm."].

But then {wish.2}. {@weather} {h} [lay awake|sat on the doorstep] and thought of the old days,
when {h.he} {@habit}. "{@worry}" {h.he} said. So {h.he} went back to {far}. "[Take it back|I made
a mistake], please," said {h}. "[They all come back|I kept the receipt]," said the {e.kind}, and
[laughed|clapped twice|blew on its spectacles].

And everything was as before: [the cold feet, the small house and the {food}|no more and no less].
Only {h} was different. {H.he} [looked at it all as if it were new|had nothing left to wish
for|never again said "I wish" before breakfast]. {@end}

## trade
{@open}

{H.he} owned nothing but a {thing}. {time} {h.he} went to the market and met {f.a}. "[I need a
{thing.n}|Just what I was looking for]!" said {f}. "I will give you my {thing2} for it." {H}
[thought it over|scratched {h.his} head] and said yes, for [it was a fine day|a change is a
change].

But what can you do with a {thing2}? [{@weather}|{@detour}] On the road stood {e.a}, looking
{@mood}. "[Ah, a {thing2.n}|That {thing2.n} would save me]," said the {e.kind}, and gave {h.him}
{food} for it, still warm. {H} walked on. At {far} sat [a child|an old soldier|a fiddler] who had
not eaten since yesterday. {H} looked at the {food}. {H.he} [sighed|smiled]. "[Take it|Here,
eat]," said {h}, "it is best while it is warm."

"[I have nothing to give you but this|Then take this from me]," was the answer, and in {h.his}
hand lay a {thing}. It was the very same {thing.n} that {h} had [sold|traded] in the morning. [{F}
had lost it on the way.|Nobody knew how it had got there.] {H} laughed [out loud|all the way
home].

"[So what did you earn today|And, did you make a good bargain]?" they asked at home. "[A long
walk, a good smell and three friends| Everything I had before, and a story]," said {h}. {@moral}

## contest
{@open}

In the same village lived {r.a}, who was [very vain|the greatest boaster for miles]. "[Nobody is
as good as I am|I win everything]," said {r} [every day|to anyone who would listen]. {time} a
notice hung on the church door. There was to be {contest.0}, and the prize was [a {thing}|a year
of {food}|a cheese as big as a wheel].

"[You|Who, you]?" said {r}, when {h} put down {h.his} name. "[You will come in last|A {h.kind} has
never won anything]!" {@aside} "[Perhaps|That may be]," said {h}. "[I only want to join in|But I
like the cake afterwards]." {@feel}.

On the great day everybody came. {@weather} [The mayor waved a handkerchief.|A drum was beaten.]
{R} began [in great style|with a bow to all sides] and was far ahead. But then {r.he} {contest.1}.
And meanwhile {contest.2}. [It was so quiet that you could hear a button drop.|First one clapped,
then three, then everybody.]

"The winner," said the mayor, "is {h}!" {R} [stamped with rage|went pale|hid behind a tree]. But
{h} [went over to {r.him}|held out {h.his} hand] and said, "[Half of the prize is yours|You were
much better than I. Come, let us share it]." {r} [was quiet for the first time in {r.his} life|did
not know where to look, and then {r.he} smiled]. {@end}

## question
{@open}

There was one thing that {h} wanted to know: {question.0}. {H.he} asked {f}. "[What a question|Eat
your supper]," said {f}. {H.he} asked [the teacher, who had to go|the mayor, who made a speech
about something else|the cat, who yawned]. {time} {h} packed a {thing} and some {food} and set off
to ask the wise {e.kind} at {far}.

The way was long. {@weather} {H} crossed [a river that spoke in its sleep|a field of
thistles|seven hills, each a bit steeper than it looked]. {H.he} met a [beggar|lost goose|tired
donkey], and shared the {food}. [{@detour}|At night {h.he} slept in the hay.] {later} {h.he} stood
before the {e.kind}. {@feel}.

"[I have come a long way|Wise one]," said {h}. "Please tell me {question.0}." The {e.kind} [was
silent for an hour|scratched its chin| poured some {drink}]. Then the answer came. "{question.1}"
{H} [waited for more|wrote it down|opened {h.his} mouth and closed it again]. "Is that all?" asked
{h}. "[For today|What did you expect, for free]," said the {e.kind}.

On the way home {h} thought about it, [and by the river {h.he} began to laugh|step by step, and it
got better]. "And?" asked {f}. "[Did it help|What did you find out]?" "[I am not any wiser|I
forgot to ask the other thing]," said {h}, "but [the walk was lovely|I made a friend on the way|my
feet have learned a lot]." {@end}

## seed
{@open}

{H} had a garden, but it was [the smallest in the land|no bigger than a tablecloth|all stones].
{time} {h.he} planted {seed.0}. "[Nothing will come of that|That is not how gardens work]!" said
{r.a}, looking over the wall. "[We shall see|Perhaps not]," said {h}, and watered it.

Nothing came up the first week. Nothing came up the second week, [but it was a hopeful sort of
nothing|except a thistle, who said sorry]. {@weather} {H} [sang to it|told it the news|sat beside
it every evening]. {R} [laughed|shook {r.his} head]. [{@aside}|"{@worry}" said {h}, but {h.he} did
not stop.]

{later} there was a green tip. {@feel}. It grew as high as a {thing.n}, then as high as the house.
By summer it was {seed.1}. People came from {far} to see it. They stood [with open mouths|with
their hats in their hands]. "[How did you do it|What is the trick]?" asked {r}, in a very small
voice.

"[You put something in, and then you wait|It was only {seed.0}, and a little patience]," said {h}.
{H.he} gave {r} a cutting in a {thing2.n}. [Now there are two of them|And the wall between the
gardens was taken down that autumn], and [on warm evenings they sit in the shade, drinking
{drink}|the bees cannot decide]. {@moral}

## door
{@open}

{time} {h} found a little door {spot}. It [was no higher than a {@noun}|had not been there the day
before]. {H} had lived in that house for years, and [knew every mouse by name|had never seen it].
On it hung a sign: "[Please knock|Not today|Pull, do not push]." [{@aside}|{@feel}.]

{H} [knocked|pulled|turned the handle]. Behind it was {behind.0}. "[Excuse me|Good evening|How do
you do]," said {h}, who was always polite to the unexpected. And then {behind.1}. [It smelled of
{food}.|A clock ticked backwards.|{@weather}]

{H} stayed [an hour, or perhaps a year|until {h.his} candle was short|until somebody yawned].
{H.he} [learned a song with no words|was given a {thing} for the way|lost at chess against a
mouse]. "[Come back soon|Mind the step]," [they called|said a voice], when {h} went home. {H.he}
ran to {f} to tell {f.him} about it. "[Where is it|What did you see]?" said {f}.

But [the wall was smooth and white|where the door had been there was only a draught|there was
nothing but wallpaper]. "[You dreamed it|You need more sleep]," said {f}. {H} put {h.his} hand in
{h.his} pocket. There was [a crumb of {food}|a {thing}|a ticket, punched twice]. "[Perhaps|I dare
say]," said {h}, and smiled. {@end2}

## royal
Far away, in {place}, ruled a {ruler} who {royal.0}. [Doctors came with pills.|Seven professors
were asked, and gave eight answers.] Nothing helped. A notice was put up: "Who can help shall have
half the kingdom[, or as much {food} as a horse can pull|, the smaller half|]." {time} {h.a} read
it. [{H} was {h.adj}, but {h.he} was not stupid.|"{@worry}" said {h}.]

At the gate stood {r.a}, who said, "[What does a {h.kind} want here|The line ends over there]?"
{R} went first. {r.He} [recited forty poems|played the tuba|brought a dancing bear], and it got
worse. {@aside} Then it was {h}'s turn. {@feel}.

{H} had no plan at all. {H.he} bowed, and [slipped on the polished floor|trod on the royal
carpet|hit {h.his} head on a lamp], and {@mishap}. There was a terrible silence. {H} said the only
thing that came to {h.him}: "[Would you like some {food}|Does anyone else smell {food}|When did
you last go for a walk]?" [A guard giggled.|Nobody had ever asked that before.]

And the {ruler} smiled, and said, "[Come here|Nobody ever asked me that]." And before the sun went
down, the {ruler} {royal.1}. "[Half the kingdom is yours|Take your half]!" they cried. "[A kingdom
is a lot of dusting|What should I do with half of it]," said {h}. "[I would rather have a
{thing}|Just a bed for the night, please]." [And {r} carried {h.his} bag.|{@weather}] {@end}

## letter
{@open}

{time} {h} was so [lonely|bored|full of thoughts] that {h.he} wrote a letter to {addressee.0}. [It
took all day.|{H.he} used {h.his} best ink.] "Dear friend," wrote {h}. "[How are you|Are you
well]? I am {@mood}. [We had {food} today.|I often think of you.|My roof leaks.] Please write
back. Yours, {h}."

But how does one post such a letter? {f} said, "[Leave it on the roof|Give it to the wind|Put it
in a bottle]." So {h} did. {@weather} {H.he} waited one day. {H.he} waited a week.
[{@aside}|Nothing came but a bill for candles.] "[You cannot write to {addressee.0}|They do not
answer]," said {r.a}, who always knew best.

{later} something lay on the doorstep. It was [damp|cold to the touch|wrapped in a leaf], and on
it stood {h}'s name. {@feel}. {H.he} opened it with a {noun}. It said: "{addressee.1}"

{H} read it [aloud to the kettle|until {h.he} knew it by heart]. Then {h.he} [got out more
paper|sat down and sharpened the pencil]. [They have been writing ever since.|It is the thickest
pile of letters in {place.the}.] And {r}? {r.He} was seen last night, [on a ladder, with an
envelope|looking for a stamp]. {@moral}

## machine
{@open}

{H} was an inventor. {time} {h.he} built a machine for {machine.0}. It was made of [a {thing} and
two bicycles|an old stove and forty springs|a {thing}, a {thing2} and a great deal of string].
"[Stand back|Watch this]!" said {h} to {f}, and pulled the lever. The machine {machine.1}.
[{@aside}|There was smoke.]

"[It is nearly right|Only a small mistake]," said {h}, coughing. {H.he} turned a screw. {H.he}
took out [the {thing.n}|a spring|a mouse that had moved in]. {H.he} tried again, and this time it
{machine2.1}. "[I think it hates us|It lacks something]," said {f}. {h} sat down {spot} and [hung
{h.his} head|counted {h.his} bruises]. "{@worry}" {h.he} said.

{@weather} Just then [the mayor came by|{r.a} put in {r.his} head|a neighbour came to complain].
"[What a dreadful noise|What is that]?" And then: "[Wait|But look]! This is the very thing for
{machine.2}!" They tried it. It was true. [Nothing had ever been so good at {machine.2}.|It worked
like a dream.]

Soon everybody in {place.the} wanted one. "[I meant it to be so|A genius is somebody who knows
what his mistakes are good for]," said {h}, blushing. As for {machine.0}, {h.he} still does it [by
hand, like everyone else|with a spoon|badly]. {@end}

## boast
{@open}

{H} was not a liar, but {h.he} liked a good story. {time} {h.he} told the others, "I have
{boast.0}." "[Is that so|Really]?" said {f}. "[With my own eyes|As true as I stand here]," said
{h}. [The lie was small then, about as big as a pea.|Everyone was so impressed that it was hard to
stop.]

But a lie is a hungry animal. "[Show us|We want to see it]," said {r.a}. "[Tomorrow|It is
asleep]," said {h}. {@feel}. The next day half of the village stood at the door. {@aside} "[Now
you must tell them|You had better say so]," whispered {f}. {H} opened {h.his} mouth to tell the
truth. {@weather}

At that moment somebody tapped {h.him} on the shoulder. It was a {boast.1}. A real one. "[Good
evening|I beg your pardon]," said the {boast.1}. "[I heard that you have been talking about
me|They say I live here]. [Which is my room|May I have some {food}]?" The village [ran|fainted,
one after the other|clapped]. {H} could not say a word.

The {boast.1} stayed until Sunday, [ate everything and was very polite|and washed up every night].
"[Why did you come|Were you not angry]?" asked {h}. "[Nobody ever invents a friend because he has
too many|You sounded lonely]," said the {boast.1}. Since then {h} tells [only the truth|the truth,
but nobody believes it]. {@moral}

## soup
{time} {h.a} came to {place}. {@weather} {H} was tired and hungry, and [had nothing but a pot and
a {thing}|carried a {thing} on {h.his} back]. {H.he} knocked at every door. "[We have nothing|The
cupboard is empty]," said {f.a}. "[Nothing at all|Not a crumb]," said {r.a}, and shut the window.

"[Then I must cook it myself|Never mind]," said {h}, in a loud voice. "I shall make {thing.n}
soup." {H.he} lit a fire in the square, filled the pot with water, and put in the {thing}.
[{@aside}|Curtains moved.] "[Soup from a {thing.n}|How can that be]?" asked {f}, coming nearer.
"[It is the best in the world|A duke's favourite]," said {h}. "[Only a carrot is missing|With an
onion it would be perfect]."

"[I may have a carrot|I think I saw an onion somewhere]," said {f}. Then {r} remembered [a
cabbage|a piece of bacon], and somebody else [salt|a few potatoes], and a child brought
[parsley|three beans]. {H} stirred and tasted. "[Nearly|Almost there]," {h.he} said. It smelled so
good that [the windows opened|the church clock ran fast].

They all ate together, at one long table, for the first time in years. [Somebody fetched a
fiddle.|They even had {food} afterwards.] "[And all that from a {thing.n}|I never knew]!" said
{r}. In the morning {h} washed the {thing}, dried it, and went on [to the next village|whistling].
"[I shall never look at a {thing.n} in the same way|That is the cheapest soup I ever ate]," said
{f}, and kept the recipe.

## purchase
{@open}

{time} a pedlar came by, with a cart full of odd things. "[Cheap today|Last chance]!" called the
pedlar. {H} bought {purchase.0}. It cost [three pennies and a button|a song|almost nothing, which
should have been a warning]. "[Do not open it indoors|No refunds]," said the pedlar. {H} [nodded
and did not listen|opened it indoors].

At once {purchase.1}. "{@worry}" cried {h}. [{@aside}|{@feel}.] {f} came running. "[What have you
done|What is it this time]?" asked {f}. "[I bought something|It was a bargain]," said {h}. They
tried [to catch it with a {thing}|to sweep it out|to reason with it]. It only got worse.

"[We need the {e.kind}|There is only one who can help]," said {f}. The {e.kind} came, [slowly,
because of the stairs|with a {thing2}]. It looked. It listened. Then it [opened the window|said
"please"|sat down and waited]. "[Nobody had ever asked it politely|It only wanted to be let out],"
said the {e.kind}. And all was quiet. {@weather}

"[I have learned my lesson|Never again]," said {h}. They had {food}, for the shock. [The next
day|A week later] the pedlar came again. "[I have no money|Only looking]," said {h}. {F} took
{h.him} by the sleeve and [led {h.him} gently home|bought two]. {@end}

## job
{@open}

{time} {h} needed work, because [the roof was leaking|one cannot eat dreams|{h.he} had spent the
last penny on {food}]. In the window hung a card: "Wanted: a good {job.0}." "[How hard can it be|I
can do that]?" said {h}. On {h.his} first day {h.he} {job.1}. [{@aside}|"{@worry}" said {h}.]

"[A fine {job.0} you are|Who let a {h.kind} do this]!" said {r.a}, who was in charge. "One more
mistake, and you can go." {@feel}. {H.he} asked {f}, who [had had every job in the world|was a
{f.kind} of few words]. "[Do it slowly|Do it as if it were for a friend]," said {f}.

So {h} did. {@weather} That night [a storm came up|the bridge broke|the mayor got lost in the
fog], and everyone was in trouble. Only {h} [stayed where {h.he} was|kept {h.his} head], took the
{thing} off the wall, and [swung it until help came|banged on it so loudly that all the valley
woke|led them home, one by one]. {later} they were all safe.

"[That was not part of the job|That is not in the rules]," said {r}, and [blew {r.his} nose|shook
{h.his} hand for a long time]. "[Would you like to stay|You may keep the hat]?" And {h} stayed.
{H.he} is still not [the best {job.0}|very good at it], but [nobody would want another|everyone
says good morning to {h.him}]. {@end}

## sea
{H.name}, {h.ak}, [had never seen the sea|had always dreamed of the sea]. {H.he} lived in {place},
and every night {h.he} {@habit}. {time} {h.he} built a boat out of [a bathtub and a bedsheet|an
old wardrobe|a {thing} and eleven barrels]. "[It will sink|You are mad]," said {f}. "[Then I shall
swim|Are you coming]?" said {h}. {F} [sighed and got in|came, but only because of the {food}].

They sailed for [three days|a week]. {@weather} [The waves were as high as houses.|The sea was
flat as a plate.] They ate {food} and sang. {later} the boat stopped with a bump. "[Land|An
island]!" cried {f}. They got out, lit a fire, and [put the kettle on|hung up the washing].

"[Ouch|Do you mind]," said the island. It was a whale. {@feel}. "[We are very sorry|Forgive us],"
said {h}. "[We took you for an island.|You are so quiet.]" "[That happens to me all the
time|Everyone says so]," said the whale. "Nobody ever asks who I am." {@aside} "[Who are you|What
is your name], then?" asked {h}.

And the whale told them. It took all night, and [there were songs in it|the stars came closer to
hear]. In the morning it carried them home, as fast as a train. [Since then they put out a
{thing2} on the beach every summer, as a sign.|Every year, on that day, a fountain rises far out
at sea.] "[That is for us|It is only saying hello]," says {h}. {@moral}

## treasure
{@open}

{time} {h} found a map {spot}. There was a cross on it, at {far}. "[Treasure|Gold], for certain!"
said {h}. {H.he} showed it to {f}. "[Half for you and half for me|We need a spade and some
{food}]," said {f}. They took a {thing} as well, for one never knows.

They walked all day. [They were chased by a bull.|They lost the map, and found it again in the
sandwich.] {@weather} [{@detour}|"How far is it?" asked {f}, eleven times.] {later} they stood at
{far}. They dug and dug. Then the spade struck something hard. {@feel}. It was [a chest|an iron
box|a very old biscuit tin].

Inside lay no gold. There was [a {thing2}|a marble, a feather and a tooth|a kite with a long tail]
and a note: "[Whoever finds this, I hope you had a nice day together|I buried my favourite things
so that I would remember them]. Signed, {@name}, aged six." "[Is that all|So no gold]," said {f}.

{H} looked round. The evening was [golden enough|wide and warm]. They [flew kites until dark|ate
the {food}|sat on the edge of the hole, and their feet hung down]. Then they [put in something of
their own|wrote a note too], and filled up the hole again. "[For the next ones|It would be a pity
to leave it empty]," said {h}. {@end}

## clock
[The great clock on the tower had stopped.|{time} the great clock stopped.] Without it [nobody
knew when to have lunch|the cocks did not crow|it stayed ten to four]. It was a big town with big
people, and in it lived {h.a}. {H} was [the smallest of all|so small that people stepped over
{h.him}]. "[Out of the way|Mind your head]!" they said to {h.him}, though it was their own.

{R.a} came with a hammer. {f.a} came with a {thing}. [Three professors came and argued.|{@aside}]
The clock did not stir. "[I could look inside|Let me try]," said {h}. They laughed. "[You|A little
{h.kind}]?" said {r}. {@weather} But nobody else fitted through the hole in the clock's back.

Inside it was dark and full of wheels. {@feel}. {H} climbed from one to the next. Right at the
heart of it sat [a sleeping mouse|a sad little cuckoo|a spider with a broken web|a moth, reading].
"[You are holding up the time|Excuse me]," said {h}. "[I only wanted the day to last longer|It was
such a nice afternoon]," it said. "[It was|I know]," said {h}. "But [supper is waiting|tomorrow
has been standing outside in the rain]."

So it moved over, and the clock began to tick. It struck [seventeen times, to make up for it|four,
and everyone cheered]. They carried {h} through the town on [a cushion|their shoulders], and [from
up there {h.he} could see the sea|gave {h.him} {food}]. Now they look where they step. {@moral}
"""
