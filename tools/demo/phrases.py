# SPDX-License-Identifier: Apache-2.0
"""Whole sentences for the story generator: openings, asides, encounters, worries and endings."""

PHRASES = """
= open
[Once upon a time|Long ago|Once|Many years ago|A long time ago] there [was|lived] {h.a} who lived
in {place}. {@open_more} ; In {place} [there lived|lived] {h.a}. {@open_more} ; {H.name} was
{h.ak} who lived in {place}. {@open_more} ; {h.The} who lived in {place} was called {h.name}.
{@open_more} ; There was once {h.a} who {@habit}. {H} lived in {place}[.|, with {@company}.] ;
{H.ak} lived in {place}. [{H.his} name was {h}.|Everyone called {h.him} {h}.] {@open_more} ;
{@weather} In {place} {h.a} {@waking}. {@open_more} ; This is the story of {h.a}. {H.he} lived in
{place}[.|, with {@company}.] {@open_more} ; Every [morning|evening|Sunday], {h.a} who lived in
{place} {@habit}. ; If you go past {far}, you come to {place}. {h.a} lived there[.|, with
{@company}.] {@open_more} ; Nobody in the valley was as {h.adj} as {h.name}. {H.he} was {h.akind},
and {h.he} lived in {place}. {@open_more}
= waking
was looking out of the window ; was sitting by the stove ; was putting the kettle on ; was hanging
up the washing ; was reading on the doorstep ; was darning a sock ; had just woken up
= open_more
Every [morning|evening|day] {h.he} {@habit}. ; [People said|Everyone knew] that {h.he} was
{h.adj}, and [it was true|they were right|{h.he} did not mind]. ; {H.he} was {h.adj}, and {h.he}
{@habit}. ; {H.he} had {@company}, and that was all {h.he} needed. ; {H.he} was {h.adj} [from
Monday to Saturday, and on Sundays {h.he} rested|in the mornings and {@mood} in the evenings]. ;
{H.he} was known for {h.his} {@food}, and for being {h.adj}. ; {H.he} had {@company}, but no
{@noun}. ; Life was quiet there. {H.he} liked it so[.|, most of the time.]
= company
three hens and a clock ; a cat who never said thank you ; a stove that smoked ; eleven chairs ; a
very old bicycle ; a piano with one missing key ; a family of mice in the wall ; seven teapots ; a
goldfish named Captain ; a leaky roof and a good view ; a great many books ; a one-eyed broom
= meet_f
Just then {f.a} came by. ; At that moment {f.a} looked over the hedge. ; {f.a} came down the road,
whistling. ; There was a knock, and {f.a} put in {f.his} head. ; {f.a}, who happened to be
passing, stopped.
= worry
Oh dear, ; What now? ; This will not do, ; Dear me, ; That is not normal, ; Now I have done it, ;
I knew it, ; Bother, ; What shall I do? ; Somebody ought to do something, ; Stay calm, ; Good
gracious,
= mishap
slid all the way to the foot of the throne ; pulled down a curtain, which pulled down a lamp ;
landed in the lap of a very old general ; came to rest under the royal table ; lost a shoe, which
flew into the soup ; rolled down eleven steps, one after the other ; knocked over a suit of
armour, and out fell a surprised cat ; got stuck in a vase
= detour
On a fence sat {x.a}. "Nice weather," said {x}. "It is raining," said {h}. "That is what I mean,"
said {x}. ; {x.a} stood at a crossroads. "Which way is it to {far2}?" asked {h}. "Left," said {x},
"unless you turn round." ; {x.a} was sitting by the road, fishing in a puddle. "Have you caught
anything?" asked {h}. "You are the third today," said {x}. ; {H} met {x.a} with a suitcase. "Where
are you going?" asked {h}. "Away," said {x}, "but I shall be back for supper." ; {x.a} was
painting a stone white. "Why?" asked {h}. "So that I can find it in the dark," said {x}. "And what
do you want it for?" "For nothing," said {x}, "but you never know." ; {x.a} came the other way.
"Is it far?" asked {h}. "For me, no," said {x}. "I am coming from there." ; {x.a} sat under a tree
and waited. "What are you waiting for?" asked {h}. "I shall know when it comes," said {x}. ;
"Halt!" cried {x.a}. "What is the password?" "Please," said {h}. "Correct," said {x}, and was very
{@mood}.
= end
{@close} ; {@close} ; {@moral} ; {@moral} ; {@close} {@moral} ; {@moral} {@close}
= end2
{@close} ; {@close} {@moral} ; {@moral}
= ruler
king ; queen ; duke ; empress ; prince ; princess
= time
One morning ; One evening ; One autumn day ; One windy afternoon ; On a grey Tuesday ; One winter
night ; On the first day of spring ; One hot summer day ; Early one morning ; Late one night ; On
a Sunday in October ; One foggy morning ; On the longest day of the year ; One rainy day
= later
An hour later ; That evening ; The next morning ; Three days later ; Before long ; A week went by,
and then ; By the time the lamps were lit ; At midnight ; At last ; Just before supper ; When the
bells rang six ; In the middle of the night
= weather
The rain drummed on the roof like impatient fingers. ; Fog lay over the fields like a lost
blanket. ; The wind was looking for something and would not say what. ; Snow fell without making a
sound. ; The sun shone as if it had been polished. ; A thin moon hung above the chimneys. ; The
clouds were the colour of old spoons. ; It was so cold that even the icicles shivered. ; The air
smelled of apples and smoke. ; A warm breeze went from door to door like a postman. ; Thunder
grumbled behind the hills like a bear with a toothache. ; The stars were out, all of them. ; It
rained a little, to keep in practice. ; The frost had drawn ferns on every window. ; The evening
was blue and very still. ; The wind turned the washing into ghosts.
= habit
counted the stars and always got a different number ; drank {@drink} from a cracked cup ; said
good night to every chair ; swept the doorstep twice, once for each foot ; wore a {@tadj} scarf,
even in summer ; ate {@food} for breakfast and thought about lunch ; talked to the kettle, which
was a good listener ; kept a list of interesting smells ; watered the plants and told them the
news ; read the same book from the end to the beginning ; practised looking important in front of
the mirror ; walked to {@far} and back again ; collected buttons that nobody wanted ; waved at the
train, although it never waved back ; hummed a tune with only three notes ; wrote down every dream
in a small {@tadj} notebook
= aside
A hen laid an egg, out of pure surprise. ; In the kitchen something fell, and nobody had touched
it. ; The wind held its breath. ; A leaf fell, looked round, and lay down. ; The weathercock
turned to have a better view. ; Far away a dog said what everyone was thinking. ; The soup boiled
over, but for once it did not matter. ; A mouse wrote it down. ; Nobody asked the goose, but the
goose agreed. ; A snail saw it all and told everyone, very slowly. ; Somewhere a door banged, just
to be part of it. ; The kettle had its own opinion and whistled it. ; Even the clock stopped to
listen. ; A beetle on the windowsill took off its hat. ; The moon pretended not to look. ; An owl
in the oak tree coughed politely. ; Two sparrows stopped arguing in order to watch. ; The cat, who
knew, said nothing. ; For a while there was no sound but the rain. ; The spoons rattled in their
drawer. ; A cow looked over the hedge and went on chewing. ; The whole street leaned out of its
windows. ; It was the sort of silence that has a hole in it. ; The old stairs creaked a word of
advice.
= feel
{h}'s heart beat like a small drum ; {h}'s knees felt like pudding ; {h}'s ears turned pink ;
{h}'s nose began to itch, as it did on important days ; {h} forgot to breathe for a moment ; {h}
felt as light as a feather ; {h}'s stomach made a noise like a frog
= moral
The world is full of doors, and most of them only want a little push. ; Whoever laughs at himself
will never run out of jokes. ; There is room for one more at every table, if the others breathe
in. ; What you give away, you cannot lose. ; Even a clock that has stopped is right twice a day,
and nobody should ask for more than that. ; It is better to be {@mood} together than {@mood}
alone. ; Nobody is too small to hold a lamp. ; One can learn a great deal from {@food}, if one is
patient. ; A long way is only a short way with more to look at. ; Good luck often wears a very
silly hat. ; You need not be the first, as long as you arrive. ; So it goes: the door you never
try is the one that is open. ; After that, nobody laughed at small things, except when they were
funny. ; A friend, as everyone there knows, is someone who saves you the last piece. ; That is
why, in those parts, people knock twice and smile once. ; It is not the biggest lamp that shows
the way home, but the one that someone lit for you. ; You can be wrong about many things and still
be right about {@food}. ; And if nobody has changed the story since, it is true. ; Some things are
lost so that somebody can have the joy of finding them. ; Being brave, it turned out, is being
afraid and going anyway, with sandwiches. ; Since then they say in the village: ask first, and
bring cake. ; The best ideas arrive late and out of breath. ; A little kindness weighs nothing and
can be carried everywhere.
= close
Then it was bedtime, even for the story. ; {H} hung up {h.his} coat and put the kettle on. ; As
for the {@noun}, nobody ever found out. ; The next day it all seemed like a dream, except for the
crumbs. ; {H} lived to be very old, and never once wore matching socks. ; And when the wind is
right, you can smell {@food} as far as {@far}. ; {H} looked at the stars for a while and found
that none was missing. ; {H} slept well that night, with one ear open. ; Then {h} went home, and
there was {@food}. ; And {h} laughed until {h.his} hat fell off. ; That night {h} put it all in a
letter and forgot to post it. ; {H} still tells the story, and every time it gets a little longer.
; And {h.he} was never quite so {h.adj} again, except on Mondays. ; The stars came out one by one
to see how it had ended. ; If you pass that way on a quiet evening, you can hear {h} humming. ;
And nobody in the whole valley was as {@mood} as {h}. ; Outside it began to snow, very softly,
like applause. ; And they all had {@food}, even those who had only come to look. ; From then on
{h.he} kept a second chair by the fire, just in case.
"""
